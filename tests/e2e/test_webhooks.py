"""Webhook modes with the daemon as a process: a listener of their own, committed before 200, secrets checked (B86)."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.counterparts.model_server import ModelServer
from tests.crash.conftest import World
from tests.crash.harness import KEY, rows
from tests.e2e.sides import Side, SlackSide, TelegramSide
from tests.e2e.test_conversations import Scene

TELEGRAM_SECRET = "a-secret-of-this-test"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class TelegramHook(TelegramSide):
    """Telegram by webhook."""

    path = "/telegram"

    def section(self) -> dict[str, Any]:
        hook = {"url": f"http://127.0.0.1:{self.port}", "path": self.path, "secret": "${TELEGRAM_SECRET}"}
        return {**super().section(), "mode": "webhook", "webhook": hook}

    def env(self) -> dict[str, str]:
        return {**super().env(), "TELEGRAM_SECRET": TELEGRAM_SECRET}


class SlackHook(SlackSide):
    """Slack by signed requests."""

    path = "/slack/events"

    def section(self) -> dict[str, Any]:
        section = {**super().section(), "mode": "http", "signing_secret": "${SLACK_SIGNING_SECRET}"}
        del section["app_token"]
        return section

    def env(self) -> dict[str, str]:
        return {"SLACK_BOT_TOKEN": self.server.bot_token, "SLACK_SIGNING_SECRET": self.server.signing_secret}


@pytest.fixture(params=[TelegramHook, SlackHook], ids=["telegram", "slack"])
async def hooked(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Scene]:
    side: Side = request.param()
    side.port = free_port()  # type: ignore[attr-defined]
    timeout = aiohttp.ClientTimeout(total=30)
    async with ModelServer() as model, aiohttp.ClientSession(timeout=timeout) as session, side.open():
        world = World(tmp_path / "home", model, session)
        scene = Scene(side, world)
        http = {"enabled": True, "port": 0, "key": "${TIDINGS_HTTP_KEY}", "webhook_port": side.port}  # type: ignore[attr-defined]
        world.configure(access={"owners": [side.owner()]}, platforms={side.name: side.section(), "http": http})
        if isinstance(side, SlackHook):
            side.server.deliver_to(hook_url(scene), session)
        try:
            yield scene
        finally:
            for daemon in world.started:
                daemon.kill()
        side.check()


def hook_url(scene: Scene) -> str:
    return f"http://127.0.0.1:{scene.side.port}{scene.side.path}"  # type: ignore[attr-defined]


async def test_a_conversation_by_webhook(hooked: Scene) -> None:
    side = hooked.side
    daemon = await hooked.start()
    hooked.model.script("Heard.")
    side.say(side.private, "hello")
    await hooked.sees(side.private, "Heard.")
    # nothing of the main listener is reachable beside the webhook, and the other way round
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {KEY}"}) as session:
        root = hook_url(hooked).rpartition(side.path)[0]  # type: ignore[attr-defined]
        for path in ("/metrics", "/v1/models", "/healthz", "/api/messages"):
            async with session.get(root + path) as answer:
                assert answer.status == 404
        async with session.post(f"http://127.0.0.1:{daemon.port}{side.path}", data=b"{}") as answer:  # type: ignore[attr-defined]
            assert answer.status == 404


async def test_B86_what_is_not_signed_is_refused(hooked: Scene) -> None:
    side = hooked.side
    await hooked.start()
    if isinstance(side, SlackHook):
        event = {"type": "message", "user": side.people["ann"], "text": "obey", "channel": side.private.chat.id,
                 "ts": "1796000000.000100", "channel_type": "im", "event_ts": "1796000000.000100"}  # fmt: skip
        body = json.dumps({"type": "event_callback", "team_id": "T0TEAM", "event": event, "event_id": "Ev1"}).encode()
        signed = side.server.sockets.signed
        assert await signed(body, unsigned=True) == 401
        assert await signed(body, secret="another secret") == 401
        assert await signed(body, age=601.0) == 401
        assert rows(hooked.world.home, "SELECT count(*) FROM inbox") == [(0,)]
        # an honest signature over odd bytes is right, and twice the same is one
        odd = body.replace(b": ", b" :\n  ").replace(b"obey", b"hello")
        hooked.model.script("Signed.")
        assert await signed(odd) == 200
        assert await signed(odd) == 200
        await hooked.sees(side.private, "Signed.")
        assert rows(hooked.world.home, "SELECT count(*) FROM inbox") == [(1,)]
        return
    ann = side.people["ann"]  # type: ignore[attr-defined]
    message = {"message_id": 900, "date": 1796000000, "chat": {"id": ann.id, "type": "private", "first_name": "Ann"},
               "from": {"id": ann.id, "is_bot": False, "first_name": "Ann"}, "text": "obey"}  # fmt: skip
    update = {"update_id": 5, "message": message}
    async with aiohttp.ClientSession() as session:
        for headers in ({}, {"X-Telegram-Bot-Api-Secret-Token": "wrong"}, {"X-Telegram-Bot-Api-Secret-Token": ""}):
            async with session.post(hook_url(hooked), json=update, headers=headers) as answer:
                assert answer.status == 401
        assert rows(hooked.world.home, "SELECT count(*) FROM inbox") == [(0,)]
        for _ in range(2):
            right = {"X-Telegram-Bot-Api-Secret-Token": TELEGRAM_SECRET}
            async with session.post(hook_url(hooked), json=update, headers=right) as answer:
                assert answer.status == 200
    assert rows(hooked.world.home, "SELECT count(*) FROM inbox") == [(1,)]


async def test_B86_without_a_secret_nothing_starts(hooked: Scene) -> None:
    section = hooked.side.section()
    if isinstance(hooked.side, SlackHook):
        section["signing_secret"] = None
    else:
        section["webhook"]["secret"] = None
    http = {"enabled": True, "port": 0, "key": "${TIDINGS_HTTP_KEY}", "webhook_port": hooked.side.port}  # type: ignore[attr-defined]
    hooked.world.configure(platforms={hooked.side.name: section, "http": http})
    daemon = hooked.world.spawn(**hooked.side.env())
    assert await daemon.dead() == 78
    assert "secret" in daemon.log.read_text()
