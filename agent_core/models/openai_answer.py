"""An answer of chat completions put together: from chunks or from a whole message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent_core.errors import ModelUnavailable
from agent_core.models import openai_wire
from agent_core.models.faults import filtered, refusal
from agent_core.models.ports import Completion, Delta, FinishReason, Usage
from agent_core.models.wire import call_id, json_text
from state.records import ToolCall

LONGEST_ANSWER = 4_000_000
"""Characters. An endless stream must not fill the memory."""


@dataclass(slots=True)
class _Call:
    """A tool call that is still coming in."""

    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)


class Answer:
    """Takes the chunks of one answer in order."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._refusal: list[str] = []
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._usage: Mapping[str, Any] = {}
        self._timings: Mapping[str, Any] = {}
        self._size = 0
        self.finish: str | None = None

    def add(self, chunk: Mapping[str, Any]) -> Delta | None:
        """Take a chunk of a stream, or a whole answer. Raises `ModelUnavailable` for a malformed one."""
        if isinstance(chunk.get("usage"), dict):
            self._usage = chunk["usage"]
        if isinstance(chunk.get("timings"), dict):
            self._timings = chunk["timings"]
        choices = chunk.get("choices")
        if not choices:
            return None
        if not isinstance(choices, list) or not isinstance(choices[0], dict):
            raise ModelUnavailable("the model's server sent a malformed chunk")
        choice = choices[0]
        delta = choice.get("delta") or choice.get("message") or {}
        if not isinstance(delta, dict):
            raise ModelUnavailable("the model's server sent a malformed chunk")
        text = _text_of(delta.get("content"))
        reasoning = _text_of(delta.get("reasoning_content")) or _text_of(delta.get("reasoning"))
        declined = _text_of(delta.get("refusal"))
        for position, raw in enumerate(delta.get("tool_calls") or ()):
            self._add_call(raw, position)
        if choice.get("finish_reason"):
            self.finish = str(choice["finish_reason"])
        self._size += len(text) + len(reasoning) + len(declined)
        if self._size > LONGEST_ANSWER:
            raise ModelUnavailable("the model's answer has no end")
        if declined:
            self._refusal.append(declined)
        if not text and not reasoning:
            return None
        self._text.append(text)
        self._reasoning.append(reasoning)
        return Delta(text=text, reasoning=reasoning)

    def _add_call(self, raw: object, position: int) -> None:
        if not isinstance(raw, dict) or not isinstance(function := raw.get("function") or {}, dict):
            raise ModelUnavailable("the model's server sent a malformed tool call")
        given = str(raw.get("id") or "")
        index = raw.get("index", position)
        call = self._by_index.get(index)
        # Some servers send every parallel call under index 0, told apart by its id alone.
        if call is None or (given and call.id and given != call.id):
            call = self._by_index[index] = _Call()
            self._calls.append(call)
        call.id = call.id or given
        call.name = call.name or str(function.get("name") or "")
        arguments = function.get("arguments")
        if arguments is not None:
            piece = arguments if isinstance(arguments, str) else json_text(arguments)
            self._size += len(piece)
            call.arguments.append(piece)

    def completion(self, body: bytes) -> Completion:
        """The finished answer to the request `body`.

        Raises `ModelUnavailable` where the server ended without a finish reason (the SDK accepts that),
        `ModelRefused` where the model declined or a filter stopped it.
        """
        if self.finish is None:
            raise ModelUnavailable("the model's answer broke off")
        if self._refusal and not self._calls:
            raise refusal("".join(self._refusal))
        if self.finish == "content_filter":
            raise filtered()
        calls = self._tool_calls(body)
        text = "".join(self._text)
        return Completion(
            text=text,
            finish_reason=self._finish_reason(bool(calls)),
            wire=openai_wire.assistant(text, calls),
            tool_calls=calls,
            reasoning="".join(self._reasoning),
            usage=self._figures(),
            request_body=body,
        )

    def _tool_calls(self, body: bytes) -> tuple[ToolCall, ...]:
        taken: set[str] = set()
        calls = []
        for index, call in enumerate(self._calls):
            given = call.id if call.id and call.id not in taken else call_id(body, index)
            taken.add(given)
            calls.append(ToolCall(id=given, name=call.name, arguments="".join(call.arguments)))
        return tuple(calls)

    def _finish_reason(self, has_calls: bool) -> FinishReason:
        if self.finish == "length":
            return "length"
        # Local servers say `stop` for calls and some say `tool_calls` without any: what came counts.
        return "tool_calls" if has_calls else "stop"

    def _figures(self) -> Usage:
        details = self._usage.get("prompt_tokens_details")
        cached = details.get("cached_tokens") if isinstance(details, dict) else None
        for other in (self._usage.get("prompt_cache_hit_tokens"), self._timings.get("cache_n")):
            cached = other if cached is None else cached
        return Usage(
            input_tokens=_count(self._usage.get("prompt_tokens")),
            output_tokens=_count(self._usage.get("completion_tokens")),
            cached_tokens=_count(cached),
        )


def _text_of(value: object) -> str:
    """A text, or the text parts of a list of parts."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(str(part.get("text") or "") for part in value if isinstance(part, dict))
    return ""


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0
