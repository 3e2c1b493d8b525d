"""Search over what was said, always filtered by who may find it, in SQL.

Which index finds a term goes by the term: three characters and more, in any script and inside
words, by trigrams; one and two characters by the beginnings of trigrams (`search_terms`). Neither
keeps positions, so each hit is verified against its row. The word index adds the rank, and the rows
that differ only in accents. No path scans the transcript.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from state.audience import Viewer, audience_where
from state.codec import from_micros, marks
from state.ids import RowId, SessionId
from state.query import Term, parse, trigrams
from state.records import Passage, SearchHit
from state.repository import Repository

_MOST = 2000
"""Rows that are ranked: the newest ones that match. More would make a common word slow."""
_AROUND = 60
"""Characters of a snippet on each side of the term."""


class Search(Repository):
    """Rows that are out of the context (/undo) are not found."""

    async def find(
        self,
        query: str,
        *,
        persons: Sequence[str] | None = None,
        viewer: Viewer | None = None,
        exclude_lineage: SessionId | None = None,
        limit: int = 50,
        newest: bool = False,
    ) -> list[SearchHit]:
        """Rows that match, best first (`newest`: newest first). Never raises for what `query` holds.

        `persons` are those whose rows may be found (a row's audience, else the session's person): None is everybody's,
        an empty list nobody's; `viewer` is the same for who will read it. `exclude_lineage` is any session of the line
        to be left out. An empty query gives the newest row of each recent session.
        """
        groups = parse(query)
        sight = _sight(persons, viewer)

        def run(tx: sqlite3.Connection) -> list[SearchHit]:
            if not groups:
                return _recent(tx, sight, exclude_lineage, limit)
            return _find(tx, groups, sight, exclude_lineage, limit, newest=newest)

        return await self._db.read(run)

    async def around(self, row_id: RowId, *, viewer: Viewer, rows: int = 6) -> list[Passage]:
        """What was said around a row in its session, in order, so many rows before and after it; only what the viewer
        may see, and nothing where the row itself is not that."""
        where, values = audience_where(viewer)
        query = (
            "SELECT t.id, t.role, t.author, t.created_at, x.text FROM transcript t"
            " JOIN sessions s ON s.id = t.session_id"
            f" JOIN search_texts x ON x.id = t.id WHERE t.session_id = ? AND t.active = 1 AND {where} AND t.id"
        )

        def run(tx: sqlite3.Connection) -> list[Passage]:
            own = "SELECT t.session_id FROM transcript t JOIN sessions s ON s.id = t.session_id WHERE t.id = ?"
            found = tx.execute(f"{own} AND {where}", (row_id, *values)).fetchone()
            if found is None:
                return []
            args = (found["session_id"], *values, row_id)
            before = tx.execute(f"{query} <= ? ORDER BY t.id DESC LIMIT ?", (*args, rows + 1)).fetchall()
            after = tx.execute(f"{query} > ? ORDER BY t.id LIMIT ?", (*args, rows)).fetchall()
            return [
                Passage(
                    row_id=row["id"],
                    role=row["role"],
                    author=row["author"],
                    text=row["text"].strip(),
                    created_at=from_micros(row["created_at"]),
                )
                for row in (*reversed(before), *after)
            ]

        return await self._db.read(run)

    async def recent(self, person: str | None, limit: int = 5) -> list[SearchHit]:
        """The newest row of each session that was active last; None: of everybody's sessions."""
        return await self.find("", persons=None if person is None else [person], limit=limit)


def _find(
    tx: sqlite3.Connection,
    groups: list[list[Term]],
    sight: Sight,
    exclude: SessionId | None,
    limit: int,
    *,
    newest: bool,
) -> list[SearchHit]:
    candidates, values = _candidates(groups)
    verified, needles = _verified(groups)
    where, filters = _visible(sight, exclude)
    words = _words_match(groups)
    query = (
        f"WITH found (id) AS ({candidates}) SELECT t.id, t.session_id, t.role, t.created_at, s.lineage, s.title,"
        " x.text FROM found CROSS JOIN transcript t ON t.id = found.id JOIN sessions s ON s.id = t.session_id"
        f" JOIN search_texts x ON x.id = t.id WHERE {where} AND ({verified}) ORDER BY t.id DESC LIMIT ?"
    )
    rows = {row["id"]: row for row in tx.execute(query, (*values, *filters, *needles, limit if newest else _MOST))}
    ranks: dict[int, float] = {}
    if words:
        ranks, accented = _ranked(tx, words, where, filters, rows)
        rows.update(accented)
    order = sorted(rows, reverse=True)
    if not newest:
        order.sort(key=lambda one: ranks.get(one, 0.0))
    return [_hit(rows[one], groups, -ranks.get(one, 0.0)) for one in order[:limit]]


