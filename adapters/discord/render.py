"""The renderer of Discord: messages of 2,000 characters in Discord's markdown, buttons below, one file a message."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from adapters.discord.custom import custom_id
from adapters.discord.markup import draw, escape
from adapters.errors import Rejected
from adapters.events import Attachment, Block, Button, RenderedChunk
from adapters.limits import Limits, length_in
from adapters.render import Draft, attachment_from_dict, attachment_to_dict, choices, drafts, to_json

if TYPE_CHECKING:
    from adapters.ports import Renderer

LIMITS = Limits(
    text=2000,
    # The API counts code points (a developer of Discord in discord/discord-api-docs#1315); UTF-16 units are
    # never fewer, and also hold for servers that count like their clients.
    unit="utf16",
    edit_every=1.5,
    chat_every=1.0,  # five in five seconds for a channel
    chat_burst=5,
    account_every=1 / 45,  # fifty requests a second for an account, less a reserve for reading
    account_burst=45,
)
BUTTONS_IN_ROW = 5
ROWS = 5
LABEL = 80
"""Characters of a button's label."""


class DiscordRenderer:
    """Implements `adapters.ports.Renderer`. A payload is read by `read_chunk`."""

    def __init__(self, *, link_previews: bool = False) -> None:
        self._draw = partial(draw, link_previews=link_previews)

    @property
    def limits(self) -> Limits:
        """2,000 characters a message; five calls in five seconds for a channel."""
        return LIMITS

    def render(self, blocks: Sequence[Block]) -> list[RenderedChunk]:
        """One chunk a message."""
        return [_chunk(draft) for draft in drafts(blocks, LIMITS, self._draw, length_in(LIMITS.unit))]


def _chunk(draft: Draft[str]) -> RenderedChunk:
    data: dict[str, Any] = {"content": draft.rendered or ""}
    if draft.media is not None:
        data["file"] = attachment_to_dict(draft.media)
    rows, rest = button_rows(draft.buttons)
    if rest:  # what cannot be a button can still be read
        more = f"{data['content']}\n\n{escape(choices(rest))}".strip()
        if length_in(LIMITS.unit)(more) <= (LIMITS.text or 0):
            data["content"] = more
    if rows:
        data["components"] = rows
        data["content"] = data["content"] or escape(draft.plain)
    if data["content"].strip() or draft.media is not None:
        return RenderedChunk(payload=to_json(data), plain=draft.plain)
    return RenderedChunk(payload=to_json({"content": escape(draft.plain)}), plain=draft.plain)


def button_rows(buttons: Sequence[Button]) -> tuple[list[dict[str, Any]], list[Button]]:
    """The action rows, and the buttons that do not fit (too many, or an id longer than 100 characters)."""
    made: list[dict[str, Any]] = []
    rest: list[Button] = []
    for button in buttons:
        identity = custom_id(button.id, button.value)
        if identity is None or len(made) >= BUTTONS_IN_ROW * ROWS:
            rest.append(button)
            continue
        label = " ".join(button.label.split()) or button.value or "…"
        if len(label) > LABEL:
            label = f"{label[: LABEL - 1]}…"
        made.append({"type": 2, "style": 2, "label": label, "custom_id": identity})
    rows = [made[at : at + BUTTONS_IN_ROW] for at in range(0, len(made), BUTTONS_IN_ROW)]
    return [{"type": 1, "components": row} for row in rows], rest


def read_chunk(chunk: RenderedChunk) -> tuple[str, list[dict[str, Any]], Attachment | None]:
    """Content, components and file of a chunk. Raises `Rejected` for a payload that is not ours."""
    if not chunk.payload:
        return chunk.plain, [], None
    try:
        data = json.loads(chunk.payload)
        file = data.get("file")
        media = None if file is None else attachment_from_dict(file)
        return str(data["content"]), list(data.get("components", ())), media
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Rejected(f"the stored chunk cannot be read: {type(error).__name__}") from error


if TYPE_CHECKING:
    _: Renderer = DiscordRenderer()
