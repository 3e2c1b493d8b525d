"""The Slack adapter with the genuine SDK against the counterpart: what is heard, and how it stays connected."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from pydantic import ValidationError

from adapters.errors import AdapterError, AuthFailed, NotReady
from adapters.events import EventKind
from adapters.ports import HasRoutes
from adapters.slack.settings import SlackSettings
from adapters.slack.setup import SCOPES, SlackSetup, app_manifest
from tests.counterparts.small_slack_server import SlackServer
from tests.unit.adapters.slack.rig import Rig


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with SlackServer() as server:
        found = Rig(server, tmp_path)
        yield found
        assert server.violations == []


# events --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("twins", [("app_mention", "message"), ("message", "app_mention"), ("app_mention",)])
async def test_B13_twin_envelopes_are_one_event(rig: Rig, twins: tuple[str, ...]) -> None:
    async with rig.running():
        rig.mention("what is new?", twins=twins)
        await rig.acked(len(twins))
        (event,) = rig.gateway.events
        assert (event.text, event.mentions_us) == ("what is new?", True)


async def test_B14_the_acknowledgement_follows_the_commit_and_repeats_are_known(rig: Rig) -> None:
    async with rig.running():
        rig.gateway.gate.clear()
        rig.say("hello")
        await rig.gateway.until(lambda: rig.gateway.offered >= 1)
        await asyncio.sleep(0.05)
        assert rig.server.sockets.acks == []
        await rig.gateway.until(lambda: rig.gateway.offered == 1)
        await asyncio.sleep(0.4)  # Slack sends it again meanwhile
        rig.gateway.gate.set()
        await rig.acked(1)
        assert len(rig.gateway.rows) == 1
    rig.renew()
    async with rig.running():
        (told,) = rig.server.sockets.sent[:1]
        rig.server.sockets.deliver("events_api", told)  # once more, after a restart
        await rig.acked(2)
        assert len(rig.gateway.rows) == 1


async def test_B14_what_cannot_be_committed_comes_again(rig: Rig) -> None:
    async with rig.running():
        rig.gateway.faults.append(NotReady("the disk is full"))
        rig.say("hello")
        (event,) = await rig.events(1)
        assert event.text == "hello"
        assert rig.gateway.offered >= 2
        await rig.acked(1)


async def test_events_of_a_channel_keep_their_order(rig: Rig) -> None:
    async with rig.running():
        for number in range(30):
            rig.say(f"number {number}")
        await rig.events(30)
        assert [one.text for one in rig.gateway.events] == [f"number {number}" for number in range(30)]


async def test_B22_odd_events_end_nothing(rig: Rig) -> None:
    async with rig.running() as task:
        odd: list[dict[str, Any]] = [
            {"subtype": "bot_message", "is_ephemeral": True, "username": "slackbot", "text": "only for you"},
            {"subtype": "channel_topic", "text": 3},
            {"subtype": "message_changed", "message": None},
            {"subtype": "file_share", "user": rig.ann, "files": [None, 3, {"mode": "tombstone"}]},
            {"type": "something_new"},
            {"user": {"id": 1}, "text": "x"},
        ]
        for one in odd:
            rig.server.people.odd(rig.room, **one)
        rig.server.sockets.deliver("events_api", {"type": "event_callback"})
        rig.server.sockets.deliver("interactive", {"type": "view_submission"})
        rig.say("and on")
        await rig.gateway.until(lambda: any(one.text == "and on" for one in rig.gateway.events))
        await rig.acked(len(odd) + 3)
        assert not task.done()


async def test_B22_a_defect_of_one_event_ends_nothing(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[str] = []

    async def unreadable(platform: str, account: str, dedup_id: str, raw: str, reason: str) -> None:
        kept.append(raw)

    monkeypatch.setattr(rig.gateway, "unreadable", unreadable, raising=False)
    async with rig.running():
        rig.gateway.faults.append(RuntimeError("a defect"))
        rig.say("breaks")
        rig.say("and on")
        (event,) = await rig.events(1)
        assert event.text == "and on"
        await rig.acked(2)
        assert "breaks" in kept[0]


async def test_B24_our_own_posts_and_edits_are_not_heard(rig: Rig) -> None:
    async with rig.running():
        root = rig.mention("go")
        (event,) = await rig.events(1)
        first, *_ = rig.chunks("draft")
        receipt = await rig.adapter.send(event.address, first, key="k1", reply_to=None)
        for number in range(10):
            await rig.adapter.edit(event.address, receipt.message_ids[0], rig.chunks(f"draft {number}")[0])
        await rig.adapter.delete(event.address, receipt.message_ids[0])
        rig.server.people.own("posted", rig.room, {"user": rig.server.bot, "ts": "1.1", "text": "x"}, None)
        await rig.acked(2 + 1 + 10 + 1)
        assert len(rig.gateway.rows) == 1
        assert root["ts"] == event.message_id


async def test_B19_changes_without_new_words_start_nothing_and_edits_do(rig: Rig) -> None:
    async with rig.running():
        message = rig.mention("look at https://a.example")
        for _ in range(5):
            rig.server.people.unfurl(rig.room, message)
        rig.server.people.edit(rig.room, message, f"<@{rig.server.bot}> look again")
        first, second = await rig.events(2)
        assert (second.kind, second.message_id, second.text) == (EventKind.EDIT, first.message_id, "look again")
        rig.server.people.delete(rig.room, message)
        third = (await rig.events(3))[2]
        assert (third.kind, third.message_id, third.address) == (EventKind.DELETE, first.message_id, first.address)


async def test_joins_reactions_presses_and_commands(rig: Rig) -> None:
    async with rig.running():
        rig.server.people.join(rig.room, rig.bob)
        message = rig.say("hello")
        rig.server.people.react(rig.room, rig.bob, message, "+1")
        rig.server.people.slash(rig.room, rig.ann, "status")
        await rig.events(4)
        kinds = {one.kind: one for one in rig.gateway.events}
        assert set(kinds) == {EventKind.MEMBERSHIP, EventKind.MESSAGE, EventKind.REACTION, EventKind.COMMAND}
        assert kinds[EventKind.COMMAND].text == "/status"
        await rig.acked(4)


async def test_names_come_the_next_time(rig: Rig) -> None:
    async with rig.running():
        rig.say("one")
        await rig.server.until(lambda: rig.server.called("users.info"))
        await asyncio.sleep(0.05)
        rig.say("two")
        first, second = await rig.events(2)
        assert (first.sender.name, second.sender.name) == (rig.ann, "Ann")


async def test_the_name_of_the_channel_is_told(rig: Rig) -> None:
    async with rig.running():
        await rig.server.until(lambda: len(rig.server.called("users.conversations")) == 4)
        await asyncio.sleep(0.05)
        rig.say("hello")
        rig.say("hello", rig.dm)
        first, second = await rig.events(2)
        assert (first.chat_name, second.chat_name) == ("#kitchen", None)


async def test_no_log_holds_a_token_a_ticket_or_what_was_said(rig: Rig, capfd: pytest.CaptureFixture[str]) -> None:
    words = "xyzzy-what-was-said"
    async with rig.running():
        rig.gateway.faults.append(NotReady("the disk is full"))
        rig.say(words)
        await rig.events(1)
        for error in ("fatal_error", "invalid_blocks"):
            rig.server.fail("chat.postMessage", error=error)
            with pytest.raises(AdapterError):
                await rig.adapter.send(rig.address(rig.dm), rig.chunks(words)[0], key="k", reply_to=None)
        rig.server.sockets.accepting = False
        await rig.server.sockets.drop()
        await asyncio.sleep(0.3)
    told = "".join(capfd.readouterr())
    assert "event.not_committed" in told
    for secret in (words, rig.server.bot_token, rig.server.app_token, "/socket/", rig.server.signing_secret):
        assert secret not in told


# threads -------------------------------------------------------------------------------------------------


async def test_B08_root_and_reply_are_one_line_and_the_reply_needs_no_mention(rig: Rig) -> None:
    async with rig.running():
        root = rig.mention("plan")
        rig.say("continue", thread_ts=root["ts"])
        rig.say("something else")
        first, reply, other = await rig.events(3)
        assert first.address == reply.address
        assert (reply.mentions_us, other.mentions_us) == (True, False)
        assert other.address != first.address


async def test_B09_threads_do_not_mix(rig: Rig) -> None:
    async with rig.running():
        one, two = rig.mention("my colour is blue"), rig.mention("what is my colour?")
        rig.say("again", thread_ts=one["ts"])
        rig.say("again", thread_ts=two["ts"])
        events = await rig.events(4)
        assert [event.address.thread_id for event in events] == [one["ts"], two["ts"], one["ts"], two["ts"]]
        for number, event in enumerate(events[2:]):
            (chunk,) = rig.chunks(f"answer {number}")
            await rig.adapter.send(event.address, chunk, key=f"k{number}", reply_to=event.message_id)
        assert [one["text"] for one in rig.server.shown(rig.room, two["ts"])] == ["answer 1"]


async def test_threads_are_ours_after_a_restart(rig: Rig) -> None:
    async with rig.running():
        root = rig.mention("plan")
        await rig.acked(2)
    rig.renew()
    async with rig.running():
        rig.say("and then?", thread_ts=root["ts"])
        assert (await rig.events(2))[1].mentions_us
        assert not any(one.fields.get("limit") == "1" for one in rig.server.called("conversations.replies"))


async def test_an_older_thread_is_asked_for_once(rig: Rig) -> None:
    mine = rig.mention("old", live=False)
    theirs = rig.say("older", live=False)
    async with rig.running():
        for root in (mine, theirs, mine, theirs):
            rig.say("hm", thread_ts=root["ts"])
        events = await rig.events(4)
        assert [one.mentions_us for one in events] == [True, False, True, False]
        asked = [one for one in rig.server.called("conversations.replies") if one.fields.get("limit") == "1"]
        assert len(asked) == 2
        rig.server.fail("conversations.replies", error="internal_error")
        third = rig.say("oldest", live=False)
        rig.say("hm", thread_ts=third["ts"])
        assert not (await rig.events(5))[4].mentions_us


# the connection ------------------------------------------------------------------------------------------


async def test_B21_after_a_hundred_drops_there_is_one_socket_and_as_many_tasks(rig: Rig) -> None:
    async with rig.running() as task:
        await asyncio.sleep(0.1)
        before = len(asyncio.all_tasks())
        for number in range(100):
            await rig.server.sockets.drop()
            await rig.server.until(lambda number=number: rig.readies == number + 2 and rig.server.sockets.open)  # type: ignore[misc]
        rig.say("still there?")
        await rig.events(1)
        await rig.acked(1)
        await asyncio.sleep(0.2)
        assert len(rig.server.sockets.open) == 1
        assert len(rig.gateway.rows) == len(rig.server.sockets.acks) == 1
        assert len(asyncio.all_tasks()) <= before + 1  # the counterpart's own handler
        assert not task.done()


async def test_B21_it_runs_again_and_leaves_nothing(rig: Rig) -> None:
    before = asyncio.all_tasks()
    for _ in range(10):
        async with rig.running():
            assert len(rig.server.sockets.open) == 1
        await rig.server.until(lambda: not rig.server.sockets.open)
    await asyncio.sleep(0.05)
    assert not [one for one in asyncio.all_tasks() - before if one.get_name().startswith("slack:")]


async def test_a_fresh_connection_is_there_before_the_old_one_ends(rig: Rig) -> None:
    async with rig.running():
        for number in range(5):
            await rig.server.sockets.ask_to_refresh()
            await rig.server.until(lambda number=number: rig.server.sockets.opened == number + 2)  # type: ignore[misc]
            rig.say(f"number {number}")
            await rig.events(number + 1)
        await rig.server.until(lambda: len(rig.server.sockets.open) == 1)
        await rig.acked(5)
        assert rig.server.called("conversations.history") == []  # no gap


async def test_B65_refused_tokens_park_the_adapter(rig: Rig) -> None:
    rig.server.revoke("invalid_auth")
    async with rig.running() as task:
        error = await rig.ended(task)
        assert isinstance(error, AuthFailed)
        assert rig.server.bot_token not in repr(error)
    rig.server.refused_token = None
    async with rig.running() as task:
        rig.server.revoke()
        with pytest.raises(AuthFailed):
            await rig.adapter.send(rig.address(rig.dm), rig.chunks("x")[0], key="k", reply_to=None)
    rig.server.refused_token = None
    async with rig.running() as task:  # a new token is taken
        assert not task.done()


@pytest.mark.parametrize("how", ["uninstalled", "tokens", "disabled", "bad app token"])
async def test_B65_the_end_of_the_app_ends_the_run(rig: Rig, how: str) -> None:
    if how == "bad app token":
        rig._given["app_token"] = "xapp-another"
        rig.renew()
    async with rig.running() as task:
        if how == "uninstalled":
            rig.server.people.uninstall()
        elif how == "tokens":
            rig.server.people.event({"type": "tokens_revoked", "tokens": {"bot": [rig.server.bot]}})
        elif how == "disabled":
            await rig.server.sockets.ask_to_refresh("link_disabled")
        assert isinstance(await rig.ended(task), AuthFailed)
        with pytest.raises(NotReady):
            await rig.adapter.send(rig.address(rig.dm), rig.chunks("x")[0], key="k", reply_to=None)


async def test_no_way_to_connect_is_not_ready(rig: Rig) -> None:
    rig.server.sockets.accepting = False
    async with rig.running() as task:
        error = await rig.ended(task)
        assert type(error) is NotReady
        assert "socket/" not in str(error)  # the ticket
    rig.server.fail("auth.test", status=503, html=True)
    async with rig.running() as task:
        assert type(await rig.ended(task)) is NotReady


# HTTP ----------------------------------------------------------------------------------------------------


@asynccontextmanager
async def hooked(server: SlackServer, folder: Path) -> AsyncIterator[Rig]:
    rig = Rig(server, folder, mode="http", app_token=None)
    assert isinstance(rig.adapter, HasRoutes)
    (route,) = rig.adapter.routes()
    assert route.public
    app = web.Application()
    app.router.add_route(route.method, route.path, route.handler)
    async with TestServer(app) as listener, aiohttp.ClientSession() as session:
        server.deliver_to(str(listener.make_url(route.path)), session)
        yield rig


async def test_http_events_are_committed_before_they_are_confirmed(tmp_path: Path) -> None:
    async with SlackServer() as server, hooked(server, tmp_path) as rig, rig.running():
        rig.gateway.faults.append(NotReady("the disk is full"))
        rig.mention("hello", twins=("message",))
        await rig.events(1)
        await server.until(lambda: server.sockets.answers == [503, 200])
        rig.server.people.slash(rig.room, rig.ann, "status")
        (_, command) = await rig.events(2)
        assert command.text == "/status"
        await server.until(lambda: len(server.sockets.answers) == 3)


async def test_B86_only_what_slack_has_signed_is_taken(tmp_path: Path) -> None:
    async with SlackServer() as server, hooked(server, tmp_path) as rig:
        event = {"type": "message", "channel": rig.room.id, "user": rig.ann, "ts": "1.1", "text": "hello"}
        body = json.dumps({"type": "event_callback", "event": event}).encode()
        assert await server.sockets.signed(body) == 503  # not running yet
        async with rig.running():
            signed = server.sockets.signed
            assert await signed(body, unsigned=True) == 401
            assert await signed(body, secret="another") == 401
            assert await signed(body, age=601) == 401
            assert await signed(body, age=-601) == 401
            assert await signed(b"\xff\xfe") == 401
            now = str(int(time.time()))
            for stamp, signature in (
                (now, "v0=\u00e9"),
                ("soon", "v0=ab"),
                (now, ""),
                ("", "v0=ab"),
                ("\u0665", "v0=ab"),
            ):
                headers = {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": signature}
                assert await signed(body, unsigned=True, **headers) == 401
            assert rig.gateway.rows == []
            spaced = b"  " + body.replace(b": ", b" :   ") + b"\n"
            assert await signed(spaced) == 200
            assert await signed(spaced) == 200  # a replay is recognised
            assert await signed(body, age=200) == 200
            assert len(rig.gateway.rows) == 1
            assert await signed(json.dumps({"type": "url_verification", "challenge": "c"}).encode()) == 200


def test_B86_without_a_signing_secret_the_mode_does_not_start() -> None:
    for secret in (None, "  "):
        with pytest.raises(ValidationError, match="signing_secret"):
            SlackSettings.model_validate(
                {"enabled": True, "bot_token": "xoxb-1234567", "mode": "http", "signing_secret": secret}
            )


def test_one_daemon_uses_a_token() -> None:
    both = {"enabled": True, "bot_token": "xoxb-1", "app_token": "xapp-1", "signing_secret": "s"}
    assert SlackSettings.model_validate(both).exclusive() == ("xapp-1",)
    assert SlackSettings.model_validate(both | {"mode": "http"}).exclusive() == ("xoxb-1",)


# set-up --------------------------------------------------------------------------------------------------


async def test_set_up_checks_tokens_and_scopes() -> None:
    async with SlackServer() as server:
        answers = {"bot_token": server.bot_token, "app_token": server.app_token, "api_base": server.url}
        checked = await SlackSetup().check(answers)
        assert checked.missing == ()
        assert checked.settings == {"mode": "socket"}
        assert "the bot is @tidy in the workspace Small" in checked.found
        assert "Socket Mode works" in checked.found
        server.scopes = server.scopes.replace("files:write,", "")
        (line,) = (await SlackSetup().check(answers)).missing
        assert "files:write" in line
        with pytest.raises(AuthFailed):
            await SlackSetup().check(answers | {"app_token": "xapp-wrong"})
        with pytest.raises(AuthFailed):
            await SlackSetup().check(answers | {"bot_token": "xoxb-wrong"})
        http = await SlackSetup().check({**answers, "app_token": "", "signing_secret": "x" * 32})
        assert http.settings == {"mode": "http"}
        assert server.sockets.opened == 0


def test_the_manifest_asks_for_what_is_needed() -> None:
    manifest = app_manifest()
    assert manifest["oauth_config"]["scopes"]["bot"] == sorted(SCOPES)
    assert manifest["settings"]["socket_mode_enabled"]
    assert "request_url" not in manifest["settings"]["event_subscriptions"]
    http = app_manifest(mode="http", url="https://x.test/slack/events")
    assert http["features"]["slash_commands"][0]["url"] == "https://x.test/slack/events"
    setup = SlackSetup()
    assert json.dumps("app_mentions:read") in setup.intro
    faults = {one.key: one.fault("nonsense") for one in setup.questions}
    assert all(faults.values())
