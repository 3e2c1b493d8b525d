"""Which platforms can be called now. Kept by what the supervisor says and by how calls go."""

from __future__ import annotations

from collections.abc import Mapping

from adapters.ports import PlatformAdapter
from state.clock import Clock

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0


class Reach:
    """All methods are for the event loop's thread, never block and never raise."""

    def __init__(self, adapters: Mapping[str, PlatformAdapter], clock: Clock) -> None:
        """`adapters` is the live table of this process, by platform name."""
        self._adapters = adapters
        self._clock = clock
        self._up: set[str] = set()
        self._pauses: dict[str, tuple[float, float]] = {}
        """Until when (monotonic) a platform is left alone after a failed call, and for how long."""

    def up(self, platform: str) -> None:
        """It is connected."""
        self._up.add(platform)
        self._pauses.pop(platform, None)

    def down(self, platform: str) -> None:
        """It is not connected: no call before `up` is told."""
        self._up.discard(platform)
        self._pauses.pop(platform, None)

    def failed(self, platform: str) -> float:
        """A call could not be made: leave it alone for a while, longer each time. Returns the seconds."""
        now = self._clock.monotonic()
        until, pause = self._pauses.get(platform, (0.0, FIRST_PAUSE / 2))
        if until <= now:  # several chats that fail together are one failure
            pause = min(pause * 2, LONGEST_PAUSE)
            self._pauses[platform] = (now + pause, pause)
        return pause

    def worked(self, platform: str) -> None:
        """A call went well."""
        self._pauses.pop(platform, None)

    def known(self, platform: str) -> PlatformAdapter | None:
        """The adapter, connected or not; None where the platform is not enabled."""
        return self._adapters.get(platform)

    def adapter(self, platform: str, account: str) -> PlatformAdapter | None:
        """The adapter, where it may be called now for this account."""
        adapter = self._adapters.get(platform)
        if adapter is None or platform not in self._up or adapter.account != account:
            return None
        until, _ = self._pauses.get(platform, (0.0, 0.0))
        return adapter if until <= self._clock.monotonic() else None

    def accounts(self) -> list[tuple[str, str]]:
        """The (platform, account) pairs that may be called now."""
        pairs = [(name, adapter.account) for name, adapter in self._adapters.items() if name in self._up]
        return [(name, account) for name, account in pairs if self.adapter(name, account) is not None]

    def next_try(self) -> float | None:
        """Seconds until the next paused platform may be called again."""
        now = self._clock.monotonic()
        waits = [until - now for name, (until, _) in self._pauses.items() if name in self._up and until > now]
        return min(waits, default=None)
