"""The dialect of OpenAI's chat completions: wire texts and the body."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent_core.models.ports import Image, Request, ToolSpec
from agent_core.models.wire import json_text
from state.records import ToolCall


def system(text: str) -> str:
    """The system prompt."""
    return json_text({"role": "system", "content": text})


def user(text: str, images: Sequence[Image]) -> str:
    """A user message; with pictures the content is a list of parts."""
    if not images:
        return json_text({"role": "user", "content": text})
    parts: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    parts += [{"type": "image_url", "image_url": {"url": f"data:{image.mime};base64,{image.data}"}} for image in images]
    return json_text({"role": "user", "content": parts})


def assistant(text: str, tool_calls: Sequence[ToolCall]) -> str:
    """An assistant message. The arguments stay the model's own text, valid JSON or not."""
    if not tool_calls:
        return json_text({"role": "assistant", "content": text})
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in tool_calls
    ]
    return json_text({"role": "assistant", "content": text or None, "tool_calls": calls})


def tool_result(call: ToolCall, content: str) -> str:
    """The result of one call."""
    return json_text({"role": "tool", "tool_call_id": call.id, "content": content})


def tool(spec: ToolSpec) -> str:
    """The description of one tool; the schema's bytes go in as they are."""
    name, description = json_text(spec.name), json_text(spec.description)
    return (
        f'{{"type":"function","function":{{"name":{name},"description":{description},"parameters":{spec.parameters}}}}}'
    )


def body(request: Request, *, model: str, stream: bool, max_tokens: int | None, own_endpoint: bool) -> bytes:
    """The raw body: constants first, then tools, system and messages, then what may differ per call.

    So the whole body up to the end of the last message is a byte prefix of the next request's body.
    `own_endpoint` is OpenAI's: it wants another name for the limit, and takes a cache key.
    """
    parts = [f'{{"model":{json_text(model)}', '"stream":true,"stream_options":{"include_usage":true}' if stream else ""]
    if request.tools:
        parts.append(f'"tools":[{",".join(request.tools)}]')
    messages = (request.system, *request.messages) if request.system else request.messages
    parts.append(f'"messages":[{",".join(messages)}]')
    if max_tokens is not None:
        parts.append(f'"{"max_completion_tokens" if own_endpoint else "max_tokens"}":{max_tokens}')
    if own_endpoint and request.cache_key is not None:
        parts.append(f'"prompt_cache_key":{json_text(request.cache_key)}')
    return (",".join(filter(None, parts)) + "}").encode("utf-8")
