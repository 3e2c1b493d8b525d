"""The writer thread: whole transactions in, whole outcomes out, several to one commit.

A job is one synchronous callable over the connection. It runs whole on this thread, so that nothing
that happens to the task that waits for it (cancellation above all) can leave half of it behind. Jobs
that wait together share one `BEGIN IMMEDIATE` and one commit, hence one fsync; each has a savepoint,
so that the failure of one takes back only its own writes. A job may run more than once before it
counts (a lock that was not free, a commit that failed): it must depend on nothing but the database.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import queue
import random
import sqlite3
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from state import connections
from state.errors import StateError, StoreBusy, StoreClosed
from state.failures import is_busy, translate

log = logging.getLogger("tidings.state")

GROUP = 64
"""Jobs to one commit at most."""
BUSY_BOUND = 20.0
"""Seconds of attempts against a foreign lock; four times the 5 s that a foreign process may hold it."""
_PAUSE_FIRST, _PAUSE_MOST = 0.01, 0.25
_IDLE = 0.5
"""Seconds without a job after which the thread calls itself idle."""
_CHECKPOINT_IDLE = 1 << 20
"""Bytes of WAL worth a checkpoint when idle."""
_CHECKPOINT_BUSY = 48 << 20
"""Bytes by which the WAL may grow before it is checkpointed between two commits, even when busy."""
_CHECKPOINT_COMMITS = 600
"""Commits after which it is, whatever its size: the file keeps its size when SQLite starts it over."""
_WAKE = 4
"""Waiters that are woken in one round of an event loop."""
_TEND_IDLE, _TEND_BUSY = 16, 256
"""Commits after which the search index is tended, when idle and when busy."""


@dataclass(slots=True)
class Job:
    """One transaction and the future that waits for it. `future` is None for a job without a waiter."""

    run: Callable[[sqlite3.Connection], Any]
    full: bool
    loop: asyncio.AbstractEventLoop | None
    future: asyncio.Future[Any] | None
    settled: Callable[[], None]
    """Called on the loop when the job is out of the queue, whatever became of the waiter."""
    outside: bool = False
    """Runs between two transactions instead of in one (a checkpoint)."""
    result: Any = None
    error: BaseException | None = None


class _Void(Exception):
    """The whole transaction was taken back under a job's feet."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.cause = cause


