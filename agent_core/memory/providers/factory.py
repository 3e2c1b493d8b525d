"""Which provider is behind a name. The SDK of one is imported when it is first used, never before."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from agent_core.memory.providers.hindsight import HindsightMemory
from agent_core.memory.providers.honcho import HonchoMemory
from agent_core.memory.providers.mem0 import Mem0Memory
from agent_core.memory.providers.openviking import OpenVikingMemory
from agent_core.memory.providers.ports import MemoryProvider
from agent_core.memory.providers.settings import ProviderName, ProviderSettings
from agent_core.memory.providers.supermemory import SupermemoryMemory

MODULES: dict[ProviderName, str] = {
    "honcho": "honcho",
    "mem0": "mem0",
    "hindsight": "hindsight_client",
    "supermemory": "supermemory",
    "openviking": "openviking_sdk",
}
"""The module of each SDK; it comes with the extra of the same name as the provider."""


def missing(name: ProviderName) -> str:
    """What must be installed for this provider, "" where nothing is missing."""
    if importlib.util.find_spec(MODULES[name]) is not None:
        return ""
    return f"pip install 'tidings[{name}]'"


def make_provider(settings: ProviderSettings, *, home: Path) -> MemoryProvider:
    """The provider. Nothing is opened or imported yet."""
    match settings.name:
        case "honcho":
            return HonchoMemory(settings)
        case "mem0":
            return Mem0Memory(settings, home / "memories" / "mem0")
        case "hindsight":
            return HindsightMemory(settings)
        case "supermemory":
            return SupermemoryMemory(settings)
        case "openviking":
            return OpenVikingMemory(settings)
        case _:
            raise ValueError(f"there is no memory provider {settings.name}")
