"""The table of commands: look-up, rights, help."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from gateway.access import Role
from gateway.commands.base import Call, Command, Forward, Reply
from gateway.commands.control import Control
from gateway.commands.handoff import HandoffCommands, is_moved_button
from state.records import Fate

ORDER: tuple[Role, ...] = ("guest", "member", "owner")


class Family(Protocol):
    """Commands that belong together."""

    def commands(self) -> Iterable[Command]:
        """Them."""
        ...


class Table:
    """All commands. Rights are checked here, for typed commands and for buttons alike."""

    def __init__(self, control: Control, handoff: HandoffCommands, *families: Family) -> None:
        self._control = control
        self._handoff = handoff
        help_ = Command(name="help", help="this list", handler=self._help)
        every = [help_, *(command for family in (*families, handoff, control) for command in family.commands())]
        self._commands = {command.name: command for command in every}

    def knows(self, name: str) -> bool:
        """True for every text that is meant as a command: an unknown one is told, not sent to the model."""
        return bool(name)

    def names(self) -> list[tuple[str, str]]:
        """Name and help of every command, for completion and for the platforms' own menus."""
        return [(command.name, command.help) for command in self._commands.values()]

    async def run(self, call: Call) -> Reply | Forward:
        """Carry out a command, if there is one of that name and the person may use it."""
        command = self._commands.get(call.name)
        if command is None:
            return Reply(text=f"I know no command /{call.name}. /help lists them.", detail="unknown command")
        if ORDER.index(call.role) < ORDER.index(command.needs):
            return Reply(
                text=f"/{call.name} is for an {command.needs}; you are a {call.role} here.",
                fate=Fate.REFUSED,
                detail=f"/{call.name} needs the role {command.needs}",
            )
        return await command.handler(call)

    async def press(self, call: Call) -> Reply | Forward:
        """Carry out a button press."""
        if call.event.action is not None and is_moved_button(call.event.action.button_id):
            return await self._handoff.press(call)
        return await self._control.press(call)

    async def _help(self, call: Call) -> Reply:
        allowed = [c for c in self._commands.values() if ORDER.index(call.role) >= ORDER.index(c.needs)]
        lines = [f"- `/{c.name}{' ' + c.usage if c.usage else ''}` {c.help}" for c in allowed]
        return Reply(text="I answer what you write. Besides, there are:\n\n" + "\n".join(lines), detail="/help")
