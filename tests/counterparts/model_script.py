"""What the scripted model server answers: steps, and the bytes they become on the wire."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One scripted answer. Every field can also stand in a JSON script (same names).

    `text` is streamed in `chunks` pieces with `delay` seconds between them; `{n}` in it becomes the
    number of the call. `when` makes the step wait for a call whose last user message contains it (steps
    without `when` go to the next call that no `when` matches). `times` is how often it is used.
    """

    text: str = ""
    when: str | None = None
    times: int = 1
    chunks: int = 3
    delay: float = 0.0
    latency: float | None = None
    """Seconds before the first byte; None = the server's own."""
    reasoning: str = ""
    refusal: str | None = None
    tool_calls: tuple[Mapping[str, Any], ...] = ()
    """`{"name": …, "arguments": "JSON text" or an object, "id": … or null}`; several = parallel calls."""
    finish: str | None = "auto"
    """`auto` = stop or tool_calls; None = the stream ends without a finish reason."""
    usage: Mapping[str, Any] | None = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    error: Mapping[str, Any] | str | None = None
    """The body of an error answer: the `error` object, or raw text."""
    cut_after: int | None = None
    """Close the connection hard after so many chunks (0 = before any byte of the body)."""
    malformed_after: int | None = None
    """Send a chunk that is not JSON after so many chunks."""
    hold_after: int | None = None
    """Stop after so many chunks until `release()` or `POST /_release`."""
    silent: bool = False
    """Accept the call and never answer (until the client goes away)."""

    @classmethod
    def from_json(cls, raw: str | Mapping[str, Any]) -> Step:
        """A step of a JSON script; a bare string is a text. An unknown field is an error."""
        if isinstance(raw, str):
            return cls(text=raw)
        known = {f.name for f in fields(cls)}
        unknown = set(raw) - known
        if unknown:
            raise ValueError(f"unknown fields in a step: {', '.join(sorted(unknown))}")
        values = dict(raw)
        if "tool_calls" in values:
            values["tool_calls"] = tuple(values["tool_calls"])
        return cls(**values)


def default_usage(body: bytes, text: str) -> dict[str, Any]:
    """Figures that grow with the request, four bytes a token."""
    prompt, answer = max(1, len(body) // 4), max(1, len(text) // 4)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": answer,
        "total_tokens": prompt + answer,
        "prompt_tokens_details": {"cached_tokens": 0},
    }


def pieces(text: str, count: int) -> list[str]:
    """`text` in at most `count` parts of nearly equal length, none of them empty."""
    if not text:
        return []
    size = max(1, -(-len(text) // max(1, count)))
    return [text[at : at + size] for at in range(0, len(text), size)]


def calls_of(step: Step, number: int) -> list[dict[str, Any]]:
    """The tool calls of a step in the form of the API. An `id` that is null or "" is left out."""
    calls = []
    for index, raw in enumerate(step.tool_calls):
        arguments = raw.get("arguments", "{}")
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        call: dict[str, Any] = {"type": "function", "function": {"name": raw["name"], "arguments": text}}
        call_id = raw.get("id", f"call_{number}_{index}")
        if call_id:
            call["id"] = call_id
        calls.append(call)
    return calls


def finish_of(step: Step) -> str | None:
    """The finish reason that the step ends with."""
    if step.finish != "auto":
        return step.finish
    return "tool_calls" if step.tool_calls else "stop"


def whole_message(step: Step, text: str, number: int, usage: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to a call without streaming."""
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    if step.reasoning:
        message["reasoning_content"] = step.reasoning
    if step.refusal is not None:
        message["refusal"] = step.refusal
    if step.tool_calls:
        message["tool_calls"] = calls_of(step, number)
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "scripted",
        "choices": [{"index": 0, "message": message, "finish_reason": finish_of(step)}],
        "usage": usage,
    }


def stream_events(step: Step, text: str, number: int, usage: Mapping[str, Any]) -> Iterator[str]:
    """The server-sent events, in order, `[DONE]` included. An empty `usage` was not asked for."""
    head = f'{{"id":"chatcmpl-{number}","object":"chat.completion.chunk","model":"scripted","choices":'

    def chunk(delta: Mapping[str, Any], finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return f"data: {head}[{json.dumps(choice, ensure_ascii=False)}]}}\n\n"

    yield chunk({"role": "assistant", "content": ""})
    for part in pieces(step.reasoning, step.chunks):
        yield chunk({"reasoning_content": part})
    if step.refusal is not None:
        yield chunk({"refusal": step.refusal})
    for part in pieces(text, step.chunks):
        yield chunk({"content": part})
    for index, call in enumerate(calls_of(step, number)):
        function = call["function"]
        opening = {**call, "index": index, "function": {"name": function["name"], "arguments": ""}}
        yield chunk({"tool_calls": [opening]})
    # The arguments of parallel calls come interleaved, as servers are allowed to send them.
    parts = [pieces(call["function"]["arguments"], 2) for call in calls_of(step, number)]
    for turn in range(2):
        for index, mine in enumerate(parts):
            if turn < len(mine):
                yield chunk({"tool_calls": [{"index": index, "function": {"arguments": mine[turn]}}]})
    finish = finish_of(step)
    if finish is None:
        return
    yield chunk({}, finish)
    if usage:
        yield f'data: {head}[],"usage":{json.dumps(usage)}}}\n\n'
    yield "data: [DONE]\n\n"
