"""What Slack refuses and how it marks text up, from the public documentation: no state, no sockets.

Limits: https://docs.slack.dev/reference/block-kit/blocks, .../methods/chat.postMessage and .../methods/chat.update.
The shape of `invalid_blocks` (`errors`, `response_metadata.messages` with a JSON pointer) is that of public reports.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

POST_LIMIT = 40_000
UPDATE_LIMIT = 4_000
MARKDOWN_LIMIT = 12_000
SECTION_LIMIT = 3_000
METADATA_LIMIT = 8_000
Block = dict[str, Any]

BLOCKS = frozenset(
    {
        *("actions", "alert", "call", "card", "carousel", "context", "context_actions", "divider", "file", "header"),
        *("image", "input", "markdown", "plan", "rich_text", "section", "table", "task_card", "video"),
    }
)
ELEMENTS = frozenset(
    {
        *("button", "checkboxes", "datepicker", "datetimepicker", "overflow", "radio_buttons", "timepicker"),
        *("static_select", "users_select", "conversations_select", "channels_select", "external_select"),
        *("multi_static_select", "multi_users_select", "multi_conversations_select", "multi_channels_select"),
        *("multi_external_select", "workflow_button"),
    }
)
_PING = re.compile(r"<!(?:channel|here|everyone)(?:\|[^>]*)?>|<!subteam\^[^>]*>")
_BARE = re.compile(r"(?<![\w<])@(?:channel|here|everyone|group)\b")
_TOKEN = re.compile(r"<([^<>\s][^<>]*)>")
_MARKUP = re.compile(r"<(?:[@#!]|(?:https?|mailto|tel|slack):)[^<>\n]*>")


class Refused(Exception):
    """Slack answers with this error."""

    def __init__(self, error: str, **more: Any) -> None:
        super().__init__(error)
        self.error = error
        self.more = more


class _Wrong(Exception):
    """A fault in a block, with its JSON pointer."""

    def __init__(self, what: str, where: str) -> None:
        super().__init__(f"{what} [json-pointer:{where}]")


def invalid_blocks(why: str) -> Refused:
    """`invalid_blocks` as Slack says it."""
    return Refused("invalid_blocks", errors=[why], response_metadata={"messages": [f"[ERROR] {why}"]})


def given_json(value: Any, error: str) -> Any:
    """An argument that may be JSON in a form field; `error` where it cannot be read."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        raise Refused(error) from None


def true(value: Any) -> bool:
    """Whether an argument is set, however it was sent."""
    return str(value).lower() in ("true", "1")


# blocks ------------------------------------------------------------------------------------------


def check_blocks(value: Any) -> list[Block]:
    """The blocks; raises `Refused` as Slack does where they are malformed or too long."""
    blocks = given_json(value, "invalid_blocks_format")
    if not isinstance(blocks, list) or any(not isinstance(one, dict) for one in blocks):
        raise Refused("invalid_blocks_format")
    if len(blocks) > 50:
        raise invalid_blocks("no more than 50 items allowed [json-pointer:/blocks]")
    try:
        for at, block in enumerate(blocks):
            _block(block, f"/blocks/{at}")
        _unique(blocks, "block_id", "/blocks")
    except _Wrong as wrong:
        raise invalid_blocks(str(wrong)) from None
    if sum(len(block["text"]) for block in blocks if block["type"] == "markdown") > MARKDOWN_LIMIT:
        raise invalid_blocks(
            f"markdown must be less than {MARKDOWN_LIMIT + 1} characters in total [json-pointer:/blocks]"
        )
    return blocks


def _block(block: Block, where: str) -> None:
    kind = block.get("type")
    if kind not in BLOCKS:
        raise _Wrong(f"unsupported type: {kind}", f"{where}/type")
    _long(block.get("block_id"), 255, f"{where}/block_id")
    if kind == "section":
        _section(block, where)
    elif kind == "header":
        _text(block.get("text"), 150, f"{where}/text", ("plain_text",))
    elif kind == "actions":
        elements = _items(block.get("elements"), 25, f"{where}/elements")
        for at, element in enumerate(elements):
            _element(element, f"{where}/elements/{at}")
        _unique(elements, "action_id", f"{where}/elements")
    elif kind == "context":
        for at, element in enumerate(_items(block.get("elements"), 10, f"{where}/elements")):
            if element.get("type") != "image":
                _text(element, SECTION_LIMIT, f"{where}/elements/{at}")
    elif kind == "markdown":
        if not isinstance(block.get("text"), str) or not block["text"]:
            raise _Wrong("missing required field: text", where)
    elif kind == "image":
        _required(block, "alt_text", where)
        _long(block["alt_text"], 2_000, f"{where}/alt_text")
        if not block.get("image_url") and not block.get("slack_file"):
            raise _Wrong("missing required field: image_url", where)
    elif kind == "rich_text":
        _required(block, "elements", where)


def _section(block: Block, where: str) -> None:
    text, fields = block.get("text"), block.get("fields")
    if text is None and fields is None:
        raise _Wrong("missing required field: text", where)
    if text is not None:
        _text(text, SECTION_LIMIT, f"{where}/text")
    if fields is not None:
        for at, one in enumerate(_items(fields, 10, f"{where}/fields")):
            _text(one, 2_000, f"{where}/fields/{at}")
    if (accessory := block.get("accessory")) is not None and accessory.get("type") != "image":
        _element(accessory, f"{where}/accessory")


