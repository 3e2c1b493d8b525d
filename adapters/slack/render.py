"""Neutral blocks as messages of Slack.

The length of a text: `chat.postMessage` recommends 4,000 characters; above that Slack parts the text into several
messages (of which we would know only one), and `chat.update` refuses it with `msg_too_long`. So one limit holds for
both: 4,000, counted strictly (UTF-16 units, with the escapes). A section of a block takes 3,000.
Sources: https://docs.slack.dev/reference/methods/chat.postMessage (truncating),
https://github.com/seratch/ChatGPT-in-Slack/issues/102 and https://github.com/slack-go/slack/issues/972.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from adapters.errors import Rejected
from adapters.events import Attachment, Block, Button, RenderedChunk
from adapters.limits import Limits, length_in
from adapters.markdown import plain_text
from adapters.render import Draft, attachment_from_dict, attachment_to_dict, choices, drafts, storable, to_json
from adapters.slack.mrkdwn import escape, mrkdwn
from adapters.split import split_rendered

LIMITS = Limits(
    text=4_000, unit="utf16", edit_every=1.2, chat_every=1.0, chat_burst=4, account_every=0.05, account_burst=20
)
"""One message a second and channel, short bursts allowed; `chat.update` about 50 a minute (tier 3).
Source: https://docs.slack.dev/apis/web-api/rate-limits."""

SECTION = Limits(text=3_000, unit="utf16")
ACTION_ID = 255
VALUE = 2_000
LABEL = 75
BUTTONS = 25
"""Elements of one actions block. Source: https://docs.slack.dev/reference/block-kit/blocks/actions-block."""

_measure = length_in("utf16")


@dataclass(frozen=True, slots=True)
class _Drawn:
    text: str
    size: int


def _draw(markdown: str) -> _Drawn:
    text = mrkdwn(markdown)
    return _Drawn(text, max(_measure(text), _measure(escape(plain_text(markdown)))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """A chunk as `send` and `edit` read it. `markup` is false for plain words."""

    text: str
    blocks: tuple[dict[str, Any], ...] = ()
    media: Attachment | None = None
    markup: bool = True


class SlackRenderer:
    """Implements `adapters.ports.Renderer`."""

    @property
    def limits(self) -> Limits:
        """See `LIMITS`."""
        return LIMITS

    def render(self, blocks: Sequence[Block]) -> list[RenderedChunk]:
        """One chunk a message. Buttons below a file are a message of their own."""
        found: list[RenderedChunk] = []
        for draft in drafts(blocks, LIMITS, _draw, lambda drawn: drawn.size):
            if draft.media is not None:
                plain = draft.plain if not draft.buttons else f"[file: {draft.media.name}]"
                data = {"media": attachment_to_dict(draft.media)}
                found.append(RenderedChunk(payload=to_json(data), plain=storable(plain)))
                if not draft.buttons:
                    continue
            found.append(_chunk(draft))
        return found


def _chunk(draft: Draft[_Drawn]) -> RenderedChunk:
    buttons = _elements(draft.buttons)
    if draft.rendered is not None and draft.media is None:
        text, plain = draft.rendered.text, draft.plain
    else:
        plain = storable(choices(draft.buttons))
        text = escape(plain)
    if not text.strip():
        text = escape(plain)
    data: dict[str, Any] = {"text": text}
    if buttons:
        sections = _sections(draft.markdown) if draft.markdown.strip() else [escape("Please choose:")]
        data["blocks"] = [_section(one) for one in sections] + [{"type": "actions", "elements": buttons}]
    elif draft.buttons and draft.rendered is not None:
        # ids or values that Slack does not take: the choices stay readable
        data["text"] = escape(plain)
    return RenderedChunk(payload=to_json(data), plain=plain)


def _sections(markdown: str) -> list[str]:
    return [one.rendered for one in split_rendered(markdown, SECTION, mrkdwn, _measure) if one.rendered.strip()]


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}, "expand": True}


def _elements(buttons: Sequence[Button]) -> list[dict[str, Any]]:
    """The buttons, or none where one of them does not fit."""
    found: list[dict[str, Any]] = []
    for number, button in enumerate(buttons):
        name = f"{number}|{button.id}"
        if len(name) > ACTION_ID or len(button.value) > VALUE or number >= BUTTONS:
            return []
        label = storable(button.label).strip() or button.value or str(number + 1)
        label = label if _measure(label) <= LABEL else label[: LABEL // 2 - 1] + "…"
        element: dict[str, Any] = {
            "type": "button",
            "action_id": name,
            "text": {"type": "plain_text", "text": label, "emoji": True},
        }
        if button.value:
            element["value"] = button.value
        found.append(element)
    return found


def button_of(action_id: str) -> str:
    """The id of the button behind an `action_id` that `render` made."""
    return action_id.partition("|")[2]


def read_post(chunk: RenderedChunk) -> Post:
    """What `render` wrote; the plain text where the payload is empty. Raises `Rejected` for anything else."""
    if not chunk.payload:
        return Post(text=escape(chunk.plain), markup=False)
    try:
        data = json.loads(chunk.payload)
        media = data.get("media")
        return Post(
            text=data.get("text", ""),
            blocks=tuple(data.get("blocks", ())),
            media=None if media is None else attachment_from_dict(media),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Rejected(f"the stored chunk cannot be read: {type(error).__name__}") from error