class Writer:
    """Owns the one writing connection. Everything but `submit` and `stop` runs on its own thread."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: Path,
        *,
        wal: bool,
        tend: Callable[[sqlite3.Connection], None],
        busy_bound: float = BUSY_BOUND,
    ) -> None:
        self._connection = connection
        self._path = path
        self._wal_file = path.with_name(path.name + "-wal") if wal else None
        self._busy_bound = busy_bound
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._synchronous = ""
        self._dirty = False
        self._tend = tend
        self._untended = _TEND_IDLE  # what an earlier process left behind is not known
        self._checkpoint_size = _CHECKPOINT_BUSY
        self._uncheckpointed = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="tidings-writer", daemon=True)

    def start(self) -> None:
        """Start the thread. From now on the connection is its own."""
        self._thread.start()

    def submit(self, job: Job) -> None:
        """Queue a job. It will run, whatever becomes of the task that waits for it."""
        self._queue.put(job)

    def stop(self) -> None:
        """Finish what is queued, checkpoint, close the connection; blocks until the thread has ended."""
        self._stopping.set()
        self._queue.put(None)
        self._thread.join(self._busy_bound + 10)
        if self._thread.is_alive():
            log.error("the writer thread of %s did not end in time", self._path)

    # -- on the thread ------------------------------------------------------------------------

    def _loop(self) -> None:
        try:
            while True:
                try:
                    first = self._queue.get(timeout=_IDLE if self._dirty else None)
                except queue.Empty:
                    self._dirty = False
                    self._tend_index(_TEND_IDLE)
                    self._checkpoint(_CHECKPOINT_IDLE)
                    continue
                group, ended = self._gather(first)
                inside = [job for job in group if not job.outside]
                if inside:
                    self._carry_out(inside)
                    self._tend_index(_TEND_BUSY)
                    self._checkpoint(0 if self._uncheckpointed >= _CHECKPOINT_COMMITS else self._checkpoint_size)
                for job in group:
                    if job.outside:
                        self._run_outside(job)
                if ended:
                    return
        finally:
            self._close()

    def _gather(self, first: Job | None) -> tuple[list[Job], bool]:
        if first is None:
            return [], True
        group = [first]
        while len(group) < GROUP:
            try:
                job = self._queue.get_nowait()
            except queue.Empty:
                break
            if job is None:
                return group, True
            group.append(job)
        return group, False

    def _carry_out(self, group: list[Job]) -> None:
        try:
            self._transact(group)
        except _Void as void:
            if len(group) > 1:
                # One of them spoilt the transaction for all: each gets its own.
                for job in group:
                    self._carry_out([job])
                return
            group[0].error = void.cause
        except (sqlite3.Error, OSError, MemoryError) as error:
            for job in group:
                job.error = error
        self._dirty = True
        self._answer(group)

    def _transact(self, group: list[Job]) -> None:
        """Run the group in one transaction; try again, whole, while the lock is not free."""
        started = time.monotonic()
        pause = _PAUSE_FIRST
        while True:
            try:
                self._attempt(group)
            except sqlite3.OperationalError as error:
                self._roll_back()
                if not is_busy(error) or time.monotonic() - started > self._busy_bound:
                    raise
            except BaseException:
                self._roll_back()
                raise
            else:
                return
            time.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(pause * 2, _PAUSE_MOST)

    def _attempt(self, group: list[Job]) -> None:
        self._set_synchronous("FULL" if any(job.full for job in group) else "NORMAL")
        self._connection.execute("BEGIN IMMEDIATE")
        for job in group:
            self._run(job, alone=len(group) == 1)
        self._connection.execute("COMMIT")
        self._untended += 1
        self._uncheckpointed += 1

    def _run(self, job: Job, *, alone: bool) -> None:
        connection = self._connection
        job.result = job.error = None
        if not alone:
            connection.execute("SAVEPOINT job")
        try:
            job.result = job.run(connection)
        except Exception as error:
            if isinstance(error, sqlite3.OperationalError) and is_busy(error):
                raise
            if alone or not connection.in_transaction:
                raise _Void(error) from error
            job.error = error
            connection.execute("ROLLBACK TO job")
        if not alone:
            connection.execute("RELEASE job")

    def _tend_index(self, threshold: int) -> None:
        """Merge the segments of the search index, in bounded steps, each its own transaction."""
        if self._untended < threshold:
            return
        self._untended = 0
        try:
            self._set_synchronous("NORMAL")
            self._tend(self._connection)
        except sqlite3.Error as error:
            # It changes nothing that anybody sees; the next time does it.
            self._roll_back()
            log.info("the search index of %s was not merged: %s", self._path, error)

    def _run_outside(self, job: Job) -> None:
        try:
            job.result = job.run(self._connection)
        except (sqlite3.Error, OSError) as error:
            job.error = error
        self._answer([job])

    @staticmethod
    def checkpoint_now(connection: sqlite3.Connection) -> None:
        """A job to be run outside a transaction: a passive checkpoint."""
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")

    def _set_synchronous(self, level: str) -> None:
        # Only outside a transaction does the pragma take effect.
        if level != self._synchronous:
            self._connection.execute(f"PRAGMA synchronous={level}")
            self._synchronous = level

    def _answer(self, group: list[Job]) -> None:
        """Hand the outcomes over, one wake-up for each event loop that waits for some of them."""
        by_loop: dict[asyncio.AbstractEventLoop, list[Job]] = {}
        for job in group:
            if job.loop is not None:
                by_loop.setdefault(job.loop, []).append(job)
            if job.error is not None:
                job.error = self._explain(job.error)
        for loop, jobs in by_loop.items():
            # A loop that is closed has nobody left to tell; the writes stand.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(_resolve, jobs, loop)

    def _explain(self, error: BaseException) -> BaseException:
        found = translate(error, self._path)
        if found is not error:
            found.__cause__ = error
            if isinstance(found, StateError) and not isinstance(found, StoreBusy):
                log.error("a write to the store failed: %s", found)
        return found

    def _checkpoint(self, threshold: int) -> None:
        if self._wal_file is None or not self._uncheckpointed:
            return
        try:
            size = os.stat(self._wal_file).st_size
        except OSError:
            return
        if size < threshold:
            return
        try:
            row = self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        except sqlite3.Error as error:
            # Nothing is lost by a checkpoint that fails (a full disk, say): the WAL still has it all.
            log.warning("a checkpoint of %s failed: %s", self._path, error)
            row = None
        self._uncheckpointed = 0
        if row is not None and row[1] == row[2]:
            # All of it is in the database: the next write starts it over, cut to the limit of its size.
            size = min(size, connections.WAL_KEPT)
        # Where a long reader is in the way it only grows: then the next try waits for as much again.
        self._checkpoint_size = size + _CHECKPOINT_BUSY

    def _close(self) -> None:
        while True:
            try:
                job = self._queue.get_nowait()
            except queue.Empty:
                break
            if job is not None:
                job.error = StoreClosed()
                self._answer([job])
        self._roll_back()
        self._tend_index(_TEND_IDLE)
        with contextlib.suppress(sqlite3.Error):
            if self._wal_file is not None:
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
            self._connection.execute("PRAGMA optimize")
        self._connection.close()


def _resolve(jobs: list[Job], loop: asyncio.AbstractEventLoop) -> None:
    """Wake those who wait, some at a time: a whole group woken in one round of the loop would make that round as
    long as all that they do next, and everything else would have to wait for it."""
    for job in jobs[:_WAKE]:
        job.settled()
        future = job.future
        if future is None or future.done():
            continue
        if job.error is not None:
            future.set_exception(job.error)
        else:
            future.set_result(job.result)
    if len(jobs) > _WAKE:
        loop.call_soon(_resolve, jobs[_WAKE:], loop)
