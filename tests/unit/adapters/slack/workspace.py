"""A workspace of Slack in a few lines, on loopback, for the genuine SDK: what the adapter's own tests need.

It knows the methods that the adapter calls, delivers envelopes over real sockets, and can fail on demand.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Self

from aiohttp import WSMsgType, web
from aiohttp.test_utils import TestServer

BOT, TEAM, BOT_ID = "UBOT", "T1", "BBOT"
Item = dict[str, Any]


class Workspace:
    """Entered once. `calls` are (method, arguments) in order; `acks` are the envelopes that were acknowledged."""

    def __init__(self) -> None:
        self.channels: dict[str, list[Item]] = {"C1": [], "D1": []}
        self.listed: list[str] = ["C1", "D1"]
        self.files: dict[str, Item] = {}
        self.bytes: dict[str, bytes] = {}
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.acks: list[str] = []
        self.sockets: list[web.WebSocketResponse] = []
        self.opened = 0
        self.scopes = ""
        self.accepting = True
        self.latest = 0
        self._faults: deque[tuple[str, Callable[[web.Request], Any]]] = deque()
        self._clock = 0.0
        self._envelopes = 0
        self._changed = asyncio.Event()
        app = web.Application()
        app.router.add_route("*", "/api/{method}", self._api)
        app.router.add_get("/socket/{ticket}", self._socket)
        app.router.add_post("/upload/{file}", self._upload)
        app.router.add_get("/files/{file}", self._download)
        self._server = TestServer(app)

    async def __aenter__(self) -> Self:
        await self._server.start_server()
        return self

    async def __aexit__(self, *_: object) -> None:
        for socket in list(self.sockets):
            await socket.close()
        await self._server.close()

    @property
    def url(self) -> str:
        return str(self._server.make_url("")).rstrip("/")

    def ts(self, seconds: float | None = None) -> str:
        """A timestamp, never the same twice; `seconds` from now."""
        self._clock = max(self._clock + 0.000_01, time.time())
        return f"{self._clock + (seconds or 0.0):.6f}"

    async def until(self, condition: Callable[[], bool], seconds: float = 5.0) -> None:
        async with asyncio.timeout(seconds):
            while not condition():
                await asyncio.sleep(0.005)

    # people ---------------------------------------------------------------------------------------

    async def say(self, text: str, channel: str = "C1", *, live: bool = True, ts: str | None = None,
                  **more: Any) -> Item:  # fmt: skip
        kind = "im" if channel.startswith("D") else "channel"
        item = {"type": "message", "user": "U1", "text": text, "ts": ts or self.ts(), "team": TEAM, **more}
        self._keep(channel, item)
        if live:
            await self.event({**item, "channel": channel, "channel_type": kind})
        return item

    def _keep(self, channel: str, item: Item) -> None:
        self.channels.setdefault(channel, []).append(item)
        root = item.get("thread_ts")
        if root is not None and root != item["ts"]:
            for one in self.channels[channel]:
                if one["ts"] == root:
                    one |= {"thread_ts": root, "latest_reply": item["ts"], "reply_count": one.get("reply_count", 0) + 1}
                    item.setdefault("parent_user_id", one.get("user"))

    async def event(self, event: Item, **more: Any) -> str:
        body = {"type": "event_callback", "team_id": TEAM, "event_id": f"Ev{self._envelopes}", "event": event}
        return await self.envelope("events_api", body, **more)

    async def envelope(self, kind: str, payload: Item, *, envelope_id: str | None = None, **more: Any) -> str:
        self._envelopes += 1
        name = envelope_id or f"env-{self._envelopes}"
        if self.sockets:
            await self.sockets[-1].send_json({"type": kind, "envelope_id": name, "payload": payload, **more})
        return name

    # faults ---------------------------------------------------------------------------------------

    def fail(self, method: str, error: str = "", status: int = 200, headers: dict[str, str] | None = None) -> None:
        """The next call of the method is refused."""
        body = {"ok": False, "error": error} if error else None

        def answer(_: web.Request) -> web.Response:
            if body is None:
                return web.Response(status=status, text="<html>", content_type="text/html", headers=headers)
            return web.json_response(body | {"needed": "files:write"}, status=status, headers=headers)

        self._faults.append((method, answer))

    def accept_then_drop(self, method: str) -> None:
        """The next call is carried out, and its answer never comes."""
        self._faults.append((method, lambda _: "drop"))

    async def drop(self) -> None:
        """Cut every socket."""
        for socket in list(self.sockets):
            transport = socket._req.transport if socket._req is not None else None
            if transport is not None:
                transport.abort()
        await self.until(lambda: not self.sockets)

    # the other side -------------------------------------------------------------------------------

    async def _api(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        if request.content_type == "application/json":
            data = await request.json()
        else:
            data = dict(request.query) | dict(await request.post())
        self.calls.append((method, data))
        drop = False
        for one in list(self._faults):
            if one[0] == method:
                self._faults.remove(one)
                found = one[1](request)
                if found != "drop":
                    return found  # type: ignore[no-any-return]
                drop = True
        answer = getattr(self, "_" + method.replace(".", "_"))(data)
        if drop:
            assert request.transport is not None
            request.transport.abort()
        if "ok" not in answer:
            answer = {"ok": True, **answer}
        return web.json_response(answer, headers={"X-OAuth-Scopes": self.scopes})

    def _auth_test(self, _: Item) -> Item:
        return {"user_id": BOT, "user": "tidings", "team_id": TEAM, "team": "Acme", "bot_id": BOT_ID}

    def _bots_info(self, _: Item) -> Item:
        return {"bot": {"id": BOT_ID, "name": "Tidings", "app_id": "A1"}}

    def _apps_connections_open(self, _: Item) -> Item:
        return {"url": f"{self.url.replace('http', 'ws')}/socket/t{self.opened}?ticket=secret-ticket"}

    def _users_info(self, data: Item) -> Item:
        return {"user": {"id": data["user"], "name": "ann", "profile": {"display_name": f"Name of {data['user']}"}}}

    def _users_conversations(self, data: Item) -> Item:
        kind = {"im": "D", "public_channel": "C", "private_channel": "G", "mpim": "M"}[data["types"]]
        return {"channels": [{"id": one} for one in self.listed if one.startswith(kind)]}

    def _conversations_history(self, data: Item) -> Item:
        items = self.channels.get(data["channel"])
        if items is None:
            return {"ok": False, "error": "channel_not_found"}
        return self._page([one for one in items if one.get("thread_ts", one["ts"]) == one["ts"]
                           or one.get("subtype") == "thread_broadcast"], data, newest=True)  # fmt: skip

    def _conversations_replies(self, data: Item) -> Item:
        items = [
            one for one in self.channels.get(data["channel"], ()) if data["ts"] in (one["ts"], one.get("thread_ts"))
        ]
        if not items:
            return {"ok": False, "error": "thread_not_found"}
        root = [one for one in items if one["ts"] == data["ts"]]
        page = self._page([one for one in items if one not in root], data, newest=False)
        page["messages"] = (root + page["messages"])[: int(data.get("limit", 100)) + 1]
        return page

    def _page(self, items: list[Item], data: Item, *, newest: bool) -> Item:
        oldest, latest = float(data.get("oldest", 0)), float(data.get("latest", 9e12))
        inclusive = data.get("inclusive") in ("1", "true", True)
        kept = [one for one in items if oldest < float(one["ts"]) < latest
                or (inclusive and float(one["ts"]) in (oldest, latest))]  # fmt: skip
        kept.sort(key=lambda one: float(one["ts"]), reverse=newest)
        at, limit = int(data.get("cursor") or 0), int(data.get("limit", 100))
        more = str(at + limit) if at + limit < len(kept) else ""
        hide = data.get("include_all_metadata") not in ("1", "true", True)
        page = [{key: value for key, value in one.items() if key != "metadata" or not hide}
                for one in kept[at : at + limit]]  # fmt: skip
        return {"messages": page, "response_metadata": {"next_cursor": more}}

    def _chat_postMessage(self, data: Item) -> Item:
        if data["channel"] not in self.channels:
            return {"ok": False, "error": "channel_not_found"}
        item = {"type": "message", "user": BOT, "bot_id": BOT_ID, "ts": self.ts(), "text": data.get("text", ""),
                "blocks": data.get("blocks", []), "metadata": data.get("metadata")}  # fmt: skip
        if data.get("thread_ts"):
            item["thread_ts"] = data["thread_ts"]
        self._keep(data["channel"], item)
        return {"channel": data["channel"], "ts": item["ts"], "message": item}

    def _find(self, data: Item) -> Item | None:
        return next((one for one in self.channels.get(data["channel"], ()) if one["ts"] == data["ts"]), None)

    def _chat_update(self, data: Item) -> Item:
        item = self._find(data)
        if item is None:
            return {"ok": False, "error": "message_not_found"}
        if len(data.get("text", "")) > 4000:
            return {"ok": False, "error": "msg_too_long"}
        item |= {"text": data.get("text", ""), "blocks": data.get("blocks", [])}
        return {"ts": data["ts"]}

    def _chat_delete(self, data: Item) -> Item:
        item = self._find(data)
        if item is None:
            return {"ok": False, "error": "message_not_found"}
        self.channels[data["channel"]].remove(item)
        return {"ts": data["ts"]}

    def _assistant_threads_setStatus(self, _: Item) -> Item:
        return {}

    def _files_getUploadURLExternal(self, data: Item) -> Item:
        name = f"F{len(self.files) + 1}"
        self.files[name] = {"id": name, "name": data["filename"], "shares": {}, "size": int(data["length"])}
        return {"upload_url": f"{self.url}/upload/{name}", "file_id": name}

    def _files_completeUploadExternal(self, data: Item) -> Item:
        (one,) = json.loads(data["files"])
        file = self.files[one["id"]]
        ts = self._chat_postMessage({"channel": data["channel_id"], "thread_ts": data.get("thread_ts")})["ts"]
        self.channels[data["channel_id"]][-1]["files"] = [file]
        file["shares"] = {"public": {data["channel_id"]: [{"ts": ts}]}}
        return {"files": [{"id": one["id"], "title": one["title"]}]}

    def _files_info(self, data: Item) -> Item:
        return {"file": self.files[data["file"]]}

    def _files_delete(self, data: Item) -> Item:
        return {} if self.files.pop(data["file"], None) else {"ok": False, "error": "file_not_found"}

    async def _upload(self, request: web.Request) -> web.Response:
        assert "Authorization" not in request.headers
        self.bytes[request.match_info["file"]] = await request.read()
        return web.Response(text="OK - 1")

    async def _download(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != "Bearer xoxb-test-token":
            return web.Response(text="<html>log in</html>", content_type="text/html")
        return web.Response(body=self.bytes[request.match_info["file"]], content_type="application/octet-stream")

    async def _socket(self, request: web.Request) -> web.StreamResponse:
        if not self.accepting:
            return web.Response(status=503)
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self.opened += 1
        self.sockets.append(socket)
        await socket.send_json({"type": "hello", "num_connections": len(self.sockets)})
        try:
            async for message in socket:
                if message.type is WSMsgType.TEXT:
                    self.acks.append(json.loads(message.data)["envelope_id"])
        finally:
            self.sockets.remove(socket)
        return socket

    # looking --------------------------------------------------------------------------------------

    def shown(self, channel: str = "C1", thread: str | None = None) -> list[Item]:
        """Our own messages of a channel, of all its threads or of one."""
        return [
            one for one in self.channels[channel] if one.get("user") == BOT and thread in (None, one.get("thread_ts"))
        ]

    def called(self, method: str) -> list[dict[str, Any]]:
        return [data for name, data in self.calls if name == method]
