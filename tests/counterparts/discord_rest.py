"""The REST API v10 over real HTTP: simcord's routes, with Discord's refusals in front of them.

What simcord answers differently from the documentation, or not at all, is answered here: the gateway's address, the
application, history (its order and its limits), nonces, threads on messages, archived threads, and what a message may
be. Everything else goes to simcord. What it does not know is 404 for the caller and a violation for the test.
"""

from __future__ import annotations

import io
import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from aiohttp import web
from simcord.backend import serializers
from simcord.backend.access import channel_accessible
from simcord.backend.errors import BackendError, missing_permissions, unknown_channel, unknown_message
from simcord.backend.models import Channel, Message
from simcord.enums import ChannelType
from simcord.http import client as _routes  # importing it registers every route
from simcord.http.router import RouteNotImplemented, UnsupportedField, dispatch
from simcord.intents import censor_message

from tests.counterparts import discord_spec
from tests.counterparts.discord_faults import VIA, Call, json_answer, limited
from tests.counterparts.discord_world import World, can_be_answered, complete

if TYPE_CHECKING:
    from tests.counterparts.discord_server import DiscordServer

assert _routes.FakeHTTPClient
PREFIX = re.compile(r"/api/v(\d+)")
NONCE_SECONDS = 180.0
_OPEN = re.compile(r"/gateway|/interactions/\d+/[^/]+/callback|/webhooks/\d+/[^/]+(/.*)?")
"""Paths that need no token."""
_CONTENT = 2000
_FILES = 10


@dataclass(slots=True)
class Upload:
    """A file of a call, as simcord wants it."""

    fp: io.BytesIO
    filename: str
    description: str | None = None


def invalid(field: str, code: str, message: str) -> BackendError:
    """50035 with the tree of errors that Discord adds."""
    tree: dict[str, Any] = {"_errors": [{"code": code, "message": message}]}
    for part in reversed(field.split(".")):
        tree = {part: tree}
    return BackendError(400, 50035, "Invalid Form Body", errors=tree)


