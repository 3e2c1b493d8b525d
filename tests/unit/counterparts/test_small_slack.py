"""The small Slack against the genuine SDK, refusal by refusal, and its events against the public samples."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse
from slack_sdk.web.async_client import AsyncWebClient

from tests.counterparts.small_slack_server import SlackServer
from tests.counterparts.small_slack_world import Channel

SAMPLES = Path(__file__).parents[3].parent / "shared" / "specs" / "slack" / "samples"


@pytest.fixture
async def slack() -> AsyncIterator[SlackServer]:
    async with SlackServer() as server:
        yield server


@pytest.fixture
async def client(slack: SlackServer) -> AsyncIterator[AsyncWebClient]:
    async with aiohttp.ClientSession() as session:
        yield AsyncWebClient(slack.bot_token, base_url=f"{slack.url}/api/", session=session, retry_handlers=[])


@pytest.fixture
def room(slack: SlackServer) -> Channel:
    return slack.channel("kitchen", slack.person("Ann"))


async def refused(call: Any) -> str:
    with pytest.raises(SlackApiError) as caught:
        await call
    return str(caught.value.response["error"])


async def test_places_that_are_not_there(slack: SlackServer, client: AsyncWebClient, room: Channel) -> None:
    assert await refused(client.chat_postMessage(channel="C9999", text="x")) == "channel_not_found"
    assert await refused(client.chat_postMessage(channel=room.id, text="x", thread_ts="1.1")) == "thread_not_found"
    room.archived = True
    assert await refused(client.chat_postMessage(channel=room.id, text="x")) == "is_archived"
    room.members.clear()
    assert await refused(client.chat_postMessage(channel=room.id, text="x")) == "not_in_channel"


async def test_texts_and_blocks_that_are_too_much(slack: SlackServer, client: AsyncWebClient, room: Channel) -> None:
    post = client.chat_postMessage
    assert await refused(client.api_call("chat.postMessage", json={"channel": room.id, "text": " "})) == "no_text"
    assert await refused(post(channel=room.id, text="x" * 40_001)) == "msg_too_long"
    section = {"type": "section", "text": {"type": "mrkdwn", "text": "x" * 3_001}}
    assert await refused(post(channel=room.id, text="x", blocks=[section])) == "invalid_blocks"
    button = {"type": "button", "action_id": "a", "text": {"type": "plain_text", "text": "x" * 76}, "value": "v"}
    actions = {"type": "actions", "elements": [button]}
    assert await refused(post(channel=room.id, text="x", blocks=[actions])) == "invalid_blocks"
    divider = {"type": "divider"}
    assert await refused(post(channel=room.id, text="x", blocks=[divider] * 51)) == "invalid_blocks"
    ts = (await post(channel=room.id, text="short"))["ts"]
    assert await refused(client.chat_update(channel=room.id, ts=ts, text="x" * 4_001)) == "msg_too_long"


async def test_messages_of_others_and_messages_that_are_gone(
    slack: SlackServer, client: AsyncWebClient, room: Channel
) -> None:
    said = slack.people.say(room, next(iter(room.members - {slack.bot})), "mine")
    assert await refused(client.chat_update(channel=room.id, ts=said["ts"], text="x")) == "cant_update_message"
    assert await refused(client.chat_delete(channel=room.id, ts=said["ts"])) == "cant_delete_message"
    assert await refused(client.chat_update(channel=room.id, ts="1.1", text="x")) == "message_not_found"


async def test_tokens(slack: SlackServer, client: AsyncWebClient) -> None:
    answer = await client.auth_test()
    assert "chat:write" in answer.headers["x-oauth-scopes"]
    assert await refused(client.auth_test(token="xoxb-wrong")) == "invalid_auth"
    assert await refused(client.apps_connections_open(app_token=slack.bot_token)) == "not_allowed_token_type"
    slack.revoke("account_inactive")
    assert await refused(client.auth_test()) == "account_inactive"


async def test_history_is_paged_newest_first_and_replies_oldest_first(
    slack: SlackServer, client: AsyncWebClient, room: Channel
) -> None:
    ann = next(iter(room.members - {slack.bot}))
    roots = [slack.people.say(room, ann, f"root {number}")["ts"] for number in range(5)]
    replies = [slack.people.say(room, ann, f"reply {number}", thread_ts=roots[0])["ts"] for number in range(3)]
    first = await client.conversations_history(channel=room.id, limit=3)
    assert [one["ts"] for one in first["messages"]] == roots[:1:-1]
    cursor = first["response_metadata"]["next_cursor"]
    rest = await client.conversations_history(channel=room.id, limit=3, cursor=cursor)
    assert [one["ts"] for one in rest["messages"]] == [roots[1], roots[0]]
    assert rest["messages"][1]["latest_reply"] == replies[-1]
    thread = await client.conversations_replies(channel=room.id, ts=roots[0])
    assert [one["ts"] for one in thread["messages"]] == [roots[0], *replies]
    newer = await client.conversations_history(channel=room.id, oldest=roots[3])
    assert [one["ts"] for one in newer["messages"]] == [roots[4]]


async def test_metadata_is_given_back_only_when_asked_for(
    slack: SlackServer, client: AsyncWebClient, room: Channel
) -> None:
    metadata = {"event_type": "t", "event_payload": {"key": "k1"}}
    await client.chat_postMessage(channel=room.id, text="x", metadata=metadata)
    plain = await client.conversations_history(channel=room.id)
    assert "metadata" not in plain["messages"][0]
    full = await client.conversations_history(channel=room.id, include_all_metadata=True)
    assert full["messages"][0]["metadata"] == metadata


async def test_a_file_goes_up_and_comes_down_with_the_token_only(
    slack: SlackServer, client: AsyncWebClient, room: Channel
) -> None:
    await client.files_upload_v2(channel=room.id, filename="a.txt", content="words")
    (shown,) = slack.shown(room)
    url = shown["files"][0]["url_private"]
    async with aiohttp.ClientSession() as session:
        async with session.get(url) as answer:
            assert answer.content_type == "text/html"
        async with session.get(url, headers={"Authorization": f"Bearer {slack.bot_token}"}) as answer:
            assert await answer.read() == b"words"


async def test_faults(slack: SlackServer, client: AsyncWebClient, room: Channel) -> None:
    slack.fail("chat.postMessage", retry_after=7)
    with pytest.raises(SlackApiError) as caught:
        await client.chat_postMessage(channel=room.id, text="x")
    assert caught.value.response.status_code == 429
    assert caught.value.response.headers["Retry-After"] == "7"
    slack.fail("chat.postMessage", status=503, html=True)
    with pytest.raises((SlackApiError, aiohttp.ClientError)):
        await client.chat_postMessage(channel=room.id, text="x")
    slack.accept_then_drop("chat.postMessage")
    with pytest.raises(aiohttp.ClientError):
        await client.chat_postMessage(channel=room.id, text="arrived")
    assert [one["text"] for one in slack.shown(room)] == ["arrived"]


async def test_what_would_call_people_is_noted(slack: SlackServer, client: AsyncWebClient, room: Channel) -> None:
    await client.chat_postMessage(channel=room.id, text="&lt;!channel&gt; and @here")
    assert slack.violations == []
    await client.chat_postMessage(channel=room.id, text="<!channel>")
    await client.chat_postMessage(channel=room.id, text="@here", link_names=True)
    assert len(slack.violations) == 2


async def test_an_envelope_comes_again_until_it_is_acknowledged(slack: SlackServer, room: Channel) -> None:
    slack.sockets.retry_seconds = 0.1
    web = AsyncWebClient(slack.bot_token, base_url=f"{slack.url}/api/")
    client = SocketModeClient(app_token=slack.app_token, web_client=web)
    attempts: list[int | None] = []

    async def listen(one: SocketModeClient, request: SocketModeRequest) -> None:
        attempts.append(request.retry_attempt)
        if len(attempts) == 3:
            await one.send_socket_mode_response(SocketModeResponse(envelope_id=request.envelope_id))

    client.socket_mode_request_listeners.append(listen)  # type: ignore[arg-type]
    await client.connect()
    try:
        slack.people.say(room, next(iter(room.members - {slack.bot})), "hello")
        await slack.until(lambda: slack.sockets.acks)
        await asyncio.sleep(0.15)
        assert attempts == [0, 1, 2]
    finally:
        await client.close()


def keys_of(name: str) -> set[str]:
    return set(json.loads((SAMPLES / "events" / name).read_text())["event"])


@pytest.mark.skipif(
    not SAMPLES.is_dir(), reason="the public samples lie beside the repository only where it is developed"
)
async def test_events_have_only_fields_that_the_samples_have(slack: SlackServer, room: Channel) -> None:
    heard: list[dict[str, Any]] = []
    slack.people._deliver = lambda _kind, payload: heard.append(payload)
    ann = next(iter(room.members - {slack.bot}))
    said = slack.people.say(room, ann, f"<@{slack.bot}> hi")
    slack.people.say(room, ann, "see", files=[("a.txt", "text/plain", b"x")])
    slack.people.edit(room, said, "changed")
    slack.people.react(room, ann, said, "eyes")
    slack.people.delete(room, said)
    slack.people.join(room, ann)
    samples = {
        ("app_mention", None): "AppMentionPayload.json",
        ("message", None): "MessagePayload.json",
        ("message", "file_share"): "MessageFileSharePayload.json",
        ("message", "message_changed"): "MessageChangedPayload.json",
        ("message", "message_deleted"): "MessageDeletedPayload.json",
        ("message", "channel_join"): "MessageChannelJoinPayload.json",
        ("reaction_added", None): "ReactionAddedPayload.json",
    }
    seen = set()
    for payload in heard:
        event = payload["event"]
        kind = (event["type"], event.get("subtype"))
        seen.add(kind)
        assert set(event) - keys_of(samples[kind]) <= {"channel_type", "hidden", "reply_count", "latest_reply"}, kind
    assert seen == set(samples)
