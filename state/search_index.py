"""Care of the search index: merging its segments, apart from the transactions that people wait for.

Every commit that adds text adds one small segment to each index. FTS5 would merge them inside some
unlucky commit; here the writer thread does it, in steps of a bounded number of pages.
"""

from __future__ import annotations

import sqlite3

_TABLES = ("search_words", "search_grams")
_PAGES = 800
"""Leaf pages of an index that one step writes at most: some 50 ms."""


def tend_index(connection: sqlite3.Connection) -> None:
    """Merge once, where a level has `usermerge` (schema.sql) segments or more.

    Each index is its own transaction. Raises a sqlite3 error where the lock is not free.
    """
    for table in _TABLES:
        connection.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('merge', {_PAGES})")


def optimize(connection: sqlite3.Connection) -> None:
    """Merge each index into one segment. Takes long on a large database."""
    for table in _TABLES:
        connection.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")
