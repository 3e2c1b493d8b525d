"""The clocks of the store, in one object, so that tests can step each of them.

Three clocks, three uses: `utc` is for people and for order of nothing; `boot` (seconds since boot,
counted on while the machine sleeps) is for leases, claims and approvals that several processes of
one machine share; `monotonic` is for waits inside this process.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from state import owners


class Clock:
    """The system's clocks. Nothing here blocks or fails."""

    def utc(self) -> datetime:
        """Now, aware, in UTC. It may step backwards: never order or expire by it."""
        return datetime.now(UTC)

    def boot(self) -> float:
        """Seconds of this machine's boot clock. Never steps back within one `boot_id`."""
        return owners.boot_clock()

    def boot_id(self) -> str:
        """The id of this boot. A time of another boot id is in the past."""
        return owners.boot_id()

    def monotonic(self) -> float:
        """Seconds of a clock for waits inside this process."""
        return time.monotonic()


SYSTEM = Clock()


@dataclass(slots=True, kw_only=True)
class SteppedClock(Clock):
    """A clock that stands still until a test moves it."""

    now: datetime = field(default_factory=lambda: datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    seconds: float = 1000.0
    boot_name: str = field(default_factory=owners.boot_id)

    def utc(self) -> datetime:
        """The wall time as it was set."""
        return self.now

    def boot(self) -> float:
        """The boot clock as it was set."""
        return self.seconds

    def boot_id(self) -> str:
        """The boot id as it was set."""
        return self.boot_name

    def monotonic(self) -> float:
        """The same seconds as `boot`."""
        return self.seconds

    def advance(self, seconds: float) -> None:
        """Let time pass on every clock."""
        self.seconds += seconds
        self.now += timedelta(seconds=seconds)

    def step_wall(self, seconds: float) -> None:
        """Set the wall clock only, as NTP or a person does; `seconds` may be negative."""
        self.now += timedelta(seconds=seconds)
