"""The port of a model.

A request is made of JSON texts that are sent as they are: what was sent is what is stored and what is
replayed (P5). A model therefore also composes the wire form of every kind of message.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

from state.records import ToolCall

FinishReason = Literal["stop", "tool_calls", "length", "content_filter"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool as the model sees it. `parameters` is a JSON schema as JSON text, its bytes fixed."""

    name: str
    description: str
    parameters: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A picture for the model. `data` is base64; `mime` e.g. `image/png`."""

    mime: str
    data: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One model call. `system`, `tools` and each message are JSON texts in this model's own dialect,
    made by its `wire_*` methods (now or in an earlier turn) and sent byte for byte."""

    system: str
    messages: Sequence[str]
    tools: Sequence[str] = ()
    max_tokens: int | None = None
    cache_key: str | None = None
    """The session id: providers with a routing hint for prefix caches get it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """An increment of the answer's text or of the reasoning."""

    text: str = ""
    reasoning: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The provider's own figures; 0 where it gave none."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """The end of a model call. `wire` is the assistant message as it will be replayed, byte for byte."""

    text: str
    finish_reason: FinishReason
    wire: str
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str = ""
    usage: Usage = field(default_factory=Usage)
    request_body: bytes = b""
    """The raw body that was sent, for the prefix proof (system, tools and messages unchanged in it)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a model can do. `context_tokens` is its window, `brief` asks for the short prompt profile."""

    context_tokens: int
    tools: Literal["native", "none"] = "native"
    images: bool = True
    brief: bool = False


class Model(Protocol):
    """A model. One instance serves every session of the process; calls run concurrently."""

    @property
    def name(self) -> str:
        """The configured name, as `/status` shows it."""
        ...

    async def capabilities(self) -> Capabilities:
        """What it can do; asked for once a turn and cheap. May start the embedded server.
        Raises `ModelUnavailable`."""
        ...

    def wire_system(self, text: str) -> str:
        """The JSON text of the system prompt. Pure and deterministic, like every `wire_*`."""
        ...

    def wire_user(self, text: str, images: Sequence[Image] = ()) -> str:
        """The JSON text of a user message."""
        ...

    def wire_assistant(self, text: str, tool_calls: Sequence[ToolCall] = ()) -> str:
        """The JSON text of an assistant message that this model did not make itself."""
        ...

    def wire_tool_result(self, call: ToolCall, content: str) -> str:
        """The JSON text of one tool result."""
        ...

    def wire_tool(self, spec: ToolSpec) -> str:
        """The JSON text of one tool's description."""
        ...

    def stream(self, request: Request) -> AsyncIterator[Delta | Completion]:
        """Call the model: any number of `Delta`, then exactly one `Completion`.

        Raises an `agent_core.errors.ModelError`, by remedy. A stream that ends without a finish reason
        raises `ModelUnavailable`. One try only: the loop retries. Every wait inside is bounded (connect,
        silence between chunks). Closing the iterator or cancelling ends the call at the provider.
        """
        ...

    async def turn_ended(self) -> None:
        """A turn has ended, its answer is committed (the embedded model saves its slot here)."""
        ...

    async def close(self) -> None:
        """Release what is held. Idempotent."""
        ...


@runtime_checkable
class Warmable(Protocol):
    """A model whose first call is slow unless it is prepared (import of an SDK, start of a server)."""

    async def warm(self) -> None:
        """Prepare it, off the loop. May be called at any time, also by several tasks at once; cheap when
        done. Raises `ModelUnavailable`; a later call simply tries again."""
        ...
