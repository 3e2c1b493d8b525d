"""How two daemons over one state folder speak: JSON lines over a local socket, and open files beside them.

The socket lies in `locks/`, which only the user may enter, and whoever connects must be the same user.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

NAME = "daemon.sock"
LONGEST = 65_536
"""Bytes of one line; more is no line of ours."""
MOST_FILES = 8
RETRY = 0.01


class Gone(Exception):
    """The other side has ended, is silent for too long, or says what nobody understands."""


@contextlib.contextmanager
def _place(home: Path) -> Iterator[str]:
    """The socket's address: by a descriptor of its folder, since an address holds about a hundred characters."""
    folder = os.open(home / "locks", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{NAME}"
    finally:
        os.close(folder)


def listen(home: Path) -> socket.socket:
    """Open the socket, in the place of one that a dead daemon has left. Only for the holder of the daemon's lock.
    Blocking. Raises OSError."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _place(home) as place:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(place)
            sock.bind(place)
            os.chmod(place, 0o600)
        sock.listen(8)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


def remove(home: Path) -> None:
    """Take the socket's name away. Blocking; never raises."""
    with contextlib.suppress(OSError):
        (home / "locks" / NAME).unlink()


def connect(home: Path, seconds: float) -> socket.socket:
    """Reach the daemon of `home`. Blocking. Raises OSError where nobody listens there."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(seconds)
        with _place(home) as place:
            sock.connect(place)
        _must_be_ours(sock, home)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


def _must_be_ours(sock: socket.socket, home: Path) -> None:
    if not is_same_user(sock):
        raise PermissionError(f"the daemon of {home} belongs to another user")


def is_same_user(sock: socket.socket) -> bool:
    """Whether the process at the other end is of our user (unix(7), SO_PEERCRED)."""
    data = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, uid, _ = struct.unpack("3i", data)
    return bool(uid == os.geteuid())


class Line:
    """One end of a connection. Not for two readers, nor for two writers, at once."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._buffer = b""
        self._files: list[int] = []
        self._writing = asyncio.Lock()

    async def send(self, message: dict[str, Any], files: Sequence[int] = ()) -> None:
        """Send a line, with copies of these descriptors. Raises `Gone`."""
        data = json.dumps(message, ensure_ascii=False).encode() + b"\n"
        try:
            async with self._writing:
                if files:
                    data = data[await self._with_files(data, files) :]
                await asyncio.get_running_loop().sock_sendall(self._sock, data)
        except OSError as error:
            raise Gone(f"the connection broke ({error.strerror or error})") from error

    async def _with_files(self, data: bytes, files: Sequence[int]) -> int:
        while True:
            try:
                return socket.send_fds(self._sock, [data], files)
            except BlockingIOError:
                await asyncio.sleep(RETRY)

    async def read(self, seconds: float | None) -> dict[str, Any]:
        """The next line; None waits for ever. Raises `Gone`, also after so many seconds of silence."""
        try:
            async with asyncio.timeout(seconds):
                while b"\n" not in self._buffer:
                    await self._more()
        except TimeoutError as error:
            raise Gone(f"the other side was silent for {seconds:g} s") from error
        line, _, self._buffer = self._buffer.partition(b"\n")
        try:
            found = json.loads(line)
        except ValueError as error:
            raise Gone("the other side does not make sense") from error
        if not isinstance(found, dict):
            raise Gone("the other side does not make sense")
        return found

    def files(self) -> list[int]:
        """The descriptors that came so far; the caller owns them."""
        files, self._files = self._files, []
        return files

    async def _more(self) -> None:
        try:
            data, files, _, _ = socket.recv_fds(self._sock, LONGEST, MOST_FILES)
        except BlockingIOError:
            await self._readable()
            return
        except OSError as error:
            raise Gone(f"the connection broke ({error.strerror or error})") from error
        self._files += files
        if not data:
            raise Gone("the other side has ended")
        self._buffer += data
        if len(self._buffer) > LONGEST:
            raise Gone("the other side does not make sense")

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        loop.add_reader(self._sock, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(self._sock)

    def close(self) -> None:
        """Hang up, and close what came and nobody took. Idempotent."""
        for descriptor in self.files():
            os.close(descriptor)
        self._sock.close()
