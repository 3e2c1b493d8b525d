"""What every repository has: the database, the clock, and the name of this process."""

from __future__ import annotations

from state.clock import Clock
from state.codec import to_micros
from state.database import Database
from state.ids import Owner


class Repository:
    """One group of tables. Methods are whole transactions; none keeps anything in memory."""

    def __init__(self, db: Database, clock: Clock, owner: Owner) -> None:
        self._db = db
        self._clock = clock
        self._owner = owner

    def _now(self) -> int:
        """The wall time for a row that is written now."""
        return to_micros(self._clock.utc())
