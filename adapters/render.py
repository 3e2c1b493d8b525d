"""Parts that renderers are made of: the blocks of a delivery as the messages of a platform.

A platform brings `draw` (markdown in, its own markup out) and the length of what it drew; the rest is
the same everywhere: what is adjacent becomes one text, it is split, buttons go below the last part.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from adapters.errors import Rejected
from adapters.events import Attachment, AttachmentKind, Block, Button, Buttons, Markdown, Media, RenderedChunk
from adapters.limits import Limits, length_in
from adapters.markdown import plain_text
from adapters.split import split_rendered

T = TypeVar("T")

_LONE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft(Generic[T]):
    """One platform message: a text (None: a file or only buttons), and what goes with it.

    `markdown` is the neutral text of this message, `plain` the same without marks, within the limit.
    """

    rendered: T | None
    markdown: str
    plain: str
    buttons: tuple[Button, ...] = ()
    media: Attachment | None = None


def drafts(
    blocks: Sequence[Block], limits: Limits, draw: Callable[[str], T], length: Callable[[T], int]
) -> list[Draft[T]]:
    """The messages for `blocks`, in order, each within `limits`. Blank text gives none.

    A row of buttons belongs to the text before it; without one it is a message with the labels as its
    words. Pure as long as `draw` and `length` are; raises what they raise.
    """
    found: list[Draft[T]] = []
    texts: list[str] = []
    measure = length_in(limits.unit)

    def flush() -> None:
        for fitted in split_rendered(_joined(texts), limits, draw, length):
            text = fitted.piece.text
            plain = plain_text(text)
            if not plain.strip() or (limits.text is not None and measure(plain) > limits.text):
                plain = text
            found.append(Draft(rendered=fitted.rendered, markdown=text, plain=plain))
        texts.clear()

    for block in blocks:
        match block:
            case Markdown(text=text):
                if text.strip():
                    texts.append(storable(text))
            case Media(attachment=attachment):
                flush()
                plain = _within(storable(f"[file: {attachment.name}]"), limits)
                found.append(Draft(rendered=None, markdown="", plain=plain, media=attachment))
            case Buttons(buttons=buttons) if buttons:
                flush()
                found.append(_with_buttons(found.pop() if found else None, buttons, limits))
            case _:
                pass
    flush()
    return found


def _with_buttons(last: Draft[T] | None, buttons: tuple[Button, ...], limits: Limits) -> Draft[T]:
    if last is None:
        return Draft(rendered=None, markdown="", plain=_within(storable(choices(buttons)), limits), buttons=buttons)
    plain = f"{last.plain}\n\n{storable(choices(buttons))}"
    if limits.text is not None and length_in(limits.unit)(plain) > limits.text:
        plain = last.plain
    return Draft(
        rendered=last.rendered,
        markdown=last.markdown,
        plain=plain,
        buttons=(*last.buttons, *buttons),
        media=last.media,
    )


def choices(buttons: Sequence[Button]) -> str:
    """The choices as lines of text, for where there are no buttons."""
    return "\n".join(f"{number}. {button.label}" for number, button in enumerate(buttons, start=1))


def _within(text: str, limits: Limits) -> str:
    if limits.text is None:
        return text
    from adapters.split.cuts import within  # noqa: PLC0415 - only for names that are longer than a message

    return text[: within(text, 0, len(text), limits.text, limits.unit)]


def _joined(texts: Sequence[str]) -> str:
    """Adjacent texts as one. A fence that one leaves open must not swallow the next."""
    if len(texts) < 2:
        return texts[0] if texts else ""
    closed = [split_rendered(text, _ENDLESS, str, len)[-1].piece.text for text in texts[:-1]]
    return "\n\n".join([*closed, texts[-1]])


_ENDLESS = Limits(text=1 << 40)
"""Splitting at no limit closes what is open."""


def storable(text: str) -> str:
    """`text` with lone surrogates, which can be neither stored nor sent, as U+FFFD."""
    return text if text.isascii() else _LONE.sub("\ufffd", text)


def to_json(data: dict[str, Any]) -> str:
    """Compact, deterministic, storable JSON for a payload."""
    return storable(json.dumps(data, ensure_ascii=False, separators=(",", ":")))


def attachment_to_dict(item: Attachment) -> dict[str, Any]:
    """A file as a payload keeps it."""
    data = {"kind": item.kind, "name": item.name, "mime": item.mime, "size": item.size, "path": item.path}
    return {name: value for name, value in data.items() if value is not None}


def attachment_from_dict(data: dict[str, Any]) -> Attachment:
    """The reverse of `attachment_to_dict`."""
    kind: AttachmentKind = data["kind"]
    return Attachment(
        kind=kind, name=data["name"], mime=data["mime"], size=data.get("size"), path=data.get("path")
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A chunk as the `send` of a platform without markup reads it."""

    text: str
    buttons: tuple[Button, ...] = ()
    media: Attachment | None = None


class PlainRenderer:
    """Renders for platforms whose messages are neutral markdown as it is. Implements `adapters.ports.Renderer`."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    @property
    def limits(self) -> Limits:
        """The limits that it was made with."""
        return self._limits

    def render(self, blocks: Sequence[Block]) -> list[RenderedChunk]:
        """One chunk a message; the payload is read by `read_said`."""
        found = []
        for draft in drafts(blocks, self._limits, str, length_in(self._limits.unit)):
            data: dict[str, Any] = {"text": draft.markdown}
            if draft.buttons:
                data["buttons"] = [[one.id, one.label, one.value] for one in draft.buttons]
            if draft.media is not None:
                data["media"] = attachment_to_dict(draft.media)
            found.append(RenderedChunk(payload=to_json(data), plain=draft.plain))
        return found


def read_said(chunk: RenderedChunk) -> Said:
    """What `PlainRenderer` wrote. Raises `Rejected` for a payload that it did not write."""
    if not chunk.payload:
        return Said(text=chunk.plain)
    try:
        data = json.loads(chunk.payload)
        media = data.get("media")
        return Said(
            text=data["text"],
            buttons=tuple(Button(id=one[0], label=one[1], value=one[2]) for one in data.get("buttons", ())),
            media=None if media is None else attachment_from_dict(media),
        )
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise Rejected(f"the stored chunk cannot be read: {error}") from error
