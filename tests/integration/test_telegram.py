"""The Telegram adapter with the genuine python-telegram-bot against the counterpart: what is heard."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
import structlog
from aiohttp import web
from aiohttp.test_utils import TestServer, unused_port

from adapters.errors import AuthFailed, NotReady
from adapters.events import Button, Buttons, EventKind
from adapters.telegram.settings import TelegramSettings
from adapters.telegram.setup import SETUP
from adapters.telegram.webhook import HEADER
from tests.counterparts.telegram_server import TelegramServer
from tests.unit.adapters.telegram.rig import Rig


@pytest.fixture
async def server() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as found:
        yield found
        assert found.violations == []


@pytest.fixture
def rig(server: TelegramServer, tmp_path: Path) -> Rig:
    return Rig(server, tmp_path)


# the way in


async def test_B12_what_was_said_while_we_were_down_is_heard_once_and_in_order(rig: Rig) -> None:
    async with rig.running():
        pass  # somebody who was here once: the chat exists
    for text in ("one", "two", "three"):
        rig.server.say(rig.chat, rig.ann, text)
    async with rig.running():
        events = await rig.events(3)
        await rig.settled()
    assert [event.text for event in events] == ["one", "two", "three"]
    assert rig.server.updates.dropped == []
    assert all(call.params.get("drop_pending_updates") in (None, False) for call in rig.server.called("deleteWebhook"))


async def test_the_offset_moves_only_behind_the_whole_batch(rig: Rig) -> None:
    for number in range(5):
        rig.server.say(rig.chat, rig.ann, f"m{number}")
    async with rig.running():
        await rig.events(1)
        rig.gateway.gate.clear()
        rig.server.say(rig.chat, rig.ann, "late")
        await rig.gateway.until(lambda: rig.gateway.offered >= 1)
        rig.gateway.gate.set()
        await rig.settled()
    assert [event.text for event in rig.gateway.events] == ["m0", "m1", "m2", "m3", "m4", "late"]


async def test_a_store_that_is_busy_is_waited_for_and_a_broken_one_is_told(rig: Rig) -> None:
    async with rig.running() as task:
        rig.gateway.faults.extend([NotReady("busy")] * 2)
        rig.server.say(rig.chat, rig.ann, "hello")
        await rig.events(1)
        await rig.settled()
        assert not task.done()
        before = rig.server.confirmed
        rig.gateway.faults.extend([NotReady("the disk is full")] * 50)
        rig.server.say(rig.chat, rig.ann, "later")
        with pytest.raises(NotReady, match="disk is full"):
            await asyncio.wait_for(asyncio.shield(task), 10)
        assert rig.server.confirmed == before
    rig.gateway.faults.clear()
    async with rig.running():
        await rig.settled()
    assert [event.text for event in rig.gateway.events] == ["hello", "later"]


async def test_B22_what_cannot_be_read_is_kept_and_holds_nothing_up(rig: Rig) -> None:
    rig.server.inject({"message": {"message_id": 3}})
    rig.server.inject({"message": "no object"})
    rig.server.inject({"something_new": {"x": 1}})
    rig.server.say(rig.chat, rig.ann, "after it")
    kept: list[tuple[str, str]] = []

    async def unreadable(platform: str, account: str, dedup_id: str, raw: str, reason: str) -> object:
        kept.append((dedup_id, raw))
        return None

    rig.gateway.unreadable = unreadable  # type: ignore[method-assign,assignment]
    async with rig.running():
        await rig.events(1)
        await rig.settled()
    assert [event.text for event in rig.gateway.events] == ["after it"]
    assert len(kept) == 2
    assert all(name.startswith("u:") for name, _ in kept)


async def test_B22_a_defect_behind_the_port_costs_one_event_only(rig: Rig) -> None:
    kept: list[str] = []

    async def unreadable(platform: str, account: str, dedup_id: str, raw: str, reason: str) -> object:
        kept.append(reason)
        return None

    rig.gateway.unreadable = unreadable  # type: ignore[method-assign,assignment]
    async with rig.running() as task:
        rig.gateway.faults.append(RuntimeError("a hook"))
        rig.server.say(rig.chat, rig.ann, "one")
        rig.server.say(rig.chat, rig.ann, "two")
        await rig.events(1)
        await rig.settled()
        assert not task.done()
    assert [event.text for event in rig.gateway.events] == ["two"]
    assert kept == ["RuntimeError: a hook"]


async def test_B09_a_topic_is_a_place_of_its_own(rig: Rig) -> None:
    forum = rig.server.world.forum("Forum", rig.ann)
    first, second = (rig.server.open_topic(forum, rig.ann, name) for name in ("blue", "red"))
    async with rig.running():
        rig.server.say(forum, rig.ann, "my colour is blue", thread=first.id)
        rig.server.say(forum, rig.ann, "what is my colour?", thread=second.id)
        rig.server.say(forum, rig.ann, "what is my colour?", thread=first.id)
        events = await rig.events(3)
        assert [event.address.thread_id for event in events] == [str(first.id), str(second.id), str(first.id)]
        for event in events:
            for reply_to in (event.message_id, None):
                await rig.say(event.address, "an answer", reply_to=reply_to)
    shown = rig.server.shown(forum)
    assert [one.thread for one in shown] == [first.id, first.id, second.id, second.id, first.id, first.id]


async def test_B23_an_edit_follows_its_message(rig: Rig) -> None:
    async with rig.running():
        said = rig.server.say(rig.chat, rig.ann, "delete file A")
        await rig.events(1)
        rig.server.edit(rig.chat, said["message_id"], "delete file B")
        events = await rig.events(2)
    assert [(event.kind, event.text) for event in events] == [
        (EventKind.MESSAGE, "delete file A"),
        (EventKind.EDIT, "delete file B"),
    ]
    assert events[0].message_id == events[1].message_id


async def test_B34_the_parts_of_a_long_paste_come_whole(rig: Rig) -> None:
    parts = ["a" * 4096, "b" * 4096, "c" * 700]
    async with rig.running():
        for part in parts:
            rig.server.say(rig.chat, rig.ann, part)
        events = await rig.events(3)
        assert [event.text for event in events] == parts
        assert rig.adapter.renderer.limits.text == 4096  # what the gateway holds a first part against


async def test_B42_a_group_that_becomes_a_supergroup_keeps_its_line(rig: Rig) -> None:
    for order in ("to-from", "from-to", "none"):
        group = rig.server.world.group(f"Team {order}", rig.ann)
        async with rig.running():
            count = len(rig.gateway.rows)
            rig.server.say(group, rig.ann, "/status")
            before = (await rig.events(count + 1))[-1]
            new = rig.server.migrate(group, rig.ann, order=order)
            await rig.settled()
            (message_id,) = await rig.say(before.address, "an answer", reply_to=before.message_id)
            assert [one.text for one in rig.server.shown(new)] == ["an answer"]
            assert rig.moves.now("telegram", str(group.id)) == str(new.id)
            rig.server.say(new, rig.ann, "/status")
            after = (await rig.events(count + 2))[-1]
            assert after.address == before.address
            await rig.adapter.edit(before.address, message_id, rig.chunks("another answer")[0])
            assert [one.text for one in rig.server.shown(new)] == ["another answer"]
            await rig.adapter.delete(before.address, message_id)
            assert rig.server.shown(new) == []


async def test_B45_a_channel_post_is_judged_like_a_message_of_a_group(rig: Rig) -> None:
    channel = rig.server.world.channel("News")
    rig.server.post(channel, "breaking")
    group = rig.server.world.supergroup("Team", rig.ann)
    rig.server.say_anonymous(group, "do it")
    async with rig.running():
        post, anonymous = await rig.events(2)
    assert (post.address.chat_kind, post.sender.id, post.mentions_us) == ("channel", str(channel.id), False)
    assert (anonymous.address.chat_kind, anonymous.sender.id) == ("group", str(group.id))


def test_B85_only_stable_ids_are_allowed() -> None:
    found = TelegramSettings.model_validate({"allow": [1001, "1001", -100900]})
    assert found.allow == ("1001", "-100900")
    for wrong in (["owner"], ["@owner"], ["0"], ["--1"], ["1.5"]):
        with pytest.raises(ValueError, match="entry 1"):
            TelegramSettings.model_validate({"allow": wrong})


async def test_B47_an_album_comes_as_its_parts_with_one_id(rig: Rig) -> None:
    group = rig.server.world.supergroup("Team", rig.ann, rig.bob)
    rig.server.world.abilities["can_read_all_group_messages"] = True
    async with rig.running():
        for number in range(4):
            rig.server.send_photo(
                group, rig.ann, b"\xff\xd8\xff1", media_group_id="A", caption="all" if number == 2 else None
            )
            rig.server.send_photo(group, rig.bob, b"\xff\xd8\xff2", media_group_id="B")
        events = await rig.events(8)
    assert {event.group_id for event in events if event.sender.id == str(rig.ann.id)} == {f"{group.id}:A"}
    assert {event.group_id for event in events if event.sender.id == str(rig.bob.id)} == {f"{group.id}:B"}
    assert [event.text for event in events if event.text] == ["all"]


async def test_a_press_is_an_event_and_its_circle_ends(rig: Rig) -> None:
    async with rig.running():
        buttons = Buttons(
            buttons=(Button(id="a_1", label="Yes", value="approve"), Button(id="a_1", label="No", value=""))
        )
        (message_id,) = await rig.say(rig.chat, "Really?", buttons)
        update = rig.server.press(rig.chat, rig.ann, "Yes")
        (event,) = await rig.events(1)
        assert event.kind is EventKind.ACTION
        assert event.action is not None
        assert (event.action.button_id, event.action.value) == ("a_1", "approve")
        assert event.message_id == message_id
        query = rig.server.query_of(update)
        await rig.server.until(lambda: query.answers)
        rig.server.updates.duplicate(update)
        await rig.gateway.until(lambda: rig.gateway.offered == 2)
        assert len(rig.gateway.rows) == 1
        rig.server.press_data(rig.chat, rig.ann, int(message_id), "foreign")
        rig.server.expire_queries()
        await rig.settled()
        await rig.adapter.edit(rig.address(rig.chat), message_id, rig.chunks("Approved by Ann")[0])
        assert rig.server.shown(rig.chat)[0].buttons == []


async def test_reactions_and_members_are_notes(rig: Rig) -> None:
    group = rig.server.world.supergroup("Team", rig.ann)
    async with rig.running():
        await rig.server.until(lambda: rig.server.updates.allowed)
        rig.server.set_bot(group, "administrator", by=rig.ann)
        await rig.settled()
        count = len(rig.gateway.rows)
        said = rig.server.say(group, rig.ann, "/status")
        rig.server.react(group, rig.ann, said["message_id"], "👍")
        rig.server.join(group, rig.bob)
        await rig.settled()
    kinds = [(event.kind, event.facts) for event in rig.gateway.events[count:]]
    assert kinds == [
        (EventKind.COMMAND, ()),
        (EventKind.REACTION, ("reacted with 👍",)),
        (EventKind.MEMBERSHIP, ("Bob joined",)),
    ]


async def test_the_menu_is_set_once(server: TelegramServer, tmp_path: Path) -> None:
    rig = Rig(server, tmp_path, commands=(("new", "start  anew"), ("with-dash", "x"), ("help", "h" * 300)))
    for _ in range(2):
        async with rig.running():
            await server.until(lambda: server.called("getMyCommands") and server.methods.commands)
            await asyncio.sleep(0.02)
    (commands,) = server.methods.commands.values()
    assert [(one["command"], len(one["description"])) for one in commands] == [("new", 10), ("help", 256)]
    assert len(server.called("setMyCommands")) == 1


# the webhook


class Hook:
    """A webhook rig: the adapter's route on a server of its own."""

    def __init__(self, server: TelegramServer, folder: Path) -> None:
        self.port = unused_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.rig = Rig(server, folder, mode="webhook", webhook={"url": self.url, "secret": "a-secret_1"})
        self.app = web.Application()
        (route,) = self.rig.adapter.routes()
        assert route.public
        self.app.router.add_route(route.method, route.path, route.handler)
        self.server = TestServer(self.app, port=self.port)


