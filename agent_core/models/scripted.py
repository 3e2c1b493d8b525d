"""A model that answers from a script: for tests, demos and rehearsals. No network, no key.

A script is a JSON array of steps; a bare string is a text. Steps are used in order, and when none is left
(or none fits) the answer is an echo of the last user message. `{n}` in a text is the number of the call.

    ["hello", {"text": "Looking.", "tool_calls": [{"name": "todo", "arguments": {}}]},
     {"when": "weather", "text": "Rain.", "chunks": 4, "delay": 0.05},
     {"error": "unavailable", "retry_after": 2}]
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from agent_core.errors import ContextFull, ModelError, ModelKeyBad, ModelRefused, ModelUnavailable
from agent_core.models import openai_wire
from agent_core.models.ports import (
    Capabilities,
    Completion,
    Delta,
    FinishReason,
    Image,
    Model,
    Request,
    ToolSpec,
    Usage,
)
from agent_core.models.settings import DEFAULT_CONTEXT_TOKENS, ModelSettings
from agent_core.models.wire import call_id, json_text
from state.records import ToolCall

Fault = Literal["unavailable", "refused", "key", "context"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedStep:
    """One answer. `when` reserves it for a call whose last user message contains that text.

    `delay` is in seconds, before each of the `chunks` pieces. `error` is raised after the text has been
    streamed. `finish` None is a stream that breaks off.
    """

    text: str = ""
    when: str | None = None
    times: int = 1
    chunks: int = 1
    delay: float = 0.0
    reasoning: str = ""
    tool_calls: tuple[Mapping[str, Any], ...] = ()
    finish: FinishReason | Literal["auto"] | None = "auto"
    error: Fault | None = None
    retry_after: float | None = None

    @classmethod
    def from_json(cls, raw: str | Mapping[str, Any]) -> ScriptedStep:
        """A step of a script. ValueError names what is wrong with it."""
        if isinstance(raw, str):
            return cls(text=raw)
        if not isinstance(raw, Mapping):
            raise ValueError(f"a step is a text or an object, not {type(raw).__name__}")  # noqa: TRY004 - bad input
        unknown = set(raw) - {field.name for field in fields(cls)}
        if unknown:
            raise ValueError(f"unknown fields in a step: {', '.join(sorted(unknown))}")
        values = dict(raw)
        values["tool_calls"] = tuple(values.get("tool_calls", ()))
        return cls(**values)


def load_script(path: Path) -> list[ScriptedStep]:
    """The steps of a file. ValueError or OSError where it cannot be used. Reads the disk."""
    raw = json.loads(path.read_text("utf-8"))
    if not isinstance(raw, list):
        raise ValueError("a script is a JSON array of steps")  # noqa: TRY004 - bad input
    return [ScriptedStep.from_json(step) for step in raw]


class ScriptedModel:
    """See the module. `count` is the number of calls so far."""

    def __init__(self, settings: ModelSettings, steps: Sequence[ScriptedStep | str] = ()) -> None:
        self._settings = settings
        self._steps = [ScriptedStep.from_json(step) if isinstance(step, str) else step for step in steps]
        self.count = 0
        self.turns_ended = 0

    @property
    def name(self) -> str:
        """The configured name."""
        return self._settings.name

    def add(self, *steps: ScriptedStep | str) -> None:
        """Add steps behind those that wait."""
        self._steps.extend(ScriptedStep.from_json(step) if isinstance(step, str) else step for step in steps)

    async def capabilities(self) -> Capabilities:
        """From the settings."""
        settings = self._settings
        return Capabilities(
            context_tokens=settings.context_tokens or DEFAULT_CONTEXT_TOKENS,
            tools=settings.tools or "native",
            images=True if settings.images is None else settings.images,
        )

    def wire_system(self, text: str) -> str:
        """See the port; the dialect is OpenAI's."""
        return openai_wire.system(text)

    def wire_user(self, text: str, images: Sequence[Image] = ()) -> str:
        """See the port."""
        return openai_wire.user(text, images)

    def wire_assistant(self, text: str, tool_calls: Sequence[ToolCall] = ()) -> str:
        """See the port."""
        return openai_wire.assistant(text, tool_calls)

    def wire_tool_result(self, call: ToolCall, content: str) -> str:
        """See the port."""
        return openai_wire.tool_result(call, content)

    def wire_tool(self, spec: ToolSpec) -> str:
        """See the port."""
        return openai_wire.tool(spec)

    async def stream(self, request: Request) -> AsyncGenerator[Delta | Completion, None]:
        """See the port."""
        self.count += 1
        number = self.count
        body = openai_wire.body(
            request, model=self.name, stream=True, max_tokens=request.max_tokens, own_endpoint=False
        )
        said = last_user_text(request.messages)
        step = self._next_step(said) or ScriptedStep(text=f"echo {{n}}: {said}")
        text = step.text.replace("{n}", str(number))
        for delta in _deltas(step, text):
            await asyncio.sleep(step.delay)
            yield delta
        if step.error is not None:
            raise _fault(step.error, step.retry_after)
        if step.finish is None:
            raise ModelUnavailable("the model's answer broke off")
        calls = tuple(_call(raw, index, body) for index, raw in enumerate(step.tool_calls))
        finish: FinishReason = "tool_calls" if calls else "stop"
        yield Completion(
            text=text,
            finish_reason=finish if step.finish == "auto" else step.finish,
            wire=openai_wire.assistant(text, calls),
            tool_calls=calls,
            reasoning=step.reasoning,
            usage=Usage(input_tokens=-(-len(body) // 4), output_tokens=-(-len(text) // 4)),
            request_body=body,
        )

    def _next_step(self, said: str) -> ScriptedStep | None:
        fitting = [at for at, step in enumerate(self._steps) if step.when is not None and step.when in said]
        free = fitting or [at for at, step in enumerate(self._steps) if step.when is None]
        if not free:
            return None
        step = self._steps[free[0]]
        if step.times > 1:
            self._steps[free[0]] = replace(step, times=step.times - 1)
        else:
            del self._steps[free[0]]
        return step

    async def turn_ended(self) -> None:
        """Counted."""
        self.turns_ended += 1

    async def close(self) -> None:
        """Nothing is held."""


def last_user_text(messages: Sequence[str]) -> str:
    """The text of the last user message among wire texts of OpenAI's dialect; "" if there is none."""
    for wire in reversed(messages):
        message = json.loads(wire)
        if message.get("role") == "user":
            content = message.get("content")
            if isinstance(content, str):
                return content
            return " ".join(part.get("text", "") for part in content if part.get("type") == "text")
    return ""


def _deltas(step: ScriptedStep, text: str) -> list[Delta]:
    size = max(1, -(-len(text) // max(1, step.chunks)))
    head = [Delta(reasoning=step.reasoning)] if step.reasoning else []
    return head + [Delta(text=text[at : at + size]) for at in range(0, len(text), size)]


def _call(raw: Mapping[str, Any], index: int, body: bytes) -> ToolCall:
    arguments = raw.get("arguments", "{}")
    return ToolCall(
        id=str(raw.get("id") or call_id(body, index)),
        name=str(raw["name"]),
        arguments=arguments if isinstance(arguments, str) else json_text(arguments),
    )


def _fault(kind: Fault, wait: float | None) -> ModelError:
    match kind:
        case "unavailable":
            return ModelUnavailable("scripted fault", retry_after=wait)
        case "refused":
            return ModelRefused("scripted refusal")
        case "key":
            return ModelKeyBad("scripted: the key is refused")
        case "context":
            return ContextFull("scripted: the window is full")


if TYPE_CHECKING:
    _conforms: Model = ScriptedModel(ModelSettings(provider="scripted", name="x"))
