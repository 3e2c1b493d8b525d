"""What Slack refuses: limits of texts and blocks, scopes, places. From https://docs.slack.dev/reference."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

TEXT = 40_000
UPDATE = 4_000
SECTION = 3_000
_PING = re.compile(r"<!(?:channel|here|everyone)|<!subteam\^|<@[UW]")
_BARE = re.compile(r"(?<![\w<])@(?:channel|here|everyone)\b")


class Refused(Exception):
    """Slack answers with an error."""

    def __init__(self, error: str, **more: Any) -> None:
        super().__init__(error)
        self.error = error
        self.more = more


def check_text(text: str, limit: int) -> None:
    """Raise where a text is too long."""
    if len(text) > limit:
        raise Refused("msg_too_long")


def check_blocks(blocks: Any) -> list[dict[str, Any]]:
    """The blocks, or `invalid_blocks` with the reason."""
    if isinstance(blocks, str):
        try:
            blocks = json.loads(blocks)
        except ValueError:
            raise Refused("invalid_blocks_format") from None
    if not isinstance(blocks, list):
        raise Refused("invalid_blocks_format")
    if len(blocks) > 50:
        raise _invalid("no more than 50 items allowed")
    for block in blocks:
        _check_block(block)
    return blocks


def _invalid(why: str) -> Refused:
    return Refused("invalid_blocks", response_metadata={"messages": [f"[ERROR] {why}"]})


def _check_block(block: Any) -> None:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "section":
        text = block.get("text")
        if not isinstance(text, dict) or text.get("type") not in ("mrkdwn", "plain_text") or not text.get("text"):
            raise _invalid("must provide a text")
        if len(text["text"]) > SECTION:
            raise _invalid("must be less than 3001 characters")
    elif kind == "header":
        if len(block["text"]["text"]) > 150:
            raise _invalid("must be less than 151 characters")
    elif kind == "actions":
        elements = block.get("elements")
        if not isinstance(elements, list) or not 1 <= len(elements) <= 25:
            raise _invalid("must have 1 to 25 elements")
        names = [element.get("action_id") for element in elements]
        if len(set(names)) != len(names):
            raise _invalid("action_id already exists")
        for element in elements:
            _check_button(element)
    elif kind not in ("divider", "context", "rich_text", "image", "markdown"):
        raise _invalid(f"unsupported type: {kind}")


def _check_button(element: Mapping[str, Any]) -> None:
    text = element.get("text", {})
    if element.get("type") != "button" or text.get("type") != "plain_text" or not text.get("text"):
        raise _invalid("a button needs a plain text")
    if len(text["text"]) > 75:
        raise _invalid("must be less than 76 characters")
    if len(element.get("action_id", "")) > 255 or len(element.get("value", "")) > 2000:
        raise _invalid("action_id or value too long")


def pings(fields: Mapping[str, Any]) -> bool:
    """Whether a post would call people."""
    whole = json.dumps([fields.get("text"), fields.get("blocks")], ensure_ascii=False)
    loose = str(fields.get("link_names")).lower() in ("true", "1") or fields.get("parse") == "full"
    return bool(_PING.search(whole)) or (loose and bool(_BARE.search(whole)))
