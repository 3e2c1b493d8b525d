"""The scripted model: order, reservation, faults."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_core.errors import ContextFull, ModelError, ModelKeyBad, ModelRefused, ModelUnavailable
from agent_core.models.factory import make_model
from agent_core.models.ports import Completion, Request
from agent_core.models.scripted import ScriptedModel, ScriptedStep
from agent_core.models.settings import ModelSettings

SETTINGS = ModelSettings(provider="scripted", name="s")


async def ask(model: ScriptedModel, text: str) -> Completion:
    request = Request(system=model.wire_system("s"), messages=[model.wire_user(text)])
    pieces = [piece async for piece in model.stream(request)]
    last = pieces[-1]
    assert isinstance(last, Completion)
    return last


async def test_steps_in_order_then_echo(tmp_path: Path) -> None:
    path = tmp_path / "script.json"
    path.write_text(
        json.dumps(["one", {"text": "rain {n}", "when": "weather"}, {"text": "again", "times": 2}]), "utf-8"
    )
    model = make_model(ModelSettings(provider="scripted", name="s", script=str(path)), home=tmp_path)
    assert isinstance(model, ScriptedModel)
    said = [(await ask(model, text)).text for text in ("hi", "the weather?", "x", "y", "z")]
    assert said == ["one", "rain 2", "again", "again", "echo 5: z"]


@pytest.mark.parametrize(
    ("step", "error"),
    [
        (ScriptedStep(error="unavailable", retry_after=2.0), ModelUnavailable),
        (ScriptedStep(error="refused"), ModelRefused),
        (ScriptedStep(error="key"), ModelKeyBad),
        (ScriptedStep(error="context"), ContextFull),
        (ScriptedStep(text="half", finish=None), ModelUnavailable),
    ],
)
async def test_faults(step: ScriptedStep, error: type[ModelError]) -> None:
    model = ScriptedModel(SETTINGS, [step])
    with pytest.raises(error) as caught:
        await ask(model, "x")
    if isinstance(caught.value, ModelUnavailable):
        assert caught.value.retry_after == step.retry_after
    assert (await ask(model, "x")).text == "echo 2: x"
