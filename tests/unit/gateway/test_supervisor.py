"""One platform's failure never touches another, nothing is given up, and a token has one user (B60, B63, B65)."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager
from pathlib import Path

from structlog.testing import capture_logs

from adapters.errors import AuthFailed, NotReady, RetryAfter
from adapters.memory.adapter import MemoryAdapter
from adapters.ports import Inbox
from gateway import locks
from gateway.health import Health, PlatformState
from gateway.metrics import Metrics
from gateway.supervisor import Claim, Supervisor, nothing_to_claim
from state.clock import SYSTEM
from tests.counterparts.small_gateway import SmallGateway


def take(home: Path, token: str, environ: dict[str, str]) -> Claim:
    def claim() -> AbstractContextManager[object]:
        with ExitStack() as stack:
            stack.enter_context(locks.held(locks.token_lock("memory", token, home=home, environ=environ)))
            return stack.pop_all()

    return claim


@asynccontextmanager
async def supervised(
    adapter: MemoryAdapter, health: Health, claim: Claim = nothing_to_claim
) -> AsyncIterator[Supervisor]:
    supervisor = Supervisor(
        adapter,
        SmallGateway(),
        health,
        Metrics(),
        SYSTEM,
        connected=lambda _name: None,
        ended=lambda _name: None,
        claim=claim,
    )
    task = asyncio.create_task(supervisor.run(), name="supervisor")
    try:
        yield supervisor
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.005)


def state(health: Health) -> PlatformState:
    return health.platforms()["memory"].state


async def test_B60_a_second_daemon_with_the_same_token_is_parked_and_says_who_has_it(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    one, two = Health(["memory"]), Health(["memory"])
    first, second = MemoryAdapter(), MemoryAdapter()
    async with supervised(first, one, take(tmp_path / "a", "token-1", environ)):
        await until(lambda: state(one) is PlatformState.CONNECTED)
        async with supervised(second, two, take(tmp_path / "b", "token-1", environ)) as later:
            await until(lambda: state(two) is PlatformState.PARKED)
            reason = two.platforms()["memory"].reason
            assert str(tmp_path / "a") in reason
            assert "token-1" not in reason
            assert not second.connected
            # the other is not touched, and after its end the token is free
            assert state(one) is PlatformState.CONNECTED
            first.lose(AuthFailed("over"))
            await until(lambda: state(one) is PlatformState.PARKED)
            later.wake()
            await until(lambda: state(two) is PlatformState.CONNECTED)


async def test_B63_a_failing_platform_is_tried_again_for_ever_and_recovers_alone() -> None:
    health, adapter = Health(["memory"]), MemoryAdapter()
    for _ in range(3):
        adapter.room.fail("run", NotReady("down"))
    async with supervised(adapter, health) as supervisor:
        for _ in range(3):
            await until(lambda: state(health) is PlatformState.WAITING)
            health.starting("memory")
            supervisor.wake()
        await until(lambda: state(health) is PlatformState.CONNECTED)


async def test_B62_an_outage_is_one_warning() -> None:
    health, adapter = Health(["memory"]), MemoryAdapter()
    for _ in range(4):
        adapter.room.fail("run", NotReady("down"))
    with capture_logs() as logs:
        async with supervised(adapter, health) as supervisor:
            for _ in range(4):
                await until(lambda: state(health) is PlatformState.WAITING)
                health.starting("memory")
                supervisor.wake()
            await until(lambda: state(health) is PlatformState.CONNECTED)
    told = [line["log_level"] for line in logs if line["event"] == "adapter.waiting"]
    assert told == ["warning", "info", "info", "info"]


async def test_B65_a_refused_token_parks_the_platform_and_a_new_look_serves_again() -> None:
    health, adapter = Health(["memory"]), MemoryAdapter()
    adapter.room.fail("run", AuthFailed("401 for 123:secret"))
    async with supervised(adapter, health) as supervisor:
        await until(lambda: state(health) is PlatformState.PARKED)
        assert "secret" not in health.platforms()["memory"].reason
        supervisor.wake()
        await until(lambda: state(health) is PlatformState.CONNECTED)
        supervisor.refuse(AuthFailed("revoked while it ran"))
        await until(lambda: state(health) is PlatformState.PARKED)
        assert not adapter.connected


async def test_a_cancel_from_inside_an_adapter_does_not_end_its_platform_in_silence() -> None:
    class Cancelled(MemoryAdapter):
        runs = 0

        async def run(self, inbox: Inbox, ready: Callable[[], None]) -> None:
            self.runs += 1
            if self.runs == 1:
                raise asyncio.CancelledError  # as a library does that cancels its own tasks
            await super().run(inbox, ready)

    adapter, health = Cancelled(), Health(["memory"])
    async with supervised(adapter, health) as supervisor:
        await until(lambda: state(health) is PlatformState.WAITING)
        supervisor.wake()
        await until(lambda: adapter.connected)


async def test_a_stop_ends_a_supervisor_whatever_its_adapter_makes_of_it() -> None:
    class Stubborn(MemoryAdapter):
        async def run(self, inbox: Inbox, ready: Callable[[], None]) -> None:
            try:
                await super().run(inbox, ready)
            except asyncio.CancelledError as error:
                raise NotReady("the connection broke while it was closed") from error

    adapter = Stubborn()
    async with asyncio.timeout(10), supervised(adapter, Health(["memory"])):
        await until(lambda: adapter.connected)


async def test_the_wait_that_a_platform_asks_for_is_kept() -> None:
    health, adapter = Health(["memory"]), MemoryAdapter()
    adapter.room.fail("run", RetryAfter(1000.0))
    async with supervised(adapter, health):
        await until(lambda: state(health) is PlatformState.WAITING)
        retry_at = health.platforms()["memory"].retry_at
        assert retry_at is not None
        assert 990 < (retry_at - SYSTEM.utc()).total_seconds() <= 1000


async def test_B60_a_platform_that_is_ended_while_it_takes_its_token_leaves_it_free(tmp_path: Path) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path / "state")}
    claim, entered, go = take(tmp_path, "t", environ), threading.Event(), threading.Event()

    def slow() -> AbstractContextManager[object]:
        entered.set()
        assert go.wait(10)
        return claim()

    adapter = MemoryAdapter()
    async with supervised(adapter, Health(["memory"]), slow):
        assert await asyncio.to_thread(entered.wait, 10)
        asyncio.get_running_loop().call_later(0.02, go.set)
    assert not adapter.connected
    locks.token_lock("memory", "t", home=tmp_path, environ=environ).release()  # raises where it is held
