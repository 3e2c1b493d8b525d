"""The Slack counterpart, held against the genuine slack_sdk and slack_bolt: methods, refusals, faults."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from slack_sdk.errors import SlackApiError

from tests.counterparts.slack_refusals import BAD_BLOCKS, CALLS, REFUSALS, arguments, arranged
from tests.counterparts.slack_samples import SAMPLES, strange_names
from tests.counterparts.slack_setting import (
    Setting,
    actions,
    button,
    connected,
    listening,
    raw_socket,
    refused,
    section,
    serving,
    setting,
)
from tests.counterparts.slack_world import BOT_ID, BOT_USER


@pytest.fixture
async def here() -> AsyncIterator[Setting]:
    async with setting() as made:
        yield made


# the bot speaks


async def test_a_message_is_shown_with_its_metadata_and_edits(here: Setting) -> None:
    mark = {"event_type": "part", "event_payload": {"key": "k"}}
    ts = await here.post("a < b & <https://a.example|c>", blocks=[section()], metadata=mark)
    await here.client.chat_update(channel=here.room.id, ts=ts, text="two")
    [shown] = here.slack.shown(here.room)
    assert (shown.text, shown.blocks, shown.metadata) == ("two", [], mark)
    assert shown.edits == ["a &lt; b &amp; <https://a.example|c>"]
    assert (shown.raw["bot_id"], shown.raw["user"]) == (BOT_ID, BOT_USER)
    plain = await here.client.conversations_history(channel=here.room.id)
    assert "metadata" not in plain["messages"][0]
    whole = await here.client.conversations_history(channel=here.room.id, include_all_metadata=True)
    assert whole["messages"][0]["metadata"] == mark
    await here.client.chat_delete(channel=here.room.id, ts=ts)
    assert here.slack.shown(here.room) == []


async def test_form_and_json_say_the_same(here: Setting) -> None:
    blocks = [section(), actions(button())]
    await here.client.api_call("chat.postMessage", json={"channel": here.room.id, "text": "x", "blocks": blocks})
    await here.client.api_call(
        "chat.postMessage", data={"channel": here.room.id, "text": "x", "blocks": json.dumps(blocks)}
    )
    one, two = here.slack.shown(here.room)
    assert [block["type"] for block in one.blocks] == [block["type"] for block in two.blocks] == ["section", "actions"]


async def test_ephemeral_words_and_links(here: Setting) -> None:
    await here.client.chat_postEphemeral(channel=here.room.id, user=here.ann, text="psst")
    assert here.slack.shown(here.room) == []
    assert [one[:2] for one in here.slack.chat.ephemerals] == [(here.room.id, here.ann)]
    ts = await here.post()
    link = await here.client.chat_getPermalink(channel=here.room.id, message_ts=ts)
    assert link["permalink"].endswith(f"/archives/{here.room.id}/p{ts.replace('.', '')}")


async def test_a_stream_grows_and_ends(here: Setting) -> None:
    said = here.slack.say(here.room, here.ann, "tell me")
    reader = {"recipient_team_id": "T0LOOPBACK", "recipient_user_id": here.ann}
    streamer = await here.client.chat_stream(channel=here.room.id, thread_ts=said["ts"], buffer_size=1, **reader)
    await streamer.append(markdown_text="one ")
    await streamer.append(markdown_text="two")
    await streamer.stop()
    [shown] = here.slack.shown(here.room)
    assert (shown.text, shown.thread_ts, shown.raw["streaming_state"]) == ("one two", said["ts"], "completed")
    over = here.client.chat_appendStream(channel=here.room.id, ts=shown.ts, markdown_text="x")
    await refused(over, "message_not_in_streaming_state")


async def test_status_reactions_pins_and_home(here: Setting) -> None:
    said = here.slack.say(here.room, here.ann, "hello")
    place = {"channel": here.room.id, "timestamp": said["ts"]}
    await here.client.assistant_threads_setStatus(channel_id=here.room.id, thread_ts=said["ts"], status="is thinking…")
    assert here.slack.small.statuses == [(here.room.id, said["ts"], "is thinking…")]
    await here.client.reactions_add(name="eyes", **place)
    assert here.room.messages[said["ts"]]["reactions"] == [{"name": "eyes", "users": [BOT_USER], "count": 1}]
    await refused(here.client.reactions_add(name="eyes", **place), "already_reacted")
    await here.client.reactions_remove(name="eyes", **place)
    await here.client.pins_add(**place)
    await here.client.views_publish(user_id=here.ann, view={"type": "home", "blocks": []})
    assert here.slack.small.views[here.ann]["type"] == "home"


@pytest.mark.parametrize(("more", "calls"), CALLS)
async def test_who_calls_a_whole_channel_is_noted(here: Setting, more: dict[str, Any], calls: bool) -> None:
    await here.client.chat_postMessage(channel=here.room.id, **more)
    assert bool(here.slack.broadcasts) is calls


# what is refused


@pytest.mark.parametrize("blocks", BAD_BLOCKS)
async def test_blocks_that_break_a_limit(here: Setting, blocks: list[dict[str, Any]]) -> None:
    answer = await refused(here.post(blocks=blocks), "invalid_blocks")
    assert "json-pointer:/blocks" in answer["errors"][0]
    assert answer["response_metadata"]["messages"] == [f"[ERROR] {answer['errors'][0]}"]
    assert here.slack.shown(here.room) == []


async def test_blocks_at_their_limits_are_taken(here: Setting) -> None:
    full = button("x" * 75, value="x" * 2000, action_id="x" * 255)
    ts = await here.post("x" * 40_000, blocks=[*[section("x" * 3000)] * 49, actions(full)])
    assert ts == here.slack.shown(here.room)[0].ts


@pytest.mark.parametrize(("method", "row", "code"), REFUSALS)
async def test_what_is_refused(here: Setting, method: str, row: str, code: str) -> None:
    given = arguments(row, await arranged(here))
    await refused(here.client.api_call(method, data=given), code)


async def test_limits_that_a_test_sets(here: Setting) -> None:
    ts, limits = await here.post(), here.slack.limits
    limits.post, limits.update = 10, 5
    await refused(here.post("x" * 11), "msg_too_long")
    change = here.client.chat_update
    await refused(change(channel=here.room.id, ts=ts, text="x" * 6), "msg_too_long")
    limits.edit_seconds, limits.bot_dm_error = 0, "user_is_bot"
    await refused(change(channel=here.room.id, ts=ts, text="x"), "edit_window_closed")
    bot = here.slack.world.person("Other", is_bot=True)
    await refused(here.client.conversations_open(users=bot), "user_is_bot")
    here.room.archived = True
    await refused(change(channel=here.room.id, ts=ts, text="x"), "is_inactive")


async def test_a_reply_to_a_root_that_is_gone_lands_in_the_channel(here: Setting) -> None:
    said = here.slack.say(here.room, here.ann, "question")
    here.slack.delete(here.room, said)
    answer = await here.client.chat_postMessage(channel=here.room.id, text="x", thread_ts=said["ts"])
    assert "thread_ts" not in answer["message"]
    here.slack.limits.unthreads = False
    await refused(here.post(thread_ts=said["ts"]), "thread_not_found")


async def test_tokens_and_scopes(here: Setting) -> None:
    slack, client = here.slack, here.client
    answer = await client.auth_test()
    assert "chat:write" in answer.headers["x-oauth-scopes"].split(",")
    await refused(client.auth_test(token="xoxb-wrong"), "invalid_auth")
    await refused(client.apps_connections_open(app_token=slack.bot_token), "not_allowed_token_type")
    await refused(client.users_info(user=here.ann, token=slack.app_token), "not_allowed_token_type")
    slack.scopes.discard("users:read")
    lacking = await refused(client.users_info(user=here.ann), "missing_scope")
    assert (lacking["needed"], "users:read" in lacking["provided"]) == ("users:read", False)
    slack.scopes.discard("im:history")
    await refused(client.conversations_history(channel=slack.world.im(here.ann).id), "missing_scope")
    for code in ("token_revoked", "account_inactive", "invalid_auth"):
        slack.revoke(code)
        await refused(client.auth_test(), code)
        await refused(client.apps_connections_open(app_token=slack.app_token), code)
    slack.heal()
    await client.auth_test()


# reading


async def test_history_is_paged_newest_first(here: Setting) -> None:
    said = [here.slack.say(here.room, here.ann, str(at))["ts"] for at in range(7)]
    here.slack.say(here.room, here.ben, "a reply", thread_ts=said[0])
    got: list[str] = []
    async for page in await here.client.conversations_history(channel=here.room.id, limit=3):
        got += [one["ts"] for one in page["messages"]]
        here.slack.say(here.room, here.ann, "meanwhile")
    assert got == said[::-1]
    found = await here.client.conversations_history(channel=here.room.id, oldest=said[1], latest=said[4])
    assert [one["text"] for one in found["messages"]] == ["3", "2"]
    within = await here.client.conversations_history(
        channel=here.room.id, oldest=said[1], latest=said[4], inclusive=True, limit=2
    )
    assert ([one["text"] for one in within["messages"]], within["has_more"]) == (["4", "3"], True)
    here.slack.limits.pages_forward = True
    first = await here.client.conversations_history(channel=here.room.id, oldest=said[1], limit=2)
    assert [one["text"] for one in first["messages"]] == ["3", "2"]


async def test_replies_are_paged_oldest_first(here: Setting) -> None:
    root = here.slack.say(here.room, here.ann, "root")["ts"]
    for at in range(5):
        here.slack.say(here.room, here.ben, str(at), thread_ts=root)
    got: list[str] = []
    async for page in await here.client.conversations_replies(channel=here.room.id, ts=root, limit=2):
        got += [one["text"] for one in page["messages"]]
    assert got == ["root", "0", "1", "2", "3", "4"]
    last = here.slack.say(here.room, here.ben, "last", thread_ts=root)
    found = await here.client.conversations_replies(channel=here.room.id, ts=root, oldest=last["ts"], inclusive=True)
    assert [one["text"] for one in found["messages"]] == ["root", "last"]
    assert found["messages"][0]["reply_count"] == 6
    here.slack.delete(here.room, root)
    left = await here.client.conversations_replies(channel=here.room.id, ts=root)
    assert [one.get("subtype") for one in left["messages"]][:2] == ["tombstone", None]


async def test_conversations_and_people(here: Setting) -> None:
    client, world = here.client, here.slack.world
    opened = await client.conversations_open(users=here.ann)
    again = await client.conversations_open(users=here.ann)
    assert opened["channel"]["id"] == again["channel"]["id"] == world.im(here.ann).id
    group = await client.conversations_open(users=[here.ann, here.ben])
    assert group["channel"]["is_mpim"] is True
    secret = world.channel("secret", here.ann, kind="group")
    other = world.channel("other", bot=False)
    kinds = "im,mpim,public_channel,private_channel"
    listed = await client.conversations_list(types=kinds, limit=2)
    seen = [one["id"] async for page in listed for one in page["channels"]]
    assert set(seen) == {here.room.id, secret.id, other.id, world.im(here.ann).id, group["channel"]["id"]}
    mine = await client.users_conversations(types=kinds)
    assert other.id not in [one["id"] for one in mine["channels"]]
    await client.conversations_join(channel=other.id)
    assert (await client.conversations_join(channel=other.id))["warning"] == "already_in_channel"
    info = await client.conversations_info(channel=other.id)
    assert (info["channel"]["is_member"], info["channel"]["is_private"]) == (True, False)
    members = [one async for page in await client.conversations_members(channel=here.room.id, limit=1)
               for one in page["members"]]  # fmt: skip
    assert set(members) == {here.ann, here.ben, BOT_USER}
    assert (await client.users_info(user=here.ann))["user"]["real_name"] == "Ann"
    assert (await client.bots_info(bot=BOT_ID))["bot"]["user_id"] == BOT_USER
    assert (await client.team_info())["team"]["id"] == "T0LOOPBACK"


# files


async def test_a_file_goes_up_and_comes_down(here: Setting) -> None:
    done = await here.client.files_upload_v2(
        channel=here.room.id, content=b"12345", filename="a.txt", initial_comment="here"
    )
    [shown] = here.slack.shown(here.room)
    assert (shown.text, shown.files[0]["size"], shown.files[0]["id"]) == ("here", 5, done["files"][0]["id"])
    file = (await here.client.files_info(file=shown.files[0]["id"]))["file"]
    assert file["shares"]["public"][here.room.id][0]["ts"] == shown.ts
    async with here.session.get(file["url_private"], headers=here.bearer) as answer:
        assert (await answer.read(), answer.content_type) == (b"12345", "text/plain")
    async with here.session.get(file["url_private"], headers={"Authorization": "Bearer wrong"}) as answer:
        assert (answer.status, answer.content_type) == (200, "text/html")
    await here.client.files_delete(file=file["id"])
    assert here.slack.shown(here.room) == []
    await refused(here.client.files_info(file=file["id"]), "file_deleted")


async def test_files_that_are_refused(here: Setting) -> None:
    client = here.client
    place = await client.files_getUploadURLExternal(filename="a", length=3)
    unsent = client.files_completeUploadExternal(files=[{"id": place["file_id"], "title": "a"}])
    await refused(unsent, "file_update_failed")
    async with here.session.post(place["upload_url"], data=b"toolong") as answer:
        assert answer.status == 400


# what the app hears


async def test_a_mention_comes_twice_and_is_acknowledged(here: Setting) -> None:
    async with connected(here):
        said = here.slack.say(here.room, here.ann, f"<@{here.slack.bot}> hello")
        await here.slack.until(lambda: len(here.heard) == 2 and len(here.slack.acks) == 2)
        here.slack.say(here.room, here.ann, f"<@{here.slack.bot}>", twins=("message",))
        await here.slack.until(lambda: len(here.heard) == 3)
    kinds = [one["event"]["type"] for _, one in here.slack.outbox.sent]
    assert kinds == ["app_mention", "message", "message"]
    assert [one["ts"] for one in here.events].count(said["ts"]) == 2
    assert len({one["event_id"] for one in here.heard}) == 3
    assert {one.event_id for one in here.slack.acks} == {one["event_id"] for one in here.heard}


async def test_what_people_do_has_slacks_shapes(here: Setting) -> None:
    slack, room = here.slack, here.room
    said = slack.say(room, here.ann, "one", files=[("a.png", "image/png", b"x")])
    assert (said["subtype"], said["files"][0]["mimetype"]) == ("file_share", "image/png")
    edited = slack.edit(room, said, "two")
    assert (edited["message"]["text"], edited["previous_message"]["text"]) == ("two", "one")
    assert edited["message"]["edited"]["user"] == here.ann
    preview = slack.unfurl(room, said)
    assert preview["message"]["text"] == preview["previous_message"]["text"]
    assert preview["message"]["attachments"]
    shared = slack.thread_broadcast(room, here.ben, "all", said["ts"])
    assert (shared["subtype"], shared["root"]["ts"]) == ("thread_broadcast", said["ts"])
    other = slack.world.person("Other", is_bot=True)
    assert "user" not in slack.bot_message(room, other, "x", classic=True)
    assert slack.bot_message(room, other, "x")["bot_id"] == slack.world.bot_of(other)["id"]
    assert slack.ephemeral_like(room)["is_ephemeral"] is True
    assert slack.tombstone(room)["subtype"] == "tombstone"
    assert slack.join(room, slack.world.person("Cem"))["type"] == "member_joined_channel"
    assert slack.outbox.sent[-1][1]["event"]["subtype"] == "channel_join"
    assert slack.leave(room, here.ben)["type"] == "member_left_channel"
    assert slack.react(room, here.ann, said, "eyes")["item"]["ts"] == said["ts"]
    assert slack.unreact(room, here.ann, said, "eyes")["type"] == "reaction_removed"
    assert slack.delete(room, shared)["deleted_ts"] == shared["ts"]
    assert slack.dm(here.ann, "psst")["channel_type"] == "im"
    group = slack.world.mpim(here.ann, here.ben)
    assert slack.say(group, here.ann, "us")["channel_type"] == "mpim"
    assert slack.tokens_revoked()["tokens"]["bot"] == [BOT_USER]


async def test_the_bots_own_deeds_come_back(here: Setting) -> None:
    async with connected(here):
        ts = await here.post()
        await here.client.chat_update(channel=here.room.id, ts=ts, text="two")
        await here.client.chat_delete(channel=here.room.id, ts=ts)
        await here.slack.until(lambda: len(here.heard) == 3)
        here.slack.echo = False
        await here.post()
        here.slack.app_uninstalled()
        await here.slack.until(lambda: len(here.heard) == 4)
    subtypes = {one.get("subtype", one["type"]) for one in here.events}
    assert subtypes == {"message", "message_changed", "message_deleted", "app_uninstalled"}


async def test_buttons_commands_and_answers(here: Setting) -> None:
    async with connected(here):
        ts = await here.post(blocks=[section(), actions(button("Go", value="7"))])
        pressed = here.slack.press(here.room, here.ann, ts, "Go")
        here.slack.slash(here.room, here.ben, "status")
        here.slack.shortcut(here.room, here.ben, ts, "keep")
        await here.slack.until(lambda: len([one for one in here.heard if "event" not in one]) == 3)
        await here.slack.until(lambda: len(here.slack.acks) == 4)
    action = pressed["actions"][0]
    assert (action["action_id"], action["value"], pressed["container"]["message_ts"]) == ("go", "7", ts)
    assert pressed["message"]["blocks"][1]["block_id"] == action["block_id"]
    async with here.session.post(pressed["response_url"], json={"replace_original": True, "text": "done"}) as answer:
        assert answer.status == 200
    assert [(one.text, one.blocks) for one in here.slack.shown(here.room)] == [("done", [])]


async def test_what_is_said_while_no_socket_is_open_is_in_the_history_only(here: Setting) -> None:
    here.slack.say(here.room, here.ann, "unheard")
    async with connected(here):
        here.slack.say(here.room, here.ann, "unheard too", live=False)
        here.slack.say(here.room, here.ann, "heard")
        await here.slack.until(lambda: here.heard)
    assert [one["text"] for one in here.events] == ["heard"]
    found = await here.client.conversations_history(channel=here.room.id)
    assert [one["text"] for one in found["messages"]] == ["heard", "unheard too", "unheard"]


async def test_what_is_not_acknowledged_comes_again(here: Setting) -> None:
    here.slack.socket_mode.retry_seconds, here.slack.socket_mode.retries = 0.05, 1
    async with raw_socket(here) as socket:
        hello = await socket.receive_json()
        assert (hello["type"], hello["num_connections"]) == ("hello", 1)
        assert hello["connection_info"]["app_id"].startswith("A")
        here.slack.say(here.room, here.ann, "hello")
        first, second = await socket.receive_json(), await socket.receive_json()
        await socket.send_json({"envelope_id": second["envelope_id"]})
        await here.slack.until(lambda: here.slack.acks)
        assert [one["retry_attempt"] for one in (first, second)] == [0, 1]
        assert (first["retry_reason"], second["retry_reason"]) == ("", "timeout")
        assert first["payload"]["event_id"] == second["payload"]["event_id"]
        here.slack.slash(here.room, here.ann, "x")
        command = await socket.receive_json()
        assert (command["type"], command["accepts_response_payload"]) == ("slash_commands", True)
        await socket.send_json({"envelope_id": command["envelope_id"], "payload": {"text": "ok"}})
        await here.slack.until(lambda: len(here.slack.acks) == 2)
    assert here.slack.acks[1].payload == {"text": "ok"}


async def test_events_are_held_doubled_and_reordered(here: Setting) -> None:
    async with raw_socket(here) as socket:
        await socket.receive_json()
        here.slack.outbox.hold()
        for text in ("one", "two"):
            here.slack.say(here.room, here.ann, text)
        here.slack.outbox.release([1, 0, 0])
        got = [(await socket.receive_json())["payload"]["event"]["text"] for _ in range(3)]
        assert got == ["two", "one", "one"]
        here.slack.outbox.again()
        assert (await socket.receive_json())["payload"]["event"]["text"] == "two"
        here.slack.outbox.copies, here.slack.outbox.wanted = 2, {"app_mention"}
        here.slack.say(here.room, here.ann, f"<@{here.slack.bot}>")
        one, two = await socket.receive_json(), await socket.receive_json()
        assert one["payload"] == two["payload"]
        assert (one["payload"]["event"]["type"], one["envelope_id"] == two["envelope_id"]) == ("app_mention", False)


async def test_a_dropped_socket_is_opened_anew(here: Setting) -> None:
    here.slack.socket_mode.retry_seconds = 0.1
    async with connected(here, ping_interval=0.05):
        here.slack.drop_sockets()
        await here.slack.until(lambda: here.slack.connections_opened == 2 and here.slack.sockets == 1)
        here.slack.say(here.room, here.ann, "hello")
        await here.slack.until(lambda: here.heard)


@pytest.mark.parametrize("reason", ["warning", "refresh_requested"])
async def test_a_socket_that_is_asked_to_leave_is_replaced(here: Setting, reason: str) -> None:
    async with connected(here, ping_interval=0.05):
        await here.slack.socket_mode.ask_to_leave(reason, close_after=0.05)
        await here.slack.until(lambda: here.slack.connections_opened >= 2 and here.slack.sockets == 1)


async def test_sockets_are_refused_for_a_while(here: Setting) -> None:
    here.slack.socket_mode.accepting = False
    with pytest.raises(aiohttp.WSServerHandshakeError):
        async with raw_socket(here):
            pass
    here.slack.heal()
    here.slack.fail("socket", status=503)
    with pytest.raises(aiohttp.WSServerHandshakeError):
        async with raw_socket(here):
            pass
    async with raw_socket(here) as socket:
        assert (await socket.receive_json())["type"] == "hello"
        await here.slack.socket_mode.ping()
        await here.slack.socket_mode.send_raw("behind the ping")
        assert await socket.receive_str() == "behind the ping"
        await here.slack.until(lambda: here.slack.socket_mode.open[0].pongs == 1)


async def test_a_ticket_is_good_once_and_ten_sockets_are_too_many(here: Setting) -> None:
    url = (await here.client.apps_connections_open(app_token=here.slack.app_token))["url"]
    sockets = [await here.session.ws_connect(url)]
    with pytest.raises(aiohttp.WSServerHandshakeError):
        await here.session.ws_connect(url)
    sockets += [await here.session.ws_connect(here.slack.socket_mode.ticket()) for _ in range(10)]
    assert (await sockets[-1].receive_json())["reason"] == "too_many_websockets"
    assert here.slack.sockets == 10
    await asyncio.gather(*(one.close() for one in sockets))
    await here.slack.until(lambda: not here.slack.sockets)


async def test_sockets_that_are_silent(here: Setting) -> None:
    here.slack.socket_mode.silent, here.slack.socket_mode.answers_pings = True, False
    async with raw_socket(here) as socket:
        await here.slack.until(lambda: here.slack.sockets)
        await socket.ping()
        with pytest.raises(TimeoutError):
            await socket.receive(timeout=0.05)
        assert here.slack.socket_mode.open[0].pings == 1
        await here.slack.socket_mode.send_raw("{")
        assert await socket.receive_str() == "{"
    here.slack.hang("socket")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(here.session.ws_connect(here.slack.socket_mode.ticket()), 0.05)


async def test_an_outage_and_its_end(here: Setting) -> None:
    await here.slack.stop()
    with pytest.raises(aiohttp.ClientConnectorError):
        await here.client.auth_test()
    await here.slack.start()
    await here.client.auth_test()


# faults of the Web API


async def test_rate_limits(here: Setting) -> None:
    here.slack.fail("chat.postMessage", retry_after=7)
    answer = await refused(here.post(), "ratelimited")
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "7")
    here.slack.fail("chat.*", retry_after=1, channel="C404")
    await here.post()
    assert len(here.slack.called("chat.postMessage")) == 2


async def test_errors_and_pages_of_html(here: Setting) -> None:
    here.slack.fail("*", error="fatal_error", times=2)
    await refused(here.client.auth_test(), "fatal_error")
    await refused(here.post(), "fatal_error")
    here.slack.fail("chat.postMessage", status=503)
    with pytest.raises(SlackApiError) as error:
        await here.post()
    assert error.value.response.status_code == 503
    assert here.slack.shown(here.room) == []


async def test_what_is_taken_may_stay_without_an_answer(here: Setting) -> None:
    here.slack.accept_then_drop("chat.postMessage")
    with pytest.raises(aiohttp.ClientError):
        await here.post("one")
    here.slack.accept_then_hang("chat.postMessage")
    two = asyncio.create_task(here.post("two"))
    await here.slack.until(lambda: len(here.slack.shown(here.room)) == 2)
    here.slack.hang("chat.postMessage")
    three = asyncio.create_task(here.post("three"))
    await here.slack.until(lambda: len(here.slack.calls) == 3)
    assert (two.cancel(), three.cancel()) == (True, True)
    here.slack.delay("chat.postMessage", 0.01)
    await here.post("four")
    assert [one.text for one in here.slack.shown(here.room)] == ["one", "two", "four"]


async def test_faults_of_files(here: Setting) -> None:
    said = here.slack.say(here.room, here.ann, "x", files=[("a.bin", "application/octet-stream", b"x" * 1000)])
    url = said["files"][0]["url_private"]
    here.slack.fail("download", status=503)
    async with here.session.get(url, headers=here.bearer) as answer:
        assert answer.status == 503
    here.slack.accept_then_drop("download")
    with pytest.raises(aiohttp.ClientError):
        async with here.session.get(url, headers=here.bearer) as answer:
            await answer.read()
    here.slack.files.redirects = True
    async with here.session.get(url, headers=here.bearer, allow_redirects=False) as answer:
        assert answer.headers["Location"].startswith("http://localhost:")
    place = await here.client.files_getUploadURLExternal(filename="a", length=3)
    here.slack.fail("upload", status=500)
    async with here.session.post(place["upload_url"], data=b"abc") as answer:
        assert answer.status == 500


# by HTTP


async def test_signed_requests_are_taken(here: Setting) -> None:
    async with listening(here):
        assert await here.slack.signed.verify()
        here.slack.say(here.room, here.ann, f"<@{here.slack.bot}> hello/there")
        ts = await here.post(blocks=[actions(button())])
        here.slack.press(here.room, here.ann, ts, "Go")
        here.slack.slash(here.room, here.ann, "status / now")
        await here.slack.until(lambda: len(here.heard) == 5)
    assert {one.status for one in here.slack.signed.answers} == {200}


async def test_signatures_that_do_not_fit(here: Setting) -> None:
    signed = here.slack.signed
    async with listening(here):
        payload = {"type": "event_callback", "event": {"type": "message", "text": "a/b <é>"}}
        for spacing in ("slack", "compact", "wide", "lines", "unicode"):
            assert (await signed.post(payload, spacing=spacing)).status == 200
        bad = [
            await signed.post(payload, secret="another"),
            await signed.post(payload, age=60 * 6),
            await signed.post(payload, unsigned=True),
            await signed.post(payload, sign="v0=00"),
        ]
    assert [one.status for one in bad] == [401] * 4


async def test_events_come_again_by_http(here: Setting) -> None:
    here.slack.signed.retry_seconds = 0.01
    seen: list[tuple[str | None, str | None]] = []

    async def take(request: web.Request) -> web.Response:
        seen.append((request.headers.get("X-Slack-Retry-Num"), request.headers.get("X-Slack-Retry-Reason")))
        return web.Response(status=503 if len(seen) < 3 else 200)

    async with serving(take) as url:
        here.slack.deliver_to(url)
        here.slack.say(here.room, here.ann, "hello")
        await here.slack.until(lambda: len(here.slack.signed.answers) == 3)
    assert seen == [(None, None), ("1", "http_error"), ("2", "http_error")]


async def test_how_an_app_behind_http_may_fail(here: Setting) -> None:
    signed = here.slack.signed
    signed.retry_seconds = 0.01
    answers: list[web.StreamResponse] = [web.Response(status=500, headers={"X-Slack-No-Retry": "1"})]

    async def take(_: web.Request) -> web.StreamResponse:
        if not answers:
            await asyncio.Event().wait()
        return answers.pop()

    async with serving(take) as url:
        here.slack.deliver_to(url)
        here.slack.say(here.room, here.ann, "once")
        await here.slack.until(lambda: signed.answers)
        signed.answer_seconds = 0.05
        assert (await signed.post({})).reason == "http_timeout"
    signed.answer_seconds = 3.0
    assert (await signed.post({})).reason == "connection_failed"
    assert [one.reason for one in signed.answers] == ["http_error", "http_timeout", "connection_failed"]


async def test_a_response_url_takes_five_answers(here: Setting) -> None:
    url = here.slack.slash(here.room, here.ann, "x", live=False)["response_url"]
    for at in range(6):
        async with here.session.post(url, json={"text": str(at), "response_type": "in_channel"}) as answer:
            assert answer.status == (200 if at < 5 else 404)
    assert [one.text for one in here.slack.shown(here.room)] == ["0", "1", "2", "3", "4"]


# against Slack's samples


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="the samples of Slack's payloads are not there (shared/specs/slack)")
async def test_payloads_have_no_names_that_slacks_samples_lack(here: Setting) -> None:
    assert await strange_names(here) == []
