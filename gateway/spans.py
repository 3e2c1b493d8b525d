"""Spans of a message's way: accept, dispatch, turn, model call, tool call, delivery.

This is only the socket: nothing is recorded unless `gateway.telemetry` is plugged in. A span carries ids, names and
figures, never what people or the model say.
"""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

Id = str | int | float | bool


class Spans(Protocol):
    """Takes spans. Every method is cheap, never blocks and never raises; for the event loop's thread.

    A span that others belong to has a name of its own in this process (`me`: "event:12", "turn:t_1"); one whose
    parent is not known (any more) begins a trace. Times are UTC.
    """

    def done(
        self,
        name: str,
        *,
        began: datetime,
        seconds: float,
        me: str = "",
        parent: str = "",
        failed: str = "",
        **ids: Id,
    ) -> None:
        """Something that has ended; `failed` is the kind of failure, "" where it went well."""
        ...

    def begin(self, name: str, me: str, *, parent: str = "", **ids: Id) -> None:
        """Something begins now, that others will belong to."""
        ...

    def end(self, me: str, *, failed: str = "", **ids: Id) -> None:
        """It has ended now. What was never begun is ignored."""
        ...


class NoSpans:
    """Takes none."""

    def done(
        self,
        name: str,
        *,
        began: datetime,
        seconds: float,
        me: str = "",
        parent: str = "",
        failed: str = "",
        **ids: Id,
    ) -> None:
        """Nothing."""

    def begin(self, name: str, me: str, *, parent: str = "", **ids: Id) -> None:
        """Nothing."""

    def end(self, me: str, *, failed: str = "", **ids: Id) -> None:
        """Nothing."""