@pytest.fixture
async def hook(server: TelegramServer, tmp_path: Path) -> AsyncIterator[Hook]:
    found = Hook(server, tmp_path)
    async with found.server:
        yield found


async def test_the_webhook_answers_after_the_commit(hook: Hook) -> None:
    rig, server = hook.rig, hook.rig.server
    async with rig.running():
        assert server.updates.hook.url == f"{hook.url}/telegram"
        assert server.called("setWebhook")[0].params["max_connections"] == 1
        rig.gateway.gate.clear()
        rig.gateway.faults.append(NotReady("busy"))
        server.say(rig.chat, rig.ann, "hello")
        await rig.gateway.until(lambda: rig.gateway.offered == 2)
        assert [status for _, status in server.updates.hook.posts] == [503]
        rig.gateway.gate.set()
        await rig.settled()
        assert [status for _, status in server.updates.hook.posts] == [503, 200]
        (event,) = await rig.events(1)
        assert event.text == "hello"
    server.say(rig.chat, rig.ann, "while we were away")
    await server.until(lambda: server.updates.hook.posts[-1][1] == 503)
    async with rig.running():
        assert [event.text for event in await rig.events(2)] == ["hello", "while we were away"]


async def test_B86_only_the_secret_opens_the_webhook(hook: Hook) -> None:
    rig = hook.rig
    body = (
        b'{"update_id": 9,  "message": {"message_id": 1, "date": 1, "chat": {"id": 5, "type": "private"}, "text": "x"}}'
    )
    async with rig.running(), aiohttp.ClientSession() as session:
        for headers, data, status in (
            ({}, body, 401),
            ({HEADER: ""}, body, 401),
            ({HEADER: "a-secret_2"}, body, 401),
            ({HEADER: "ä"}, body, 401),
            ({HEADER: "a-secret_1"}, b"{", 400),
            ({HEADER: "a-secret_1"}, io.BytesIO(b" " * (3 << 20)), 413),
            ({HEADER: "a-secret_1"}, body, 200),
            ({HEADER: "a-secret_1"}, body, 200),  # a replay is recognised
        ):
            async with session.post(f"{hook.url}/telegram", data=data, headers=headers) as response:
                assert response.status == status
        assert len(rig.gateway.rows) == 1
    for secret in (None, "", "has a blank", "x" * 257):
        given = {
            "enabled": True,
            "token": "1:x",
            "mode": "webhook",
            "webhook": {"url": "https://x.example", "secret": secret},
        }
        with pytest.raises(ValueError, match="secret"):
            TelegramSettings.model_validate(given)


