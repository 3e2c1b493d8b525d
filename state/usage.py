"""What model calls have cost."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from state.codec import from_micros
from state.ids import SessionId, TurnId
from state.records import NewUsage, PrefixBreak, UsageTotal
from state.repository import Repository

_SUMS = (
    "SELECT count(*), coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0), coalesce(sum(cached_tokens), 0),"
    " coalesce(sum(request_bytes), 0), coalesce(sum(prefix_bytes), 0), coalesce(sum(seconds), 0.0) FROM usage WHERE "
)


class Usage(Repository):
    """One row a model call."""

    async def add(self, session_id: SessionId, turn_id: TurnId | None, used: NewUsage) -> None:
        """Record one call."""
        now = self._now()

        def run(tx: sqlite3.Connection) -> None:
            tx.execute(
                "INSERT INTO usage (session_id, turn_id, model, input_tokens, output_tokens, cached_tokens,"
                " request_bytes, prefix_bytes, break_reason, seconds, created_at)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    session_id,
                    turn_id,
                    used.model,
                    used.input_tokens,
                    used.output_tokens,
                    used.cached_tokens,
                    used.request_bytes,
                    used.prefix_bytes,
                    used.break_reason,
                    used.seconds,
                    now,
                ),
            )

        await self._db.write(run)

    async def of_session(self, session_id: SessionId) -> UsageTotal:
        """The sums of a session; zeros where it made no call."""
        return await self._sum("session_id = ?", (session_id,))

    async def breaks(self, session_id: SessionId, limit: int = 10) -> list[PrefixBreak]:
        """The latest calls of a session that did not begin with the whole one before, newest first."""
        query = (
            "SELECT model, prefix_bytes, request_bytes, cached_tokens, break_reason, created_at FROM usage"
            " WHERE session_id = ? AND break_reason IS NOT NULL ORDER BY id DESC LIMIT ?"
        )

        def run(tx: sqlite3.Connection) -> list[PrefixBreak]:
            return [
                PrefixBreak(
                    model=row["model"],
                    prefix_bytes=row["prefix_bytes"],
                    request_bytes=row["request_bytes"],
                    cached_tokens=row["cached_tokens"],
                    reason=row["break_reason"],
                    created_at=from_micros(row["created_at"]),
                )
                for row in tx.execute(query, (session_id, limit))
            ]

        return await self._db.read(run)

    async def of_turn(self, turn_id: TurnId) -> UsageTotal:
        """The sums of a turn."""
        return await self._sum("turn_id = ?", (turn_id,))

    async def total(self) -> UsageTotal:
        """The sums of everything."""
        return await self._sum("1", ())

    async def _sum(self, where: str, values: Sequence[object]) -> UsageTotal:
        def run(tx: sqlite3.Connection) -> UsageTotal:
            calls, given, made, cached, request, prefix, seconds = tx.execute(_SUMS + where, values).fetchone()
            return UsageTotal(
                calls=calls,
                input_tokens=given,
                output_tokens=made,
                cached_tokens=cached,
                request_bytes=request,
                prefix_bytes=prefix,
                seconds=seconds,
            )

        return await self._db.read(run)
