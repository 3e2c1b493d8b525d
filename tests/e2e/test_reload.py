"""Platforms whose settings change under a running daemon: each is restarted alone, and nothing is lost by it."""

from __future__ import annotations

import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.counterparts.model_script import Step
from tests.counterparts.model_server import ModelServer
from tests.crash.conftest import World
from tests.crash.harness import Client, DaemonProcess
from tests.e2e.sides import DiscordSide, TelegramSide

NEW_TOKEN = "7000000001:BBF-another_token_0123456789abcdef"


class Two:
    """A daemon with two platforms, of which one is changed."""

    def __init__(self, world: World, changed: TelegramSide, other: DiscordSide) -> None:
        self.world = world
        self.changed = changed
        self.other = other
        self.token = world.home / "token"
        self.reloads = 0
        self.daemon: DaemonProcess
        self.client: Client

    def configure(self, **section: Any) -> None:
        """Write the configuration; `section` goes into the one platform's."""
        http = {"enabled": True, "host": "127.0.0.1", "port": 0, "key": "${TIDINGS_HTTP_KEY}", "webhook_port": 0}
        changed = {**self.changed.section(), "token": f"file:{self.token}", **section}
        self.world.configure(
            access={"owners": [self.changed.owner(), self.other.owner()], "pairing": False},
            platforms={self.changed.name: changed, self.other.name: self.other.section(), "http": http},
        )

    def connected(self, name: str) -> int:
        """How often a platform was connected."""
        return sum(line["platform"] == name for line in self.daemon.told("adapter.connected"))

    async def start(self) -> None:
        self.daemon, self.client = await self.world.start(**self.changed.env(), **self.other.env())
        await self.changed.until(lambda: self.connected(self.changed.name) and self.connected(self.other.name))

    async def reload(self) -> dict[str, Any]:
        """SIGHUP, and what was taken over."""
        self.reloads += 1
        self.daemon.process.send_signal(signal.SIGHUP)
        await self.changed.until(lambda: len(self.daemon.told("config.reloaded")) == self.reloads)
        return self.daemon.told("config.reloaded")[-1]

    async def platforms(self) -> dict[str, Any]:
        return dict(json.loads((await self.client.raw("/readyz"))[1])["platforms"])

    async def asks(self, text: str) -> None:
        """A question in the changed platform is answered."""
        self.changed.say(self.changed.private, text)
        await self.changed.until(lambda: any(text in one for one in self.changed.seen(self.changed.private)))


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[Two]:
    changed, other, timeout = TelegramSide(), DiscordSide(), aiohttp.ClientTimeout(total=30)
    async with (
        ModelServer() as model,
        aiohttp.ClientSession(timeout=timeout) as session,
        changed.open(),
        other.open(),
    ):
        world = World(tmp_path / "home", model, session)
        made = Two(world, changed, other)
        first = changed.server.token
        made.token.write_text(first)
        made.token.chmod(0o600)
        made.configure()
        try:
            yield made
        finally:
            for daemon in world.started:
                daemon.kill()
        for daemon in world.started:
            for secret in (first, NEW_TOKEN, *other.env().values()):
                assert secret not in daemon.log.read_text()


async def test_B65_a_replaced_token_is_picked_up_and_no_other_platform_is_touched(two: Two) -> None:
    await two.start()
    await two.asks("before")
    two.changed.server.token = NEW_TOKEN  # the old one is refused from now on
    two.changed.server.drop_connections()
    await two.changed.until(lambda: two.daemon.told("adapter.parked"))
    assert (await two.platforms())[two.changed.name]["state"] == "parked"
    two.changed.say(two.changed.private, "meanwhile")
    two.token.write_text(NEW_TOKEN)
    line = await two.reload()
    assert line["changed"] == [f"platforms.{two.changed.name}.token"]
    assert line["platforms"] == [two.changed.name]
    await two.changed.until(lambda: any("meanwhile" in one for one in two.changed.seen(two.changed.private)))
    assert (await two.platforms())[two.changed.name]["state"] == "connected"
    assert two.connected(two.other.name) == 1
    assert await two.daemon.terminate() == 0


async def test_a_turn_goes_on_while_its_platform_is_restarted(two: Two) -> None:
    await two.start()
    two.world.model.script(Step(when="long", text="the whole answer", chunks=4, hold_after=1))
    two.changed.say(two.changed.private, "long")
    await two.world.model.wait_calls(1)
    two.configure(link_previews=True)
    assert (await two.reload())["platforms"] == [two.changed.name]
    await two.changed.until(lambda: two.connected(two.changed.name) == 2)
    two.world.model.release()
    await two.changed.until(lambda: "the whole answer" in two.changed.seen(two.changed.private))
    assert two.changed.seen(two.changed.private) == ["the whole answer"]
    assert await two.daemon.terminate() == 0


async def test_a_platform_is_switched_off_and_on_and_to_another_mode(two: Two) -> None:
    await two.start()
    two.configure(allow=[])
    line = await two.reload()
    assert line["platforms"] == [], "who may speak is looked up at each message"
    two.configure(enabled=False)
    assert (await two.reload())["platforms"] == [two.changed.name]
    assert set(await two.platforms()) == {"http", two.other.name}
    two.changed.say(two.changed.private, "while it is off")
    two.configure()
    await two.reload()
    await two.changed.until(lambda: any("while it is off" in one for one in two.changed.seen(two.changed.private)))
    two.configure(mode="webhook", webhook={"url": "https://public.example", "secret": "${TIDINGS_HTTP_KEY}"})
    await two.reload()
    await two.changed.until(lambda: two.connected(two.changed.name) == 3)
    two.configure()
    await two.reload()
    await two.changed.until(lambda: two.connected(two.changed.name) == 4)
    await two.asks("polling again")
    assert two.connected(two.other.name) == 1
    assert await two.daemon.terminate() == 0
