"""Who hears what is answered at an address."""

from __future__ import annotations

from adapters.events import MessageEvent
from gateway.keys import person_of, room_of
from state.audience import Viewer, room_label


def viewer_of(event: MessageEvent) -> Viewer:
    """The viewer of a turn that this event begins."""
    if event.address.chat_kind == "private":
        return Viewer(persons=(person_of(event.address.platform, event.sender.id),))
    return Viewer(room=room_label(room_of(event.address)))


def label_of(event: MessageEvent) -> str:
    """The label of what is said there: of the one person, or of everybody in the room."""
    viewer = viewer_of(event)
    return viewer.persons[0] if viewer.room is None else viewer.room
