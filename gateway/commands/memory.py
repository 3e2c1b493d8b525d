"""The command /memory: what is remembered for whoever asks, and what an owner makes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from agent_core.memory.book import Shown
from agent_core.memory.shelf import MemoryFault
from agent_core.memory.snapshot import MemoryFiles
from gateway.audience import viewer_of
from gateway.commands.base import Call, Command, Reply
from state.audience import PUBLIC

USAGE = "[public NUMBER | forget NUMBER]"


class MemoryCommands:
    """Everybody sees what they may see; an entry is taken out by those who see it, made public by owners alone."""

    def __init__(self, files: MemoryFiles) -> None:
        self._files = files

    def commands(self) -> Iterable[Command]:
        """The command."""
        yield Command(
            name="memory", usage=USAGE, help="what I remember; forget an entry", handler=self._memory, needs="member"
        )

    async def _memory(self, call: Call) -> Reply:
        book, viewer = self._files.book, viewer_of(call.event)
        shown, problems = await asyncio.to_thread(book.shown, viewer, self._files.clock.utc())
        match call.args.split():
            case []:
                lines = [f"{number}. {_line(one)}" for number, one in enumerate(shown, 1)]
                lines += [f"({problem})" for problem in problems]
                return Reply(text="\n".join(lines) or "I remember nothing for this place.", detail="/memory")
            case ["public" | "forget" as what, number] if number.isdecimal() and 1 <= int(number) <= len(shown):
                one = shown[int(number) - 1]
                if what == "public" and call.role != "owner":
                    return Reply(text="Only an owner can make that known to everybody.", detail="/memory public")
                try:
                    await asyncio.to_thread(book.settle, one, viewer, public=what == "public")
                except MemoryFault as fault:
                    return Reply(text=f"That did not work: {fault}", detail=f"/memory {what}")
                told = "Everybody may know it now." if what == "public" else "Forgotten, from the next conversation on."
                return Reply(text=told, detail=f"/memory {what}")
            case _:
                return Reply(text=f"`/memory {USAGE}`", detail="/memory")


def _line(one: Shown) -> str:
    marks: list[str] = [one.target]
    if one.entry.facts.audience == PUBLIC:
        marks.append("public")
    if one.blocked:
        marks.append(f"not shown to me: {one.blocked}")
    if one.stale:
        marks.append(f"noted {one.entry.facts.at[:10]}, perhaps out of date")
    return f"{one.entry.text} ({'; '.join(marks)})"
