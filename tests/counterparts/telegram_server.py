"""Telegram's Bot API on loopback, for the genuine client: real sockets, real long polling, real refusals.

::

    async with TelegramServer() as server:
        ada = server.world.person("Ada", username="ada")
        chat = server.world.private(ada)                  # group, supergroup, forum, channel
        ...Bot(server.token, base_url=server.base_url, base_file_url=server.base_file_url)...
        server.say(chat, ada, "hello")                    # the bot hears of it
        await server.until(lambda: server.shown(chat))    # until the bot answered
        assert server.shown(chat)[0].text == "hello"
        assert server.violations == []                    # what no real request looks like

What people do is in `telegram_people`, chats and files in `telegram_world` (`server.world`), the queue of updates in
`telegram_updates` (`server.updates`), the bot's methods in `telegram_methods` (`server.methods`). A request with a
parameter or a field that the API does not have is refused and kept in `violations`.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Callable
from typing import Any, Self

from aiohttp import web

from tests.counterparts import telegram_rules
from tests.counterparts.telegram_faults import Call, Fault, Faults
from tests.counterparts.telegram_methods import Methods
from tests.counterparts.telegram_people import Acting, Speaking
from tests.counterparts.telegram_rules import Refused
from tests.counterparts.telegram_sending import Upload
from tests.counterparts.telegram_updates import Updates
from tests.counterparts.telegram_world import Chat, Shown, World

JsonDict = dict[str, Any]

MOST_UPLOADED = 50 * 2**20


class Faulty:
    """How a test makes the server misbehave."""

    faults: Faults
    token: str
    _revoked: bool = False

    def fail(self, method: str, *, status: int = 500, description: str | None = None, retry_after: int | None = None,
             body: str | None = None, times: int | None = 1, seconds: float | None = None,
             chat: Chat | int | None = None) -> None:  # fmt: skip
        """Answer the next `times` calls (None: all) of `method` so, perhaps for `seconds` or in one chat only.

        A method may be a pattern (`send*`, `*`), and `download` stands for fetching a file.

        Nothing is executed. A `status` of 500 and above without a `description` comes with a body of HTML.
        """
        until = None if seconds is None else asyncio.get_running_loop().time() + seconds
        self.faults.add(
            Fault(
                method=method.lower(),
                kind="answer",
                status=status,
                description=description,
                retry_after=retry_after,
                body=body,
                times=None if seconds is not None and times == 1 else times,
                until=until,
                chat=chat.id if isinstance(chat, Chat) else chat,
            )
        )

    def flood(self, method: str, retry_after: int, *, times: int | None = 1, in_text_only: bool = False,
              chat: Chat | int | None = None) -> None:  # fmt: skip
        """429: with `parameters.retry_after`, or with the seconds in the description only."""
        self.fail(
            method,
            status=429,
            description=f"Too Many Requests: retry after {retry_after}",
            retry_after=None if in_text_only else retry_after,
            times=times,
            chat=chat,
        )

    def accept_then_drop(self, method: str, *, times: int | None = 1, chat: Chat | int | None = None) -> None:
        """Execute, then close the connection without an answer."""
        self._add("drop", method, times, chat)

    def accept_then_hang(self, method: str, *, times: int | None = 1, chat: Chat | int | None = None) -> None:
        """Execute, then answer nothing until `heal()`."""
        self._add("mute", method, times, chat)

    def hang(self, method: str, *, times: int | None = None, chat: Chat | int | None = None) -> None:
        """Take the request and do nothing until `heal()`; then it goes its way if its sender still waits."""
        self._add("hang", method, times, chat)

    def delay(self, method: str, seconds: float, *, times: int | None = 1, chat: Chat | int | None = None) -> None:
        """Execute after `seconds` only."""
        self._add("delay", method, times, chat, seconds)

    def _add(self, kind: str, method: str, times: int | None, chat: Chat | int | None, seconds: float = 0.0) -> None:
        where = chat.id if isinstance(chat, Chat) else chat
        self.faults.add(Fault(method=method.lower(), kind=kind, times=times, chat=where, seconds=seconds))

    def heal(self) -> None:
        """No more faults; the token is good again."""
        self._revoked = False
        self.faults.heal()

    def revoke(self) -> None:
        """From now on the token is answered with 401."""
        self._revoked = True


class TelegramServer(Faulty, Speaking, Acting):
    """The server; an async context manager. One bot, one token, one world."""

    def __init__(self, *, username: str = "hermes_bot", token: str = "") -> None:
        # one for each server: the locks of tokens hold for all test runs of the machine
        self.token = token or f"7000000001:AAE-loopback_token_{secrets.token_hex(8)}"
        self.world = World(username)
        self.updates = Updates()
        self.methods = Methods(self.world, self.updates)
        self.faults = Faults()
        self.calls: list[Call] = []
        self.violations: list[str] = []
        self.downloads: list[str] = []
        """The paths of the files that were asked for."""
        self._port = 0
        self._runner: web.AppRunner | None = None
        self._changed = asyncio.Event()
        self.updates.on_change = self._tell_changed
        self.updates.on_reply = self._reply

    @property
    def url(self) -> str:
        """The origin, without a slash at the end."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def base_url(self) -> str:
        """What `telegram.Bot` takes as `base_url`."""
        return f"{self.url}/bot"

    @property
    def base_file_url(self) -> str:
        """What `telegram.Bot` takes as `base_file_url`."""
        return f"{self.url}/file/bot"

    @property
    def confirmed(self) -> int:
        """The highest offset the bot confirmed."""
        return self.updates.confirmed

    @property
    def open_connections(self) -> int:
        """Connections that are open now."""
        server = self._runner.server if self._runner is not None else None
        return 0 if server is None else len(server.connections)

    def shown(self, chat: Chat | int) -> list[Shown]:
        """The messages of the bot that people see in a chat, in order."""
        return self.world.shown(chat)

    def called(self, method: str) -> list[Call]:
        """The calls of one method, in order."""
        return [call for call in self.calls if call.method.lower() == method.lower()]

    async def until(self, condition: Callable[[], Any], timeout: float = 10.0) -> None:  # noqa: ASYNC109 - plain for tests
        """Return when `condition` holds; it is asked after every change. TimeoutError after `timeout` seconds."""
        async with asyncio.timeout(timeout):
            while not condition():
                await self._changed.wait()

    def drop_connections(self) -> None:
        """Break every connection that is open now."""
        if self._runner is not None and self._runner.server is not None:
            for handler in self._runner.server.connections:
                if handler.transport is not None:
                    handler.transport.abort()

    async def start(self) -> None:
        """Listen; after `stop` on the same port as before."""
        app = web.Application(client_max_size=2 * MOST_UPLOADED)
        app.add_routes(
            [
                web.get("/file/bot{token}/{path:.+}", self._download),
                web.route("*", "/bot{token}/{method}", self._handle),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port, backlog=512, reuse_address=True).start()
        self._port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """An outage: connections break and none is taken. The world stays, and people go on."""
        self.drop_connections()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.updates.close()
        self.faults.heal()
        await self.stop()

    def _tell_changed(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    # requests

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        method, token = request.match_info["method"], request.match_info["token"]
        raw, uploads = await _body(request)
        known = method.lower() in telegram_rules.method_models()
        params = telegram_rules.decode(method, raw) if known else dict(raw)
        peer = request.transport.get_extra_info("peername") if request.transport is not None else None
        now = asyncio.get_running_loop().time()
        self.calls.append(Call(method, params, uploads, now, peer[1] if peer else 0, dict(request.headers)))
        try:
            return await self._checked(request, token, method, params, uploads)
        finally:
            self._tell_changed()

    async def _checked(self, request: web.Request, token: str, method: str, params: JsonDict,
                       uploads: dict[str, Upload]) -> web.StreamResponse:  # fmt: skip
        self._tell_changed()
        known = method.lower() in telegram_rules.method_models()
        wrong = telegram_rules.violations(method, params, uploads) if known else []
        self.violations += wrong
        if not token.partition(":")[0].isdigit() or ":" not in token:
            return _error(404, "Not Found")
        if token != self.token or self._revoked:
            return _error(401, "Unauthorized")
        fault = self.faults.take(method, params, self.calls[-1].at)
        if fault is not None and fault.kind == "answer":
            status, kind, body = fault.answer()
            return web.Response(text=body, status=status, content_type=kind)
        if fault is not None and fault.kind == "delay":
            await asyncio.sleep(fault.seconds)
        if fault is not None and fault.kind == "hang":
            await self.faults.healed.wait()
        if wrong:
            return _error(400, f"Bad Request: the counterpart refuses: {'; '.join(wrong)}")
        answer = await self._run(method, params, uploads)
        if fault is not None and fault.kind == "mute":
            await self.faults.healed.wait()
        if fault is not None and fault.kind == "drop" and request.transport is not None:
            request.transport.abort()
        return answer

    async def _run(self, method: str, params: JsonDict, uploads: dict[str, Upload]) -> web.Response:
        if method.lower() not in telegram_rules.method_models():
            return _error(404, "Not Found: method not found")
        if any(len(one.data) > MOST_UPLOADED for one in uploads.values()):
            return _error(413, "Request Entity Too Large")
        try:
            result = await self.methods.run(method, params, uploads)
        except Refused as refused:
            return _error(refused.code, refused.description, refused.parameters)
        except NotImplementedError:
            self.violations.append(f"{method} is not modelled by the counterpart")
            return _error(501, f"Not Implemented: {method} is not modelled by the counterpart")
        self._tell_changed()
        return web.json_response({"ok": True, "result": result})

    async def _reply(self, answered: JsonDict) -> None:
        """A bot may answer a webhook post with a method; the result is lost."""
        params = {name: value for name, value in answered.items() if name != "method"}
        now = asyncio.get_running_loop().time()
        self.calls.append(Call(answered["method"], params, {}, now, 0, {}))
        self.violations += telegram_rules.violations(answered["method"], params, {})
        await self._run(answered["method"], params, {})

    async def _download(self, request: web.Request) -> web.StreamResponse:
        path = request.match_info["path"]
        self.downloads.append(path)
        self._tell_changed()
        if request.match_info["token"] != self.token or self._revoked:
            return _error(401, "Unauthorized")
        fault = self.faults.take("download", {}, asyncio.get_running_loop().time())
        if fault is not None and fault.kind == "answer":
            status, kind, body = fault.answer()
            return web.Response(text=body, status=status, content_type=kind)
        if fault is not None and fault.kind == "hang":
            await self.faults.healed.wait()
        file = next((one for one in self.world.files.values() if one.path == path and not one.gone), None)
        if file is None:
            return _error(404, "Not Found")
        response = web.StreamResponse(headers={"Content-Type": "application/octet-stream"})
        response.content_length = len(file.data)
        await response.prepare(request)
        is_cut = file.cut or (fault is not None and fault.kind == "drop")
        await response.write(file.data[: len(file.data) // 2] if is_cut else file.data)
        if is_cut and request.transport is not None:
            request.transport.close()
            return response
        await response.write_eof()
        return response


def _error(code: int, description: str, parameters: JsonDict | None = None) -> web.Response:
    answer: JsonDict = {"ok": False, "error_code": code, "description": description}
    if parameters:
        answer["parameters"] = parameters
    return web.json_response(answer, status=code)


async def _body(request: web.Request) -> tuple[JsonDict, dict[str, Upload]]:
    """The parameters, of the URL and of the body, and the files."""
    params: JsonDict = dict(request.query)
    uploads: dict[str, Upload] = {}
    if request.content_type == "application/json":
        found = json.loads(await request.read() or b"{}")
        params |= found if isinstance(found, dict) else {}
    elif request.content_type in ("application/x-www-form-urlencoded", "multipart/form-data"):
        for name, value in (await request.post()).items():
            if isinstance(value, web.FileField):
                uploads[name] = Upload(value.filename, value.content_type, value.file.read())
            elif isinstance(value, (bytes, bytearray)):
                params[name] = bytes(value).decode("utf-8", "replace")
            else:
                params[name] = value
    return params, uploads
