"""What a turn is told beside its own message: edits that came late, reactions, who came and went, talk in the room.

All of it are other texts of people, so it goes beside the words of the turn as bracketed notes, and the
people whose words are shown take part in the turn's rights.
"""

from __future__ import annotations

from dataclasses import dataclass

from adapters.events import EventKind, MessageEvent
from gateway.access import NOT_ADDRESSED
from gateway.convert import event_from_row
from gateway.inputs import NAME, QUOTE, one_line
from gateway.keys import room_of
from gateway.router import CORRECTION, NOTED
from state.ids import EventId, SessionKey
from state.records import Fate, InboxEvent
from state.store import Store

LOOK_BACK = 100
NOTES = 10
"""Reactions and comings and goings that are told at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aside:
    """`notes` are lines for the model, oldest first; `people` (platform, id) are those whose words are in them."""

    notes: tuple[str, ...] = ()
    people: frozenset[tuple[str, str]] = frozenset()


class Heard:
    """Reads the inbox; keeps nothing."""

    def __init__(self, store: Store, context_messages: int) -> None:
        self._inbox = store.inbox
        self.context_messages = context_messages
        """May be replaced while running."""

    async def before(self, key: SessionKey, event_id: EventId, event: MessageEvent) -> Aside:
        """What has come since the last turn of this line and before `event_id`, and no turn has seen."""
        since, corrections = await self._since(key, event_id)
        private = event.address.chat_kind == "private"
        notes = [_edited(one, named=not private) for one in corrections]
        rows = await self._inbox.of_room(room_of(event.address), since, event_id, LOOK_BACK)  # newest first
        told = [row for row in rows if row.detail == NOTED][:NOTES]
        talk = [] if private else [row for row in rows if _is_talk(row)][: self.context_messages]
        chosen = sorted([*told, *talk], key=lambda row: row.id)
        notes += [_line(row) for row in chosen]
        people = frozenset((row.platform, row.sender_id) for row in (*talk, *corrections))
        return Aside(notes=tuple(notes), people=people)

    async def corrections(self, key: SessionKey, before: EventId, author: str) -> list[str]:
        """The texts of edits of `author` (an id) that came after their turn and before this event, oldest first."""
        edits = (await self._since(key, before))[1]
        return [event_from_row(row).text for row in edits if row.sender_id == author]

    async def _since(self, key: SessionKey, before: EventId) -> tuple[EventId, list[InboxEvent]]:
        """The message of the line's last turn, and the edits since then that no turn has seen, oldest first."""
        edits: list[InboxEvent] = []
        for row in await self._inbox.recent(key, 30):  # newest first
            if row.id >= before:
                continue
            if row.kind in (EventKind.MESSAGE, EventKind.COMMAND) and row.fate in _TURNS:
                return row.id, edits[::-1]
            if row.kind == EventKind.EDIT and row.detail == CORRECTION:
                edits.append(row)
        return EventId(0), edits[::-1]


_TURNS = (Fate.ANSWERED, Fate.FAILED, Fate.CANCELLED)


def _is_talk(row: InboxEvent) -> bool:
    return row.kind == EventKind.MESSAGE and row.fate is Fate.SILENT and row.detail == NOT_ADDRESSED


def _edited(row: InboxEvent, *, named: bool) -> str:
    event = event_from_row(row)
    whose = f" of {one_line(event.sender.name, NAME) or event.sender.id}" if named else ""
    return f"[earlier message{whose} edited, it now reads: {one_line(event.text, QUOTE)}]"


def _line(row: InboxEvent) -> str:
    event = event_from_row(row)
    who = one_line(event.sender.name, NAME) or event.sender.id
    if row.detail == NOTED:
        about = ""
        if event.reply_to is not None and event.reply_to.text:
            whose = "your message" if event.reply_to.is_ours else "a message"
            about = f' to {whose} "{one_line(event.reply_to.text, 200)}"'
        elif event.reply_to is not None and event.reply_to.is_ours:
            about = " to a message of yours"
        return f"[{who}: {one_line('; '.join(event.facts), QUOTE)}{about}]"
    parts = [event.text, *event.facts, *(f"({one.kind}: {one.name})" for one in event.attachments)]
    return f'[said in the room, not to you, by {who}: "{one_line(" ".join(parts), QUOTE)}"]'
