"""Opening files inside one folder and nowhere else. Blocking: called in threads only.

A path is resolved with its links; the result must lie inside the root and outside of the state folder.
Then it is opened one component at a time without following links, so that a link put in its place after
the check is refused and not followed, and the opened descriptor is asked where it really is. What stays
possible: a *hard* link inside the root to a file outside of it is that file itself, and no check by path
can tell (results name the number of names); and a mount of a foreign folder below the root counts as
inside, except for the state folder, which is recognised by its inode.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_SYSTEM = (Path("/proc"), Path("/sys"), Path("/dev"))
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISLNK, "a link"),
)
_replacing = threading.Lock()
"""Held for the last look and the rename, so that two sessions never lose each other's change."""


class Refused(Exception):
    """The path may not be used, or is not what was asked for. The message is for the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """What a file was when it was read: it is replaced only if it still is that."""

    inode: int
    size: int
    changed: int
    mode: int
    owner: tuple[int, int]
    links: int

    @classmethod
    def of(cls, found: os.stat_result) -> Stamp:
        """From a stat."""
        return cls(
            inode=found.st_ino,
            size=found.st_size,
            changed=found.st_mtime_ns,
            mode=stat.S_IMODE(found.st_mode),
            owner=(found.st_uid, found.st_gid),
            links=found.st_nlink,
        )


class Confined:
    """Opens what lies inside `root`, never what lies inside `home`.

    A root that is itself a folder below `home` is allowed (the operator chose it): then only it is open.
    Raises `Refused`, and OSError for what the system refuses.
    """

    def __init__(self, root: Path, home: Path) -> None:
        self.root = root.resolve()
        self.home = home.resolve()
        self._given = root.absolute()
        if self.root == self.home:
            raise Refused("the working folder is the state folder, which is closed to tools")
        self._home_closed = not self.root.is_relative_to(self.home)
        self._home_inode: tuple[int, int] | None = None
        if self._home_closed:
            with contextlib.suppress(OSError):
                found = self.home.stat()
                self._home_inode = (found.st_dev, found.st_ino)

    def resolve(self, path: str) -> Path:
        """Where `path` (inside the root, or absolute) really leads, links followed."""
        if "\0" in path:
            raise Refused("a path cannot hold a zero byte")
        try:
            real = Path(os.path.realpath(self._given / path))
        except OSError as error:
            raise Refused(f"{path!r} cannot be resolved: {error.strerror}") from None
        self.check(real, path)
        return real

    def check(self, real: Path, path: str) -> None:
        """Refuse a resolved path that is outside, or inside the state folder."""
        if not real.is_relative_to(self.root):
            raise Refused(f"{path!r} is outside of the working folder")
        if self._home_closed and real.is_relative_to(self.home):
            raise Refused(f"{path!r} is in the state folder, which is closed to tools")
        if any(real.is_relative_to(one) for one in _SYSTEM):
            raise Refused(f"{path!r} belongs to the system, not to files")

    def name(self, real: Path) -> str:
        """The path as it is told: relative to the root, and valid text whatever its bytes are."""
        return os.fsencode(real.relative_to(self.root)).decode("utf-8", "replace")

    @contextlib.contextmanager
    def folder(self, real: Path, path: str, *, make: bool = False) -> Iterator[int]:
        """A descriptor of the folder `real` (as `resolve` gave it), walked to without links.

        With `make` missing folders are made on the way.
        """
        descriptor = os.open(self.root, _DIRECTORY)
        try:
            for part in real.relative_to(self.root).parts:
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, dir_fd=descriptor)
                inner = self.step(descriptor, part, path)
                os.close(descriptor)
                descriptor = inner
            self.whereabouts(descriptor, path)
            yield descriptor
        finally:
            os.close(descriptor)

    def step(self, folder: int, part: str, path: str) -> int:
        """A descriptor of the folder `part` in `folder`; the caller closes it."""
        try:
            inner = os.open(part, _DIRECTORY, dir_fd=folder)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise Refused(f"{path!r} leads through something that is no folder, or was changed just now") from None
            raise
        found = os.fstat(inner)
        if (found.st_dev, found.st_ino) == self._home_inode:
            os.close(inner)
            raise Refused(f"{path!r} is in the state folder, which is closed to tools")
        return inner

    @contextlib.contextmanager
    def file(self, path: str) -> Iterator[tuple[int, os.stat_result, Path]]:
        """A descriptor of an existing regular file, opened for reading, its stat and its resolved path."""
        real = self.resolve(path)
        if real == self.root:
            raise Refused(f"{path!r} is a folder, not a file")
        with self.folder(real.parent, path) as folder:
            descriptor = self.open_regular(folder, real.name, path)
        try:
            self.whereabouts(descriptor, path)
            yield descriptor, os.fstat(descriptor), real
        finally:
            os.close(descriptor)

    def open_regular(self, folder: int, name: str, path: str) -> int:
        """Open `name` in `folder` for reading if it is a regular file. Never waits, never follows."""
        _regular(os.stat(name, dir_fd=folder, follow_symlinks=False), path)  # opening a device may act already
        try:
            descriptor = os.open(name, os.O_RDONLY | _FILE, dir_fd=folder)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO):
                raise Refused(f"{path!r} was changed while it was opened") from None
            raise
        try:
            _regular(os.fstat(descriptor), path)
        except Refused:
            os.close(descriptor)
            raise
        return descriptor

    def whereabouts(self, descriptor: int, path: str) -> None:
        """Ask the opened descriptor where it is: a folder may have been moved away on the walk."""
        self.check(Path(os.readlink(f"/proc/self/fd/{descriptor}")), path)

    def replace(self, path: str, data: bytes, *, stop: threading.Event, expect: Stamp | None = None) -> Stamp | None:
        """Give the file this content: a new file beside it, synced, renamed over it. Mode and, where the
        system lets us, owner stay. With `expect` only if the file is still that one. Missing folders are
        made. Gives the stamp of what was there before."""
        real = self.resolve(path)
        if real == self.root:
            raise Refused(f"{path!r} is a folder, not a file")
        with self.folder(real.parent, path, make=expect is None) as folder:
            before = _present(folder, real.name, path)
            temporary = f".{real.name[:100]}.{secrets.token_hex(6)}.tmp"
            # A new file gets the rights that the umask gives; the copy of an old one is closed at first.
            descriptor = os.open(
                temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, 0o600 if before else 0o666, dir_fd=folder
            )
            try:
                try:
                    _fill(descriptor, data, before)
                finally:
                    os.close(descriptor)
                with _replacing:
                    self.whereabouts(folder, path)
                    _still(folder, real.name, path, stop, expect or before)
                    os.rename(temporary, real.name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:  # also a stop of the process: the temporary file goes, and it is passed on
                with contextlib.suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
                raise
            with contextlib.suppress(OSError):  # the new content stands; some file systems cannot sync a folder
                os.fsync(folder)
        return before


def _present(folder: int, name: str, path: str) -> Stamp | None:
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    _regular(found, path)
    return Stamp.of(found)


def _still(folder: int, name: str, path: str, stop: threading.Event, expected: Stamp | None) -> None:
    if stop.is_set():
        raise Refused("stopped before anything was changed")
    if _present(folder, name, path) != expected:
        raise Refused(f"{path!r} was changed by somebody else in the meantime; read it again")


def _fill(descriptor: int, data: bytes, before: Stamp | None) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
    if before is not None:
        if before.owner != (os.geteuid(), os.getegid()):
            with contextlib.suppress(PermissionError):
                os.fchown(descriptor, *before.owner)
        os.fchmod(descriptor, before.mode)
    os.fsync(descriptor)


def _regular(found: os.stat_result, path: str) -> None:
    for test, kind in _KINDS:
        if test(found.st_mode):
            raise Refused(f"{path!r} is {kind}, not a file")
    if not stat.S_ISREG(found.st_mode):
        raise Refused(f"{path!r} is not a file")
