"""The database: one writer thread, a few reader threads, and nothing on the event loop.

`write` hands a whole transaction to the writer thread (state/writer.py); `read` runs a query on a
reader's own connection, which WAL lets run beside the writer. No sqlite3 exception comes out of
either.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from state import connections, migrate
from state.codec import matches
from state.errors import StateError, StoreClosed
from state.failures import is_busy, translate
from state.search_index import tend_index
from state.writer import BUSY_BOUND, Job, Writer

T = TypeVar("T")
Query = Callable[[sqlite3.Connection], T]

QUEUE_LIMIT = 4096
"""Transactions that may wait at once; more wait for a slot before they are queued."""


class Database:
    """The connections of one process to one file. Made by `open_database` only."""

    def __init__(
        self, path: Path, writer: Writer, journal_mode: str, readers: int, kind: type[sqlite3.Connection]
    ) -> None:
        self.path = path
        self.journal_mode = journal_mode
        self._writer = writer
        self._kind = kind
        self._slots = asyncio.BoundedSemaphore(QUEUE_LIMIT)
        self._local = threading.local()
        self._opened: list[sqlite3.Connection] = []
        self._pool = ThreadPoolExecutor(readers, thread_name_prefix="tidings-reader")
        self._closed = False
        self.timed: Callable[[float], None] | None = None
        """Told the seconds of each transaction that was committed, from its call on."""

    async def write(self, run: Query[T], *, full: bool = False) -> T:
        """Run `run` as one transaction and return what it returned, after the commit.

        `full`: the commit is on the disk when this returns (an fsync, shared with the others of the
        group); without it a loss of power may take the commit back, a crash of the process never.
        Once queued it runs to its end, even if the caller is cancelled: a cancelled caller does not
        know whether it was written. Raises what `run` raised (nothing is written then), or a `StateError`.
        """
        began = time.monotonic()
        result = await self._submit(run, full=full)
        if self.timed is not None:
            self.timed(time.monotonic() - began)
        return result

    async def _submit(self, run: Query[T], *, full: bool, outside: bool = False) -> T:
        if self._closed:
            raise StoreClosed
        await self._slots.acquire()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._writer.submit(Job(run, full, loop, future, self._slots.release, outside))
        return await future

    async def read(self, run: Query[T]) -> T:
        """Run `run` on a reader thread over one consistent state of the database and return its result."""
        if self._closed:
            raise StoreClosed
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._read, run)

    def _read(self, run: Query[T]) -> T:
        started = time.monotonic()
        while True:
            try:
                connection = self._reader()
                connection.execute("BEGIN")
                try:
                    return run(connection)
                finally:
                    connection.execute("COMMIT")
            except sqlite3.Error as error:
                # In WAL a reader is in nobody's way; with a rollback journal it waits for the commit.
                if not is_busy(error) or time.monotonic() - started > BUSY_BOUND:
                    raise translate(error, self.path) from error
            time.sleep(random.uniform(0.01, 0.05))

    def _reader(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = connections.connect(self.path, self._kind)
            connections.prepare_reader(connection)
            connection.create_function("matches", 2, matches, deterministic=True)
            self._local.connection = connection
            self._opened.append(connection)
        return connection

    async def checkpoint(self) -> None:
        """Move the WAL into the file as far as nobody is in the way. Never waits for readers."""
        await self._submit(Writer.checkpoint_now, full=False, outside=True)

    async def close(self) -> None:
        """Finish what is queued, then close every connection. Bounded; idempotent."""
        if self._closed:
            return
        self._closed = True
        await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, self._shut))

    def _shut(self) -> None:
        self._pool.shutdown(wait=True)
        for connection in self._opened:
            with contextlib.suppress(sqlite3.Error):
                connection.close()
        self._writer.stop()


@asynccontextmanager
async def open_database(
    path: Path,
    *,
    readers: int = 2,
    busy_bound: float = BUSY_BOUND,
    filesystem: Callable[[Path], str] = connections.filesystem_type,
    kind: type[sqlite3.Connection] = sqlite3.Connection,
) -> AsyncIterator[Database]:
    """Open the file (made where it is missing), migrate it, and close it at the end.

    Raises StoreTooNew, StoreCorrupt, StoreFull, StoreBusy or StoreUnusable. `filesystem` and `kind`
    are for tests that put another file system or a failing SQLite below.
    """

    def prepare() -> tuple[sqlite3.Connection, str]:
        return _prepare(path, filesystem, kind)

    connection, mode = await asyncio.to_thread(prepare)
    writer = Writer(connection, path, wal=mode == "wal", tend=tend_index, busy_bound=busy_bound)
    writer.start()
    database = Database(path, writer, mode, readers, kind)
    try:
        yield database
    finally:
        await database.close()


def _prepare(
    path: Path, filesystem: Callable[[Path], str], kind: type[sqlite3.Connection]
) -> tuple[sqlite3.Connection, str]:
    started = time.monotonic()
    while True:
        connection: sqlite3.Connection | None = None
        try:
            connections.prepare_folder(path)
            connection = connections.connect(path, kind)
            mode = connections.prepare_writer(connection, path, filesystem(path.parent))
            migrate.migrate(connection)
        except BaseException as error:
            if connection is not None:
                connection.close()
            busy = isinstance(error, sqlite3.Error) and is_busy(error)
            if not busy or time.monotonic() - started > BUSY_BOUND:
                if isinstance(error, sqlite3.Error | OSError):
                    raise translate(error, path) from error
                raise
        else:
            return connection, mode
        time.sleep(random.uniform(0.02, 0.1))


def require(row: sqlite3.Row | None, what: str) -> sqlite3.Row:
    """The row of a statement that must give one."""
    if row is None:
        raise StateError(f"the database gave no row for {what}")
    return row
