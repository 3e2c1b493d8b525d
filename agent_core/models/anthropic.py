"""Anthropic's messages API, streaming or not, with cache marks (extra `anthropic`)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from agent_core.models import anthropic_wire
from agent_core.models.anthropic_answer import Answer
from agent_core.models.ports import Capabilities, Completion, Delta, Image, Model, Request, ToolSpec
from agent_core.models.sdk import Sdk
from agent_core.models.settings import ModelSettings
from state.records import ToolCall

_PATH = "/v1/messages"
CONTEXT_TOKENS = 200_000
MAX_TOKENS = 8192
"""The API demands a limit; this one holds where none is configured."""


class AnthropicModel:
    """A model behind the messages API. The SDK is imported at the first call or `warm()`."""

    def __init__(self, settings: ModelSettings) -> None:
        if settings.base_url is not None:
            settings = replace(settings, base_url=settings.base_url.rstrip("/").removesuffix("/v1"))
        self._settings = settings
        self._sdk = Sdk(settings, package="anthropic")

    @property
    def name(self) -> str:
        """The configured name."""
        return self._settings.name

    async def warm(self) -> None:
        """Import the SDK and make the client now, so that the first call need not."""
        await self._sdk.warm()

    async def capabilities(self) -> Capabilities:
        """From the settings; nothing is asked of the endpoint."""
        settings = self._settings
        return Capabilities(
            context_tokens=settings.context_tokens or CONTEXT_TOKENS,
            tools=settings.tools or "native",
            images=True if settings.images is None else settings.images,
        )

    def wire_system(self, text: str) -> str:
        """See the port."""
        return anthropic_wire.system(text)

    def wire_user(self, text: str, images: Sequence[Image] = ()) -> str:
        """See the port."""
        return anthropic_wire.user(text, images)

    def wire_assistant(self, text: str, tool_calls: Sequence[ToolCall] = ()) -> str:
        """See the port."""
        return anthropic_wire.assistant(text, tool_calls)

    def wire_tool_result(self, call: ToolCall, content: str) -> str:
        """See the port."""
        return anthropic_wire.tool_result(call, content)

    def wire_tool(self, spec: ToolSpec) -> str:
        """See the port."""
        return anthropic_wire.tool(spec)

    async def stream(self, request: Request) -> AsyncGenerator[Delta | Completion, None]:
        """See the port."""
        settings = self._settings
        body = anthropic_wire.body(
            request,
            model=settings.name,
            stream=settings.stream,
            max_tokens=request.max_tokens or settings.max_tokens or MAX_TOKENS,
        )
        answer = Answer()
        if settings.stream:
            async with self._sdk.stream(_PATH, body) as events:
                while (event := await events.next(complete=answer.finish is not None)) is not None:
                    delta = answer.add(event)
                    if delta is not None:
                        yield delta
        else:
            delta = answer.add(await self._sdk.whole(_PATH, body))
            if delta is not None:
                yield delta
        yield answer.completion(body)

    async def turn_ended(self) -> None:
        """Nothing to do."""

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        await self._sdk.close()


if TYPE_CHECKING:
    _conforms: Model = AnthropicModel(ModelSettings(provider="anthropic", name="x"))
