"""From SQLite's errors to ours, chosen by what one can do about them. Nothing else here knows the codes."""

from __future__ import annotations

import errno
import sqlite3

from state.errors import (
    StateError,
    StoreBusy,
    StoreClosed,
    StoreCorrupt,
    StoreFull,
    StoreUnusable,
)

_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)
_CORRUPT = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_UNUSABLE = (
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_AUTH,
    sqlite3.SQLITE_IOERR,
)


def primary_code(error: sqlite3.Error) -> int:
    """The primary result code of an error; 0 where SQLite gave none (a misuse of the module)."""
    code = getattr(error, "sqlite_errorcode", None)
    return code & 0xFF if isinstance(code, int) else 0


def is_busy(error: sqlite3.Error) -> bool:
    """True where another connection is in the way and trying again later is the remedy."""
    return primary_code(error) in _BUSY


def is_constraint(error: sqlite3.Error) -> bool:
    """True where a UNIQUE or CHECK rule refused the row."""
    return primary_code(error) == sqlite3.SQLITE_CONSTRAINT


def translate(error: BaseException, path: object) -> BaseException:
    """Our error for `error`. What is no error of the database or the file system comes back as it is."""
    if isinstance(error, sqlite3.Error):
        return _of_sqlite(error, path)
    if isinstance(error, OSError):
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return StoreFull(f"no space left for {path}")
        return StoreUnusable(f"{path} cannot be used: {error.strerror or error}")
    return error


def _of_sqlite(error: sqlite3.Error, path: object) -> StateError:
    code = primary_code(error)
    if code == sqlite3.SQLITE_FULL:
        return StoreFull(f"no space left for {path}")
    if code in _CORRUPT:
        return StoreCorrupt(f"{path} is damaged: {error}")
    if code in _BUSY:
        return StoreBusy(f"{path} is held by another process: {error}")
    if code in _UNUSABLE:
        return StoreUnusable(f"{path} cannot be used: {error}")
    if isinstance(error, sqlite3.ProgrammingError) and "closed" in str(error):
        return StoreClosed()
    return StateError(f"{path}: {error}")
