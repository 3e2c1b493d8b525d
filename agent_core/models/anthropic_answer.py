"""An answer of Anthropic's messages put together: from the events of a stream or from a whole message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent_core.errors import ModelUnavailable
from agent_core.models import anthropic_wire
from agent_core.models.faults import fault, filtered
from agent_core.models.openai_answer import LONGEST_ANSWER
from agent_core.models.ports import Completion, Delta, FinishReason, Usage
from agent_core.models.wire import call_id, json_text
from state.records import ToolCall

_THOUGHTS = ("thinking", "redacted_thinking")
_PIECES = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


@dataclass(slots=True)
class _Block:
    """A content block that is still coming in: its first form, and the pieces that belong to its fields."""

    start: Mapping[str, Any]
    pieces: dict[str, list[str]] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        return str(self.start.get("type") or "")

    def joined(self, name: str) -> str:
        return str(self.start.get(name) or "") + "".join(self.pieces.get(name, ()))


class Answer:
    """Takes the events of one answer in order."""

    def __init__(self) -> None:
        self._blocks: dict[int, _Block] = {}
        self._usage: dict[str, Any] = {}
        self._size = 0
        self.finish: str | None = None

    def add(self, event: Mapping[str, Any]) -> Delta | None:
        """Take an event. Raises the typed error for an error event or a malformed one."""
        try:
            return self._add(event)
        except (KeyError, TypeError, AttributeError) as exc:
            raise ModelUnavailable("the model's server sent a malformed event") from exc

    def _add(self, event: Mapping[str, Any]) -> Delta | None:
        match event.get("type"):
            case "message_start":
                self._usage.update(event["message"].get("usage") or {})
            case "content_block_start":
                block = self._blocks[int(event["index"])] = _Block(event["content_block"])
                return _delta(block.kind, block.joined("text"), block.joined("thinking"))
            case "content_block_delta":
                return self._piece(self._blocks[int(event["index"])], event["delta"])
            case "message_delta":
                self.finish = event["delta"].get("stop_reason") or self.finish
                self._usage.update({name: n for name, n in (event.get("usage") or {}).items() if n is not None})
            case "error":
                raise fault(None, event)
            case "message":  # a whole answer
                self._blocks = {at: _Block(block) for at, block in enumerate(event["content"])}
                self._usage.update(event.get("usage") or {})
                self.finish = event.get("stop_reason")
                text, thoughts = self._text(), self._reasoning()
                return Delta(text=text, reasoning=thoughts) if text or thoughts else None
        return None

    def _piece(self, block: _Block, delta: Mapping[str, Any]) -> Delta | None:
        kind = str(delta["type"])
        name = _PIECES.get(kind, "input_json" if kind == "input_json_delta" else "")
        if not name:
            return None
        piece = str(delta["partial_json" if name == "input_json" else name])
        self._size += len(piece)
        if self._size > LONGEST_ANSWER:
            raise ModelUnavailable("the model's answer has no end")
        block.pieces.setdefault(name, []).append(piece)
        return _delta(block.kind, piece if name == "text" else "", piece if name == "thinking" else "")

    def completion(self, body: bytes) -> Completion:
        """The finished answer to the request `body`. Raises `ModelUnavailable` where the stream broke off,
        `ModelRefused` where the provider declined."""
        if self.finish is None:
            raise ModelUnavailable("the model's answer broke off")
        if self.finish == "refusal":
            raise filtered()
        blocks, calls = self._wire_blocks(body)
        return Completion(
            text=self._text(),
            finish_reason=self._finish_reason(bool(calls)),
            wire=anthropic_wire.assistant_blocks(blocks),
            tool_calls=tuple(calls),
            reasoning=self._reasoning(),
            usage=self._figures(),
            request_body=body,
        )

    def _wire_blocks(self, body: bytes) -> tuple[list[Mapping[str, Any]], list[ToolCall]]:
        """The blocks as they are replayed. Thoughts go back unchanged, with their signature: the provider
        demands that beside tool calls."""
        blocks: list[Mapping[str, Any]] = []
        calls: list[ToolCall] = []
        for index, block in sorted(self._blocks.items()):
            if block.kind == "tool_use":
                call = ToolCall(
                    id=str(block.start.get("id") or call_id(body, index)),
                    name=str(block.start.get("name") or ""),
                    arguments="".join(block.pieces.get("input_json", ())) or json_text(block.start.get("input") or {}),
                )
                calls.append(call)
                blocks.append(anthropic_wire.tool_use(call))
            elif block.kind == "text" and block.joined("text").strip():
                blocks.append({"type": "text", "text": block.joined("text")})
            elif block.kind == "thinking":
                blocks.append(
                    {
                        "type": "thinking",
                        "thinking": block.joined("thinking"),
                        "signature": block.joined("signature"),
                    }
                )
            elif block.kind == "redacted_thinking":
                blocks.append(dict(block.start))
        if all(block["type"] in _THOUGHTS for block in blocks):
            blocks = []
        return blocks, calls

    def _text(self) -> str:
        return "".join(b.joined("text") for _, b in sorted(self._blocks.items()) if b.kind == "text")

    def _reasoning(self) -> str:
        return "".join(b.joined("thinking") for _, b in sorted(self._blocks.items()) if b.kind == "thinking")

    def _finish_reason(self, has_calls: bool) -> FinishReason:
        if self.finish in ("max_tokens", "model_context_window_exceeded"):
            return "length"
        return "tool_calls" if has_calls else "stop"

    def _figures(self) -> Usage:
        """Input counts all of the prompt, cached or not, as the other providers count it."""

        def count(name: str) -> int:
            value = self._usage.get(name)
            return value if isinstance(value, int) and value > 0 else 0

        cached = count("cache_read_input_tokens")
        return Usage(
            input_tokens=count("input_tokens") + cached + count("cache_creation_input_tokens"),
            output_tokens=count("output_tokens"),
            cached_tokens=cached,
        )


def _delta(kind: str, text: str, reasoning: str) -> Delta | None:
    if kind not in ("text", "thinking") or not (text or reasoning):
        return None
    return Delta(text=text, reasoning=reasoning)
