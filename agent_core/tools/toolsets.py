"""Toolsets: names for groups of tools, which may hold other toolsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def resolve(
    names: Iterable[str], toolsets: Mapping[str, Iterable[str]], disabled: Iterable[str] = ()
) -> frozenset[str]:
    """The plain names (tools or groups) behind `names`.

    A name that is no toolset stands for itself. Toolsets nest; one that holds itself, however indirectly,
    adds nothing by that. `disabled` is resolved in the same way and subtracted last, so that nothing
    brings back what is disabled.
    """
    return _expand(names, toolsets) - _expand(disabled, toolsets)


def _expand(names: Iterable[str], toolsets: Mapping[str, Iterable[str]]) -> frozenset[str]:
    plain: set[str] = set()
    seen: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in toolsets:
            waiting.extend(toolsets[name])
        else:
            plain.add(name)
    return frozenset(plain)