def _candidates(groups: list[list[Term]]) -> tuple[str, list[str]]:
    """SQL for the ids of the rows that may match, from the indexes alone."""
    values: list[str] = []
    branches = []
    for group in groups:
        parts = []
        grams = [gram for term in group if not term.is_short for gram in trigrams(term.text)]
        if grams:
            parts.append("SELECT rowid FROM search_grams WHERE search_grams MATCH ?")
            values.append(" AND ".join(_quoted(gram) for gram in dict.fromkeys(grams)))
        for term in group:
            if term.is_short:
                parts.append("SELECT doc FROM search_terms WHERE term >= ? AND term < ?")
                lowered = term.text.lower()
                values += [lowered, lowered + "\U0010ffff"]
        branches.append(" INTERSECT ".join(parts))
    return " UNION ".join(f"SELECT * FROM ({branch})" for branch in branches), values


def _verified(groups: list[list[Term]]) -> tuple[str, list[str]]:
    clauses = " OR ".join("(" + " AND ".join("matches(x.text, ?)" for _ in group) + ")" for group in groups)
    return clauses, [term.folded for group in groups for term in group]


Sight = tuple[str, list[str]]
"""Which rows may be found: a condition in SQL, and its values."""


def _sight(persons: Sequence[str] | None, viewer: Viewer | None) -> Sight:
    if viewer is not None:
        return audience_where(viewer)
    if persons is None:
        return "1", []
    return f"coalesce(t.audience, s.person) IN ({marks(len(persons))})", list(persons)


def _visible(sight: Sight, exclude: SessionId | None) -> Sight:
    where, values = sight
    clauses, values = ["t.active = 1", where], list(values)
    if exclude is not None:
        clauses.append("s.lineage <> coalesce((SELECT lineage FROM sessions WHERE id = ?), '')")
        values.append(exclude)
    return " AND ".join(clauses), values


def _words_match(groups: list[list[Term]]) -> str:
    """The query for the word index; "" where it can say nothing about some term."""
    if not all(term.is_wordlike for group in groups for term in group):
        return ""
    return " OR ".join("(" + " AND ".join(_quoted(term.text) for term in group) + ")" for group in groups)


def _ranked(
    tx: sqlite3.Connection, match: str, where: str, filters: list[str], known: dict[int, sqlite3.Row]
) -> tuple[dict[int, float], dict[int, sqlite3.Row]]:
    """Ranks of the rows that hold the words as words, and the rows that only this index finds."""
    query = (
        "WITH found (id, score) AS (SELECT rowid, bm25(search_words, 10.0, 2.0, 1.0) FROM search_words"
        " WHERE search_words MATCH ? ORDER BY rowid DESC LIMIT ?) SELECT found.score, t.id, t.session_id, t.role,"
        " t.created_at, s.lineage, s.title, x.text FROM found CROSS JOIN transcript t ON t.id = found.id"
        f" JOIN sessions s ON s.id = t.session_id JOIN search_texts x ON x.id = t.id WHERE {where}"
    )
    ranks, accented = {}, {}
    for row in tx.execute(query, (match, _MOST, *filters)):
        ranks[row["id"]] = row["score"]
        if row["id"] not in known:
            accented[row["id"]] = row
    return ranks, accented


def _recent(tx: sqlite3.Connection, sight: Sight, exclude: SessionId | None, limit: int) -> list[SearchHit]:
    where, values = _visible(sight, exclude)
    found = tx.execute(
        "SELECT t.id, t.session_id, t.role, t.created_at, s.lineage, s.title, x.text FROM sessions s"
        " JOIN transcript t ON t.id = (SELECT max(l.id) FROM transcript l WHERE l.session_id = s.id AND l.active = 1"
        f" AND l.role <> 'tool') JOIN search_texts x ON x.id = t.id WHERE {where}"
        " ORDER BY s.activity DESC, s.seq DESC LIMIT ?",
        (*values, limit),
    )
    return [_hit(row, [], 0.0) for row in found]


def _hit(row: sqlite3.Row, groups: list[list[Term]], score: float) -> SearchHit:
    return SearchHit(
        session_id=row["session_id"],
        lineage=row["lineage"],
        row_id=row["id"],
        role=row["role"],
        title=row["title"],
        snippet=_snippet(row["text"], groups),
        score=score,
        created_at=from_micros(row["created_at"]),
    )


def _snippet(text: str, groups: list[list[Term]]) -> str:
    """The text around the first term that is in it, on one line."""
    lowered = text.lower()
    places = [(lowered.find(term.text.lower()), len(term.text)) for group in groups for term in group]
    at, size = min((place for place in places if place[0] >= 0), default=(0, 2 * _AROUND))
    start, end = max(0, at - _AROUND), at + size + _AROUND
    piece = " ".join(text[start:end].split())
    return ("…" if start else "") + piece + ("…" if end < len(text.rstrip()) else "")


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
