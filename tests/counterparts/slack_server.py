"""A Slack workspace on loopback for the genuine SDK: Web API, Socket Mode, signed HTTP events. Real sockets.

::

    async with SlackServer() as slack:
        ann = slack.world.person("Ann")
        room = slack.world.channel("kitchen", ann)            # im(user), mpim(*users), kind="group" for a private one
        ...AsyncWebClient(slack.bot_token, base_url=slack.api_url); slack.app_token opens Socket Mode...
        slack.say(room, ann, f"<@{slack.bot}> hello")         # the app hears of it
        await slack.until(lambda: slack.shown(room))          # until the bot answered
        slack.fail("chat.postMessage", retry_after=1)         # the next one is 429
        assert slack.broadcasts == []                         # nobody was called

What people say is in `slack_people`, what they do in `slack_acting`; channels, people and files in `slack_world`
(`slack.world`); what may be set in `slack_limits` (`slack.limits`); sockets in `slack_socket` (`slack.socket_mode`),
HTTP in `slack_signed` (`slack.signed`), the order of deliveries in `slack_outbox` (`slack.outbox`).
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from email.utils import formatdate
from typing import Any, Self

from aiohttp import web

from tests.counterparts import slack_scopes
from tests.counterparts.slack_acting import Acting
from tests.counterparts.slack_chat import Chat
from tests.counterparts.slack_conversations import Conversations
from tests.counterparts.slack_faults import Call, Fault, Faults, Faulty
from tests.counterparts.slack_files import Files
from tests.counterparts.slack_limits import Fields, Limits, Method
from tests.counterparts.slack_outbox import Outbox
from tests.counterparts.slack_people import Place, Speaking
from tests.counterparts.slack_rules import Refused
from tests.counterparts.slack_signed import Signed
from tests.counterparts.slack_socket import Ack, SocketMode
from tests.counterparts.slack_web import Small
from tests.counterparts.slack_world import BOT_USER, Channel, Message, Shown, World


class SlackServer(Faulty, Speaking, Acting):
    """The server; an async context manager. One workspace, one app, one bot."""

    def __init__(self) -> None:
        self.bot = BOT_USER
        self.bot_token = "xoxb-1-1-loopbacktokenofthetests"
        self.app_token = "xapp-1-A1-1-loopbacktokenofthetests"
        self.signing_secret = "0123456789abcdef0123456789abcdef"
        self.world = World()
        self.limits = Limits()
        self.scopes: set[str] = set(slack_scopes.SCOPES)
        """Those of the app; changed in place (`scopes.discard(…)`)."""
        self.echo = True
        """Whether the app hears of the bot's own posts and changes, as in reality."""
        self.faults = Faults()
        self.calls: list[Call] = []
        self.response_urls: dict[str, dict[str, Any]] = {}
        self.refused: dict[str, str] = {}
        """The error that a token gets (`revoke`)."""
        self._port = 0
        self._runner: web.AppRunner | None = None
        self._changed = asyncio.Event()
        self.socket_mode = SocketMode(lambda: self.url, self.faults, self._told)
        self.signed = Signed(self.signing_secret, self._told)
        self.outbox = Outbox(self.world, self.socket_mode, self.signed)
        self.chat = Chat(self.world, self.limits, self._own, self.scopes)
        self.conversations = Conversations(self.world, self.limits, self.scopes)
        self.files = Files(self.world, self.chat, self.faults, lambda: self.url, self._may_read)
        self.small = Small(self.world, self.limits, self._own, self.socket_mode.ticket)
        self._methods: dict[str, Method] = {
            **self.chat.methods, **self.conversations.methods, **self.files.methods, **self.small.methods,
        }  # fmt: skip

    # where it is ---------------------------------------------------------------------------------

    @property
    def url(self) -> str:  # type: ignore[override]
        """The origin, without a slash at the end."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def api_url(self) -> str:
        """What `AsyncWebClient` takes as `base_url`."""
        return f"{self.url}/api/"

    async def start(self) -> None:
        """Listen; after `stop` on the same port as before."""
        app = web.Application(client_max_size=256 * 2**20)
        app.add_routes(
            [
                web.route("*", "/api/{method}", self._api),
                web.get("/link/", self.socket_mode.serve),
                web.post("/upload/v1/{file}", self.files.upload),
                web.get("/files-pri/{place}/{rest:.+}", self.files.download),
                web.post("/response/{name:.+}", self._respond),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port, backlog=512, reuse_address=True).start()
        self._port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """An outage: sockets break, and no connection is taken. The world stays, and people go on."""
        self.drop_sockets()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def __aenter__(self) -> Self:
        await self.start()
        self.socket_mode.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.faults.heal()
        await self.signed.close()
        await self.socket_mode.close()
        await self.stop()

    # what there is to see ------------------------------------------------------------------------

    @property
    def sockets(self) -> int:
        """How many websockets are open."""
        return len(self.socket_mode.open)

    @property
    def connections_opened(self) -> int:
        """How many websockets were ever opened."""
        return self.socket_mode.opened

    @property
    def acks(self) -> list[Ack]:
        """The acknowledgements, in order."""
        return self.socket_mode.acks

    @property
    def broadcasts(self) -> list[Fields]:
        """The posts that would have called a whole channel or group."""
        return self.chat.broadcasts

    def shown(self, channel: Place, thread_ts: str | None = None) -> list[Shown]:
        """The bot's messages that people see there, in order."""
        return self.world.shown(self.world.at(channel), thread_ts)

    def called(self, method: str) -> list[Call]:
        """The calls of one method, in order."""
        return [one for one in self.calls if one.method == method]

    async def until(self, condition: Callable[[], Any], timeout: float = 10.0) -> None:  # noqa: ASYNC109 - plain for tests
        """Return when `condition` holds; it is asked after every change, and every 50 ms. Else TimeoutError."""
        async with asyncio.timeout(timeout):
            while not condition():
                changed = self._changed
                try:
                    async with asyncio.timeout(0.05):
                        await changed.wait()
                except TimeoutError:
                    continue

    # what a test does to it ----------------------------------------------------------------------

    def drop_sockets(self) -> None:
        """Break every websocket without a word."""
        self.socket_mode.drop()

    def deliver_to(self, url: str | None) -> None:
        """From now on what happens goes to `url` as signed requests; None: over sockets again."""
        self.signed.url = url

    def revoke(self, error: str = "token_revoked", *, app_token: bool = True) -> None:
        """The bot's token (and the app's) is worth nothing any more: token_revoked, account_inactive, invalid_auth."""
        self.refused[self.bot_token] = error
        if app_token:
            self.refused[self.app_token] = error

    def heal(self) -> None:
        """No more faults; tokens are good and sockets are taken again."""
        self.refused.clear()
        self.socket_mode.accepting = True
        self.faults.heal()

    # requests ------------------------------------------------------------------------------------

    def _told(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _own(self, kind: str, channel: Channel, message: Message, before: Message | None) -> None:
        if self.echo and channel.has_bot:
            self.own_deed(kind, channel, message, before)

    def _may_read(self, token: str) -> bool:
        return token == self.bot_token and token not in self.refused and "files:read" in self.scopes

    async def _api(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        fields, given = await _fields(request)
        token = given or request.headers.get("Authorization", "").removeprefix("Bearer ")
        self.calls.append(Call(method, fields, time.monotonic(), dict(request.headers), token))
        self._told()
        fault = self.faults.take(method, fields.get("channel") or fields.get("channel_id"))
        try:
            return await self._with(fault, request, method, fields, token)
        finally:
            self._told()

    async def _with(
        self, fault: Fault | None, request: web.Request, method: str, fields: Fields, token: str
    ) -> web.StreamResponse:
        if fault is not None and fault.kind == "answer":
            status, headers, body = fault.answer()
            if isinstance(body, str):
                return web.Response(status=status, headers=headers, text=body, content_type="text/html")
            return web.json_response(body, status=status, headers=headers)
        if fault is not None and fault.kind == "hang":
            await self.faults.healed.wait()
        if fault is not None and fault.kind == "delay":
            await asyncio.sleep(fault.seconds)
        try:
            answer = {"ok": True, **self._carry_out(method, fields, token)}
        except Refused as refused:
            answer = {"ok": False, "error": refused.error, **refused.more}
        self._told()
        if fault is not None and fault.kind == "mute":
            await self.faults.healed.wait()
        if fault is not None and fault.kind == "drop" and request.transport is not None:
            request.transport.abort()
        headers = {"X-Slack-Req-Id": f"{self.world.number():032x}", "Date": formatdate(self.world.now(), usegmt=True)}
        if token == self.bot_token and answer.get("error") not in ("invalid_auth", "token_revoked"):
            headers["X-OAuth-Scopes"] = ",".join(sorted(self.scopes))
        return web.json_response(answer, headers=headers)

    def _carry_out(self, method: str, fields: Fields, token: str) -> dict[str, Any]:
        known = self._methods.get(method)
        if known is None:
            raise Refused("unknown_method", req_method=method)
        if method == "api.test":
            return known(fields)
        if not token:
            raise Refused("not_authed")
        if token in self.refused:
            raise Refused(self.refused[token])
        if token not in (self.bot_token, self.app_token):
            raise Refused("invalid_auth")
        if (token == self.app_token) != (method == "apps.connections.open") and method != "auth.test":
            raise Refused("not_allowed_token_type")
        channel = self.world.channels.get(str(fields.get("channel") or ""))
        slack_scopes.check(method, self.scopes, channel)
        return known(fields)

    async def _respond(self, request: web.Request) -> web.StreamResponse:
        """An answer to a `response_url`: kept, and carried out where it is to be seen by all."""
        entry = self.response_urls.get(request.match_info["name"])
        if entry is None or entry["left"] < 1:
            return web.json_response({"ok": False, "error": "expired_url" if entry is None else "used_url"}, status=404)
        entry["left"] -= 1
        said = await request.json()
        entry["answers"].append(said)
        channel = self.world.channels[entry["channel"]]
        try:
            if said.get("delete_original") and entry["ts"] in channel.messages:
                self.world.remove(channel, entry["ts"])
            elif said.get("replace_original") and entry["ts"] in channel.messages:
                message = channel.messages[entry["ts"]]
                channel.edits.setdefault(message["ts"], []).append(message["text"])
                message.pop("blocks", None)
                message |= self.chat.compose(said, self.limits.post)
            elif said.get("response_type") == "in_channel":
                self.chat.keep(channel, said.get("thread_ts"), **self.chat.compose(said, self.limits.post))
        except Refused as refused:
            return web.json_response({"ok": False, "error": refused.error}, status=400)
        finally:
            self._told()
        return web.Response(text="ok")


async def _fields(request: web.Request) -> tuple[dict[str, Any], str]:
    """The arguments and the token among them, from wherever they are given."""
    fields: dict[str, Any] = dict(request.query)
    if request.content_type == "application/json":
        text = await request.text()
        try:
            found = json.loads(text) if text else {}
        except ValueError:
            found = {}
        fields.update(found if isinstance(found, dict) else {})
    elif request.can_read_body:
        fields.update({name: value for name, value in (await request.post()).items() if isinstance(value, str)})
    return fields, str(fields.pop("token", "") or "")
