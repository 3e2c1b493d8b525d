"""The dialect of Anthropic's messages: wire texts, and the body with its cache marks.

Every message text ends with its last content block, so that a mark can be put in, and messages of one role
can be joined, by cutting at a known place: the stored text itself never changes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from agent_core.models.ports import Image, Request, ToolSpec
from agent_core.models.wire import json_text
from state.records import ToolCall

MARK = ',"cache_control":{"type":"ephemeral"}'
_USER = '{"role":"user","content":['
_ASSISTANT = '{"role":"assistant","content":['
_END = "]}"
_NOTHING = "(no text)"
"""The API refuses empty text blocks, and a message must have a block."""
_FOREIGN = re.compile(r"[^a-zA-Z0-9_-]")


def system(text: str) -> str:
    """The system prompt, as one text block."""
    return json_text({"type": "text", "text": text or _NOTHING})


def user(text: str, images: Sequence[Image]) -> str:
    """A user message: pictures first, as the provider advises, then the text."""
    blocks: list[dict[str, Any]] = [
        {"type": "image", "source": {"type": "base64", "media_type": image.mime, "data": image.data}}
        for image in images
    ]
    if text.strip() or not blocks:
        blocks.append({"type": "text", "text": text if text.strip() else _NOTHING})
    return _message(_USER, blocks)


def assistant(text: str, tool_calls: Sequence[ToolCall]) -> str:
    """An assistant message of text and calls."""
    blocks: list[Mapping[str, Any]] = [{"type": "text", "text": text}] if text.strip() else []
    return assistant_blocks([*blocks, *(tool_use(call) for call in tool_calls)])


def assistant_blocks(blocks: Sequence[Mapping[str, Any]]) -> str:
    """An assistant message of the given blocks."""
    return _message(_ASSISTANT, blocks or [{"type": "text", "text": _NOTHING}])


def tool_use(call: ToolCall) -> dict[str, Any]:
    """A call as a block. Its input must be an object: what the model garbled is kept inside one."""
    return {"type": "tool_use", "id": safe_id(call.id), "name": call.name, "input": _object(call.arguments)}


def tool_result(call: ToolCall, content: str) -> str:
    """The result of one call; results that follow each other become one message in `body`."""
    return _message(_USER, [{"type": "tool_result", "tool_use_id": safe_id(call.id), "content": content}])


def tool(spec: ToolSpec) -> str:
    """The description of one tool; the schema's bytes go in as they are."""
    name, description = json_text(spec.name), json_text(spec.description)
    return f'{{"name":{name},"description":{description},"input_schema":{spec.parameters}}}'


def safe_id(call_id: str) -> str:
    """An id made by another provider in the letters that this one takes."""
    return _FOREIGN.sub("_", call_id) or "_"


def body(request: Request, *, model: str, stream: bool, max_tokens: int) -> bytes:
    """The raw body: constants, tools, system, messages, then the limit.

    Three of the four cache marks are used: on the last tool, on the system prompt, and on the last user
    message. The provider finds the longest marked prefix it knows, so the mark of the last call's message
    need not be repeated.
    """
    parts = [f'{{"model":{json_text(model)}']
    if stream:
        parts.append('"stream":true')
    if request.tools:
        parts.append(f'"tools":[{",".join((*request.tools[:-1], _marked(request.tools[-1], "}")))}]')
    if request.system:
        parts.append(f'"system":[{_marked(request.system, "}")}]')
    parts.append(f'"messages":[{",".join(_marked_last_user(_joined(request.messages)))}]')
    parts.append(f'"max_tokens":{max_tokens}}}')
    return ",".join(parts).encode("utf-8")


def _joined(messages: Sequence[str]) -> list[str]:
    """Messages with the neighbours of one role joined into one, block after block."""
    joined: list[str] = []
    for message in messages:
        for head in (_USER, _ASSISTANT):
            if message.startswith(head) and joined and joined[-1].startswith(head):
                joined[-1] = f"{joined[-1][: -len(_END)]},{message[len(head) :]}"
                break
        else:
            joined.append(message)
    return joined


def _marked_last_user(messages: list[str]) -> list[str]:
    for at in range(len(messages) - 1, -1, -1):
        if messages[at].startswith(_USER):
            messages[at] = _marked(messages[at], "}" + _END)
            break
    return messages


def _marked(text: str, end: str) -> str:
    return f"{text[: -len(end)]}{MARK}{end}"


def _message(head: str, blocks: Sequence[Mapping[str, Any]]) -> str:
    return head + ",".join(json_text(block) for block in blocks) + _END


def _object(arguments: str) -> dict[str, Any]:
    try:
        value = json.loads(arguments or "{}")
    except ValueError:
        return {"malformed_arguments": arguments}
    return value if isinstance(value, dict) else {"malformed_arguments": arguments}