class Rest:
    """Answers every call under `/api/v10`."""

    def __init__(self, server: DiscordServer) -> None:
        self._server = server
        self._world: World = server.world
        self._nonces: dict[tuple[int, str], tuple[float, int, int]] = {}
        """By author and nonce: when, channel, message."""
        own: list[tuple[str, str, Callable[..., Any]]] = [
            ("GET", r"/gateway", self._gateway),
            ("GET", r"/gateway/bot", self._gateway_bot),
            ("GET", r"/(?:oauth2/)?applications/@me", self._application),
            ("GET", r"/channels/(\d+)/messages", self._history),
            ("POST", r"/channels/(\d+)/messages", self._send),
            ("PATCH", r"/channels/(\d+)/messages/(\d+)", self._edit),
            ("PATCH", r"/channels/(\d+)", self._modify),
            ("POST", r"/channels/(\d+)/messages/(\d+)/threads", self._branch),
            ("GET", r"/guilds/(\d+)/threads/active", self._active),
            ("PUT", r"/channels/(\d+)/messages/(\d+)/reactions/[^/]+/@me", self._react),
            ("POST", r"/interactions/\d+/[^/]+/callback", self._callback),
        ]
        self._own = [(method, re.compile(path), handler) for method, path, handler in own]

    # the way of a call

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """One call: recorded, met by faults, checked, done, answered."""
        call, uploads = await self._read(request)
        server = self._server
        server.calls.append(call)
        server.changed()
        rule = server.faults.take(call)
        if rule is not None and rule.do == "answer" and rule.answer is not None:
            response = rule.answer()
            call.status = response.status
            return response
        if rule is not None and rule.do == "drop":
            return self._cut(request)
        if rule is not None and rule.do == "hang":
            await rule.released.wait()
        response = self._answer(call, uploads)
        if rule is not None and rule.do == "accept_then_drop":
            server.changed()
            return self._cut(request)
        call.status = response.status
        server.changed()
        return response

    async def _read(self, request: web.Request) -> tuple[Call, list[Upload]]:
        path = PREFIX.sub("", request.rel_url.raw_path, count=1)
        body: Any = None
        uploads: dict[int, Upload] = {}
        if request.content_type == "multipart/form-data":
            async for part in await request.multipart():
                name = str(getattr(part, "name", ""))
                data = bytes(await cast(Any, part).read())
                if name == "payload_json":
                    body = json.loads(data)
                elif match := re.fullmatch(r"files\[(\d+)\]", name):
                    uploads[int(match[1])] = Upload(io.BytesIO(data), str(getattr(part, "filename", None) or "file"))
            told = body.get("attachments") if isinstance(body, dict) else None
            for entry in told or ():
                if isinstance(entry, dict) and str(entry.get("id", "")).isdecimal() and int(entry["id"]) in uploads:
                    uploads[int(entry["id"])].description = entry.get("description")
        elif request.can_read_body:
            raw = await request.read()
            body = json.loads(raw) if raw else None
        ordered = [uploads[index] for index in sorted(uploads)]
        files = [(upload.filename, upload.fp.getvalue()) for upload in ordered]
        call = Call(request.method, path, dict(request.query), body, files, time.monotonic())
        call.authorization = request.headers.get("Authorization", "")
        return call, ordered

    def _cut(self, request: web.Request) -> web.Response:
        if request.transport is not None:
            request.transport.abort()
        return web.Response()

    def _answer(self, call: Call, uploads: list[Upload]) -> web.Response:
        server = self._server
        token = server.token
        if not _OPEN.fullmatch(call.path) and (token is None or call.authorization != f"Bot {token}"):
            return json_answer(401, {"message": "401: Unauthorized", "code": 0})
        headers = {
            "X-RateLimit-Limit": "50",
            "X-RateLimit-Remaining": "49",
            "X-RateLimit-Reset": f"{time.time() + 1:.3f}",
            "X-RateLimit-Reset-After": "1.000",
            "X-RateLimit-Bucket": f"{abs(hash((call.method, re.sub(r'[0-9]{15,}', 'id', call.path)))):x}",
        }
        for limits in server.faults.limits:
            if limits.fits(call):
                headers, wait = limits.take(call)
                if wait:
                    return limited(
                        round(wait, 3), everywhere=False, bucket=headers["X-RateLimit-Bucket"], limit=limits.calls
                    )
        server.violations += discord_spec.load().faults(call.method, call.path, call.body)
        try:
            payload = self._do(call, uploads)
        except (RouteNotImplemented, UnsupportedField) as error:
            server.violations.append(str(error))
            return json_answer(404, {"message": "404: Not Found", "code": 0}, headers)
        except BackendError as error:
            return json_answer(error.status, _refusal(error), headers)
        except Exception as error:  # noqa: BLE001 - a fault of the counterpart must fail the test, not the server
            server.violations.append(f"{call.method} {call.path}: the counterpart broke: {error!r}")
            return json_answer(500, {"message": "500: Internal Server Error", "code": 0}, headers)
        if payload is None:
            return web.Response(status=204, headers={"Via": VIA, **headers})
        call.answer = complete(self._finished(payload))
        return json_answer(201 if call.path.endswith("/threads") else 200, call.answer, headers)

    def _do(self, call: Call, uploads: list[Upload]) -> Any:
        for method, path, handler in self._own:
            if method == call.method and (match := path.fullmatch(call.path)):
                return handler(call, uploads, *(int(group) for group in match.groups()))
        return self._dispatch(call, uploads)

    def _dispatch(self, call: Call, uploads: list[Upload]) -> Any:
        return dispatch(
            self._world,
            call.method,
            call.path,
            json=call.body,
            params=dict(call.query),
            files=list(uploads),
            message_content_access="message_content" in self._server.gateway.approved,
        )

    def _finished(self, payload: Any) -> Any:
        if isinstance(payload, list):
            return [self._finished(item) for item in payload]
        if isinstance(payload, dict) and "author" in payload and "content" in payload:
            return self._world.finish(payload)
        return payload

    # what simcord lacks

    def _gateway(self, *_: Any) -> Any:
        return {"url": self._server.gateway.url}

    def _gateway_bot(self, *_: Any) -> Any:
        limit = {
            "total": 1000,
            "remaining": 1000 - self._server.gateway.identifies,
            "reset_after": 86_400_000,
            "max_concurrency": 1,
        }
        return {"url": self._server.gateway.url, "shards": 1, "session_start_limit": limit}

    def _application(self, *_: Any) -> Any:
        payload = dispatch(self._world, "GET", "/oauth2/applications/@me")
        more = {
            "type": None,
            "flags": self._server.gateway.flags,
            "flags_new": str(self._server.gateway.flags),
            "redirect_uris": [],
            "interactions_endpoint_url": None,
            "role_connections_verification_url": None,
            "approximate_guild_count": len(self._world.guilds),
            "approximate_user_install_count": 0,
            "approximate_user_authorization_count": 0,
            "explicit_content_filter": 0,
            "eligible_oauth2_scopes": [],
        }
        return {**payload, **more}

    def _active(self, _: Call, __: Any, guild_id: int) -> Any:
        """Of the threads that the bot can see."""
        world = self._world
        world.require_permissions(guild_id, world.bot_user.id, None)
        threads = [t for t in world.active_threads(guild_id) if channel_accessible(world, t.id, world.bot_user.id)]
        return serializers.thread_list_payload(world, threads, has_more=False)

    def _history(self, call: Call, _: Any, channel_id: int) -> Any:
        """Newest first. `after` takes those that came next, as Discord does, not the newest of all."""
        world = self._world
        self._channel(channel_id)
        limit = int(call.query.get("limit", 50))
        if not 1 <= limit <= 100:
            raise invalid("limit", "NUMBER_TYPE_MAX", "int value should be between 1 and 100.")
        if not channel_accessible(world, channel_id, world.bot_user.id, history=True):
            return []
        told = [message for message in world.messages[channel_id].values() if not message.is_ephemeral]
        told.sort(key=lambda message: message.id)
        if "around" in call.query:
            pivot = int(call.query["around"])
            older = [message for message in told if message.id < pivot][-(limit // 2) :] if limit > 1 else []
            newer = [message for message in told if message.id >= pivot][: limit - len(older)]
            told = older + newer
        elif "after" in call.query:
            told = [message for message in told if message.id > int(call.query["after"])][:limit]
        elif "before" in call.query:
            told = [message for message in told if message.id < int(call.query["before"])][-limit:]
        else:
            told = told[-limit:]
        return [self._told(message) for message in reversed(told)]

    def _told(self, message: Message) -> dict[str, Any]:
        payload = self._world.raw(message, for_user=self._world.bot_user.id)
        if "message_content" not in self._server.gateway.approved:
            censor_message(payload, self._world.bot_user.id, backend=self._world)
        return payload

    def _send(self, call: Call, uploads: list[Upload], channel_id: int) -> Any:
        world, body = self._world, call.body if isinstance(call.body, dict) else {}
        channel = self._channel(channel_id)
        if channel.type == ChannelType.DM and set(channel.recipient_ids) & self._server.people.closed:
            raise BackendError(403, 50007, "Cannot send messages to this user")
        if channel.type == ChannelType.FORUM:
            raise BackendError(400, 50008, "Cannot send messages in a non-text channel")
        self._refuse_archived(channel, sending=True)
        if uploads and not world.may(channel, "attach_files"):
            raise missing_permissions()
        nonce = body.get("nonce")
        if nonce is not None and len(str(nonce)) > 25:
            raise invalid("nonce", "BASE_TYPE_MAX_LENGTH", "Must be 25 or fewer in length.")
        if nonce is not None and body.get("enforce_nonce") and (known := self._sent_before(str(nonce))):
            return {**world.raw(known), "nonce": nonce}
        self._refuse_message(body, uploads, None)
        self._refuse_reference(channel_id, body.get("message_reference"))
        world.wake(channel)
        world.pending_nonce = nonce
        try:
            payload = dict(self._dispatch(call, uploads))
        finally:
            world.pending_nonce = None
        if nonce is not None:
            world.nonces[int(payload["id"])] = str(nonce)
            self._nonces[world.bot_user.id, str(nonce)] = (time.monotonic(), channel_id, int(payload["id"]))
            payload["nonce"] = nonce
        return payload

    def _sent_before(self, nonce: str) -> Message | None:
        when, channel_id, message_id = self._nonces.get((self._world.bot_user.id, nonce), (0.0, 0, 0))
        if not channel_id or time.monotonic() - when > self._server.nonce_seconds:
            return None
        return self._world.messages.get(channel_id, {}).get(message_id)

    def _edit(self, call: Call, uploads: list[Upload], channel_id: int, message_id: int) -> Any:
        channel = self._channel(channel_id)
        message = self._world.messages.get(channel_id, {}).get(message_id)
        if message is None:
            raise unknown_message()
        if message.author_id != self._world.bot_user.id:
            raise BackendError(403, 50005, "Cannot edit a message authored by another user")
        self._refuse_archived(channel, sending=False)
        self._refuse_message(call.body if isinstance(call.body, dict) else {}, uploads, message)
        return self._dispatch(call, uploads)

    def _branch(self, call: Call, _: Any, channel_id: int, message_id: int) -> Any:
        world, channel = self._world, self._channel(channel_id)
        if channel.type not in (ChannelType.TEXT, ChannelType.NEWS):
            raise BackendError(400, 50024, "Cannot execute action on this channel type")
        for needed in ("create_public_threads", "read_message_history"):
            if not world.may(channel, needed):
                raise missing_permissions()
        message = world.messages[channel_id].get(message_id)
        if message is None:
            raise unknown_message()
        name = str(call.body.get("name", ""))
        if not 1 <= len(name) <= 100:
            raise invalid("name", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 100 in length.")
        after = int(call.body.get("auto_archive_duration") or 1440)
        if after not in (60, 1440, 4320, 10080):
            raise invalid("auto_archive_duration", "BASE_TYPE_CHOICES", "Value must be one of (60, 1440, 4320, 10080).")
        if message.type not in (0, 19, 20, 23):
            raise BackendError(403, 50021, "Cannot execute action on a system message")
        thread = world.branch(message, name, world.bot_user.id, after)
        return dict(serializers.thread_payload(world, thread))

    def _react(self, call: Call, uploads: list[Upload], channel_id: int, message_id: int) -> Any:
        self._refuse_archived(self._channel(channel_id), sending=False)
        message = self._world.messages[channel_id].get(message_id)
        emoji = call.path.split("/")[-2]
        if message is not None and re.fullmatch(r"[A-Za-z0-9_]*", emoji):
            raise BackendError(400, 10014, "Unknown Emoji")
        if message is not None and len(message.reactions) >= 20:
            raise BackendError(400, 30010, "Maximum number of reactions reached (20)")
        return self._dispatch(call, uploads)

    def _callback(self, call: Call, uploads: list[Upload]) -> Any:
        data = call.body.get("data") if isinstance(call.body, dict) else None
        if isinstance(data, dict) and call.body.get("type") in (4, 7):
            record = self._world.interactions.get(int(call.path.split("/")[2]))
            source = record.source_message_id if record is not None and call.body["type"] == 7 else None
            self._refuse_message(data, uploads, self._world.find(source) if source else None)
        payload = self._dispatch(call, uploads)
        return payload if call.query.get("with_response", "").lower() in ("1", "true") else None

    # refusals

    def _channel(self, channel_id: int) -> Channel:
        world = self._world
        channel = world.channels.get(channel_id)
        if channel is None:
            raise unknown_channel()
        world.require_permissions(channel.guild_id, world.bot_user.id, channel_id, "view_channel")
        return channel

    def _refuse_archived(self, channel: Channel, *, sending: bool) -> None:
        """A new message wakes an archived thread, unless it is locked; everything else is refused there."""
        state = channel.thread_metadata
        if state is None or self._world.may(channel, "manage_threads"):
            return
        if state.locked or (state.archived and not sending):
            raise BackendError(400, 50083, "Thread is archived")

    def _modify(self, call: Call, uploads: list[Upload], channel_id: int) -> Any:
        """A thread is woken by whoever may write in it, and put to sleep by who made it; the rest needs a right."""
        channel, wanted = self._channel(channel_id), call.body
        state = channel.thread_metadata
        if state is None or set(wanted) != {"archived"} or self._world.may(channel, "manage_threads"):
            return self._dispatch(call, uploads)
        mine = channel.owner_id == self._world.bot_user.id
        woken = not wanted["archived"] and self._world.may(channel, "send_messages_in_threads")
        if state.locked or not (mine or woken):
            raise BackendError(403, 50013, "Missing Permissions")
        self._world.edit_channel(channel_id, {}, thread_metadata=dict(wanted))
        return dict(serializers.channel_payload(self._world, self._channel(channel_id)))

    def _refuse_message(self, body: dict[str, Any], uploads: list[Upload], message: Message | None) -> None:
        content = body.get("content")
        if isinstance(content, str) and len(content) > _CONTENT:
            raise invalid("content", "BASE_TYPE_MAX_LENGTH", f"Must be {_CONTENT} or fewer in length.")
        if len(uploads) > _FILES or len(body.get("attachments") or ()) > _FILES:
            raise invalid("attachments", "BASE_TYPE_MAX_LENGTH", f"Must be {_FILES} or fewer in length.")
        if any(len(upload.fp.getvalue()) > self._server.max_file_size for upload in uploads):
            raise BackendError(413, 40005, "Request entity too large")
        forwards = isinstance(body.get("message_reference"), dict) and body["message_reference"].get("type") == 1

        text = body.get("content", message.content if message else "")
        if not (
            forwards
            or str(text or "").strip()
            or body.get("embeds", message.embeds if message else None)
            or body.get("components", message.components if message else None)
            or body.get("attachments", message.attachments if message else None)
            or body.get("sticker_ids", message.stickers if message else None)
            or body.get("poll", message.poll if message else None)
            or uploads
        ):
            raise BackendError(400, 50006, "Cannot send an empty message")

    def _refuse_reference(self, channel_id: int, reference: Any) -> None:
        if not isinstance(reference, dict) or reference.get("type", 0) != 0 or "message_id" not in reference:
            return
        target = self._world.messages[channel_id].get(int(reference["message_id"]))
        if target is None:
            if reference.get("fail_if_not_exists", True):
                raise invalid("message_reference", "REPLIES_UNKNOWN_MESSAGE", "Unknown message")
        elif not can_be_answered(target):
            code = "REPLIES_CANNOT_REPLY_TO_SYSTEM_MESSAGE"
            raise invalid("message_reference", code, "Cannot reply to a system message")


def _refusal(error: BackendError) -> dict[str, Any]:
    """A refusal as Discord words it. simcord puts the detail of 50035 behind a colon."""
    payload = error.to_json()
    head, _, detail = str(payload["message"]).partition(": ")
    if error.code == 50035 and detail and "errors" not in payload:
        field, _, reason = detail.partition(": ")
        name = re.split(r"[.\[]", field)[0] if reason else "_"
        payload["message"] = head
        payload["errors"] = {name or "_": {"_errors": [{"code": "INVALID", "message": detail}]}}
    return payload