async def test_polling_has_no_route_and_takes_an_old_webhook_away(hook: Hook, tmp_path: Path) -> None:
    async with hook.rig.running():
        pass
    rig = Rig(hook.rig.server, tmp_path)
    assert rig.adapter.routes() == ()
    rig.server.say(rig.chat, rig.ann, "hello")
    async with rig.running():
        assert rig.server.updates.hook.url == ""
        assert (await rig.events(1))[0].text == "hello"


async def test_a_refused_address_parks_the_adapter(hook: Hook) -> None:
    hook.rig.server.fail("setWebhook", status=400, description="Bad Request: bad webhook: IP address is reserved")
    with pytest.raises(AuthFailed) as caught:
        async with hook.rig.running():
            pass
    assert "IP address is reserved" in caught.value.told


async def test_a_webhook_that_is_taken_away_or_fails_is_told(hook: Hook) -> None:
    server = hook.rig.server
    with structlog.testing.capture_logs() as logs:
        async with hook.rig.running() as task:
            server.updates.hook.last_error, server.updates.hook.last_error_date = "Connection timed out", 1796000000
            asked = len(server.called("getWebhookInfo"))
            await server.until(lambda: len(server.called("getWebhookInfo")) > asked + 2)
            server.fail("getWebhookInfo", times=2)  # a short outage is none
            await server.until(lambda: len(server.called("getWebhookInfo")) > asked + 5)
            assert not task.done()
            server.updates.hook.url = "https://elsewhere.example"
            with pytest.raises(NotReady) as caught:
                await asyncio.wait_for(asyncio.shield(task), 5)
            assert "Another program" in caught.value.told
        async with hook.rig.running() as task:
            server.revoke()
            with pytest.raises(AuthFailed):
                await asyncio.wait_for(asyncio.shield(task), 5)
    assert [one["event"] for one in logs if one["log_level"] == "warning"] == ["telegram.webhook_failing"]


# set-up


async def test_the_setup_tells_what_the_bot_hears(server: TelegramServer) -> None:
    answers = {"token": server.token, "api_base": server.url}
    server.world.abilities["can_read_all_group_messages"] = False
    checked = await SETUP.check(answers)
    assert checked.found[0] == f"the bot is @hermes_bot (id {server.world.bot.id})"
    assert "privacy mode is on" in checked.found[1]
    assert checked.missing == ()
    server.world.abilities["can_read_all_group_messages"] = True
    assert "privacy mode is off" in (await SETUP.check(answers)).found[1]
    with pytest.raises(AuthFailed):
        await SETUP.check({**answers, "token": "1:wrong"})
    token, allow = SETUP.questions
    assert token.secret
    assert token.fault("not a token")
    assert token.fault(server.token) is None
    assert allow.many
    assert allow.fault("@ann")
    assert allow.fault("-100900") is allow.fault("1001") is allow.fault("*") is None
    assert "BotFather" in SETUP.intro
