"""How the processes of one home share one server: locks that the kernel gives back when a process dies.

In `home/models/server` (0700):

    gate        held for moments: while somebody joins or starts the server, or the server decides to end
    alive       held by the server for its whole life; who cannot lock it knows that the server lives
    users/*     one file a user, held by it for as long as it may need the server
    port.json   0600: where the server listens and its key; written when it is ready, removed under the gate
    server.log  what the server said, for a message when it does not start

Nothing here trusts a process id: a lock is held or it is not, under `kill -9` and after a reboot as well.
All of it blocks; the loop calls it in a thread.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

POLL = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """Where the server can be reached."""

    url: str
    pid: int
    context_tokens: int
    key: str = field(repr=False)


class Busy(Exception):
    """A lock was not free within the time."""


class Place:
    """The folder of the shared server of one home."""

    def __init__(self, home: Path) -> None:
        self.folder = home / "models" / "server"
        self.slots = home / "models" / "slots"
        self.users = self.folder / "users"
        self.log = self.folder / "server.log"
        self._port = self.folder / "port.json"

    def prepare(self) -> None:
        """Make the folders, readable by their owner only."""
        for folder in (self.folder, self.slots, self.users):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.chmod(0o700)

    @contextmanager
    def gate(self, wait: float) -> Iterator[None]:
        """Nobody joins, starts or ends the server meanwhile. Raises `Busy` after `wait` seconds."""
        descriptor = _open(self.folder / "gate")
        try:
            _lock(descriptor, wait)
            yield
        finally:
            os.close(descriptor)

    def hold_alive(self, wait: float) -> int:
        """For the server: the lock of its life. The descriptor stays open until the process ends."""
        descriptor = _open(self.folder / "alive")
        try:
            _lock(descriptor, wait)
        except Busy:
            os.close(descriptor)
            raise
        return descriptor

    def is_alive(self) -> bool:
        """True while a server lives (ready or still starting)."""
        descriptor = _open(self.folder / "alive")
        try:
            # Shared, so that two who ask at once do not take each other for the server.
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def join(self) -> User:
        """Become a user. Call it under the gate."""
        path = self.users / f"{os.getpid()}-{secrets.token_hex(4)}"
        descriptor = _open(path)
        _lock(descriptor, 0.0)
        return User(path, descriptor)

    def has_users(self) -> bool:
        """For the server, under the gate: is anybody left? Files of dead users are removed."""
        found = False
        for path in sorted(self.users.iterdir()):
            descriptor = _open(path)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                found = True
            else:
                path.unlink(missing_ok=True)
            finally:
                os.close(descriptor)
        return found

    def publish(self, listening: Listening) -> None:
        """For the server: say where it listens."""
        fresh = self._port.with_suffix(".new")
        fresh.unlink(missing_ok=True)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(asdict(listening), file)
        os.replace(fresh, self._port)

    def withdraw(self) -> None:
        """Remove what `publish` wrote. Under the gate, or by the server itself."""
        self._port.unlink(missing_ok=True)

    def published(self) -> Listening | None:
        """Where the server listens; None if none is ready. Only true while `is_alive()`."""
        try:
            return Listening(**json.loads(self._port.read_text("utf-8")))
        except (FileNotFoundError, ValueError, TypeError):
            return None


class User:
    """The proof that a process uses the server."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor: int | None = descriptor

    def leave(self) -> None:
        """Give it back. Idempotent."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)
            os.close(descriptor)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _lock(descriptor: int, wait: float) -> None:
    deadline = time.monotonic() + wait
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise Busy from None
            time.sleep(POLL)
        else:
            return
