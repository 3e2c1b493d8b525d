"""How a connection to the database file is opened, and which journal the file system can carry.

The file is opened through SQLite only, never by `open()`: closing any other descriptor of it in this
process would drop the POSIX locks that SQLite holds on it.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from pathlib import Path

from state.errors import StoreUnusable
from state.failures import is_busy

log = logging.getLogger("tidings.state")

BUSY_TIMEOUT = 0.2
"""Seconds that SQLite itself waits for a lock. Short: the threads count the attempts themselves."""

_NO_WAL = frozenset(
    [
        "nfs",
        "nfs4",
        "9p",
        "virtiofs",
        "cifs",
        "smb3",
        "smbfs",
        "ncpfs",
        "afs",
        "ceph",
        "fuse.sshfs",
        "fuse.glusterfs",
        "vboxsf",
        "prl_fs",
        "vmhgfs",
        "fuse.vmhgfs-fuse",
        "drvfs",
        "fuse.rclone",
        "fuse.s3fs",
        "fuse.juicefs",
        "lustre",
        "gfs2",
        "ocfs2",
    ]
)
_PAGE_SIZE = 4096
WAL_KEPT = 32 << 20
"""Bytes to which SQLite cuts a WAL file that it starts over."""


def filesystem_type(folder: Path) -> str:
    """The type of the file system below `folder` as the kernel names it, "" where it cannot be told."""
    real = os.path.realpath(folder)
    best, found = -1, ""
    try:
        table = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""
    for line in table.splitlines():
        left, _, right = line.partition(" - ")
        fields = left.split()
        if len(fields) < 5 or not right:
            continue
        point = fields[4].replace("\\040", " ")
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        # `>=`: of two mounts on one point the later one is on top.
        if inside and len(point) >= best:
            best, found = len(point), right.split()[0]
    return found


def prepare_folder(path: Path) -> None:
    """Make the folder (0700) and, so that it never exists with other rights, the empty file (0600)."""
    folder = path.parent
    if not folder.exists():
        folder.mkdir(parents=True, mode=0o700)
    if not path.exists():
        # Only here, before SQLite has any lock on it, may the file be opened by hand.
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))


def connect(path: Path, kind: type[sqlite3.Connection]) -> sqlite3.Connection:
    """A connection in autocommit mode; the caller begins and ends each transaction itself."""
    connection = sqlite3.connect(
        path,
        timeout=BUSY_TIMEOUT,
        isolation_level=None,
        check_same_thread=False,
        factory=kind,
        cached_statements=512,
    )
    connection.row_factory = sqlite3.Row
    return connection


def prepare_writer(connection: sqlite3.Connection, path: Path, filesystem: str) -> str:
    """Set the writer's pragmas and return the effective journal mode. May raise a sqlite3 error."""
    connection.execute(f"PRAGMA page_size={_PAGE_SIZE}")
    mode = _journal(connection, path, filesystem)
    connection.execute("PRAGMA foreign_keys=ON")
    connection.execute("PRAGMA temp_store=MEMORY")
    connection.execute("PRAGMA cache_size=-8192")
    connection.execute("PRAGMA recursive_triggers=OFF")
    if mode == "wal":
        # The writer thread checkpoints by its own rule, when it has nothing better to do.
        connection.execute("PRAGMA wal_autocheckpoint=0")
        connection.execute(f"PRAGMA journal_size_limit={WAL_KEPT}")
    return mode


def prepare_reader(connection: sqlite3.Connection) -> None:
    """Set the pragmas of a connection that must never write."""
    connection.execute("PRAGMA query_only=ON")
    connection.execute("PRAGMA temp_store=MEMORY")
    connection.execute("PRAGMA cache_size=-4096")


def _journal(connection: sqlite3.Connection, path: Path, filesystem: str) -> str:
    reason = f"the file system is {filesystem}" if filesystem in _NO_WAL else ""
    if not reason:
        try:
            mode = _set_journal(connection, "WAL")
        except sqlite3.OperationalError as error:
            if is_busy(error) and "protocol" not in str(error):
                raise
            mode, reason = "", str(error)
        if mode == "wal":
            return mode
        reason = reason or f"SQLite answered {mode!r}"
    mode = _set_journal(connection, "DELETE")
    if mode not in ("delete", "wal"):
        raise StoreUnusable(f"{path}: no journal can be kept there ({reason})")
    log.warning("no WAL for %s (%s): the journal mode is %s; reads wait for writes there", path, reason, mode)
    return mode


def _set_journal(connection: sqlite3.Connection, mode: str) -> str:
    return str(connection.execute(f"PRAGMA journal_mode={mode}").fetchone()[0]).lower()
