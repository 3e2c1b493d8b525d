"""What a new configuration changes in a running daemon: what is taken over, which platforms begin anew, and what
has to wait for a restart. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from adapters.http.settings import HttpSettings
from adapters.settings import PlatformSettings
from gateway.config_types import Config

HTTP = "http"
FIXED = frozenset(
    {
        "home",
        "tools.root",
        "tools.terminal_seconds",
        "tools.never_run",
        "tools.web_private",
        "limits.concurrent_turns",
        "limits.attachment_bytes",
        "telemetry.endpoint",
    }
)
"""What is built into the running process (besides everything under platforms.http and memory)."""
_ABSENT = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`config` is what will be in force: the new one, with the old values of what has to wait for a restart.

    `changed` are the keys that are taken over, `later` those that are not. `begin` are the platforms that get a
    new adapter, `end` those that are ended (several are in both: they are restarted).
    """

    config: Config
    changed: tuple[str, ...]
    later: tuple[str, ...]
    begin: tuple[str, ...]
    end: tuple[str, ...]


def plan(old: Config, new: Config) -> Plan:
    """The way from the configuration in force to the one of the file."""
    keys = differing(old.leaves, new.leaves)
    later = tuple(key for key in keys if _is_fixed(key))
    changed = tuple(key for key in keys if not _is_fixed(key))
    held = _hold(old, new)
    begin, end = [], []
    for name, settings in held.platforms.items():
        before = old.platforms.get(name)
        was = before is not None and before.enabled
        if was and settings.enabled and not _own_change(name, settings, changed):
            continue
        if was:
            end.append(name)
        if settings.enabled:
            begin.append(name)
    return Plan(
        config=held,
        changed=changed,
        later=later,
        begin=tuple(begin),
        end=tuple(end),
    )


def differing(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """The dotted paths whose values differ, sorted."""
    return sorted(key for key in {*old, *new} if old.get(key, _ABSENT) != new.get(key, _ABSENT))


def _is_fixed(key: str) -> bool:
    return key in FIXED or key.startswith((f"platforms.{HTTP}.", "memory."))


def _own_change(name: str, settings: PlatformSettings, keys: Sequence[str]) -> bool:
    """Whether the platform has to be restarted: something changed besides what the gateway reads live."""
    at = f"platforms.{name}."
    return any(key.startswith(at) and key.removeprefix(at) not in settings.LIVE for key in keys)


def _hold(old: Config, new: Config) -> Config:
    """The new configuration with the old values of what is fixed."""
    http = old.platforms[HTTP]
    assert isinstance(http, HttpSettings)
    fixed = {key: value for key, value in old.leaves.items() if _is_fixed(key)}
    free = {key: value for key, value in new.leaves.items() if not _is_fixed(key)}
    tools, limits = old.tools, old.limits
    return dataclasses.replace(
        new,
        home=old.home,
        root=old.root,
        tools=new.tools.model_copy(
            update={name: getattr(tools, name) for name in ("root", "terminal_seconds", "never_run", "web_private")}
        ),
        limits=new.limits.model_copy(
            update={name: getattr(limits, name) for name in ("concurrent_turns", "attachment_bytes")}
        ),
        telemetry=old.telemetry,
        memory=old.memory,
        platforms={**new.platforms, HTTP: http},
        log_path=_log_path(old, new),
        leaves={**free, **fixed},
    )


def _log_path(old: Config, new: Config) -> Any:
    """Where the log file is: below the home in force, also where the file names another home."""
    if new.log_path is None or not new.log_path.is_relative_to(new.home):
        return new.log_path
    return old.home / new.log_path.relative_to(new.home)