def _element(element: Block, where: str) -> None:
    if element.get("type") not in ELEMENTS:
        raise _Wrong(f"unsupported type: {element.get('type')}", f"{where}/type")
    _long(element.get("action_id"), 255, f"{where}/action_id")
    if element["type"] != "button":
        return
    _text(element.get("text"), 75, f"{where}/text", ("plain_text",))
    _long(element.get("value"), 2_000, f"{where}/value")
    _long(element.get("url"), 3_000, f"{where}/url")
    if element.get("style") not in (None, "primary", "danger"):
        raise _Wrong("must be one of the allowed values", f"{where}/style")


def _text(text: Any, limit: int, where: str, kinds: tuple[str, ...] = ("mrkdwn", "plain_text")) -> None:
    if not isinstance(text, dict) or text.get("type") not in kinds or not isinstance(text.get("text"), str):
        raise _Wrong("failed to match all allowed schemas", where)
    if not text["text"]:
        raise _Wrong("must be more than 0 characters", f"{where}/text")
    _long(text["text"], limit, f"{where}/text")


def _long(value: Any, limit: int, where: str) -> None:
    if value is None:
        return
    if not isinstance(value, str):
        raise _Wrong("must provide a string", where)
    if len(value) > limit:
        raise _Wrong(f"must be less than {limit + 1} characters", where)


def _items(value: Any, limit: int, where: str) -> list[Block]:
    if not isinstance(value, list) or any(not isinstance(one, dict) for one in value):
        raise _Wrong("must be an array", where)
    if not value:
        raise _Wrong("must contain at least 1 item", where)
    if len(value) > limit:
        raise _Wrong(f"no more than {limit} items allowed", where)
    return value


def _required(block: Block, name: str, where: str) -> None:
    if not block.get(name):
        raise _Wrong(f"missing required field: {name}", where)


def _unique(items: Iterable[Block], name: str, where: str) -> None:
    seen: set[str] = set()
    for at, one in enumerate(items):
        value = one.get(name)
        if value is not None and value in seen:
            raise _Wrong(f"{name} already exists", f"{where}/{at}")
        seen.add(value or "")


# metadata and text -------------------------------------------------------------------------------


def check_metadata(value: Any) -> dict[str, Any] | None:
    """The metadata of a message, None where there is none."""
    if value is None or value == "":
        return None
    found = given_json(value, "invalid_metadata_format")
    if not isinstance(found, dict) or not isinstance(found.get("event_type"), str) or not found["event_type"]:
        raise Refused("invalid_metadata_format")
    payload = found.get("event_payload")
    if not isinstance(payload, dict):
        raise Refused("invalid_metadata_format")
    if len(json.dumps(payload)) > METADATA_LIMIT:
        raise Refused("metadata_too_large")
    return {"event_type": found["event_type"], "event_payload": payload}


def escaped(text: str) -> str:
    """A text as Slack keeps it: `&`, `<` and `>` that are no markup are entities."""
    kept: list[str] = []
    at = 0
    for match in _MARKUP.finditer(text):
        kept += [_plain(text[at : match.start()]), match[0]]
        at = match.end()
    return "".join([*kept, _plain(text[at:])])


def _plain(text: str) -> str:
    loose = re.sub(r"&(?!(?:amp|lt|gt);)", "&amp;", text)
    return loose.replace("<", "&lt;").replace(">", "&gt;")


def pings(fields: Mapping[str, Any]) -> bool:
    """Whether a post calls a whole channel or a group of people, in its text or in a block."""
    blocks, attachments = fields.get("blocks"), fields.get("attachments")
    texts = [str(fields.get("text") or ""), str(fields.get("markdown_text") or "")]
    for part in (blocks, attachments):
        if part:
            texts += _strings(given_json(part, "invalid_blocks_format"))
    whole = "\n".join(texts)
    loose = true(fields.get("link_names")) or fields.get("parse") == "full"
    return bool(_PING.search(whole)) or (loose and bool(_BARE.search(whole))) or _calls(blocks)


def _strings(value: Any) -> list[str]:
    """The texts that are read as markup; a plain_text calls nobody, nor does a button's value."""
    if isinstance(value, list):
        return [found for one in value for found in _strings(one)]
    if not isinstance(value, dict) or value.get("type") == "plain_text":
        return []
    own = [text for name in ("text", "fallback", "pretext") if isinstance(text := value.get(name), str)]
    return own + [found for one in value.values() if isinstance(one, (dict, list)) for found in _strings(one)]


def _calls(blocks: Any) -> bool:
    """Whether rich text holds a broadcast or a user group."""
    value = given_json(blocks, "invalid_blocks_format") if blocks else None
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, list):
            waiting += one
        elif isinstance(one, dict):
            if one.get("type") in ("broadcast", "usergroup"):
                return True
            waiting += one.values()
    return False


def rich_text(text: str, block_id: str) -> list[Block]:
    """The block that Slack makes of what a person writes."""
    elements: list[Block] = []
    at = 0
    for match in _TOKEN.finditer(text):
        elements += _literal(text[at : match.start()])
        elements.append(_marked(match[1]))
        at = match.end()
    elements += _literal(text[at:])
    section = {"type": "rich_text_section", "elements": elements}
    return [{"type": "rich_text", "block_id": block_id, "elements": [section]}]


def _literal(text: str) -> list[Block]:
    plain = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    return [{"type": "text", "text": plain}] if plain else []


def _marked(inner: str) -> Block:
    target, _, label = inner.partition("|")
    if target.startswith("@"):
        return {"type": "user", "user_id": target[1:]}
    if target.startswith("#"):
        return {"type": "channel", "channel_id": target[1:]}
    if target.startswith("!subteam^"):
        return {"type": "usergroup", "usergroup_id": target.partition("^")[2]}
    if target.startswith("!"):
        return {"type": "broadcast", "range": target[1:]}
    return {"type": "link", "url": target, **({"text": label} if label else {})}
