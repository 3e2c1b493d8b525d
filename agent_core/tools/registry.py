"""Every tool of the process by name, and what of it a turn may use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agent_core.tools.ports import Rights, Tool

OWNER_GROUPS = frozenset({"files", "terminal", "mcp"})
"""Groups that only an owner's turn may use, whatever else its rights name."""


class Registry:
    """An immutable set of tools. Names are unique; the order is by name, so that it is the same in
    every process: the list is part of the frozen prefix (P5)."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        """Raises ValueError for two tools of one name."""
        self._tools: dict[str, Tool] = {}
        for tool in sorted(tools, key=lambda one: one.spec.name):
            if tool.spec.name in self._tools:
                raise ValueError(f"two tools are called {tool.spec.name!r}")
            self._tools[tool.spec.name] = tool

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def get(self, name: str) -> Tool | None:
        """The tool of that name, whoever asks. Check `allows` before it runs."""
        return self._tools.get(name)

    def allows(self, name: str, rights: Rights, *, disabled: frozenset[str] = frozenset()) -> bool:
        """True if a turn with these rights may run that tool now. The loop asks this again right before
        a call runs, since the rights may have shrunk since the list was made."""
        tool = self._tools.get(name)
        if tool is None or name in disabled or tool.group in disabled:
            return False
        return tool.group in rights.tools and (rights.role == "owner" or tool.group not in OWNER_GROUPS)

    def for_rights(
        self, rights: Rights, *, disabled: frozenset[str] = frozenset(), native: bool = True
    ) -> tuple[Tool, ...]:
        """The tools of a turn, in the fixed order. `disabled` holds names of tools or of groups.
        Nothing at all for a model that cannot call tools (`native=False`)."""
        if not native:
            return ()
        return tuple(tool for name, tool in self._tools.items() if self.allows(name, rights, disabled=disabled))

    def groups(self) -> dict[str, tuple[str, ...]]:
        """The names of the tools of each group: usable as toolsets in `toolsets.resolve`."""
        found: dict[str, tuple[str, ...]] = {}
        for name, tool in self._tools.items():
            found[tool.group] = (*found.get(tool.group, ()), name)
        return found
