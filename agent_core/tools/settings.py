"""Settings of the tools, as plain values: the gateway fills them from the configuration."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSettings:
    """Bounds of the file tools."""

    max_bytes: int = 8_000_000
    """Larger files are neither read nor patched."""
    send_bytes: int = 50_000_000
    """Larger files are not sent."""
    result_chars: int = 40_000
    """Characters of one result."""
    search_seconds: float = 10.0
    search_files: int = 50_000
    """Entries that one search looks at."""
    search_file_bytes: int = 2_000_000
    """Larger files are left out of a search by content (the result says how many)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalSettings:
    """Bounds of the terminal."""

    seconds: float = 120.0
    """Time limit of a command that names none."""
    max_seconds: float = 600.0
    """What a call may ask for at most."""
    output_bytes: int = 30_000
    """Kept of the output: one half from the beginning, one half from the end."""
    never: tuple[str, ...] = ()
    """Patterns of commands that are refused (`agent_core.tools.patterns`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSettings:
    """Bounds of the web tools. `allow` is for tests only: `address:port` pairs (the address a number,
    e.g. `127.0.0.1:8080`) that may be reached although they are not public."""

    seconds: float = 30.0
    """For everything: names, connection, redirects, body."""
    max_bytes: int = 2_000_000
    """Of the body, packed as well as unpacked."""
    result_chars: int = 40_000
    redirects: int = 5
    allow: frozenset[str] = frozenset()
    user_agent: str = "Tidings/0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSettings:
    """All of it."""

    files: FileSettings = field(default_factory=FileSettings)
    terminal: TerminalSettings = field(default_factory=TerminalSettings)
    web: WebSettings = field(default_factory=WebSettings)
