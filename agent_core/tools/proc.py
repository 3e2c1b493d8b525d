"""What Linux tells about processes through /proc. Standard library only; used by the guardian too."""

from __future__ import annotations

import os
from typing import NamedTuple


class Process(NamedTuple):
    """One line of /proc. `ticks` is the start time in clock ticks since boot: with the pid it names a
    process for good, since a recycled pid has another start."""

    pid: int
    state: str
    parent: int
    group: int
    ticks: int


def read(pid: int) -> Process | None:
    """The process of that id, or None if there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    # The name stands in brackets and may hold brackets and blanks itself: count from the last one.
    fields = text[text.rfind(b")") + 2 :].split()
    return Process(pid, fields[0].decode(), int(fields[1]), int(fields[2]), int(fields[19]))


def everything() -> dict[int, Process]:
    """All processes that this one can see, by id."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (process := read(int(name))) is not None:
            found[process.pid] = process
    return found


def descendants(roots: set[int], processes: dict[int, Process]) -> dict[int, Process]:
    """The processes below `roots` (which are not part of it), without those that have ended already."""
    children: dict[int, list[Process]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process)
    found: dict[int, Process] = {}
    waiting = list(roots)
    while waiting:
        for process in children.get(waiting.pop(), ()):
            if process.pid not in found:
                found[process.pid] = process
                waiting.append(process.pid)
    return {pid: process for pid, process in found.items() if process.state not in "ZX"}


def boot_id() -> str:
    """The id of this boot of the machine."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


MARK = "TIDINGS_RUN"
"""The variable that every process of a command carries in its environment."""


def marker(group: int, ticks: int) -> str:
    """The value of MARK: the group and the start of its first process, as the ledger keeps them."""
    return f"{group}.{ticks}"


def marked(pid: int, value: str) -> bool:
    """True if the process carries that mark. It is inherited, so it also finds what left the group."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return f"{MARK}={value}".encode() in file.read(1 << 20).split(b"\0")
    except OSError:
        return False
