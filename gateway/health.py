"""What `/healthz` and `/readyz` say: whether the store is open, intake runs, and how each platform stands.

Whoever changes something tells it here at once; asking is cheap and touches nothing else. Nothing here
may hold a secret: a reason is the `told` sentence of an error, never its text or the SDK's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any


class PlatformState(StrEnum):
    """How an enabled platform stands."""

    STARTING = "starting"  #: its first connection is being made
    CONNECTED = "connected"  #: it serves
    WAITING = "waiting"  #: it failed, and is tried again at `retry_at`
    PARKED = "parked"  #: its credentials are refused; nothing happens until the configuration changes


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformHealth:
    """The state of one platform. `since` is when it got into this state (UTC)."""

    state: PlatformState
    since: datetime
    reason: str = ""
    retry_at: datetime | None = None

    def as_json(self) -> dict[str, Any]:
        """Plain data; what does not apply is left out."""
        data: dict[str, Any] = {"state": self.state.value, "since": _text(self.since)}
        if self.reason:
            data["reason"] = self.reason
        if self.retry_at is not None:
            data["retry_at"] = _text(self.retry_at)
        return data


def _now() -> datetime:
    return datetime.now(UTC)


def _text(when: datetime) -> str:
    return when.isoformat(timespec="seconds")


class Health:
    """The state of this process. All methods are for the event loop's thread and never raise."""

    def __init__(self, platforms: Iterable[str] = (), *, version: str = "", now: Callable[[], datetime] = _now) -> None:
        """`platforms` are the names of the enabled ones; each begins as STARTING."""
        self._now = now
        self._version = version
        self._started = now()
        self._store = False
        self._intake = False
        self._stopping = False
        self._platforms: dict[str, PlatformHealth] = {}
        for name in platforms:
            self.starting(name)

    def store_open(self, is_open: bool = True) -> None:
        """The store has been opened, or is closed or unusable."""
        self._store = is_open

    def intake_running(self, running: bool = True) -> None:
        """Events are taken, or not any more."""
        self._intake = running

    def stopping(self) -> None:
        """The process was asked to stop: it is alive and not ready."""
        self._stopping = True

    def starting(self, platform: str) -> None:
        """The platform is being connected for the first time, or after a change of its settings."""
        self._set(platform, PlatformState.STARTING)

    def connected(self, platform: str) -> None:
        """The platform serves."""
        self._set(platform, PlatformState.CONNECTED)

    def waiting(self, platform: str, retry_at: datetime, reason: str) -> None:
        """The platform failed and is tried again at `retry_at`."""
        self._set(platform, PlatformState.WAITING, reason, retry_at)

    def parked(self, platform: str, reason: str) -> None:
        """The platform is not tried again before its configuration changes."""
        self._set(platform, PlatformState.PARKED, reason)

    def gone(self, platform: str) -> None:
        """The platform is not enabled any more."""
        self._platforms.pop(platform, None)

    def platforms(self) -> dict[str, PlatformHealth]:
        """Every enabled platform, in order of its first mention."""
        return dict(self._platforms)

    def live(self) -> tuple[bool, dict[str, Any]]:
        """Whether this process does its work, and the body of `/healthz`.

        A platform that is down is not our fault and does not make us unhealthy (a restart would not help);
        a process that is stopping stays healthy until it ends.
        """
        healthy = self._store and (self._intake or self._stopping)
        return healthy, {"status": "ok" if healthy else "unhealthy", **self._facts()}

    def ready(self) -> tuple[bool, dict[str, Any]]:
        """Whether everything that is enabled serves, and the body of `/readyz`, which lists what is missing."""
        missing = self._missing()
        return not missing, {"status": "not ready" if missing else "ready", "missing": missing, **self._facts()}

    def _missing(self) -> list[str]:
        missing = []
        if self._stopping:
            missing.append("the process is stopping")
        if not self._store:
            missing.append("the store is not open")
        if not self._intake:
            missing.append("intake is not running")
        for name, health in self._platforms.items():
            if health.state is not PlatformState.CONNECTED:
                why = f" ({health.reason})" if health.reason else ""
                missing.append(f"platform {name} is {health.state.value}{why}")
        return missing

    def _facts(self) -> dict[str, Any]:
        return {
            "version": self._version,
            "uptime_seconds": max(0, int((self._now() - self._started).total_seconds())),
            "store_open": self._store,
            "intake_running": self._intake,
            "stopping": self._stopping,
            "platforms": {name: health.as_json() for name, health in self._platforms.items()},
        }

    def _set(self, name: str, state: PlatformState, reason: str = "", retry_at: datetime | None = None) -> None:
        old = self._platforms.get(name)
        since = old.since if old is not None and old.state is state else self._now()
        self._platforms[name] = PlatformHealth(state=state, since=since, reason=reason, retry_at=retry_at)
