"""The running daemon as seen from another process: found by its lock, and signalled only if it is surely it.

A note with a pid is no proof: pids are used again, and a note may come from another machine or container. So the
lock must be held, the note must be of this machine and this boot, and the process, pinned by a descriptor against
the reuse of its pid, must have the lock's file open.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from collections.abc import Mapping
from pathlib import Path

from gateway import locks
from gateway.config_build import find_home
from gateway.config_paths import default_home, default_path
from state.owners import boot_id

LOOK_EVERY = 0.05


class NoDaemon(Exception):
    """None runs over this state folder."""


class NotReachable(Exception):
    """One runs, but it is not certain which process it is, or it may not be signalled from here."""


class RunningDaemon:
    """A daemon, pinned: whatever becomes of its pid, nobody else is signalled. Close it, or use `with`."""

    def __init__(self, holder: locks.Holder, descriptor: int) -> None:
        self.holder = holder
        self._descriptor = descriptor

    @classmethod
    def find(cls, home: Path) -> RunningDaemon:
        """The daemon of `home`. Raises `NoDaemon` or `NotReachable`."""
        path = locks.daemon_lock_path(home)
        holder = locks.holder(path)
        if holder is None:
            raise NoDaemon(f"no daemon runs over {home}")
        if holder.pid <= 0 or (holder.host and holder.host != socket.gethostname()):
            raise NotReachable(f"the state folder is in use by {holder}: ask there")
        if holder.boot_id != boot_id():
            raise NotReachable(f"the note of {path} is of an earlier boot; its process cannot be told")
        try:
            descriptor = os.pidfd_open(holder.pid)
        except ProcessLookupError:
            raise NotReachable(f"there is no process {holder.pid} here (another container?)") from None
        except OSError as error:
            raise NotReachable(f"process {holder.pid} cannot be looked at: {error.strerror}") from error
        try:
            _must_hold(holder.pid, path)
        except BaseException:
            os.close(descriptor)
            raise
        return cls(holder, descriptor)

    def send(self, number: signal.Signals) -> None:
        """Send the signal. Raises `NoDaemon` where it has ended meanwhile, `NotReachable` where that is forbidden."""
        try:
            signal.pidfd_send_signal(self._descriptor, number)
        except ProcessLookupError:
            raise NoDaemon("it has ended meanwhile") from None
        except PermissionError:
            raise NotReachable(f"{self.holder} belongs to another user") from None

    def ended(self, seconds: float) -> bool:
        """Wait up to so long for its end. Blocking."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        return bool(poll.poll(max(0.0, seconds) * 1000))

    def close(self) -> None:
        """Let it go."""
        os.close(self._descriptor)

    def __enter__(self) -> RunningDaemon:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def successor(home: Path, before: locks.Holder, seconds: float) -> locks.Holder | None:
    """Wait up to so long for another daemon than `before`. Blocking."""
    until = time.monotonic() + seconds
    while True:
        holder = locks.holder(locks.daemon_lock_path(home))
        if holder is not None and (holder.pid, holder.since) != (before.pid, before.since):
            return holder
        if time.monotonic() >= until:
            return None
        time.sleep(LOOK_EVERY)


def home_of(config: Path | None, environ: Mapping[str, str]) -> Path:
    """The state folder that is meant, also where the file has faults: a daemon is to be stopped all the same."""
    file = default_path(environ) if config is None else config.expanduser().absolute()
    try:
        home = find_home(file.read_text(encoding="utf-8-sig"), file, environ)
    except (OSError, UnicodeDecodeError):
        home = default_home(environ)
    beside = file.parent
    if locks.holder(locks.daemon_lock_path(home)) is None and locks.holder(locks.daemon_lock_path(beside)) is not None:
        return beside  # the file is so broken that its `home:` cannot be read
    return home


def _must_hold(pid: int, path: Path) -> None:
    """Raises `NotReachable` unless the process has the file open."""
    wanted = path.stat()
    folder = Path(f"/proc/{pid}/fd")
    try:
        names = os.listdir(folder)
    except PermissionError:
        raise NotReachable(f"process {pid} belongs to another user") from None
    except OSError:
        raise NotReachable(f"process {pid} cannot be looked at") from None
    for name in names:
        try:
            found = (folder / name).stat()
        except OSError:
            continue  # it was closed meanwhile, or leads nowhere
        if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino):
            return
    raise NotReachable(f"process {pid} is not the daemon: it does not hold {path}")
