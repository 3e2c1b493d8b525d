"""What a message of Slack holds beside its text: blocks, shared messages, files. Pure."""

from __future__ import annotations

import json
import mimetypes
from collections.abc import Iterator, Mapping
from typing import Any

from adapters.events import Attachment, AttachmentKind
from adapters.fetch import too_large

DEPTH = 12
"""Levels of nested blocks that are read."""
REF = 2_000

Data = Mapping[str, Any]


def words_of(message: Data) -> str:
    """The words of a message whose text is empty: of its blocks, else of its attachments."""
    blocks = "\n".join(line for block in _items(message.get("blocks")) if (line := _words(block, 0).strip()))
    if blocks:
        return blocks
    found = []
    for one in _items(message.get("attachments")):
        if not _is_share(one):
            parts = [_str(one.get(key)) for key in ("pretext", "title", "text")]
            found.append("\n".join(part for part in parts if part) or _str(one.get("fallback")))
    return "\n\n".join(part for part in found if part)


def _words(block: Any, depth: int) -> str:
    """The words of a block: rich text, sections, headers."""
    if not isinstance(block, Mapping) or depth > DEPTH:
        return ""
    kind, text = block.get("type"), block.get("text")
    match kind:
        case "text":
            return _str(text)
        case "link":
            address = _str(block.get("url"))
            return f"{text} ({address})" if text and text != address else address
        case "user":
            return f"@{_str(block.get('user_id'))}"
        case "emoji":
            return f":{_str(block.get('name'))}:"
        case "actions" | "divider":
            return ""
        case _:
            pass
    inner = block.get("elements") or block.get("fields")
    if isinstance(text, Mapping):
        return _str(text.get("text"))
    joint = "\n" if kind in ("rich_text", "rich_text_list", "section") else ""
    return joint.join(_words(one, depth + 1) for one in _items(inner)) or _str(text)


def shared_words(message: Data) -> Iterator[tuple[str, str]]:
    """Messages of others that were shared with it: who said it, and the raw words."""
    for one in _items(message.get("attachments")):
        if not _is_share(one):
            continue
        who = _str(one.get("author_name")) or _str(one.get("author_subname")) or _str(one.get("author_id"))
        said = _str(one.get("text")) or _str(one.get("fallback"))
        if said:
            yield who or "somebody", said


def _is_share(attachment: Data) -> bool:
    return bool(attachment.get("is_share") or attachment.get("is_msg_unfurl"))


def file_list(message: Data, limit: int) -> tuple[Attachment, ...]:
    """The files of a message, none of them fetched: each with a `ref`, or with a note that says why not."""
    files = [*_items(message.get("files"))]
    for one in _items(message.get("attachments")):
        if one.get("is_share"):
            files += _items(one.get("files"))
    return tuple(_file(one, limit) for one in files)


def _file(data: Data, limit: int) -> Attachment:
    mode, file_id = _str(data.get("mode")), _str(data.get("id"))
    size = data.get("size")
    size = size if isinstance(size, int) and not isinstance(size, bool) and size >= 0 else None
    name = _str(data.get("name")) or _str(data.get("title")) or file_id or "file"
    mime = _str(data.get("mimetype")) or mimetypes.guess_type(name)[0] or "application/octet-stream"
    note = _NOTES.get(mode)
    if note is None and data.get("is_external"):
        note = _NOTES["external"]
    if note is None and size is not None and size > limit:
        note = too_large(limit)
    address = _str(data.get("url_private_download")) or _str(data.get("url_private"))
    if note is None and not file_id and not address:
        note = "Slack does not tell where it is"
    ref = json.dumps({"id": file_id, "url": address[:REF]}) if note is None else None
    return Attachment(kind=_kind(data, mime), name=name, mime=mime, size=size, note=note, ref=ref)


_NOTES = {
    "tombstone": "it was deleted",
    "hidden_by_limit": "the workspace's limit hides it",
    "external": "it lies outside of Slack, and I do not fetch it there",
}


def _kind(data: Data, mime: str) -> AttachmentKind:
    if data.get("subtype") == "slack_audio":
        return "voice"
    if data.get("subtype") == "slack_video":
        return "video"
    head = mime.partition("/")[0]
    if head == "image" and "svg" not in mime:
        return "image"
    return "audio" if head == "audio" else "video" if head == "video" else "document"


def _items(value: Any) -> list[Data]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _str(value: Any) -> str:
    return value if isinstance(value, str) else ""
