"""Who owns a lease, a claim or a send: a process, named so that anybody can tell whether it lives.

A pid alone proves nothing: pids are used again, and two containers both have a pid 1. The name
therefore carries the host, the pid namespace, the pid, the process's start time and the boot id.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from functools import cache
from pathlib import Path
from typing import NamedTuple

from state.ids import Owner

_PROC = Path("/proc")


class _Parts(NamedTuple):
    role: str
    host: str
    pidns: str
    pid: int
    started: int
    boot: str


def this_process(role: str) -> Owner:
    """A name for this process in `role`, unique for every call. Reads /proc; does not fail."""
    pid = os.getpid()
    started = start_time(pid) or 0
    tail = secrets.token_hex(4)
    return Owner(f"{_plain(role)}:{_host()}:{_pid_namespace()}:{pid}:{started}:{boot_id()}:{tail}")


def is_alive(owner: Owner) -> bool | None:
    """False where the owner is provably dead, True where its process runs, None where nobody can tell.

    Dead is: the same host with another boot id, or the same boot and pid namespace without that
    pid, or with a process of another start time under it, or with a zombie, which runs no more.
    """
    parts = _parse(owner)
    if parts is None or parts.host != _host():
        return None
    if parts.boot != boot_id():
        return False
    if parts.pidns != _pid_namespace():
        return None
    return start_time(parts.pid) == parts.started


def describe(owner: Owner) -> str:
    """The owner in words for people, such as "daemon, process 1234"."""
    parts = _parse(owner)
    if parts is None:
        return str(owner)
    place = "" if parts.host == _host() else f" on {parts.host}"
    return f"{parts.role}, process {parts.pid}{place}"


def boot_clock() -> float:
    """Seconds since boot, sleep included; comparable between the processes of one machine."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@cache
def boot_id() -> str:
    """The id of this boot."""
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        # Rounded to a minute: the wall clock may be corrected a little during one boot.
        return f"boot-{round((time.time() - boot_clock()) / 60)}"


def start_time(pid: int) -> int | None:
    """The start of a process in clock ticks since boot; None where it does not run (any more)."""
    try:
        line = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The command's name is in parentheses and may hold spaces and parentheses itself.
    fields = line.rpartition(")")[2].split()
    if len(fields) < 20 or fields[0] in ("Z", "X"):
        return None
    return int(fields[19])


def _parse(owner: Owner) -> _Parts | None:
    fields = owner.split(":")
    if len(fields) != 7 or not fields[3].isdecimal() or not fields[4].isdecimal():
        return None
    return _Parts(fields[0], fields[1], fields[2], int(fields[3]), int(fields[4]), fields[5])


def _plain(text: str) -> str:
    return text.replace(":", "_") or "_"


@cache
def _host() -> str:
    return _plain(socket.gethostname())


@cache
def _pid_namespace() -> str:
    try:
        return str((_PROC / "self/ns/pid").stat().st_ino)
    except OSError:
        return "0"
