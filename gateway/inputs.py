"""From events to the input of a turn: the person's own words, and beside them what the model must know.

Everything that comes from a platform beside the words (names, quotes, titles) is neutralised: one line,
bounded, without control characters, so that nothing can pose as another speaker or as a heading.
"""

from __future__ import annotations

import asyncio
import base64
import unicodedata
from collections.abc import Sequence
from pathlib import Path

import structlog

from adapters.events import Attachment, MessageEvent
from agent_core.models.ports import Image
from agent_core.ports import Input
from gateway.keys import person_of
from gateway.workers import Item

log = structlog.get_logger("gateway.inputs")

IMAGE_BYTES = 5_000_000
IMAGES = 8
QUOTE = 1_000
NAME = 80


def one_line(text: str, bound: int) -> str:
    """`text` as one inert line of at most `bound` characters."""
    kept = "".join(" " if ch.isspace() else ch for ch in text if ch.isspace() or unicodedata.category(ch)[0] != "C")
    flat = " ".join(kept.split()).replace("[", "(").replace("]", ")").lstrip("#> ")
    return flat if len(flat) <= bound else flat[: bound - 1] + "…"


def scrub(text: str) -> str:
    """The text without what no UTF-8 text can hold (lone surrogates) and without NUL."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode("utf-8")


def note_of(event: MessageEvent) -> str:
    """What the model is told beside the words, one bracketed line a fact."""
    lines: list[str] = []
    if event.forwarded_from is not None:
        lines.append(f"[forwarded, the words of: {one_line(event.forwarded_from, NAME)}]")
    lines += [f"[{one_line(fact, QUOTE)}]" for fact in event.facts]
    if event.reply_to is not None and event.reply_to.text:
        whose = "your message" if event.reply_to.is_ours else "a message"
        lines.append(f'[in reply to {whose}: "{one_line(event.reply_to.text, QUOTE)}"]')
    for item in event.attachments:
        if item.kind != "image" or item.path is None or item.note is not None:
            why = f"; {one_line(item.note, 200)}" if item.note else ""
            size = "" if item.size is None else f", {item.size} bytes"
            lines.append(f"[{item.kind}: {one_line(item.name, NAME)} ({one_line(item.mime, 60)}{size}{why})]")
    return "\n".join(lines)


async def build_input(items: Sequence[Item], *, shared: bool, aside: Sequence[str] = ()) -> Input:
    """One input of what is one message. `aside` are notes on what came before it (`gateway.heard`)."""
    first = items[0].event
    notes = list(aside)
    notes += [note for item in items if (note := note_of(item.event))]
    images: list[Image] = []
    for attachment in (a for item in items for a in item.event.attachments if a.kind == "image" and a.path):
        loaded = await _load(attachment) if len(images) < IMAGES else f"only {IMAGES} pictures a message are shown"
        if isinstance(loaded, Image):
            images.append(loaded)
        else:
            notes.append(f"[image not shown: {one_line(attachment.name, NAME)}; {loaded}]")
    # the parts of a paste that a client has cut are put together exactly as they were
    cut = items[0].ready_at > 0.0 and items[0].mode != "collect" and items[0].event.group_id is None
    return Input(
        event_ids=tuple(item.event_id for item in items),
        text=("" if cut else "\n\n").join(item.text for item in items if item.text),
        note="\n".join(notes),
        images=tuple(images),
        author=one_line(first.sender.name, NAME) or first.sender.id if shared else None,
        audience=None if shared else person_of(first.address.platform, first.sender.id),
        platform_message_id=first.message_id,
    )


async def _load(attachment: Attachment) -> Image | str:
    """The picture, or why it cannot be shown."""
    assert attachment.path is not None
    path = Path(attachment.path)

    def read() -> bytes | None:
        with path.open("rb") as file:
            data = file.read(IMAGE_BYTES + 1)
        return data if len(data) <= IMAGE_BYTES else None

    try:
        data = await asyncio.to_thread(read)
    except OSError as error:
        log.warning("image.unreadable", name=attachment.name, error=str(error))
        return "the file is gone"
    if data is None:
        return f"larger than {IMAGE_BYTES // 1_000_000} MB"
    return Image(mime=attachment.mime, data=base64.b64encode(data).decode("ascii"))
