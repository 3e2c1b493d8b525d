"""What is known of the memory adapter without importing it."""

from __future__ import annotations

from adapters.registry import Manifest

MANIFEST = Manifest(
    name="memory",
    title="Memory (for tests)",
    settings=None,
    adapter="adapters.memory.adapter:MemoryAdapter",
    renderer="adapters.memory.render:MemoryRenderer",
)
