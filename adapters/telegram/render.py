"""The renderer of Telegram, and the payload that it writes and `send` reads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from adapters.errors import Rejected
from adapters.events import Attachment, Block, Button, RenderedChunk
from adapters.limits import Limits
from adapters.render import Draft, attachment_from_dict, attachment_to_dict, choices, drafts, storable, to_json
from adapters.telegram.buttons import LABEL, encode
from adapters.telegram.markup import TEXT, Drawn, draw, draw_plain, escaped, length, units

if TYPE_CHECKING:
    from adapters.ports import Renderer

LIMITS = Limits(
    text=TEXT,
    unit="utf16",
    edit_every=1.5,
    room_edit_every=4.0,
    chat_every=1.0,
    chat_burst=5,
    account_every=1 / 25,
    account_burst=25,
)
"""core.telegram.org/bots/faq#my-bot-is-hitting-limits-how-do-i-avoid-this: about one message a second in a
chat, short bursts are let through, about 30 a second altogether, and 20 a minute in a group."""
MOST_BUTTONS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One platform message. `html` is None where `text` is to be sent without markup."""

    text: str
    html: bool
    buttons: tuple[tuple[str, str], ...] = ()
    media: Attachment | None = None


class TelegramRenderer:
    """HTML within 4,096 UTF-16 units. Implements `adapters.ports.Renderer`."""

    @property
    def limits(self) -> Limits:
        """Those of a text message."""
        return LIMITS

    def render(self, blocks: Sequence[Block]) -> list[RenderedChunk]:
        """One chunk a message; the payload is read by `read_said`."""
        return [_chunk(draft) for draft in drafts(blocks, LIMITS, draw, length)]


def _chunk(draft: Draft[Drawn]) -> RenderedChunk:
    pressable: list[list[str]] = []
    typed: list[Button] = []
    for button in draft.buttons:
        data = encode(button)
        label = storable(button.label).strip()[:LABEL]
        if data is None or not label or len(pressable) >= MOST_BUTTONS:
            typed.append(button)
        else:
            pressable.append([label, data])
    if draft.rendered is not None:
        html = draft.rendered
    elif draft.media is not None:
        html = Drawn("", 0, 0)
    else:
        html = draw_plain(draft.plain)
    data_: dict[str, Any] = {"text": html.html, "parse_mode": "HTML"}
    if typed and draft.media is None:
        words = "\n\n" + storable(choices(typed))
        if html.size + units(words) <= TEXT:
            data_["text"] += escaped(words)
    if pressable:
        data_["buttons"] = pressable
    if draft.media is not None:
        data_["media"] = attachment_to_dict(draft.media)
    return RenderedChunk(payload=to_json(data_), plain=draft.plain)


def read_said(chunk: RenderedChunk) -> Said:
    """What `render` wrote. Raises `Rejected` for a payload that it did not write."""
    if not chunk.payload:
        return Said(text=chunk.plain, html=False)
    try:
        data = json.loads(chunk.payload)
        media = data.get("media")
        return Said(
            text=data["text"],
            html=data["parse_mode"] == "HTML",
            buttons=tuple((str(label), str(value)) for label, value in data.get("buttons", ())),
            media=None if media is None else attachment_from_dict(media),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Rejected(f"the stored chunk cannot be read: {error}") from error


if TYPE_CHECKING:
    _: Renderer = TelegramRenderer()
