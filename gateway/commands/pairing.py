"""The command /pair: let strangers in, list them, let them in no more."""

from __future__ import annotations

from collections.abc import Iterable

from gateway.commands.base import Call, Command, Reply
from gateway.keys import person_of
from gateway.pairing import Pairing

USAGE = "[list | approve CODE [guest] | revoke PLATFORM:ID]"


class PairingCommands:
    """For owners."""

    def __init__(self, pairing: Pairing) -> None:
        self._pairing = pairing

    def commands(self) -> Iterable[Command]:
        """The command."""
        yield Command(name="pair", usage=USAGE, help="let people in by their code", handler=self._pair, needs="owner")

    async def _pair(self, call: Call) -> Reply:
        by = person_of(call.event.address.platform, call.event.sender.id)
        match call.args.split():
            case [] | ["list"]:
                lines = await self._pairing.lines()
                return Reply(text="\n".join(f"- {line}" for line in lines) or "Nobody yet.", detail="/pair list")
            case ["approve", code]:
                told = (await self._pairing.approve(code, role="member", by=by, where=call.event.address.platform)).told
            case ["approve", code, "guest"]:
                told = (await self._pairing.approve(code, role="guest", by=by, where=call.event.address.platform)).told
            case ["revoke", person]:
                told = (await self._pairing.revoke(person, by=by)).told
            case _:
                told = f"`/pair {USAGE}`"
        return Reply(text=told, detail="/pair")
