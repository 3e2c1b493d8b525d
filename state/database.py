"""One writer thread, several readers."""

from __future__ import annotations


class Database:
    """The connections."""
