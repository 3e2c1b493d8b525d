"""Health and readiness as they are told."""

from datetime import UTC, datetime, timedelta

from gateway.health import Health, PlatformState


class _Clock:
    def __init__(self) -> None:
        self.at = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.at


def test_healthy_and_ready_only_with_everything() -> None:
    health = Health(["one", "two"])
    assert health.live()[0] is False
    health.store_open()
    health.intake_running()
    assert health.live()[0] is True
    assert health.ready()[0] is False
    health.connected("one")
    assert health.ready()[1]["missing"] == ["platform two is starting"]
    health.connected("two")
    assert health.ready() == (True, health.ready()[1])
    assert health.ready()[1]["missing"] == []


def test_B63_a_platform_that_is_down_is_visible_and_we_stay_alive() -> None:
    clock = _Clock()
    health = Health(["one"], now=clock)
    health.store_open()
    health.intake_running()
    clock.at += timedelta(seconds=5)
    health.waiting("one", clock.at + timedelta(seconds=30), "The platform cannot be reached at the moment.")
    live, body = health.live()
    assert live
    assert body["uptime_seconds"] == 5
    assert body["platforms"]["one"] == {
        "state": "waiting",
        "since": "2026-01-01T00:00:05+00:00",
        "reason": "The platform cannot be reached at the moment.",
        "retry_at": "2026-01-01T00:00:35+00:00",
    }
    assert health.ready()[0] is False
    clock.at += timedelta(seconds=30)
    health.waiting("one", clock.at + timedelta(seconds=60), "again")
    assert health.platforms()["one"].since.second == 5, "the same state since then"
    health.parked("one", "refused")
    assert health.platforms()["one"].state is PlatformState.PARKED


def test_stopping_is_alive_and_not_ready() -> None:
    health = Health()
    health.store_open()
    health.intake_running()
    assert health.ready()[0]
    health.stopping()
    health.intake_running(False)
    assert health.live()[0]
    assert health.ready()[1]["missing"][0] == "the process is stopping"
    health.store_open(False)
    assert not health.live()[0]
