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
from gateway.audience import label_of
from gateway.workers import Item

log = structlog.get_logger("gateway.inputs")

IMAGE_BYTES = 5_000_000
IMAGES = 8
DOCUMENT_CHARS = 20_000
"""Characters of text files that one message shows to the model."""
DOCUMENT_BYTES = 1_000_000
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
        author = one_line(event.reply_to.author, NAME)
        whose = "your message" if event.reply_to.is_ours else f"a message of {author}" if author else "a message"
        lines.append(f'[in reply to {whose}: "{one_line(event.reply_to.text, QUOTE)}"]')
    for item in event.attachments:
        if item.kind != "image" or item.path is None or item.note is not None:
            lines.append(f"[{item.kind}: {one_line(item.name, NAME)} ({_about(item)})]")
        elif item.shelf is not None:
            lines.append(f"[the picture {one_line(item.name, NAME)} is also the file {item.shelf}]")
    return "\n".join(lines)


def _about(item: Attachment) -> str:
    facts = [one_line(item.mime, 60)]
    if item.size is not None:
        facts.append(f"{item.size} bytes")
    if item.kind in ("voice", "audio") and item.path is not None:
        facts.append("what is said in it is not known: it was not transcribed")
    if item.shelf is not None:
        facts.append(f"a copy is {item.shelf} in the working folder")
    if item.note:
        facts.append(one_line(item.note, 200))
    return "; ".join(facts)


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
    notes += await _documents([one for item in items for one in item.event.attachments])
    # the parts of a paste that a client has cut are put together exactly as they were
    cut = items[0].ready_at > 0.0 and items[0].mode != "collect" and items[0].event.group_id is None
    return Input(
        event_ids=tuple(item.event_id for item in items),
        text=("" if cut else "\n\n").join(item.text for item in items if item.text),
        note="\n".join(notes),
        images=tuple(images),
        author=one_line(first.sender.name, NAME) or first.sender.id if shared else None,
        audience=label_of(first),
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


async def _documents(files: Sequence[Attachment]) -> list[str]:
    """The text of small text files, every line marked, so that none can pose as ours."""
    found: list[str] = []
    room = DOCUMENT_CHARS
    for one in files:
        if one.kind != "document" or one.path is None or one.note is not None or not _is_text(one):
            continue
        text = await asyncio.to_thread(_text_of, Path(one.path))
        if text is None or not text.strip():
            continue
        kept = text[:room]
        room -= len(kept)
        cut = f"; the first {len(kept)} of {len(text)} characters" if len(kept) < len(text) else ""
        found.append(f"[the text of {one_line(one.name, NAME)}{cut}:]")
        found.append("\n".join(f"| {line}" for line in scrub(kept).splitlines()) if kept else "| …")
    return found


def _is_text(item: Attachment) -> bool:
    mime = item.mime.partition(";")[0].strip().lower()
    return mime.startswith("text/") or mime.endswith(("json", "xml", "yaml", "toml", "javascript", "x-sh"))


def _text_of(path: Path) -> str | None:
    """The file as text; None where it is none, or is gone."""
    try:
        with path.open("rb") as file:
            return file.read(DOCUMENT_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if error.reason == "unexpected end of data":  # the bound has cut a character
            return error.object[: error.start].decode("utf-8-sig")
        return None
    except OSError as error:
        log.warning("document.unreadable", name=path.name, error=str(error))
        return None
