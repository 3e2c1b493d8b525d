"""Who was present when something was said, and who may find it (P6).

A label names an audience. `PLATFORM:ID` is one person alone with the agent, `room:ROOM` everybody who was in that
room at the time, `public` everybody. A row without a label has that of the person whose session it is in.
"""

from __future__ import annotations

from dataclasses import dataclass

from state.codec import marks

PUBLIC = "public"
ROOM = "room:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """Whoever reads what is found: one person alone, or all who are in a room.

    `persons` are the labels of the one person (one for each identity), empty in a room; `room` is the label of the
    room, None in private; `rooms` are the labels of rooms whose talk that person was present for. `everything` is
    for the operator at the machine, who can read the database anyway.
    """

    persons: tuple[str, ...] = ()
    room: str | None = None
    rooms: tuple[str, ...] = ()
    everything: bool = False

    @property
    def labels(self) -> tuple[str, ...]:
        """Every label that may be shown, in a fixed order."""
        room = () if self.room is None else (self.room,)
        return tuple(dict.fromkeys((*self.persons, *room, *self.rooms, PUBLIC)))


NOBODY = Viewer()
"""Sees what is public and nothing else."""
OPERATOR = Viewer(everything=True)


def room_label(room: str) -> str:
    """The label of a room; `room` is what the keys of its lines begin with."""
    return ROOM + room


def visible(label: str, viewer: Viewer) -> bool:
    """True where what has this label may be shown to the viewer."""
    return viewer.everything or label in viewer.labels


def audience_where(viewer: Viewer, *, row: str = "t", session: str = "s") -> tuple[str, list[str]]:
    """The same in SQL for transcript rows: a condition and its values. `row` and `session` are the aliases of
    `transcript` and `sessions` in the query."""
    if viewer.everything:
        return "1", []
    labels = viewer.labels
    return f"coalesce({row}.audience, {session}.person) IN ({marks(len(labels))})", list(labels)
