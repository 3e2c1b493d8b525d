"""What is known of the terminal without importing it."""

from __future__ import annotations

from adapters.registry import Manifest

MANIFEST = Manifest(
    name="terminal",
    title="Terminal",
    settings=None,
    adapter="adapters.terminal.adapter:TerminalAdapter",
    renderer="adapters.terminal.render:TerminalRenderer",
)
