"""Every effective value with its origin, for `tidings config check`. Secrets are masked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, SecretStr

from gateway.config_faults import dotted
from gateway.config_types import Value
from gateway.config_yaml import Document

MASK = "********"


def effective(
    sections: Mapping[str, BaseModel | None],
    document: Document,
    origins: Mapping[tuple[str | int, ...], str],
    file: Path,
    home: tuple[str, str, str],
) -> tuple[Value, ...]:
    """The values of `sections` (dotted name -> settings), sorted as they come, `home` first."""
    values = [Value(where=home[0], shown=home[1], origin=home[2])]
    for name, settings in sections.items():
        if settings is None:
            continue
        at: tuple[str | int, ...] = tuple(name.split(".", 1))
        for path, value in _leaves(settings, at):
            origin = "default"
            if path in document.lines:
                origin = f"{file.name}:{document.lines[path]}"
                if path in origins:
                    origin += f" {origins[path]}"
            unread = value is None and _at(document.tree, path) is not None
            shown = "(not looked up: not in use)" if unread else _shown(value)
            values.append(Value(where=dotted(path), shown=shown, origin=origin))
    return tuple(values)


def every_leaf(sections: Mapping[str, BaseModel | None]) -> dict[str, Any]:
    """Every value by its dotted path."""
    return {
        dotted(path): value
        for name, settings in sections.items()
        if settings is not None
        for path, value in _leaves(settings, tuple(name.split(".", 1)))
    }


def _leaves(settings: BaseModel, at: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        if isinstance(value, BaseModel):
            yield from _leaves(value, (*at, name))
        else:
            yield (*at, name), value


def _at(tree: Any, path: tuple[str | int, ...]) -> Any:
    for part in path:
        tree = tree.get(part) if isinstance(tree, Mapping) else None
    return tree


def _shown(value: Any) -> str:
    if isinstance(value, SecretStr):
        return MASK
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return str(value)
