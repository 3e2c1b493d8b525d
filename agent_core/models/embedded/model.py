"""The embedded model: the shared server, spoken to by the ordinary openai provider."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp

from agent_core.models import openai_wire
from agent_core.models.embedded.host import Host
from agent_core.models.embedded.server import SLOT_FILE
from agent_core.models.embedded.shared import Listening
from agent_core.models.openai import OpenAIModel
from agent_core.models.ports import Capabilities, Completion, Delta, Image, Model, Request, ToolSpec
from agent_core.models.settings import ModelSettings, Timeouts
from state.records import ToolCall

CONTEXT = 8192
LONGEST_ANSWER = 768
"""Tokens. A small model that has lost the thread would hold the one slot until its window is full."""
GRACE = 5.0
TIMEOUTS = Timeouts(connect=5.0, silence=300.0, total=900.0)
"""Where none are configured. There is one slot: a call may have to wait for the answers of other sessions."""
SAVE_BOUND = 20.0

_log = logging.getLogger(__name__)


class EmbeddedModel:
    """See the module. The server is started at the first need: `warm()`, `capabilities()` or a call."""

    def __init__(self, settings: ModelSettings, *, home: Path, grace: float = GRACE) -> None:
        self._settings = settings
        self._host = Host(home, context=settings.context_tokens or CONTEXT, grace=grace)
        self._slots = home / "models" / "slots"
        self._changing = asyncio.Lock()
        self._listening: Listening | None = None
        self._inner: OpenAIModel | None = None
        self._saving = asyncio.Lock()
        self._save_wanted = False

    @property
    def name(self) -> str:
        """The configured name."""
        return self._settings.name

    async def warm(self) -> None:
        """Start or join the server, and import the SDK meanwhile."""
        inner, _ = await asyncio.gather(self._connected(), asyncio.to_thread(importlib.import_module, "openai"))
        await inner.warm()

    async def capabilities(self) -> Capabilities:
        """What the running server says about its window; no tools, no pictures, a short prompt."""
        await self._connected()
        assert self._listening is not None
        return Capabilities(context_tokens=self._listening.context_tokens, tools="none", images=False, brief=True)

    def wire_system(self, text: str) -> str:
        """See the port; the dialect is OpenAI's."""
        return openai_wire.system(text)

    def wire_user(self, text: str, images: Sequence[Image] = ()) -> str:
        """See the port. Pictures are left out: it cannot see them (`capabilities().images`)."""
        return openai_wire.user(text, ())

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
        """See the port. A server that died is started again by the next call (the loop's retry)."""
        inner = await self._connected()
        async with aclosing(inner.stream(request)) as pieces:
            async for piece in pieces:
                yield piece

    async def turn_ended(self) -> None:
        """Save the slot. Turns that end meanwhile share one more save. Never raises for a failed save."""
        self._save_wanted = True
        async with self._saving:
            if self._save_wanted:
                self._save_wanted = False
                await self._save()

    async def _save(self) -> None:
        listening = self._listening
        if listening is None:
            return
        fresh = f"{SLOT_FILE}.{os.getpid()}.new"
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=SAVE_BOUND)) as http,
                http.post(
                    f"{listening.url}/slots/0?action=save",
                    json={"filename": fresh},
                    headers={"Authorization": f"Bearer {listening.key}"},
                ) as answer,
            ):
                answer.raise_for_status()
            # The name changes only when the file is whole: a crash in between leaves the older one.
            await asyncio.to_thread(os.replace, self._slots / fresh, self._slots / SLOT_FILE)
        except (aiohttp.ClientError, OSError) as exc:
            _log.warning("the slot of the embedded model is not saved: %s", exc)

    async def _connected(self) -> OpenAIModel:
        async with self._changing:
            listening = await asyncio.to_thread(self._host.ensure)
            if self._inner is None or listening != self._listening:
                old, self._listening = self._inner, listening
                times = self._settings.timeouts
                self._inner = OpenAIModel(
                    replace(
                        self._settings,
                        base_url=f"{listening.url}/v1",
                        api_key=listening.key,
                        max_tokens=self._settings.max_tokens or LONGEST_ANSWER,
                        timeouts=TIMEOUTS if times == Timeouts() else times,
                    )
                )
                if old is not None:
                    await old.close()
            return self._inner

    async def close(self) -> None:
        """Save the slot and leave the server. Idempotent."""
        if self._listening is not None:
            await self.turn_ended()
        async with self._changing:
            inner, self._inner, self._listening = self._inner, None, None
            if inner is not None:
                await inner.close()
            await asyncio.to_thread(self._host.leave)


if TYPE_CHECKING:
    _conforms: Model = EmbeddedModel(ModelSettings(provider="embedded", name="x"), home=Path())
