"""A workspace of the Slack counterpart with two people, and the genuine slack_sdk and slack_bolt before it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from tests.counterparts.slack_server import SlackServer
from tests.counterparts.slack_world import Channel

KINDS = ("message", "app_mention", "reaction_added", "reaction_removed", "member_joined_channel", "app_uninstalled")


@dataclass
class Setting:
    """A workspace with two people and a channel, and the genuine client."""

    slack: SlackServer
    client: AsyncWebClient
    ann: str
    ben: str
    room: Channel
    heard: list[dict[str, Any]] = field(default_factory=list)
    """The bodies that the app got."""

    @property
    def events(self) -> list[dict[str, Any]]:
        return [one["event"] for one in self.heard if "event" in one]

    @property
    def session(self) -> aiohttp.ClientSession:
        assert self.client.session is not None
        return self.client.session

    @property
    def bearer(self) -> dict[str, str]:
        """The headers to fetch a file with."""
        return {"Authorization": f"Bearer {self.slack.bot_token}"}

    async def post(self, text: str = "hello", **more: Any) -> str:
        return str((await self.client.chat_postMessage(channel=self.room.id, text=text, **more))["ts"])


@asynccontextmanager
async def setting() -> AsyncIterator[Setting]:
    """A fresh one."""
    async with SlackServer() as slack, aiohttp.ClientSession() as session:
        ann, ben = slack.world.person("Ann"), slack.world.person("Ben")
        client = AsyncWebClient(slack.bot_token, base_url=slack.api_url, session=session, retry_handlers=[])
        yield Setting(slack, client, ann, ben, slack.world.channel("kitchen", ann, ben))


def made_app(here: Setting) -> AsyncApp:
    """The genuine app; what it hears is in `heard`."""
    made = AsyncApp(
        client=here.client, signing_secret=here.slack.signing_secret, ignoring_self_events_enabled=False
    )  # fmt: skip

    async def hear(body: dict[str, Any]) -> None:
        here.heard.append(body)

    async def act(ack: Any, body: dict[str, Any]) -> None:
        here.heard.append(body)
        await ack()

    for kind in KINDS:
        made.event(kind)(hear)
    made.action("go")(act)
    made.command("/tidings")(act)
    made.shortcut("keep")(act)
    return made


@asynccontextmanager
async def connected(here: Setting, **more: Any) -> AsyncIterator[AsyncSocketModeHandler]:
    """The genuine app over Socket Mode."""
    web_client = AsyncWebClient(base_url=here.slack.api_url, retry_handlers=[])
    handler = AsyncSocketModeHandler(made_app(here), here.slack.app_token, web_client=web_client, **more)
    await handler.connect_async()  # type: ignore[no-untyped-call]
    await here.slack.until(lambda: here.slack.sockets)
    try:
        yield handler
    finally:
        await handler.close_async()  # type: ignore[no-untyped-call]


@asynccontextmanager
async def listening(here: Setting) -> AsyncIterator[None]:
    """The genuine app behind HTTP; the counterpart delivers there."""
    made = made_app(here)

    async def take(request: web.Request) -> web.Response:
        raw = (await request.read()).decode()
        answer = await made.async_dispatch(AsyncBoltRequest(body=raw, headers=dict(request.headers), mode="http"))
        kind = answer.headers.get("content-type", ["text/plain"])[0].partition(";")[0]
        return web.Response(status=answer.status, text=answer.body, content_type=kind)

    async with serving(take) as url:
        here.slack.deliver_to(url)
        yield


@asynccontextmanager
async def serving(handle: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> AsyncIterator[str]:
    application = web.Application()
    application.router.add_post("/slack/events", handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/slack/events"
    finally:
        await runner.cleanup()


async def refused(call: Awaitable[Any], code: str) -> Any:
    """The answer to a call that Slack refuses with `code`."""
    with pytest.raises(SlackApiError) as error:
        await call
    assert error.value.response["error"] == code
    return error.value.response


def section(text: str = "x") -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


def button(text: str = "Go", **more: Any) -> dict[str, Any]:
    return {"type": "button", "text": {"type": "plain_text", "text": text}, "action_id": "go", "value": "1", **more}


def actions(*elements: dict[str, Any]) -> dict[str, Any]:
    return {"type": "actions", "elements": list(elements)}


@asynccontextmanager
async def raw_socket(here: Setting) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    """A websocket without the SDK."""
    url = (await here.client.apps_connections_open(app_token=here.slack.app_token))["url"]
    async with here.session.ws_connect(url) as socket:
        yield socket
