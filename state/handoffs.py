"""Moves of a session from one chat to another: claimed, done or failed, never half."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Sequence

from state import rows
from state.codec import clean
from state.errors import Conflict, NotFound
from state.handoff_rows import end_dead, is_valid
from state.ids import HandoffId, Owner, SessionId, SessionKey, new_handoff_id
from state.lease_rows import refuse_leased
from state.records import BindingState, Handoff, SessionBinding
from state.repository import Repository
from state.session_rows import bind, close_others, find_binding, find_session

WAITING = 600.0
"""Seconds of the boot clock after which a hand-off that nobody has claimed is over: it must not happen by
surprise when a daemon is started days later."""
_OPEN = "state IN ('pending', 'running')"


class Handoffs(Repository):
    """Every step after the claim is a compare-and-set on the claim's token and expiry."""

    async def request(
        self, session_id: SessionId, source_key: SessionKey, target: str, asked_by: str, *, within: float = WAITING
    ) -> Handoff:
        """Ask for a move, to be claimed `within` seconds: later it has failed by itself.

        Raises Conflict where one of the session is open, and NotFound.
        """
        now = self._now()

        def run(tx: sqlite3.Connection) -> Handoff:
            find_session(tx, session_id)
            end_dead(tx, self._clock, now, session_id=session_id)
            other = tx.execute(f"SELECT id FROM handoffs WHERE session_id = ? AND {_OPEN}", (session_id,)).fetchone()
            if other is not None:
                raise Conflict(f"the session is being moved already ({other['id']})")
            made = new_handoff_id()
            tx.execute(
                "INSERT INTO handoffs"
                " (id, session_id, source_key, target, asked_by, state, claim_boot, claim_expires, created_at)"
                " VALUES (?, ?, ?, ?, ?, 'pending', ?, ?, ?)",
                (
                    made, session_id, source_key, clean(target), asked_by,
                    self._clock.boot_id(), self._clock.boot() + within, now,
                ),
            )  # fmt: skip
            return rows.handoff(_the(tx, made))

        return await self._db.write(run, full=True)

    async def get(self, handoff_id: HandoffId) -> Handoff | None:
        """The hand-off, or None."""
        found = await self._select("id = ?", (handoff_id,), 1)
        return found[0] if found else None

    async def claim(self, handoff_id: HandoffId, owner: Owner, ttl: float = 60.0) -> str:
        """PENDING -> RUNNING; returns the token that proves the claim. Conflict otherwise.

        `ttl` is in seconds of the boot clock.
        """

        def run(tx: sqlite3.Connection) -> str:
            row = _the(tx, handoff_id)
            if row["state"] != "pending":
                raise Conflict(f"the hand-off is {row['state']}")
            if not is_valid(row, self._clock):
                raise Conflict("the hand-off was asked for too long ago")
            token = secrets.token_hex(16)
            tx.execute(
                "UPDATE handoffs SET state = 'running', token = ?, owner = ?, claim_boot = ?, claim_expires = ?"
                " WHERE id = ?",
                (token, owner, self._clock.boot_id(), self._clock.boot() + ttl, handoff_id),
            )
            return token

        return await self._db.write(run, full=True)

    async def renew(self, handoff_id: HandoffId, token: str, ttl: float = 60.0) -> None:
        """Put the claim's expiry off. Conflict where the claim is not valid any more."""

        def run(tx: sqlite3.Connection) -> None:
            self._claimed(tx, handoff_id, token)
            tx.execute("UPDATE handoffs SET claim_expires = ? WHERE id = ?", (self._clock.boot() + ttl, handoff_id))

        await self._db.write(run)

    async def set_thread(self, handoff_id: HandoffId, token: str, thread_id: str) -> None:
        """Remember the thread that was made for it, at once: a retry uses it again. Conflict as above."""

        def run(tx: sqlite3.Connection) -> None:
            self._claimed(tx, handoff_id, token)
            tx.execute("UPDATE handoffs SET thread_id = ? WHERE id = ?", (thread_id, handoff_id))

        await self._db.write(run, full=True)

    async def forget_thread(self, handoff_id: HandoffId) -> None:
        """The thread of a FAILED hand-off is gone: no retry uses it."""

        def run(tx: sqlite3.Connection) -> None:
            tx.execute("UPDATE handoffs SET thread_id = NULL WHERE id = ? AND state = 'failed'", (handoff_id,))

        await self._db.write(run, full=True)

    async def complete(self, handoff_id: HandoffId, token: str) -> None:
        """RUNNING -> DONE without a rebinding (the mover did it otherwise). Conflict as above."""
        await self._end(handoff_id, token, "done", None)

    async def fail(self, handoff_id: HandoffId, token: str, reason: str) -> None:
        """RUNNING -> FAILED: nothing has moved. Conflict as above."""
        await self._end(handoff_id, token, "failed", reason)

    async def cancel_pending(self, handoff_id: HandoffId, reason: str = "cancelled") -> bool:
        """PENDING -> FAILED. False where somebody has claimed it or it has ended."""
        now = self._now()

        def run(tx: sqlite3.Connection) -> bool:
            return (
                tx.execute(
                    "UPDATE handoffs SET state = 'failed', reason = ?, ended_at = ? WHERE id = ? AND state = 'pending'",
                    (clean(reason), now, handoff_id),
                ).rowcount
                > 0
            )

        return await self._db.write(run, full=True)

    async def sweep(self, only: HandoffId | None = None) -> list[Handoff]:
        """RUNNING -> FAILED for claims that have expired, are of another boot or of a dead owner, and
        PENDING -> FAILED for what nobody has claimed in time; returns those.

        Whoever sweeps has to tell the givers: `only` is for one who can tell of that hand-off alone.
        """
        now = self._now()

        def run(tx: sqlite3.Connection) -> list[Handoff]:
            over = end_dead(tx, self._clock, now, handoff_id=only)
            return [rows.handoff(_the(tx, one)) for one in over]

        return await self._db.write(run, full=True)

    async def open_for(self, session_id: SessionId) -> Handoff | None:
        """The open hand-off of a session, or None."""
        found = await self._select(f"session_id = ? AND {_OPEN}", (session_id,), 1)
        return found[0] if found else None

    async def thread_of_failed(self, session_id: SessionId, target: str) -> str | None:
        """The thread that the newest hand-off of the session to that target has made, where it failed after it."""

        def run(tx: sqlite3.Connection) -> str | None:
            row = tx.execute(
                "SELECT state, thread_id FROM handoffs WHERE session_id = ? AND target = ? ORDER BY seq DESC LIMIT 1"
                " OFFSET 1",
                (session_id, target),
            ).fetchone()
            return None if row is None or row["state"] != "failed" else row["thread_id"]

        return await self._db.read(run)

    async def recent_ended(self, limit: int = 20) -> list[Handoff]:
        """Those that have ended last, done or failed, oldest first."""
        query = (
            "SELECT * FROM (SELECT * FROM handoffs WHERE state IN ('done', 'failed') ORDER BY seq DESC LIMIT ?)"
            " ORDER BY seq"
        )

        def run(tx: sqlite3.Connection) -> list[Handoff]:
            return [rows.handoff(row) for row in tx.execute(query, (limit,))]

        return await self._db.read(run)

    async def pending(self, limit: int = 50) -> list[Handoff]:
        """Hand-offs that wait to be claimed, in order."""
        return await self._select("state = 'pending'", (), limit)

    async def rebind_done(
        self, handoff_id: HandoffId, token: str, target_key: SessionKey, address_json: str, *, moved_to: str
    ) -> SessionBinding:
        """Move the session: target bound, every other key that leads to it CLOSED (`moved_to`), hand-off
        DONE, in one transaction.

        Raises Conflict, and nothing has moved, where the claim is not valid any more, a turn runs on the
        session, or the source does not lead to it any more. The target's earlier session stays resumable.
        """
        now = self._now()

        def run(tx: sqlite3.Connection) -> SessionBinding:
            row = self._claimed(tx, handoff_id, token)
            session_id, source_key = SessionId(row["session_id"]), SessionKey(row["source_key"])
            refuse_leased(tx, session_id, self._clock)
            source = find_binding(tx, source_key)
            if source is None or source.session_id != session_id or source.state is not BindingState.ACTIVE:
                raise Conflict(f"the key {source_key} does not lead to the session any more")
            close_others(tx, session_id, target_key, moved_to, now)
            made = bind(tx, target_key, session_id, now, address_json)
            self._finish(tx, handoff_id, "done", None, now)
            return made

        return await self._db.write(run, full=True)

    async def _end(self, handoff_id: HandoffId, token: str, state: str, reason: str | None) -> None:
        now = self._now()

        def run(tx: sqlite3.Connection) -> None:
            self._claimed(tx, handoff_id, token)
            self._finish(tx, handoff_id, state, reason, now)

        await self._db.write(run, full=True)

    def _claimed(self, tx: sqlite3.Connection, handoff_id: HandoffId, token: str) -> sqlite3.Row:
        row = _the(tx, handoff_id)
        if row["state"] != "running" or row["token"] != token or not is_valid(row, self._clock):
            raise Conflict(f"the claim on hand-off {handoff_id} is not valid any more (it is {row['state']})")
        return row

    @staticmethod
    def _finish(tx: sqlite3.Connection, handoff_id: HandoffId, state: str, reason: str | None, now: int) -> None:
        tx.execute(
            "UPDATE handoffs SET state = ?, reason = ?, ended_at = ? WHERE id = ?",
            (state, None if reason is None else clean(reason), now, handoff_id),
        )

    async def _select(self, where: str, values: Sequence[object], limit: int) -> list[Handoff]:
        query = f"SELECT * FROM handoffs WHERE {where} ORDER BY seq LIMIT ?"

        def run(tx: sqlite3.Connection) -> list[Handoff]:
            return [rows.handoff(row) for row in tx.execute(query, (*values, limit))]

        return await self._db.read(run)


def _the(tx: sqlite3.Connection, handoff_id: HandoffId) -> sqlite3.Row:
    row: sqlite3.Row | None = tx.execute("SELECT * FROM handoffs WHERE id = ?", (handoff_id,)).fetchone()
    if row is None:
        raise NotFound(f"there is no hand-off {handoff_id}")
    return row
