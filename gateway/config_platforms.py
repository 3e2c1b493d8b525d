"""What the configuration asks the platforms: their settings classes and the form of their ids."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from functools import cache

from adapters import registry
from adapters.settings import PlatformSettings

OWN_PRINCIPALS = {"terminal"}
"""Platforms without settings whose people can stand in a list."""


def known_platforms() -> tuple[str, ...]:
    """Every platform of this version."""
    return tuple(registry.manifests())


@cache
def platform_settings() -> Mapping[str, type[PlatformSettings]]:
    """The settings class of each platform that has a section under `platforms:`."""
    return {
        name: registry.load(manifest.settings)
        for name, manifest in registry.manifests().items()
        if manifest.settings is not None
    }


def missing_adapter(name: str) -> str | None:
    """Why the platform cannot be switched on, or None where it can."""
    manifest = registry.manifests()[name]
    if manifest.adapter is None:
        return f"this version of Tidings cannot connect to {name} yet; set it to false"
    if manifest.sdk is not None and importlib.util.find_spec(manifest.sdk) is None:
        return f"its library is not installed: pip install 'tidings[{manifest.extra}]', or set it to false"
    return None


def person_fault(person: str) -> str | None:
    """Why `person` is no "platform:id", or None where it is."""
    platform, colon, one = person.partition(":")
    if not colon or platform not in registry.manifests():
        return f'{person!r} must be "platform:id", with one of {", ".join(registry.manifests())}'
    if not one or one != one.strip() or one.startswith("@"):
        return f"{person!r}: the id must be the platform's stable id, without blanks and no display name"
    settings = platform_settings().get(platform)
    problem = settings.person_fault(one) if settings is not None else None
    return f"{person!r}: {problem}" if problem else None
