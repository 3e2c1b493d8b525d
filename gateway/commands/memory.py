"""The commands /memory and /search: what is remembered, and what was said, for whoever asks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from agent_core.memory.book import Shown
from agent_core.memory.shelf import MemoryFault
from agent_core.memory.snapshot import MemoryFiles
from agent_core.recollect import around, as_lines, find
from gateway.audience import viewer_of
from gateway.commands.base import Call, Command, Reply
from state.audience import PUBLIC
from state.ids import RowId

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
        yield Command(
            name="search", usage="[WORDS | #NUMBER]", help="find what was said", handler=self._search, needs="member"
        )

    async def _search(self, call: Call) -> Reply:
        """As the agent does it, for whoever reads here; the conversation at hand is left out."""
        store, viewer = self._files.store, viewer_of(call.event)
        asked = call.args.strip()
        if asked.startswith("#") and asked[1:].isdecimal():
            lines = await around(store, RowId(int(asked[1:])), viewer)
        else:
            binding = await store.sessions.binding(call.key)
            here = None if binding is None else binding.session_id
            lines = as_lines(await find(store, asked, viewer, without=here))
        return Reply(text="\n".join(lines) or "Nothing was found.", detail="/search")

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
