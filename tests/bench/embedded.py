"""The embedded model: time to the first token with a cold prompt, a warm prefix, and after a restart."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from agent_core.models.embedded.install import installed
from agent_core.models.embedded.model import EmbeddedModel
from agent_core.models.ports import Completion, Delta, Request
from agent_core.models.settings import ModelSettings
from tests.weights import WEIGHTS_HOME


async def first_token(model: EmbeddedModel, messages: list[str]) -> tuple[float, Completion]:
    """Seconds to the first piece of text, and the end of the call."""
    began, first, end = time.perf_counter(), None, None
    request = Request(
        system=model.wire_system("You are a helpful assistant. " + "Keep every rule. " * 250),
        messages=messages,
        max_tokens=16,
    )
    async for part in model.stream(request):
        if isinstance(part, Delta) and part.text and first is None:
            first = time.perf_counter() - began
        if isinstance(part, Completion):
            end = part
    assert end is not None
    return first if first is not None else time.perf_counter() - began, end


async def embedded(_quick: bool) -> dict[str, Any]:
    """Cold, warm, and after a restart with the saved slot."""
    if not installed(WEIGHTS_HOME):
        return {"skipped": f"no weights in {WEIGHTS_HOME}"}
    settings = ModelSettings(provider="embedded", name="SmolLM2-135M-Instruct")
    with tempfile.TemporaryDirectory(prefix="tidings-bench-") as folder:
        home = Path(folder)
        (home / "models").mkdir()
        for file in (WEIGHTS_HOME / "models").iterdir():
            if file.is_file():
                (home / "models" / file.name).symlink_to(file)
        model = EmbeddedModel(settings, home=home, grace=0.5)
        began = time.perf_counter()
        await model.warm()
        up = time.perf_counter() - began
        one = [model.wire_user("Say hello.")]
        cold, end = await first_token(model, one)
        two = [*one, end.wire, model.wire_user("And again.")]
        warm, second = await first_token(model, two)
        await model.turn_ended()
        await model.close()
        await _gone(home)
        model = EmbeddedModel(settings, home=home, grace=0.5)
        await model.warm()
        again, third = await first_token(model, [*two, second.wire, model.wire_user("Once more.")])
        await model.close()
    return {
        "server_up_s": round(up, 2),
        "prompt_tokens": end.usage.input_tokens,
        "first_token_cold_s": round(cold, 2),
        "first_token_warm_s": round(warm, 3),
        "cached_share_warm": round(second.usage.cached_tokens / max(1, second.usage.input_tokens), 3),
        "first_token_after_restart_s": round(again, 3),
        "cached_share_after_restart": round(third.usage.cached_tokens / max(1, third.usage.input_tokens), 3),
    }


async def _gone(home: Path) -> None:
    """Wait until the server of this home has ended."""
    import asyncio

    await asyncio.sleep(2.5)
    assert home.exists()
