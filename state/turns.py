"""The composite transactions of a turn. Each checks the lease in the very transaction that it guards."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import TypeVar

from state import inbox, memory_outbox, outbox_rows, rows
from state import transcript_rows as transcript
from state.codec import clean
from state.errors import Conflict, StateError
from state.ids import EventId, RowId, SessionId, SessionKey, TurnId
from state.lease_rows import guard, let_go
from state.memory_outbox import NewMemoryWrite
from state.records import (
    Fate,
    NewDelivery,
    NewMessage,
    ToolStatus,
    TranscriptMessage,
    Turn,
    TurnLease,
    TurnState,
)
from state.repository import Repository
from state.session_rows import last_row, touch
from state.turn_rows import (
    call_status,
    close_calls,
    deactivate_rows,
    find_turn,
    free_events,
    running_turn,
    start_again,
)

T = TypeVar("T")
_ENDS = frozenset({ToolStatus.DONE, ToolStatus.FAILED, ToolStatus.UNKNOWN})


class Turns(Repository):
    """Every write raises LeaseLost, and writes nothing, where the lease is not the caller's any more."""

    async def _guarded(self, lease: TurnLease, run: Callable[[sqlite3.Connection], T], *, full: bool = False) -> T:
        def guarded(tx: sqlite3.Connection) -> T:
            guard(tx, lease, self._clock)
            return run(tx)

        return await self._db.write(guarded, full=full)

    async def begin(
        self, lease: TurnLease, key: SessionKey, event_ids: Sequence[EventId], new: Sequence[NewMessage]
    ) -> list[RowId]:
        """Start the turn: its row, its events RUNNING, its first rows. On the disk on return.

        Raises Conflict where an event is not free or the turn exists already.
        """
        now = self._now()

        def run(tx: sqlite3.Connection) -> list[RowId]:
            if find_turn(tx, lease.turn_id) is not None:
                raise Conflict(f"turn {lease.turn_id} exists already")
            tx.execute(
                "INSERT INTO turns (id, session_id, key, state, fence, attempts, first_row, started_at)"
                " VALUES (?, ?, ?, 'running', ?, 1, ?, ?)",
                (lease.turn_id, lease.session_id, key, lease.fence, last_row(tx) + 1, now),
            )
            inbox.take(tx, event_ids, lease.turn_id, lease.owner)
            made = self._insert(tx, lease, new, now)
            touch(tx, lease.session_id, now)
            return made

        return await self._guarded(lease, run, full=True)

    async def resume(self, lease: TurnLease, turn_id: TurnId) -> tuple[Turn, list[TranscriptMessage]]:
        """Take a dead turn over under a new lease, which must be for that turn. On the disk on return.

        The attempt is counted on the turn and its events; STARTED calls become UNKNOWN with nothing in
        them yet (`finish_call` completes them). Returns the turn and its active rows.
        """
        if lease.turn_id != turn_id:
            raise ValueError("the lease is for another turn")

        def run(tx: sqlite3.Connection) -> tuple[Turn, list[TranscriptMessage]]:
            turn = start_again(tx, lease)
            return turn, transcript.of_turn(tx, turn_id)

        return await self._guarded(lease, run, full=True)

    async def get(self, turn_id: TurnId) -> Turn | None:
        """The turn, or None."""
        return await self._db.read(lambda tx: find_turn(tx, turn_id))

    async def latest(self, session_id: SessionId) -> Turn | None:
        """The turn of the session that began last."""

        def run(tx: sqlite3.Connection) -> Turn | None:
            row = tx.execute(
                "SELECT * FROM turns WHERE session_id = ? ORDER BY seq DESC LIMIT 1", (session_id,)
            ).fetchone()
            return None if row is None else rows.turn(row)

        return await self._db.read(run)

    async def append(self, lease: TurnLease, new: Sequence[NewMessage]) -> list[RowId]:
        """Add rows: an assistant row with its calls and one PLANNED row a call go in together.

        A row that plans a call is on the disk on return, before anybody can start it.
        """
        now = self._now()
        full = any(one.tool_status is not None for one in new)
        return await self._guarded(lease, lambda tx: self._insert(tx, lease, new, now), full=full)

    async def start_call(self, lease: TurnLease, row_id: RowId) -> None:
        """PLANNED -> STARTED, on the disk on return: only now may the tool run. Conflict otherwise."""

        def run(tx: sqlite3.Connection) -> None:
            status, _ = call_status(tx, lease, row_id)
            if status is not ToolStatus.PLANNED:
                raise Conflict(f"the call of row {row_id} is {status}")
            tx.execute("UPDATE transcript SET tool_status = 'started' WHERE id = ?", (row_id,))

        await self._guarded(lease, run, full=True)

    async def finish_call(
        self,
        lease: TurnLease,
        row_id: RowId,
        status: ToolStatus,
        *,
        content: str,
        wire: str | None,
        extract: str | None = None,
    ) -> None:
        """Store the result of a call that is open, or UNKNOWN without a result. Conflict otherwise."""
        if status not in _ENDS:
            raise ValueError(f"{status} is no end of a call")

        def run(tx: sqlite3.Connection) -> None:
            before, complete = call_status(tx, lease, row_id)
            if before in _ENDS and (before is not ToolStatus.UNKNOWN or complete):
                raise Conflict(f"the call of row {row_id} is {before}")
            transcript.set_result(tx, row_id, status, content=content, wire=wire, extract=extract)

        await self._guarded(lease, run)

    async def steer(self, lease: TurnLease, event_ids: Sequence[EventId], new: Sequence[NewMessage]) -> list[RowId]:
        """Let events join the running turn: their rows, and their fate STEERED. On the disk on return.

        Raises Conflict where one of them is not open any more.
        """
        now = self._now()

        def run(tx: sqlite3.Connection) -> list[RowId]:
            for event_id in event_ids:
                if not inbox.settle(tx, event_id, Fate.STEERED, "", lease.turn_id, now):
                    raise Conflict(f"event {event_id} has ended already")
            return self._insert(tx, lease, new, now)

        return await self._guarded(lease, run, full=True)

    async def park(self, lease: TurnLease, detail: str) -> None:
        """Put the turn aside for a restart that was asked for: it stays RUNNING, to be resumed.

        The attempt does not count, as nothing crashed; the lease is given up. On the disk on return.
        """

        def run(tx: sqlite3.Connection) -> None:
            running_turn(tx, lease.turn_id)
            tx.execute("UPDATE turns SET detail = ? WHERE id = ?", (clean(detail), lease.turn_id))
            free_events(tx, lease.turn_id)
            let_go(tx, lease)

        await self._guarded(lease, run, full=True)

    async def finish(
        self,
        lease: TurnLease,
        *,
        state: TurnState,
        rows: Sequence[NewMessage],
        fates: Sequence[tuple[EventId, Fate, str]],
        delivery: NewDelivery | None,
        detail: str = "",
        deactivate: Sequence[RowId] = (),
        remember: NewMemoryWrite | None = None,
    ) -> list[RowId]:
        """End the turn in one transaction: rows, calls closed, delivery, fates, state, lease. On the disk on return.

        The delivery adopts its draft and leaves no other draft of the turn behind. An event that has
        ended meanwhile (deleted, say) keeps that end. `remember` is what an external memory is to be told of
        it. Raises Conflict where the turn has ended already.
        """
        if state is TurnState.RUNNING:
            raise ValueError("a turn does not end as running")
        now = self._now()

        def run(tx: sqlite3.Connection) -> list[RowId]:
            running_turn(tx, lease.turn_id)
            deactivate_rows(tx, lease, deactivate)
            close_calls(tx, lease)
            made = self._insert(tx, lease, rows, now)
            if delivery is not None and not outbox_rows.insert(
                tx, delivery, now, session_id=lease.session_id, turn_id=lease.turn_id
            ):
                raise StateError(f"delivery {delivery.id} exists already")
            outbox_rows.drop_drafts(tx, lease.turn_id)
            for event_id, fate, why in fates:
                inbox.settle(tx, event_id, fate, why, lease.turn_id, now)
            tx.execute(
                "UPDATE turns SET state = ?, detail = ?, ended_at = ? WHERE id = ?",
                (state, clean(detail), now, lease.turn_id),
            )
            if remember is not None:
                memory_outbox.insert(tx, remember, now)
            touch(tx, lease.session_id, now)
            let_go(tx, lease)
            return made

        return await self._guarded(lease, run, full=True)

    @staticmethod
    def _insert(tx: sqlite3.Connection, lease: TurnLease, new: Sequence[NewMessage], now: int) -> list[RowId]:
        return transcript.insert(tx, lease.session_id, lease.turn_id, lease.fence, new, now)
