"""Questions to people that outlive a restart."""

from __future__ import annotations

import sqlite3
from typing import Literal

from state import rows
from state.codec import clean
from state.errors import Conflict, NotFound
from state.ids import ApprovalId, SessionId, TurnId, new_approval_id
from state.records import Approval, ApprovalState
from state.repository import Repository


class Approvals(Repository):
    """One question a call. PENDING ends exactly once; APPROVED is good for one run."""

    async def create(
        self,
        kind: Literal["approval", "clarify"],
        session_id: SessionId,
        turn_id: TurnId,
        call_id: str,
        asked: str,
        question: str,
        ttl: float,
    ) -> Approval:
        """Ask; the same (turn, call) gives the question that was asked first, as it stands now.

        `ttl` is in seconds of the boot clock. On the disk on return.
        """
        now, boot, boot_id = self._now(), self._clock.boot(), self._clock.boot_id()

        def run(tx: sqlite3.Connection) -> Approval:
            known = _for_call(tx, turn_id, call_id)
            if known is not None:
                return known
            made = new_approval_id()
            tx.execute(
                "INSERT INTO approvals (id, kind, session_id, turn_id, call_id, asked, question, state, boot_id,"
                " expires_at, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, 'pending', ?, ?, ?)",
                (made, kind, session_id, turn_id, call_id, asked, clean(question), boot_id, boot + ttl, now),
            )
            return _the(tx, made)

        return await self._db.write(run, full=True)

    async def get(self, approval_id: ApprovalId) -> Approval | None:
        """The question, or None."""

        def run(tx: sqlite3.Connection) -> Approval | None:
            row = tx.execute("SELECT * FROM approvals WHERE id = ?", (approval_id,)).fetchone()
            return None if row is None else rows.approval(row)

        return await self._db.read(run)

    async def for_call(self, turn_id: TurnId, call_id: str) -> Approval | None:
        """The question of a call, or None."""
        return await self._db.read(lambda tx: _for_call(tx, turn_id, call_id))

    async def open_of(self, turn_id: TurnId) -> list[Approval]:
        """The open questions of a turn, oldest first."""

        def run(tx: sqlite3.Connection) -> list[Approval]:
            query = "SELECT * FROM approvals WHERE turn_id = ? AND state = 'pending' ORDER BY seq"
            return [rows.approval(row) for row in tx.execute(query, (turn_id,))]

        return await self._db.read(run)

    async def answer(self, approval_id: ApprovalId, *, approve: bool, answer: str | None, by: str) -> Approval:
        """PENDING -> APPROVED or DENIED, or EXPIRED where it came too late (look at the state returned).

        Raises Conflict, which names the state, where it had ended already, and NotFound. On the disk on return.
        """
        to = ApprovalState.APPROVED if approve else ApprovalState.DENIED

        def run(tx: sqlite3.Connection) -> Approval:
            found = _the(tx, approval_id)
            if found.state is not ApprovalState.PENDING:
                raise Conflict(f"the question was answered already: it is {found.state}")
            if self._is_over(found):
                tx.execute("UPDATE approvals SET state = 'expired' WHERE id = ?", (approval_id,))
            else:
                tx.execute(
                    "UPDATE approvals SET state = ?, answer = ?, answered_by = ? WHERE id = ?",
                    (to, None if answer is None else clean(answer), by, approval_id),
                )
            return _the(tx, approval_id)

        return await self._db.write(run, full=True)

    async def use(self, approval_id: ApprovalId) -> bool:
        """APPROVED -> USED, on the disk on return. True exactly once: only then may the run be made."""

        def run(tx: sqlite3.Connection) -> bool:
            return (
                tx.execute(
                    "UPDATE approvals SET state = 'used' WHERE id = ? AND state = 'approved'", (approval_id,)
                ).rowcount
                > 0
            )

        return await self._db.write(run, full=True)

    async def cancel_turn(self, turn_id: TurnId) -> int:
        """PENDING -> CANCELLED for every question of a turn that has ended; returns how many."""

        def run(tx: sqlite3.Connection) -> int:
            return tx.execute(
                "UPDATE approvals SET state = 'cancelled' WHERE turn_id = ? AND state = 'pending'", (turn_id,)
            ).rowcount

        return await self._db.write(run)

    async def expire(self) -> list[Approval]:
        """PENDING -> EXPIRED for what nobody answered in time; returns those."""

        def run(tx: sqlite3.Connection) -> list[Approval]:
            found = [
                rows.approval(row) for row in tx.execute("SELECT * FROM approvals WHERE state = 'pending' ORDER BY seq")
            ]
            over = [one.id for one in found if self._is_over(one)]
            tx.executemany("UPDATE approvals SET state = 'expired' WHERE id = ?", [(one,) for one in over])
            return [_the(tx, one) for one in over]

        return await self._db.write(run)

    def _is_over(self, approval: Approval) -> bool:
        return approval.boot_id != self._clock.boot_id() or approval.expires_at <= self._clock.boot()


def _for_call(tx: sqlite3.Connection, turn_id: TurnId, call_id: str) -> Approval | None:
    row = tx.execute("SELECT * FROM approvals WHERE turn_id = ? AND call_id = ?", (turn_id, call_id)).fetchone()
    return None if row is None else rows.approval(row)


def _the(tx: sqlite3.Connection, approval_id: ApprovalId) -> Approval:
    row = tx.execute("SELECT * FROM approvals WHERE id = ?", (approval_id,)).fetchone()
    if row is None:
        raise NotFound(f"there is no question {approval_id}")
    return rows.approval(row)
