"""One daemon a home, one daemon a token: locks of the operating system.

Whether somebody runs is answered by the lock alone, which the kernel drops with its process however it
dies. What the file says (pid, since when) is for people: a file left behind, on a volume or with a
recycled pid, locks nobody out. The files are never deleted, because a lock on a deleted file guards
nothing.

The token locks lie in a folder of the user, so that two homes with one token on one machine are found
out. Other machines are the platform's matter (it tells, and the adapter says so).
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

_MAX_NOTE = 4096
_NOTE_WAIT = 0.3
"""Seconds for which a loser waits for the winner's note, which is written right after the lock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who holds a lock, by its own account."""

    pid: int
    since: str
    """UTC, to the second, as text."""
    what: str
    home: str
    host: str
    boot_id: str

    def __str__(self) -> str:
        here = "" if self.host == socket.gethostname() else f" on {self.host}"
        return f"{self.what} with process {self.pid}{here}, running since {self.since}"


class LockHeld(Exception):
    """Another process holds the lock. End it, or leave it alone; waiting is no use."""

    def __init__(self, what: str, holder: Holder | None) -> None:
        super().__init__(f"{what} is in use by {holder or 'another process'}")
        self.holder = holder


class LockUnusable(Exception):
    """The lock's file cannot be made or locked there (rights, file system)."""


class Lock:
    """A held lock. It is released by `release`, and by the end of the process whatever happens."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor: int | None = descriptor

    @property
    def descriptor(self) -> int:
        """The open file that the lock is on. A copy of it in another process holds the same lock."""
        assert self._descriptor is not None
        return self._descriptor

    def sign(self, *, what: str, home: Path) -> None:
        """Write this process into the note: it is the holder from now on."""
        _write_note(self.descriptor, what=what, home=home)

    def release(self) -> None:
        """Give it up. Idempotent."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def acquire(path: Path, *, what: str, home: Path) -> Lock:
    """Take the lock at `path` without waiting. Blocking file work; called before the loop runs or in a
    thread. Raises `LockHeld` or `LockUnusable`. Of any number of callers at once exactly one gets it."""
    while True:
        descriptor = _open(path)
        try:
            if not _try_lock(descriptor, path, fcntl.LOCK_EX):
                raise LockHeld(str(path), _note(descriptor))  # noqa: TRY301 - the descriptor is closed below
            if _is_still(path, descriptor):
                _write_note(descriptor, what=what, home=home)
                return Lock(path, descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # somebody replaced the file in between: lock the new one


def daemon_lock(home: Path) -> Lock:
    """The lock of the one daemon of `home`. Raises `LockHeld`, which names the other."""
    path = daemon_lock_path(home)
    try:
        return acquire(path, what="a daemon", home=home)
    except LockHeld as exc:
        raise LockHeld(f"the state folder {home}", exc.holder) from None


def daemon_lock_path(home: Path) -> Path:
    """Where the daemon's lock of `home` lies."""
    return home / "locks" / "daemon.lock"


def token_lock(platform: str, token: str, *, home: Path, environ: Mapping[str, str]) -> Lock:
    """The lock of one token, for this user on this machine. The token itself is written nowhere."""
    digest = hashlib.sha256(f"{platform}\0{token}".encode()).hexdigest()[:32]
    path = _user_folder(environ) / f"{platform}-{digest}.lock"
    try:
        return acquire(path, what=f"a daemon on {home}", home=home)
    except LockHeld as exc:
        raise LockHeld(f"the token of platforms.{platform}", exc.holder) from None


def holder(path: Path) -> Holder | None:
    """Who holds the lock at `path` now, or None where nobody does. Changes nothing.

    A holder whose note cannot be read is told with the pid 0.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if _try_lock(descriptor, path, fcntl.LOCK_SH):
            return None
        return _note(descriptor) or Holder(pid=0, since="?", what="a daemon", home="", host="", boot_id="")
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def held(lock: Lock) -> Iterator[Lock]:
    """Hold `lock` for a block (for an exit stack)."""
    try:
        yield lock
    finally:
        lock.release()


def _open(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as exc:
        raise LockUnusable(f"the lock {path} cannot be made: {exc.strerror or exc}") from exc


def _try_lock(descriptor: int, path: Path, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as exc:
        raise LockUnusable(f"the file system cannot lock {path}: {exc.strerror or exc}") from exc
    return True


def _is_still(path: Path, descriptor: int) -> bool:
    mine = os.fstat(descriptor)
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    return (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino)


def _write_note(descriptor: int, *, what: str, home: Path) -> None:
    note = {
        "pid": os.getpid(),
        "since": datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
        "what": what,
        "home": str(home),
        "host": socket.gethostname(),
        "boot_id": _boot_id(),
    }
    data = json.dumps(note).encode() + b"\n"
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, data, 0)
    except OSError:  # a full disk: the lock holds all the same, only its note is missing
        return


def _note(descriptor: int) -> Holder | None:
    until = time.monotonic() + _NOTE_WAIT
    while True:
        try:
            return Holder(**json.loads(os.pread(descriptor, _MAX_NOTE, 0)))
        except (OSError, ValueError, TypeError):
            if time.monotonic() > until:
                return None
            time.sleep(0.01)


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _user_folder(environ: Mapping[str, str]) -> Path:
    state = environ.get("XDG_STATE_HOME") or f"{environ.get('HOME') or Path('~').expanduser()}/.local/state"
    return Path(state) / "tidings" / "locks"
