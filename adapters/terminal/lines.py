"""Reading and writing lines through pipes, in threads, with a reader or a writer that may be gone."""

from __future__ import annotations

import errno
import os
from typing import BinaryIO

from adapters.terminal.front import HungUp
from adapters.terminal.worker import Worker

LONGEST = 1_000_000
"""Bytes of one line; a longer one is refused, not cut."""


class TooLongLine(Exception):
    """The line is longer than a message may be."""


class LineReader:
    """Lines of a binary stream, one at a time and only when asked for."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._worker = Worker("terminal-in")

    async def line(self) -> str | None:
        """The next line without its end, None at the end. Raises `TooLongLine`, with the line skipped."""
        return await self._worker.call(self._read)

    def _read(self) -> str | None:
        raw = self._stream.readline(LONGEST)
        if not raw:
            return None
        if len(raw) >= LONGEST and not raw.endswith(b"\n"):
            while (rest := self._stream.readline(LONGEST)) and not rest.endswith(b"\n"):
                pass
            raise TooLongLine(f"a line is longer than {LONGEST} bytes")
        return raw.decode("utf-8", "replace").rstrip("\r\n")

    def close(self) -> None:
        """Read no more."""
        self._worker.close()


class LineWriter:
    """Writes text to a file descriptor, whole. `None` is a closed stream."""

    def __init__(self, descriptor: int | None, name: str) -> None:
        self._descriptor = descriptor
        self._worker = Worker(name)

    async def write(self, text: str) -> None:
        """Returns when it is written. Raises `HungUp` where nobody reads."""
        await self._worker.call(self._write, text)

    def post(self, text: str) -> None:
        """Write it some time soon, if anybody reads."""
        self._worker.post(self._write_if_open, text)

    def _write_if_open(self, text: str) -> None:
        try:
            self._write(text)
        except HungUp:
            return

    def _write(self, text: str) -> None:
        if self._descriptor is None:
            raise HungUp
        left = memoryview(text.encode("utf-8", "replace"))
        try:
            while left:
                left = left[self._put(left) :]
        except OSError as error:
            self._descriptor = None
            if error.errno in {errno.EPIPE, errno.EBADF, errno.EIO, errno.ENXIO}:
                raise HungUp from error
            raise

    def _put(self, part: memoryview) -> int:
        assert self._descriptor is not None
        try:
            return os.write(self._descriptor, part)
        except BlockingIOError:  # somebody else has made the shared description non-blocking
            os.set_blocking(self._descriptor, True)
            return 0

    async def close(self) -> None:
        """Write what waits, for a second at most, and then no more."""
        await self._worker.drain(1.0)
        self._worker.close()
