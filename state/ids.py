"""Opaque ids. Only the module that makes an id knows how it is built."""

from __future__ import annotations

import secrets
from typing import NewType

SessionKey = NewType("SessionKey", str)
SessionId = NewType("SessionId", str)
TurnId = NewType("TurnId", str)
EventId = NewType("EventId", int)
RowId = NewType("RowId", int)
DeliveryId = NewType("DeliveryId", str)
ChunkId = NewType("ChunkId", str)
ApprovalId = NewType("ApprovalId", str)
HandoffId = NewType("HandoffId", str)
Owner = NewType("Owner", str)
"""A process, as `state.owners` describes it: it can be told whether it still lives."""


def _new(prefix: str) -> str:
    return f"{prefix}_{secrets.token_hex(10)}"


def new_session_id() -> SessionId:
    """A fresh session id."""
    return SessionId(_new("s"))


def new_turn_id() -> TurnId:
    """A fresh turn id."""
    return TurnId(_new("t"))


def new_delivery_id() -> DeliveryId:
    """A fresh delivery id."""
    return DeliveryId(_new("d"))


def new_approval_id() -> ApprovalId:
    """A fresh approval id."""
    return ApprovalId(_new("a"))


def new_handoff_id() -> HandoffId:
    """A fresh hand-off id."""
    return HandoffId(_new("h"))
