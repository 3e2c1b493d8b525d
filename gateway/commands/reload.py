"""The command /reload: take over a changed configuration."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from gateway.commands.base import Call, Command, Reply


class Outcome(Protocol):
    """What became of it."""

    def lines(self) -> list[str]:
        """For people."""
        ...


Reload = Callable[[str], Awaitable[Outcome]]
"""Takes over the configuration for a stated reason; never raises."""


class ReloadCommand:
    """For owners, in the daemon only."""

    def __init__(self, reload: Reload | None) -> None:
        self._reload = reload

    def commands(self) -> Iterable[Command]:
        """The command, where there is a daemon to be told."""
        if self._reload is not None:
            yield Command(
                name="reload", help="take over what has changed in the configuration", handler=self._run, needs="owner"
            )

    async def _run(self, call: Call) -> Reply:
        assert self._reload is not None
        outcome = await self._reload(f"/reload of event {call.event_id}")
        return Reply(text="\n".join(outcome.lines()), detail="/reload")
