"""Files of the Slack counterpart: announced, uploaded, completed, shown, fetched."""

from __future__ import annotations

import mimetypes
from collections.abc import Callable
from typing import Any

from aiohttp import BodyPartReader, web

from tests.counterparts.slack_chat import Chat
from tests.counterparts.slack_faults import Faults
from tests.counterparts.slack_limits import Answer, Fields, Method
from tests.counterparts.slack_rules import Refused, escaped, given_json, pings
from tests.counterparts.slack_world import BOT_ID, BOT_USER, File, World, file_json

LOGIN = "<!DOCTYPE html><html><head><title>Sign in | Slack</title></head><body><h1>Sign in</h1></body></html>"


class Files:
    """The methods, and the two addresses beside the API. `may_read` tells whether a token is good."""

    def __init__(
        self, world: World, chat: Chat, faults: Faults, url: Callable[[], str], may_read: Callable[[str], bool]
    ) -> None:
        self._world = world
        self._chat = chat
        self._faults = faults
        self._url = url
        self._may_read = may_read
        self.redirects = False
        """A file is fetched by way of a redirect to another host name, as some of Slack's are."""
        self.downloads: list[tuple[str, str]] = []
        """(path, the Authorization header) of every fetch."""
        self.uploads: list[str] = []
        """The ids of the files whose bytes came."""
        self.methods: dict[str, Method] = {
            "files.completeUploadExternal": self._complete, "files.delete": self._delete,
            "files.getUploadURLExternal": self._announce, "files.info": self._info,
        }  # fmt: skip

    def _announce(self, fields: Fields) -> Answer:
        name, length = str(fields.get("filename") or ""), str(fields.get("length") or "")
        if not name or not length.isdigit() or int(length) < 1:
            missing = "filename" if not name else "length"
            said = f"[ERROR] missing required field: {missing}"
            raise Refused("invalid_arguments", response_metadata={"messages": [said]})
        mime = mimetypes.guess_type(name)[0] or "application/octet-stream"
        file = self._world.file(name, mime, None, BOT_USER, expected=int(length))
        return {"upload_url": f"{self._url()}/upload/v1/{file.id}", "file_id": file.id}

    def _complete(self, fields: Fields) -> Answer:
        asked = given_json(fields.get("files") or [], "invalid_arguments")
        if not isinstance(asked, list) or not asked or any(not isinstance(one, dict) for one in asked):
            raise Refused("invalid_arguments")
        channel = self._chat.writable(fields["channel_id"]) if fields.get("channel_id") else None
        files = [self._uploaded(one.get("id")) for one in asked]
        for file, one in zip(files, asked, strict=True):
            file.title = str(one.get("title") or file.name)
            file.completed = True
        comment = str(fields.get("initial_comment") or "")
        if channel is not None:
            if pings({"text": comment}):
                self._chat.broadcasts.append(dict(fields))
            root = self._chat.thread(channel, fields.get("thread_ts"))
            shown = [file_json(file, self._url()) for file in files]
            more: dict[str, Any] = {"files": shown, "upload": True, "display_as_bot": False, "subtype": "file_share"}
            self._chat.keep(channel, root, text=escaped(comment), **more)
        return {"files": [self.described(file) for file in files]}

    def _uploaded(self, name: Any) -> File:
        file = self._world.files.get(str(name))
        if file is None or file.deleted:
            raise Refused("file_not_found")
        if file.data is None or file.completed:
            raise Refused("file_update_failed" if file.data is None else "invalid_arguments")
        return file

    def _known(self, name: Any) -> File:
        file = self._world.files.get(str(name))
        if file is None or file.data is None:
            raise Refused("file_not_found")
        if file.deleted:
            raise Refused("file_deleted")
        return file

    def described(self, file: File) -> dict[str, Any]:
        """A file with where it was shared."""
        shares: dict[str, dict[str, list[dict[str, Any]]]] = {}
        for channel, message in self._world.places(file):
            place = {"ts": message["ts"], "channel_name": channel.name, "share_user_id": message.get("user")}
            if message.get("thread_ts"):
                place["thread_ts"] = message["thread_ts"]
            kind = "public" if channel.kind == "channel" else "private"
            shares.setdefault(kind, {}).setdefault(channel.id, []).append(place)
        hidden, file.hidden = file.hidden, False
        shown = file_json(file, self._url())
        file.hidden = hidden
        return {**shown, "shares": shares, "comments_count": 0}

    def _info(self, fields: Fields) -> Answer:
        file = self._known(fields.get("file"))
        return {
            "file": self.described(file),
            "comments": [],
            "response_metadata": {"next_cursor": ""},
        }

    def _delete(self, fields: Fields) -> Answer:
        file = self._known(fields.get("file"))
        if file.user != BOT_USER:
            raise Refused("cant_delete_file")
        file.deleted = True
        for channel, message in list(self._world.places(file)):
            message["files"] = [one if one["id"] != file.id else file_json(file, "") for one in message["files"]]
            if message.get("bot_id") == BOT_ID and all(one.get("mode") == "tombstone" for one in message["files"]):
                self._world.remove(channel, message["ts"])
        return {}

    # beside the API ------------------------------------------------------------------------------

    async def upload(self, request: web.Request) -> web.StreamResponse:
        """The bytes of a file, plain or as multipart."""
        file = self._world.files.get(request.match_info["file"])
        if file is None:
            return web.Response(status=404, text="not found")
        fault = self._faults.take("upload")
        if fault is not None and fault.kind == "hang":
            await self._faults.healed.wait()
        if fault is not None and fault.kind == "answer":
            status, headers, _ = fault.answer()
            return web.Response(status=status if status != 200 else 500, headers=headers, text="upload failed")
        data = await _body(request)
        if len(data) != file.expected:
            return web.Response(status=400, text="the length is not what was announced")
        file.data = data
        self.uploads.append(file.id)
        if fault is not None and fault.kind == "drop" and request.transport is not None:
            request.transport.abort()
        return web.Response(text=f"OK - {len(data)}")

    async def download(self, request: web.Request) -> web.StreamResponse:
        """The bytes of a file, for its `url_private`. Without a good token it is a page to sign in."""
        given = request.headers.get("Authorization", "")
        self.downloads.append((request.path, given))
        fault = self._faults.take("download")
        if fault is not None and fault.kind == "hang":
            await self._faults.healed.wait()
        if fault is not None and fault.kind == "answer":
            status, headers, body = fault.answer()
            return web.Response(status=status, headers=headers, text=str(body), content_type="text/html")
        if not self._may_read(given.removeprefix("Bearer ")):
            return web.Response(text=LOGIN, content_type="text/html")
        file = self._world.files.get(request.match_info["place"].partition("-")[2])
        if file is None or file.deleted or file.data is None:
            return web.Response(status=404, text="<html>File not found</html>", content_type="text/html")
        if self.redirects and "localhost" not in request.host:
            raise web.HTTPFound(f"http://localhost:{request.url.port}{request.path_qs}")
        if fault is not None and fault.kind == "drop":
            return await _half(request, file)
        return web.Response(body=file.data, content_type=file.mime)


async def _half(request: web.Request, file: File) -> web.StreamResponse:
    """Half of a file, then the connection breaks."""
    data = file.data or b""
    response = web.StreamResponse(headers={"Content-Length": str(len(data)), "Content-Type": file.mime})
    await response.prepare(request)
    await response.write(data[: len(data) // 2])
    if request.transport is not None:
        request.transport.abort()
    return response


async def _body(request: web.Request) -> bytes:
    if not request.content_type.startswith("multipart/"):
        return await request.read()
    async for part in await request.multipart():
        if isinstance(part, BodyPartReader) and (part.filename or part.name in ("file", "filename")):
            return bytes(await part.read())
    return b""
