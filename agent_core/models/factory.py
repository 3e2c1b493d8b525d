"""Makes a model from its settings. A provider's module is imported only when it is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import assert_never

from agent_core.models.ports import Model
from agent_core.models.settings import ModelSettings


def make_model(settings: ModelSettings, *, home: Path) -> Model:
    """The model. Cheap: no SDK is imported, nothing is connected or started, except that a script is read.

    `home` is the state folder, where the embedded model has its weights and its server's files.
    ValueError or OSError for a script that cannot be used.
    """
    match settings.provider:
        case "openai":
            from agent_core.models.openai import OpenAIModel  # noqa: PLC0415 - imported only when asked for

            return OpenAIModel(settings)
        case "anthropic":
            from agent_core.models.anthropic import AnthropicModel  # noqa: PLC0415 - imported only when asked for

            return AnthropicModel(settings)
        case "embedded":
            from agent_core.models.embedded.model import EmbeddedModel  # noqa: PLC0415 - imported only when asked for

            return EmbeddedModel(settings, home=home)
        case "scripted":
            from agent_core.models.scripted import ScriptedModel, load_script  # noqa: PLC0415 - imported only when asked for

            steps = load_script(Path(settings.script)) if settings.script else []
            return ScriptedModel(settings, steps)
    assert_never(settings.provider)
