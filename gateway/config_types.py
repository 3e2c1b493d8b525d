"""The configuration as everybody else sees it: one frozen value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from adapters.settings import PlatformSettings
from agent_core.models.settings import ModelSettings
from gateway.config_memory import MemorySettings
from gateway.config_schema import (
    AccessSettings,
    ChatSettings,
    LimitSettings,
    LogSettings,
    TelemetrySettings,
    ToolSettings,
)
from gateway.log_file import FileSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """One effective value, for `tidings config check`. Secrets are masked in `shown`."""

    where: str
    shown: str
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The settings in force. Paths are absolute; secrets are resolved."""

    file: Path
    home: Path
    """The state folder. It may not exist yet."""
    log: LogSettings
    model: ModelSettings
    fallbacks: tuple[str, ...]
    """Names from `models`, tried in this order when `model` is unavailable."""
    models: Mapping[str, ModelSettings]
    """Further models by name; those whose secrets are missing stand in `unusable_models` instead."""
    unusable_models: Mapping[str, str]
    """Name -> why it cannot be used."""
    access: AccessSettings
    chat: ChatSettings
    tools: ToolSettings
    limits: LimitSettings
    telemetry: TelemetrySettings
    memory: MemorySettings
    platforms: Mapping[str, PlatformSettings]
    """Every platform that has settings, by name, enabled or not."""
    root: Path
    """`tools.root`, absolute."""
    log_path: Path | None
    """`log.file`, absolute."""
    secrets: frozenset[str] = field(repr=False)
    """Every resolved secret, for the redaction of logs."""
    warnings: tuple[str, ...]
    """What is allowed but should be known; told at start."""
    leaves: Mapping[str, Any] = field(repr=False)
    """Every setting by its dotted path (secrets as `SecretStr`), to compare two configurations by."""
    values: tuple[Value, ...]
    """Every effective value with its origin."""

    def log_file(self) -> FileSettings | None:
        """Where the log file is, if one is wanted."""
        if self.log_path is None:
            return None
        return FileSettings(path=self.log_path, max_bytes=self.log.max_bytes, keep=self.log.keep)

    def enabled(self) -> tuple[str, ...]:
        """The names of the platforms that are on."""
        return tuple(name for name, settings in self.platforms.items() if settings.enabled)
