"""From a person's message to the row that is stored: the words, and the exact form the model is sent."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agent_core.models.ports import Image, Model
from agent_core.ports import Input
from agent_core.translate import pictures
from state.records import NewMessage, Role, TranscriptMessage

IMAGE_BYTES = 3_750_000
"""Of one picture, decoded: what the strictest provider takes."""
SESSION_IMAGES = 12
SESSION_IMAGE_BYTES = 12_000_000
"""Of all pictures of a session. They are sent again with every request, so more is told, not sent."""
MIMES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})

_HEADER = re.compile(r"(?m)^(?=[ \t]*\[message from )")


@dataclass(slots=True)
class Album:
    """What the pictures of a session have used up. `takes` is false for a model without eyes."""

    takes: bool
    count: int = 0
    size: int = 0

    @classmethod
    def of(cls, rows: Iterable[TranscriptMessage], *, takes: bool) -> Album:
        """Counted from the rows, so that every process comes to the same decisions."""
        album = cls(takes)
        for row in rows:
            if row.role == "user" and row.wire is not None and (number := pictures(row.wire)):
                album.count += number
                album.size += len(row.wire) * 3 // 4
        return album

    def admit(self, image: Image) -> str | None:
        """Take the picture in, or say why not."""
        size = len(image.data) * 3 // 4
        if not self.takes:
            return "this model takes no pictures"
        if image.mime not in MIMES:
            return "not a kind of picture that models take"
        if size > IMAGE_BYTES:
            return f"larger than {IMAGE_BYTES / 1e6:g} MB"
        if self.count >= SESSION_IMAGES or self.size + size > SESSION_IMAGE_BYTES:
            return "this conversation holds as many pictures as it can; /new starts another"
        self.count += 1
        self.size += size
        return None


def user_row(entry: Input, model: Model, album: Album, background: str = "") -> NewMessage:
    """The row of a message. `content` is the person's own words; who said it, the notes, the pictures and the
    `background` (`agent_core.recall`) are in `wire` only. Decided once: what is stored is what every later request
    sends (B76)."""
    notes: list[str] = []
    images: list[Image] = []
    for image in entry.images:
        why = album.admit(image)
        if why is None:
            images.append(image)
        else:
            notes.append(f"[image not shown: {why}]")
    head = f"[message from {entry.author}]" if entry.author is not None else ""
    # Nobody's words may pose as the beginning of somebody else's message.
    words = _HEADER.sub("> ", entry.text) if entry.author is not None else entry.text
    parts = (background, head, entry.note.strip("\n"), *notes, words)
    text = "\n".join(part for part in parts if part.strip())
    return NewMessage(
        role="user",
        content=entry.text,
        wire=model.wire_user(text if text or images else "(empty message)", images),
        platform_message_id=entry.platform_message_id,
        author=entry.author,
        audience=entry.audience,
    )


def history_rows(history: Sequence[tuple[Role, str]], model: Model, audience: str | None) -> list[NewMessage]:
    """The earlier messages of a stateless client. Empty ones are left out: strict providers refuse them."""
    rows = []
    for role, text in history:
        if text.strip() and role in ("user", "assistant"):
            wire = model.wire_user(text) if role == "user" else model.wire_assistant(text)
            rows.append(NewMessage(role=role, content=text, wire=wire, audience=audience))
    return rows


def ended_row(told: str, model: Model, audience: str | None, finish_reason: str) -> NewMessage:
    """The short row that stands where an answer should be: roles alternate, and the model sees that there
    was none instead of taking something half-said for its own words."""
    note = f"[No answer to this message. {' '.join(told.split())[:300]}]"
    return NewMessage(
        role="assistant", content=note, wire=model.wire_assistant(note), finish_reason=finish_reason, audience=audience
    )
