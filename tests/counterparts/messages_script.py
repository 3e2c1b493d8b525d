"""The same steps in the dialect of Anthropic's messages API: whole answers and streams of events."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.counterparts.model_script import Step, calls_of, finish_of, pieces

_STOP_REASONS = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal"}


def default_usage(body: bytes, text: str) -> dict[str, Any]:
    """Figures that grow with the request, four bytes a token."""
    return {
        "input_tokens": max(1, len(body) // 4),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": max(1, len(text) // 4),
    }


def _stop_reason(step: Step) -> str | None:
    finish = finish_of(step)
    return None if finish is None else _STOP_REASONS[finish]


def _head(number: int, usage: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": dict(usage),
    }


def _tools(step: Step, number: int) -> list[tuple[dict[str, Any], str]]:
    """The empty block and the JSON text of the input of each call."""
    found = []
    for call in calls_of(step, number):
        block = {"type": "tool_use", "id": call.get("id", ""), "name": call["function"]["name"], "input": {}}
        found.append((block, call["function"]["arguments"]))
    return found


def whole_message(step: Step, text: str, number: int, usage: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to a call without streaming."""
    content: list[dict[str, Any]] = []
    if step.reasoning:
        content.append({"type": "thinking", "thinking": step.reasoning, "signature": f"sig-{number}"})
    if text:
        content.append({"type": "text", "text": text})
    content += [{**block, "input": json.loads(arguments)} for block, arguments in _tools(step, number)]
    return {**_head(number, usage), "content": content, "stop_reason": _stop_reason(step)}


def stream_events(step: Step, text: str, number: int, usage: Mapping[str, Any]) -> Iterator[str]:
    """The server-sent events of an answer, in order."""

    def event(kind: str, **fields: Any) -> str:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields}, ensure_ascii=False)}\n\n"

    blocks: list[tuple[dict[str, Any], list[dict[str, str]]]] = []
    if step.reasoning:
        thoughts = [{"type": "thinking_delta", "thinking": part} for part in pieces(step.reasoning, step.chunks)]
        signature = {"type": "signature_delta", "signature": f"sig-{number}"}
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, [*thoughts, signature]))
    if text:
        parts = [{"type": "text_delta", "text": part} for part in pieces(text, step.chunks)]
        blocks.append(({"type": "text", "text": ""}, parts))
    for block, arguments in _tools(step, number):
        inputs = [{"type": "input_json_delta", "partial_json": part} for part in pieces(arguments, 2)]
        blocks.append((block, inputs))
    yield event("message_start", message=_head(number, {**usage, "output_tokens": 1}))
    yield event("ping")
    for index, (block, deltas) in enumerate(blocks):
        yield event("content_block_start", index=index, content_block=block)
        for delta in deltas:
            yield event("content_block_delta", index=index, delta=delta)
        yield event("content_block_stop", index=index)
    reason = _stop_reason(step)
    if reason is None:
        return
    figures = {"output_tokens": usage["output_tokens"]}
    yield event("message_delta", delta={"stop_reason": reason, "stop_sequence": None}, usage=figures)
    yield event("message_stop")
