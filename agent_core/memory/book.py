"""The memory files of one home: what a viewer sees of them, and how they are changed.

`MEMORY.md` is about the world and the work, one `USER.md` a person about that person. An entry belongs to whoever was
there when it was learnt: a person alone, a room, or everybody (`public`). Entries without an audience (written by hand)
are for owners in private.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from agent_core.memory.entries import find, rivals
from agent_core.memory.scan import scan
from agent_core.memory.shelf import Content, Entry, Facts, MemoryFault, Shelf, instead, with_entry, without
from state.audience import PUBLIC, Viewer, visible

MEMORY_CHARS, USER_CHARS = 2_200, 1_375
STALE = timedelta(days=180)
Target = Literal["memory", "user"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One change. `part` names the entry that is meant by a piece of its text that no other entry has."""

    action: Literal["add", "replace", "remove"]
    text: str = ""
    part: str = ""
    public: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a change came to. `rivals` are entries that may contradict what was written."""

    used: int
    limit: int
    rivals: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """An entry as it is shown: `blocked` is why it is not, `stale` that it is old."""

    target: Target
    entry: Entry
    blocked: str = ""
    stale: bool = False


class Book:
    """The memory files below `home/memories`. Blocking; for threads."""

    def __init__(self, home: Path, owners: Callable[[], frozenset[str]]) -> None:
        """`owners` gives the labels of the owners."""
        self._folder = home / "memories"
        self._owners = owners

    def shelf(self, target: Target, person: str = "") -> Shelf:
        """The file; `person` is the label whose `USER.md` is meant."""
        if target == "memory":
            return Shelf(self._folder / "MEMORY.md")
        return Shelf(self._folder / "users" / quote(person, safe="") / "USER.md")

    def sees(self, entry: Entry, target: Target, viewer: Viewer) -> bool:
        """Whether the viewer may see the entry."""
        if viewer.everything:
            return True
        if entry.facts.audience is not None:
            return visible(entry.facts.audience, viewer)
        if target == "user":  # of the viewer's own file only
            return viewer.room is None
        return viewer.room is None and bool(self._owners() & set(viewer.persons))

    def shown(self, viewer: Viewer, now: datetime) -> tuple[list[Shown], list[str]]:
        """What the viewer may see, in order, and what is wrong with the files. A shared room sees of the files of the
        people in it what is public, and nothing that tells which they are."""
        found: list[Shown] = []
        problems: list[str] = []
        files: list[tuple[Target, str]] = [("memory", "")]
        if viewer.room is None:
            files += [("user", person) for person in viewer.persons]
        for target, person in files:
            try:
                content = self.shelf(target, person).read()
            except MemoryFault as fault:
                problems.append(str(fault))
                continue
            if content.problem:
                problems.append(content.problem)
            found += [
                Shown(target=target, entry=entry, blocked=scan(entry.text) or "", stale=_is_old(entry, now))
                for entry in content.entries
                if self.sees(entry, target, viewer)
            ]
        return found, problems

    def change(self, target: Target, steps: Sequence[Step], viewer: Viewer, facts: Facts) -> Outcome:
        """Carry out all the steps, or none. Raises `MemoryFault` with what is to be done instead.

        `facts` are those of what is written; who may see it follows from the viewer.
        """
        label = viewer.persons[0] if viewer.room is None and viewer.persons else viewer.room
        if label is None:
            raise MemoryFault("nothing can be remembered here: it is not known who is here")
        if target == "user" and viewer.room is not None:
            raise MemoryFault("in a room with others nothing is kept about single people; use the target memory")
        limit = MEMORY_CHARS if target == "memory" else USER_CHARS
        facts = replace(facts, audience=label)
        told: list[str] = []

        def work(before: Content) -> Content:
            content = before
            for step in steps:
                content = self._step(content, target, step, viewer, facts, told)
            used = _size(content.entries)
            if used > limit and used > _size(before.entries):
                raise MemoryFault(self._full(content, target, viewer, used, limit))
            return content

        after = self.shelf(target, label).change(work)
        return Outcome(used=_size(after.entries), limit=limit, rivals=tuple(dict.fromkeys(told)))

    def settle(self, one: Shown, viewer: Viewer, *, public: bool) -> None:
        """Make an entry that the viewer sees public, or take it out. Raises `MemoryFault` where it is gone."""

        def work(content: Content) -> Content:
            places = [place for place, entry in enumerate(content.entries) if entry.text == one.entry.text]
            if not places:
                raise MemoryFault("the entry has changed meanwhile")
            entry = content.entries[places[0]]
            if public:
                return instead(content, places[0], replace(entry, facts=replace(entry.facts, audience=PUBLIC)))
            return without(content, places[0], entry.facts)

        for person in viewer.persons if one.target == "user" else ("",):
            shelf = self.shelf(one.target, person)
            if any(entry.text == one.entry.text for entry in shelf.read().entries):
                shelf.change(work)
                return
        raise MemoryFault("the entry has changed meanwhile")

    def _step(
        self, content: Content, target: Target, step: Step, viewer: Viewer, facts: Facts, told: list[str]
    ) -> Content:
        text = step.text.strip()
        if step.action != "remove":
            if not text:
                raise MemoryFault("an entry needs a text")
            if (why := scan(text)) is not None:
                raise MemoryFault(f"that is not kept: {why}")
        entry = Entry(text=text, facts=replace(facts, audience=PUBLIC) if step.public else facts)
        mine = [one for one in content.entries if self.sees(one, target, viewer)]
        if step.action == "add":
            if any(one.text == text for one in mine):
                return content
            told += rivals(text, [one.text for one in mine])
            return with_entry(content, entry)
        found = find([one.text for one in mine], step.part or text)
        if len(found) != 1:
            what = "no entry has" if not found else f"{len(found)} entries have"
            raise MemoryFault(f"{what} the text {step.part!r}. The entries are:\n{_listed(mine)}")
        place = content.entries.index(mine[found[0]])
        if step.action == "remove":
            return without(content, place, facts)
        if not step.public and mine[found[0]].facts.audience is not None:
            entry = replace(entry, facts=replace(entry.facts, audience=mine[found[0]].facts.audience))
        told += rivals(text, [one.text for one in mine if one is not mine[found[0]]])
        return instead(content, place, entry)

    def _full(self, content: Content, target: Target, viewer: Viewer, used: int, limit: int) -> str:
        mine = [one for one in content.entries if self.sees(one, target, viewer)]
        return (
            f"that would be {used:,} characters of {limit:,}: put entries together, or take some out, in the same "
            f"call. The entries would be:\n{_listed(mine)}"
        )


def _size(entries: Sequence[Entry]) -> int:
    return sum(len(entry.text) for entry in entries) + 3 * max(len(entries) - 1, 0)


def _listed(entries: Sequence[Entry]) -> str:
    return "\n".join(f"- {entry.text}" for entry in entries) or "(none)"


def _is_old(entry: Entry, now: datetime) -> bool:
    try:
        return bool(entry.facts.at) and now - datetime.fromisoformat(entry.facts.at) > STALE
    except (ValueError, TypeError):
        return False
