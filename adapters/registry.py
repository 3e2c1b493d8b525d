"""The platforms by name: their manifests are read, nothing of theirs is imported before it is used."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from adapters.ports import Renderer

NAMES = ("telegram", "discord", "slack", "http", "terminal", "memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What is known of a platform without importing it. Paths are `module:name`.

    `settings` is its settings class (None: it has no section in the configuration), `adapter` the
    factory of its adapter (None: this version cannot connect to it yet), `renderer` makes its renderer
    without the adapter. `title` is its name for people, `extra` the extra of the distribution that
    brings its SDK (None: it needs none).
    """

    name: str
    settings: str | None
    adapter: str | None
    renderer: str | None = None
    title: str = ""
    extra: str | None = None
    sdk: str | None = None
    """The module that the extra brings; where it cannot be found the platform cannot be switched on."""
    setup: str | None = None
    """`module:name` of its `adapters.setup.Setup`; None where there is nothing to set up."""
    stated_limits: tuple[str, ...] = ()
    """What cannot be promised there (P1), one sentence each, for `tidings doctor` and the docs."""


@cache
def manifests() -> Mapping[str, Manifest]:
    """Every platform of this version, by name."""
    found: dict[str, Manifest] = {}
    for name in NAMES:
        module = f"adapters.{name}.manifest"
        if importlib.util.find_spec(f"adapters.{name}") and importlib.util.find_spec(module):
            found[name] = importlib.import_module(module).MANIFEST
    return found


def load(path: str) -> Any:
    """The object at `module:name`."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


@cache
def renderer_for(name: str) -> Renderer:
    """The renderer of a platform, also where no adapter of it runs in this process.

    Imports only what renders. Raises KeyError for a platform that this version does not know, and
    LookupError for one that cannot be rendered for yet.
    """
    path = manifests()[name].renderer
    if path is None:
        raise LookupError(f"this version of Tidings has no renderer for {name}")
    renderer: Renderer = load(path)()
    return renderer
