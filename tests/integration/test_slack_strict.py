"""The Slack adapter against the stricter of the two counterparts: rights, refusals, outages, HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from adapters.errors import NoRights, OutcomeUnknown
from adapters.events import Attachment, Button, Buttons, ChatAddress, EventKind, Markdown, Media
from adapters.slack.adapter import SlackAdapter
from adapters.slack.settings import SlackSettings
from adapters.slack.setup import SCOPES, SlackSetup
from tests.counterparts.slack_server import SlackServer
from tests.counterparts.slack_world import TEAM, Channel
from tests.counterparts.small_gateway import SmallGateway
from tests.counterparts.small_services import SmallCursors, services


@dataclass
class Here:
    slack: SlackServer
    gateway: SmallGateway
    adapter: SlackAdapter
    task: asyncio.Task[None]
    ann: str
    room: Channel
    folder: Path

    def address(self, channel: Channel, thread: str | None = None) -> ChatAddress:
        return ChatAddress(platform="slack", account=self.slack.bot, scope=TEAM, chat_id=channel.id, thread_id=thread)

    async def rows(self, count: int) -> list[Any]:
        await self.gateway.until(lambda: len(self.gateway.rows) >= count)
        return self.gateway.events


@asynccontextmanager
async def connected(slack: SlackServer, folder: Path, cursors: SmallCursors, **given: Any) -> AsyncIterator[Here]:
    people = [one for one in slack.world.channels.values() if one.kind == "channel"]
    ann = slack.world.person("Ann") if not people else next(iter(people[0].members - {slack.bot}))
    room = people[0] if people else slack.world.channel("kitchen", ann)
    gateway = SmallGateway()
    settings = SlackSettings.model_validate(
        {"enabled": True, "bot_token": slack.bot_token, "app_token": slack.app_token, "api_base": slack.url,
         "signing_secret": slack.signing_secret, **given}
    )  # fmt: skip
    adapter = SlackAdapter(settings, services(gateway, folder, cursors=cursors))
    ready = asyncio.Event()
    task = asyncio.create_task(adapter.run(gateway, ready.set), name="adapter")
    async with asyncio.timeout(10):
        await ready.wait()
    try:
        yield Here(slack, gateway, adapter, task, ann, room, folder)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def quiet(slack: SlackServer) -> None:
    count = -1
    while count != len(slack.calls):
        count = len(slack.calls)
        await asyncio.sleep(0.15)


async def test_a_whole_conversation(tmp_path: Path) -> None:
    async with SlackServer() as slack, connected(slack, tmp_path, SmallCursors()) as here:
        said = slack.say(here.room, here.ann, f"<@{slack.bot}> plan", files=[("a.txt", "text/plain", b"words")])
        (event,) = await here.rows(1)
        (file,) = await here.adapter.fetch(event)
        assert Path(file.path or "").read_bytes() == b"words"
        await here.adapter.typing(event.address, None)
        path = tmp_path / "b.txt"
        path.write_text("out")
        blocks = [
            Markdown(text="# A **plan**\n\n- one\n  - two\n\n" + "word " * 900),
            Media(attachment=Attachment(kind="document", name="b.txt", mime="text/plain", path=str(path))),
            Markdown(text="Really?"),
            Buttons(buttons=(Button(id="a1", label="Yes", value="y"), Button(id="a1", label="No", value="n"))),
        ]
        for number, chunk in enumerate(here.adapter.renderer.render(blocks)):
            receipt = await here.adapter.send(event.address, chunk, key=f"k{number}", reply_to=None)
            found = await here.adapter.look_up(event.address, f"k{number}")
            assert found is not None
            assert found.message_ids == receipt.message_ids
        shown = slack.shown(here.room)
        assert {one.thread_ts for one in shown} == {said["ts"]}
        slack.press(here.room, here.ann, shown[-1].ts, "No")
        press = (await here.rows(2))[1]
        assert press.action is not None
        assert (press.kind, press.action.value, press.address) == (EventKind.ACTION, "n", event.address)
        (done,) = here.adapter.renderer.render([Markdown(text="Done.")])
        await here.adapter.edit(event.address, shown[-1].ts, done)
        await here.adapter.edit(event.address, shown[-1].ts, done)
        assert slack.shown(here.room)[-1].blocks in ((), [], None) or not slack.shown(here.room)[-1].raw.get("blocks")
        for one in slack.shown(here.room):
            await here.adapter.delete(event.address, one.ts)
        assert slack.shown(here.room) == []
        slack.slash(here.room, here.ann, "status")
        assert (await here.rows(3))[2].text == "/status"
        assert slack.broadcasts == []


async def test_the_scopes_of_the_manifest_are_enough_and_each_lack_is_told(tmp_path: Path) -> None:
    async with SlackServer() as slack:
        slack.scopes &= set(SCOPES)
        cursors = SmallCursors()
        async with connected(slack, tmp_path, cursors) as here:
            slack.say(here.room, here.ann, f"<@{slack.bot}> hello")
            await here.rows(1)
            await quiet(slack)
            slack.scopes.discard("chat:write")
            (chunk,) = here.adapter.renderer.render([Markdown(text="x")])
            with pytest.raises(NoRights) as lacking:
                await here.adapter.send(here.address(here.room), chunk, key="k", reply_to=None)
            assert "chat:write" in lacking.value.told
        answers = {"bot_token": slack.bot_token, "app_token": slack.app_token, "api_base": slack.url}
        assert any("chat:write" in line for line in (await SlackSetup().check(answers)).missing)


async def test_an_outage_is_filled_and_a_refresh_is_no_gap(tmp_path: Path) -> None:
    async with SlackServer() as slack:
        cursors = SmallCursors()
        async with connected(slack, tmp_path, cursors) as here:
            await quiet(slack)
            await slack.socket_mode.ask_to_leave("refresh_requested", close_after=0.2)
            await slack.until(lambda: slack.connections_opened == 2)
            slack.say(here.room, here.ann, "in between")
            await here.rows(1)
            await asyncio.sleep(0.3)
            assert slack.sockets == 1
            assert slack.called("conversations.history") == []
        slack.say(here.room, here.ann, "nobody there", live=False)
        root = slack.say(here.room, here.ann, f"<@{slack.bot}> nor here", live=False)
        slack.say(here.room, here.ann, "nor in the thread", thread_ts=root["ts"], live=False)
        async with connected(slack, tmp_path, cursors) as again:
            found = await again.rows(3)
            await quiet(slack)
            assert [one.text for one in found][-3:] == ["nobody there", "nor here", "nor in the thread"]
            assert found[-1].mentions_us


@pytest.mark.parametrize("forward", [False, True])
async def test_pages_are_read_in_either_direction(tmp_path: Path, forward: bool) -> None:
    async with SlackServer() as slack:
        cursors = SmallCursors()
        async with connected(slack, tmp_path, cursors):
            await quiet(slack)
        slack.limits.page, slack.limits.pages_forward = 15, forward
        room = next(one for one in slack.world.channels.values() if one.kind == "channel")
        ann = next(iter(room.members - {slack.bot}))
        for number in range(40):
            slack.say(room, ann, f"number {number}", live=False)
        async with connected(slack, tmp_path, cursors) as here:
            await here.rows(40)
            assert [one.text for one in here.gateway.events] == [f"number {number}" for number in range(40)]


async def test_envelopes_come_twice_and_out_of_order(tmp_path: Path) -> None:
    async with SlackServer() as slack, connected(slack, tmp_path, SmallCursors()) as here:
        slack.outbox.copies = 2
        slack.outbox.hold()
        for number in range(3):
            slack.say(here.room, here.ann, f"<@{slack.bot}> {number}")
        slack.outbox.release(reverse=True)
        await here.rows(3)
        await asyncio.sleep(0.2)
        assert sorted(one.text for one in here.gateway.events) == ["0", "1", "2"]


async def test_unknown_outcomes(tmp_path: Path) -> None:
    async with SlackServer() as slack, connected(slack, tmp_path, SmallCursors()) as here:
        address = here.address(here.room)
        (chunk,) = here.adapter.renderer.render([Markdown(text="once")])
        slack.accept_then_drop("chat.postMessage")
        with pytest.raises(OutcomeUnknown):
            await here.adapter.send(address, chunk, key="k", reply_to=None)
        assert await here.adapter.look_up(address, "k") is not None
        assert await here.adapter.look_up(address, "none") is None
        assert len(slack.shown(here.room)) == 1


async def test_signed_events(tmp_path: Path) -> None:
    async with SlackServer() as slack, connected(slack, tmp_path, SmallCursors(), mode="http") as here:
        (route,) = here.adapter.routes()
        app = web.Application()
        app.router.add_route(route.method, route.path, route.handler)
        async with TestServer(app) as listener:
            slack.deliver_to(str(listener.make_url(route.path)))
            assert await slack.signed.verify()
            slack.say(here.room, here.ann, f"<@{slack.bot}> hello")
            await here.rows(1)
            assert (await slack.signed.post(b"{}", unsigned=True)).status == 401
            assert (await slack.signed.post(b"{}", age=400)).status == 401
            assert (await slack.signed.post(b"{}", secret="x")).status == 401
        slack.deliver_to(None)
