"""The optional log file: appended to by the log's own thread, turned over by size, never in anybody's way.

A file that cannot be written (a full disk, a folder that is gone) is told once on standard error, and tried
again with every further line; what was lost meanwhile is counted in the file once it goes on. A file that
somebody else renames or removes (logrotate) is noticed before the next line.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

MODE = 0o600


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSettings:
    """`max_bytes` is where the file is turned over to `NAME.1` (and that to `NAME.2` …), of which `keep` are
    kept; with 0 the file begins anew and nothing is kept."""

    path: Path
    max_bytes: int = 10_000_000
    keep: int = 5


Tell = Callable[[str, str], None]
"""Tells standard error an event and a sentence about it."""


class LogFile:
    """The stream that a `gateway.log.Writer` writes to. Used by its thread only, but for `reopen`."""

    def __init__(self, settings: FileSettings, tell: Tell) -> None:
        self.settings = settings
        self._tell = tell
        self._descriptor: int | None = None
        self._size = 0
        self._torn = False
        """The file ends in the middle of a line: the disk was full there, or its writer was killed."""
        self._failing = False
        self._lost = 0
        self._again = threading.Event()

    def reopen(self) -> None:
        """Close and open the file before the next line. Any thread may call this."""
        self._again.set()

    def write(self, text: str) -> int:
        """Append whole lines. Raises OSError where they could not be written, having told so once."""
        data = text.encode("utf-8", "replace")
        try:
            self._write(data)
        except OSError as error:
            self._lost += text.count("\n")
            self.close()
            if not self._failing:
                self._failing = True
                why = error.strerror or str(error)
                self._tell("log.file_failed", f"{self.settings.path} cannot be written ({why}); it is tried on")
            raise
        if self._failing:
            self._failing = False
            self._tell("log.file_again", f"{self.settings.path} is written again; {self._lost} lines are not in it")
            self._lost = 0
        return len(text)

    def flush(self) -> None:
        """Everything is with the kernel already."""

    def close(self) -> None:
        """Let the file go. Idempotent; the next line opens it again."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _write(self, data: bytes) -> None:
        self._ensure_open()
        if self._torn:
            data = b"\n" + data
        rest = memoryview(data)
        while rest:
            room = max(0, self.settings.max_bytes - self._size)
            end = len(rest) if len(rest) <= room else bytes(rest[:room]).rfind(b"\n") + 1
            if end == 0 and self._size > 0:
                self._turn_over()
                continue
            if end == 0:  # a single line may be longer than the whole file may be: it is written all the same
                end = bytes(rest).find(b"\n") + 1 or len(rest)
            self._append(rest[:end])
            rest = rest[end:]

    def _append(self, part: memoryview) -> None:
        while part:
            assert self._descriptor is not None
            written = os.write(self._descriptor, part)
            self._size += written
            self._torn = part[written - 1] != 0x0A
            part = part[written:]

    def _ensure_open(self) -> None:
        if self._again.is_set() or not self._is_still():
            self._again.clear()
            self.close()
        if self._descriptor is not None:
            return
        path = self.settings.path
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # not blocking: a named pipe without a reader must not hold the log up
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(path, flags, MODE)
        try:
            self._size = size = _checked(descriptor)
            self._torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor

    def _is_still(self) -> bool:
        """Whether the open file is the one that has the name."""
        if self._descriptor is None:
            return False
        try:
            there = self.settings.path.lstat()
        except OSError:
            return False
        mine = os.fstat(self._descriptor)
        return (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino)

    def _turn_over(self) -> None:
        path, keep = self.settings.path, self.settings.keep
        self.close()
        if keep == 0:
            path.unlink(missing_ok=True)
        else:
            for number in range(keep - 1, 0, -1):
                older = _numbered(path, number)
                if older.exists():
                    older.replace(_numbered(path, number + 1))
            with contextlib.suppress(FileNotFoundError):  # somebody has moved it away in this very moment
                path.replace(_numbered(path, 1))
        self._ensure_open()


def _checked(descriptor: int) -> int:
    """The size of the open file, which is ours alone to read from now on."""
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(None, "it is no plain file")
    if stat.S_IMODE(found.st_mode) & 0o077:
        os.fchmod(descriptor, MODE)  # others might read what an earlier run left open to them
    return found.st_size


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")
