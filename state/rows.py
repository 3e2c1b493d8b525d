"""From rows to records. One function a record, next to each other, so that no reader differs."""

from __future__ import annotations

import json
import sqlite3

from state.codec import from_micros, load_calls, maybe_micros, unpack
from state.records import (
    Approval,
    ApprovalState,
    BindingState,
    Chunk,
    ChunkState,
    DeliveryState,
    Fate,
    Handoff,
    HandoffState,
    InboxEvent,
    Session,
    SessionBinding,
    StoredDelivery,
    ToolProcess,
    ToolStatus,
    TranscriptMessage,
    Turn,
    TurnLease,
    TurnState,
)


def event(row: sqlite3.Row) -> InboxEvent:
    """A row of `inbox`."""
    return InboxEvent(
        id=row["id"],
        dedup_id=row["dedup_id"],
        platform=row["platform"],
        account=row["account"],
        kind=row["kind"],
        key=row["key"],
        message_id=row["message_id"],
        sender_id=row["sender_id"],
        payload=row["payload"],
        received_at=from_micros(row["received_at"]),
        fate=Fate(row["fate"]),
        detail=row["detail"],
        turn_id=row["turn_id"],
        owner=row["owner"],
        attempts=row["attempts"],
        settled_at=maybe_micros(row["settled_at"]),
    )


def binding(row: sqlite3.Row) -> SessionBinding:
    """A row of `bindings`."""
    return SessionBinding(
        key=row["key"],
        session_id=row["session_id"],
        state=BindingState(row["state"]),
        claim_owner=row["claim_owner"],
        address_json=row["address_json"],
        moved_to=row["moved_to"],
        settings_json=row["settings_json"],
        version=row["version"],
        updated_at=from_micros(row["updated_at"]),
    )


def session(row: sqlite3.Row) -> Session:
    """A row of `sessions`."""
    return Session(
        id=row["id"],
        person=row["person"],
        title=row["title"],
        model=row["model"],
        prompt=unpack(row["prompt"]),
        prompt_reason=row["prompt_reason"],
        parent_id=row["parent_id"],
        parent_from=row["parent_from"],
        parent_upto=row["parent_upto"],
        reason=row["reason"],
        created_at=from_micros(row["created_at"]),
        updated_at=from_micros(row["updated_at"]),
        ended_at=maybe_micros(row["ended_at"]),
    )


def lease(row: sqlite3.Row) -> TurnLease:
    """A row of `leases`."""
    return TurnLease(
        session_id=row["session_id"],
        turn_id=row["turn_id"],
        owner=row["owner"],
        fence=row["fence"],
        acquired_at=row["acquired_at"],
        expires_at=row["expires_at"],
    )


def turn(row: sqlite3.Row) -> Turn:
    """A row of `turns`."""
    return Turn(
        id=row["id"],
        session_id=row["session_id"],
        key=row["key"],
        state=TurnState(row["state"]),
        fence=row["fence"],
        attempts=row["attempts"],
        detail=row["detail"],
        started_at=from_micros(row["started_at"]),
        ended_at=maybe_micros(row["ended_at"]),
    )


def message(row: sqlite3.Row) -> TranscriptMessage:
    """A row of `transcript`. Raises StoreCorrupt where a packed text does not fit its row."""
    return TranscriptMessage(
        id=row["id"],
        session_id=row["session_id"],
        turn_id=row["turn_id"],
        fence=row["fence"],
        role=row["role"],
        content=row["content"],
        wire=unpack(row["wire"], row["reasoning"], row["tool_calls"], row["content"]),
        tool_calls=load_calls(row["tool_calls"]),
        tool_call_id=row["tool_call_id"],
        tool_name=row["tool_name"],
        tool_status=None if row["tool_status"] is None else ToolStatus(row["tool_status"]),
        reasoning=row["reasoning"],
        finish_reason=row["finish_reason"],
        platform_message_id=row["platform_message_id"],
        author=row["author"],
        audience=row["audience"],
        active=bool(row["active"]),
        created_at=from_micros(row["created_at"]),
    )


def chunk(row: sqlite3.Row) -> Chunk:
    """A row of `chunks`."""
    plain = unpack(row["plain"]) or ""
    return Chunk(
        id=row["id"],
        delivery_id=row["delivery_id"],
        number=row["number"],
        payload=unpack(row["payload"], plain) or "",
        plain=plain,
        state=ChunkState(row["state"]),
        edits=row["edits"],
        message_ids=tuple(json.loads(row["message_ids"])),
        tries=row["tries"],
        error=row["error"],
    )


def delivery(row: sqlite3.Row, chunks: list[Chunk]) -> StoredDelivery:
    """A row of `outbox` with its chunks, which are in order."""
    return StoredDelivery(
        id=row["id"],
        seq=row["seq"],
        platform=row["platform"],
        account=row["account"],
        chat=row["chat"],
        address_json=row["address_json"],
        kind=row["kind"],
        state=DeliveryState(row["state"]),
        session_id=row["session_id"],
        turn_id=row["turn_id"],
        reply_to=row["reply_to"],
        blocks=unpack(row["blocks"]) or "",
        chunks=tuple(chunks),
        created_at=from_micros(row["created_at"]),
        not_before=maybe_micros(row["not_before"]),
    )


def approval(row: sqlite3.Row) -> Approval:
    """A row of `approvals`."""
    return Approval(
        id=row["id"],
        kind=row["kind"],
        session_id=row["session_id"],
        turn_id=row["turn_id"],
        call_id=row["call_id"],
        asked=row["asked"],
        question=row["question"],
        state=ApprovalState(row["state"]),
        answer=row["answer"],
        answered_by=row["answered_by"],
        boot_id=row["boot_id"],
        expires_at=row["expires_at"],
        created_at=from_micros(row["created_at"]),
    )


def handoff(row: sqlite3.Row) -> Handoff:
    """A row of `handoffs`."""
    return Handoff(
        id=row["id"],
        session_id=row["session_id"],
        source_key=row["source_key"],
        target=row["target"],
        asked_by=row["asked_by"],
        state=HandoffState(row["state"]),
        token=row["token"],
        owner=row["owner"],
        thread_id=row["thread_id"],
        reason=row["reason"],
        created_at=from_micros(row["created_at"]),
        ended_at=maybe_micros(row["ended_at"]),
    )


def process(row: sqlite3.Row) -> ToolProcess:
    """A row of `processes`."""
    return ToolProcess(
        pgid=row["pgid"],
        started=row["started"],
        boot_id=row["boot_id"],
        turn_id=row["turn_id"],
        call_id=row["call_id"],
        owner=row["owner"],
    )
