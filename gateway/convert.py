"""The conversions between the chat vocabulary and the store's records, in one place.

JSON texts are compact, with fixed key order, and are read back by the same version or a newer one:
unknown keys are ignored, missing ones have their default.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from adapters.events import (
    Action,
    Attachment,
    Block,
    Button,
    Buttons,
    ChatAddress,
    EventKind,
    HistoryItem,
    Markdown,
    Media,
    MessageEvent,
    ReplyTo,
    Sender,
)
from state.ids import SessionKey
from state.records import InboxEvent, NewEvent


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def address_to_dict(address: ChatAddress) -> dict[str, Any]:
    """The address as plain data."""
    return {
        "platform": address.platform,
        "account": address.account,
        "scope": address.scope,
        "chat_id": address.chat_id,
        "thread_id": address.thread_id,
        "chat_kind": address.chat_kind,
    }


def address_from_dict(data: Mapping[str, Any]) -> ChatAddress:
    """The reverse of `address_to_dict`."""
    return ChatAddress(
        platform=data["platform"],
        account=data["account"],
        scope=data.get("scope"),
        chat_id=data["chat_id"],
        thread_id=data.get("thread_id"),
        chat_kind=data.get("chat_kind", "private"),
    )


def address_to_json(address: ChatAddress) -> str:
    """The address as JSON text."""
    return _dump(address_to_dict(address))


def address_from_json(text: str) -> ChatAddress:
    """The reverse of `address_to_json`."""
    return address_from_dict(json.loads(text))


def _attachment_to_dict(item: Attachment) -> dict[str, Any]:
    return {
        "kind": item.kind,
        "name": item.name,
        "mime": item.mime,
        "size": item.size,
        "path": item.path,
        "sha256": item.sha256,
        "note": item.note,
        "ref": item.ref,
        "shelf": item.shelf,
    }


def _attachment_from_dict(data: Mapping[str, Any]) -> Attachment:
    return Attachment(
        kind=data["kind"],
        name=data["name"],
        mime=data["mime"],
        size=data.get("size"),
        path=data.get("path"),
        sha256=data.get("sha256"),
        note=data.get("note"),
        ref=data.get("ref"),
        shelf=data.get("shelf"),
    )


def blocks_to_json(blocks: Sequence[Block]) -> str:
    """The neutral blocks as JSON text."""
    out: list[dict[str, Any]] = []
    for block in blocks:
        match block:
            case Markdown(text=text):
                out.append({"t": "md", "text": text})
            case Media(attachment=attachment):
                out.append({"t": "media", "file": _attachment_to_dict(attachment)})
            case Buttons(buttons=buttons):
                out.append({"t": "buttons", "of": [[b.id, b.label, b.value] for b in buttons]})
    return _dump(out)


def blocks_from_json(text: str) -> tuple[Block, ...]:
    """The reverse of `blocks_to_json`."""
    out: list[Block] = []
    for item in json.loads(text):
        match item["t"]:
            case "md":
                out.append(Markdown(text=item["text"]))
            case "media":
                out.append(Media(attachment=_attachment_from_dict(item["file"])))
            case "buttons":
                out.append(Buttons(buttons=tuple(Button(id=b[0], label=b[1], value=b[2]) for b in item["of"])))
            case other:
                raise ValueError(f"unknown block {other!r} in the store")
    return tuple(out)


def blocks_text(blocks: Sequence[Block]) -> str:
    """The words of the blocks, for people who ask what was said."""
    return "\n\n".join(block.text for block in blocks if isinstance(block, Markdown))


def _when(value: datetime | None) -> str | None:
    return None if value is None else value.isoformat()


def _time(value: str | None) -> datetime | None:
    return None if value is None else datetime.fromisoformat(value)


def event_to_json(event: MessageEvent) -> str:
    """The whole event as JSON text. What has its default is left out: most events are short."""
    data: dict[str, Any] = {
        "dedup_id": event.dedup_id,
        "kind": event.kind.value,
        "message_id": event.message_id,
        "address": address_to_dict(event.address),
        "sender": [event.sender.id, event.sender.name, event.sender.is_bot],
        "received_at": _when(event.received_at),
        "text": event.text,
    }
    optional: dict[str, Any] = {
        "attachments": [_attachment_to_dict(item) for item in event.attachments],
        "reply_to": None
        if event.reply_to is None
        else [event.reply_to.message_id, event.reply_to.text, event.reply_to.is_ours, event.reply_to.author],
        "forwarded_from": event.forwarded_from,
        "chat_name": event.chat_name,
        "facts": list(event.facts),
        "came": event.came,
        "mentions_us": event.mentions_us,
        "sent_at": _when(event.sent_at),
        "action": None if event.action is None else [event.action.button_id, event.action.value],
        "group_id": event.group_id,
        "history": [[item.role, item.text] for item in event.history],
        "instructions": event.instructions,
        "model": event.model,
        "platform_data": event.platform_data,
    }
    data.update({name: value for name, value in optional.items() if value})
    return _dump(data)


def event_from_json(text: str) -> MessageEvent:
    """The reverse of `event_to_json`."""
    data = json.loads(text)
    reply, action = data.get("reply_to"), data.get("action")
    received = _time(data["received_at"])
    assert received is not None
    return MessageEvent(
        dedup_id=data["dedup_id"],
        kind=EventKind(data["kind"]),
        message_id=data["message_id"],
        address=address_from_dict(data["address"]),
        sender=Sender(id=data["sender"][0], name=data["sender"][1], is_bot=data["sender"][2]),
        received_at=received,
        text=data["text"],
        attachments=tuple(_attachment_from_dict(item) for item in data.get("attachments", ())),
        reply_to=None if reply is None else _reply_from(reply),
        forwarded_from=data.get("forwarded_from"),
        chat_name=data.get("chat_name"),
        facts=tuple(data.get("facts", ())),
        came=data.get("came"),
        mentions_us=bool(data.get("mentions_us")),
        sent_at=_time(data.get("sent_at")),
        action=None if action is None else Action(button_id=action[0], value=action[1]),
        group_id=data.get("group_id"),
        history=tuple(HistoryItem(role=item[0], text=item[1]) for item in data.get("history", ())),
        instructions=data.get("instructions"),
        model=data.get("model"),
        platform_data=data.get("platform_data"),
    )


def _reply_from(data: Sequence[Any]) -> ReplyTo:
    author = data[3] if len(data) > 3 else ""  # an event of an older version has none
    return ReplyTo(message_id=data[0], text=data[1], is_ours=data[2], author=author)


def event_to_new(event: MessageEvent, key: SessionKey) -> NewEvent:
    """The event as a row to be accepted."""
    return NewEvent(
        dedup_id=event.dedup_id,
        platform=event.address.platform,
        account=event.address.account,
        kind=event.kind.value,
        key=key,
        message_id=event.message_id,
        sender_id=event.sender.id,
        payload=event_to_json(event),
        received_at=event.received_at,
    )


def event_from_row(row: InboxEvent) -> MessageEvent:
    """The event of a stored row."""
    return event_from_json(row.payload)
