"""What was said in other conversations, for a person or for the model: found, grouped, and cut to what is of use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from state.audience import Viewer
from state.ids import RowId, SessionId
from state.records import SearchHit
from state.store import Store

SESSIONS = 5
HITS = 3
"""Hits that are shown of one conversation."""
LOOKED = 60
"""Hits that are looked at to fill them."""
PASSAGE = 1_200
"""Characters of one row that is shown whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One conversation with its best hits, in order of their quality, and how many more there are."""

    session_id: SessionId
    title: str | None
    hits: tuple[SearchHit, ...]
    more: int


async def find(
    store: Store, query: str, viewer: Viewer, *, without: SessionId | None, newest: bool = False
) -> list[Found]:
    """The conversations that match best (`newest`: last); an empty query gives those that were active last. Only
    what the viewer may see. `without` is the conversation at hand: its whole line is left out."""
    hits = await store.search.find(query, viewer=viewer, exclude_lineage=without, limit=LOOKED, newest=newest)
    grouped: dict[SessionId, list[SearchHit]] = {}
    for hit in hits:
        grouped.setdefault(hit.session_id, []).append(hit)
    return [
        Found(session_id=name, title=ones[0].title, hits=tuple(ones[:HITS]), more=max(0, len(ones) - HITS))
        for name, ones in list(grouped.items())[:SESSIONS]
    ]


def as_lines(found: Sequence[Found]) -> list[str]:
    """In words; the number of a hit opens what was said around it."""
    lines: list[str] = []
    for one in found:
        when = one.hits[0].created_at
        lines.append(f"{one.title or 'A conversation'} ({when:%Y-%m-%d})")
        lines += [f"  #{hit.row_id} {hit.role}: {hit.snippet}" for hit in one.hits]
        if one.more:
            lines.append(f"  and {one.more} more")
    return lines


async def around(store: Store, row_id: RowId, viewer: Viewer) -> list[str]:
    """What was said around a hit, in order; empty where the viewer may not see it, or it is not there."""
    return [
        f"#{one.row_id} {one.created_at:%Y-%m-%d %H:%M} {one.author or one.role}: "
        + (one.text if len(one.text) <= PASSAGE else one.text[:PASSAGE].rstrip() + " …")
        for one in await store.search.around(row_id, viewer=viewer)
    ]
