"""The Slack counterpart, held against the genuine slack_sdk and slack_bolt: methods, refusals, faults."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from tests.counterparts.slack_server import SlackServer
from tests.counterparts.slack_world import BOT_ID, BOT_USER, Channel


@dataclass
class Setting:
    """A workspace with two people and a channel, and the genuine client."""

    slack: SlackServer
    client: AsyncWebClient
    ann: str
    ben: str
    room: Channel
    heard: list[dict[str, Any]] = field(default_factory=list)


@pytest.fixture
async def here() -> AsyncIterator[Setting]:
    async with SlackServer() as slack, aiohttp.ClientSession() as session:
        ann, ben = slack.world.person("Ann"), slack.world.person("Ben")
        client = AsyncWebClient(slack.bot_token, base_url=slack.api_url, session=session, retry_handlers=[])
        yield Setting(slack, client, ann, ben, slack.world.channel("kitchen", ann, ben))


@asynccontextmanager
async def app(here: Setting) -> AsyncIterator[AsyncApp]:
    """The genuine app over Socket Mode; what it hears is in `heard`."""
    made = AsyncApp(client=here.client, ignoring_self_events_enabled=False)

    async def hear(body: dict[str, Any]) -> None:
        here.heard.append(body)

    for kind in ("message", "app_mention", "reaction_added", "member_joined_channel"):
        made.event(kind)(hear)
    handler = AsyncSocketModeHandler(made, here.slack.app_token, web_client=AsyncWebClient(base_url=here.slack.api_url))
    await handler.connect_async()
    await here.slack.until(lambda: here.slack.sockets)
    try:
        yield made
    finally:
        await handler.close_async()


async def refused(call: Awaitable[Any]) -> Any:
    """The answer to a call that Slack refuses."""
    with pytest.raises(SlackApiError) as error:
        await call
    return error.value.response


async def test_a_message_is_shown(here: Setting) -> None:
    answer = await here.client.chat_postMessage(channel=here.room.id, text="a < b & <https://a.example|c>")
    [shown] = here.slack.shown(here.room)
    assert shown.text == "a &lt; b &amp; <https://a.example|c>"
    assert answer["ts"] == shown.ts
    assert answer["message"]["bot_id"] == BOT_ID
    assert answer["message"]["user"] == BOT_USER


async def test_the_app_hears_a_mention_twice_and_acknowledges(here: Setting) -> None:
    async with app(here):
        said = here.slack.say(here.room, here.ann, f"<@{here.slack.bot}> hello")
        await here.slack.until(lambda: len(here.heard) == 2 and len(here.slack.acks) == 2)
    assert sorted(one["event"]["type"] for one in here.heard) == ["app_mention", "message"]
    assert {one["event"]["ts"] for one in here.heard} == {said["ts"]}
    assert len({one["event_id"] for one in here.heard}) == 2
    await asyncio.sleep(0)
