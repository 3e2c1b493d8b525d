"""The native API: /api/messages, /api/sessions, /api/actions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from aiohttp import web

from adapters.events import Action, EventKind, MessageEvent
from adapters.http.desk import OPEN_FATES, Desk, End, Pending, sender
from adapters.http.errors import bad, json_response, missing
from adapters.http.fields import flag_of, list_of, name_of, needed_text, read_object
from adapters.http.forms import message_event, principal, repeat_key
from adapters.http.images import save_images
from adapters.http.lines import MAIN, address_of, fresh_id, line_of, person_of, stable_id
from adapters.http.sse import HEARTBEAT, SseStream, has_left
from adapters.http.waits import Part
from adapters.ports import Answer, Conversations, Route

ACTION_SECONDS = 10.0
"""How long a press of a button is followed."""
DETACH_BEAT = 0.5
"""Seconds between two looks whether a client has left that wants its turn to end with it."""

_EVENTS = {"text": "delta", "reset": "reset", "tool": "tool", "status": "status", "approval": "approval"}


class NativeApi:
    """The handlers of /api."""

    def __init__(self, desk: Desk, conversations: Conversations, files: Path) -> None:
        self._desk = desk
        self._conversations = conversations
        self._files = files

    def routes(self) -> Sequence[Route]:
        """The route table."""
        return [
            Route(method="POST", path="/api/messages", handler=self.post_message),
            Route(method="GET", path="/api/messages/{id}", handler=self.get_message),
            Route(method="DELETE", path="/api/messages/{id}", handler=self.cancel_message),
            Route(method="GET", path="/api/sessions", handler=self.get_sessions),
            Route(method="GET", path="/api/sessions/{id}/messages", handler=self.get_transcript),
            Route(method="POST", path="/api/actions", handler=self.post_action),
        ]

    async def post_message(self, request: web.Request) -> web.StreamResponse:
        """Take a message; stream what becomes of it, wait for its end, or only accept it."""
        data = await read_object(request)
        wait, stream = flag_of(data, "wait", True), flag_of(data, "stream", True)
        detach = flag_of(data, "cancel_on_disconnect")
        event = await self._message(request, data)
        if not wait:
            known = await self._desk.once(event)
            return json_response(_accepted(event) if known is None else message_json(known), status=202)
        pending = await self._desk.begin(event)
        try:
            if stream:
                return await self._stream(request, pending, detach=detach)
            await self._desk.finish(pending, lambda: has_left(request), beat=DETACH_BEAT if detach else HEARTBEAT)
            if pending.end is End.GONE and detach:
                await self._desk.cancel(pending.event)
            return _outcome(pending)
        finally:
            self._desk.leave(pending)

    async def get_message(self, request: web.Request) -> web.StreamResponse:
        """The fate of a message and what was answered."""
        return json_response(message_json(await self._found(request)))

    async def cancel_message(self, request: web.Request) -> web.StreamResponse:
        """Take a message back: its turn ends if it still runs."""
        answer = await self._found(request)
        name = principal(request)
        event = message_event(name, answer.address, answer.message_id, "", self._desk.now(), commands=False)
        await self._desk.cancel(event)
        return json_response({"id": answer.message_id, "cancelling": answer.fate in OPEN_FATES}, status=202)

    async def get_sessions(self, request: web.Request) -> web.StreamResponse:
        """The sessions of the principal, newest first."""
        name = principal(request)
        found = await self._conversations.sessions(person_of(name))
        listed = []
        for session in found:
            line = None if session.address is None else line_of(session.address)
            listed.append(
                {
                    "id": session.session_id,
                    "session": line.rest if line is not None and line.kind == "s" and line.name == name else None,
                    "title": session.title,
                    "created_at": _text(session.created_at),
                }
            )
        return json_response({"sessions": listed})

    async def get_transcript(self, request: web.Request) -> web.StreamResponse:
        """What was said in a session, oldest first."""
        session_id = request.match_info["id"]
        spoken = await self._conversations.messages(person_of(principal(request)), session_id)
        if spoken is None:
            raise missing("session", session_id)
        listed = [{"role": m.role, "text": m.text, "created_at": _text(m.created_at)} for m in spoken]
        return json_response({"id": session_id, "messages": listed})

    async def post_action(self, request: web.Request) -> web.StreamResponse:
        """Press a button, for instance one that approves a command."""
        data = await read_object(request)
        button, value = needed_text(data, "button_id"), needed_text(data, "value")
        name = principal(request)
        address = address_of(name, "s", name_of(data, "session") or MAIN)
        asked_by = name_of(data, "message_id")
        if asked_by is not None:
            answer = await self._desk.find(name, asked_by)
            if answer is None:
                raise missing("message", asked_by)
            address = answer.address
        # the same press again is the same event: an approval is good for one run
        message_id = stable_id("act_", name, button, value)
        event = MessageEvent(
            dedup_id=f"{name}/a/{message_id}",
            kind=EventKind.ACTION,
            message_id=message_id,
            address=address,
            sender=sender(name),
            received_at=self._desk.now(),
            action=Action(button_id=button, value=value),
        )
        pending = await self._desk.begin(event)
        try:
            pending.deadline = min(pending.deadline, asyncio.get_running_loop().time() + ACTION_SECONDS)
            await self._desk.finish(pending, lambda: has_left(request))
            return _outcome(pending)
        finally:
            self._desk.leave(pending)

    async def _message(self, request: web.Request, data: dict[str, Any]) -> MessageEvent:
        name = principal(request)
        text = needed_text(data, "text")
        session = name_of(data, "session") or MAIN
        message_id = name_of(data, "id") or repeat_key(request) or fresh_id("m_")
        urls = []
        for number, url in enumerate(list_of(data, "images")):
            where = f"images[{number}]"
            if not isinstance(url, str):
                raise bad(where, f"{where} must be a data: URL.")
            urls.append((where, url))
        return message_event(
            name,
            address_of(name, "s", session),
            message_id,
            text,
            self._desk.now(),
            commands=True,
            attachments=await save_images(urls, self._files),
        )

    async def _found(self, request: web.Request) -> Answer:
        message_id = request.match_info["id"]
        answer = await self._desk.find(principal(request), message_id)
        if answer is None:
            raise missing("message", message_id)
        return answer

    async def _stream(self, request: web.Request, pending: Pending, *, detach: bool) -> web.StreamResponse:
        beat = DETACH_BEAT if detach else HEARTBEAT
        async with SseStream(request) as sse:
            await sse.send(_accepted(pending.event), "accepted")
            silent = 0.0
            while pending.end is None and not sse.gone:
                parts = await self._desk.step(pending, beat)
                silent = 0.0 if parts else silent + beat
                for part in parts:
                    await sse.send(_part_json(part, pending), _EVENTS.get(part.kind, "status"))
                if silent >= HEARTBEAT and pending.end is None:
                    silent = 0.0
                    await sse.beat()
            if pending.end is None:
                if detach:
                    await self._desk.cancel(pending.event)
                return sse.response
            if pending.answer is not None and pending.end is End.ANSWER:
                await sse.send(message_json(pending.answer), "answer")
            await sse.send(_end_json(pending), "end")
            return sse.response


def message_json(answer: Answer) -> dict[str, Any]:
    """What is known of a message."""
    line = line_of(answer.address)
    data: dict[str, Any] = {
        "id": answer.message_id,
        "session": line.rest if line.kind == "s" else None,
        "session_id": answer.session_id,
        "turn_id": answer.turn_id,
        "fate": answer.fate,
        "detail": answer.detail,
        "text": answer.text,
        "received_at": _text(answer.received_at),
    }
    if answer.fate not in OPEN_FATES:
        data["finish_reason"] = answer.finish_reason
        data["usage"] = {"input_tokens": answer.input_tokens, "output_tokens": answer.output_tokens}
    return data


def _accepted(event: MessageEvent) -> dict[str, Any]:
    line = line_of(event.address)
    session = line.rest if line.kind == "s" else None
    url = f"/api/messages/{quote(event.message_id, safe='')}"
    return {"id": event.message_id, "session": session, "fate": "waiting", "url": url}


def _part_json(part: Part, pending: Pending) -> dict[str, Any]:
    if part.kind == "approval":
        return {"message_id": pending.event.message_id, "text": part.text, **part.data}
    return {"text": part.text}


_OPEN_ENDS = {
    End.TIMEOUT: "the answer is not there yet; ask for it later",
    End.CLOSING: "the server is stopping; ask for the answer later",
    End.GONE: "the client has left",
}


def _end_json(pending: Pending) -> dict[str, Any]:
    if pending.end is End.ANSWER and pending.answer is not None:
        return {"id": pending.answer.message_id, "fate": pending.answer.fate, "detail": pending.answer.detail}
    detail = _OPEN_ENDS.get(pending.end or End.TIMEOUT, "")
    return {"id": pending.event.message_id, "fate": "running", "detail": detail}


def _outcome(pending: Pending) -> web.StreamResponse:
    """The end as one answer: 200 with the fate, 202 while it is open."""
    if pending.end is End.ANSWER and pending.answer is not None:
        return json_response(message_json(pending.answer))
    return json_response({**_accepted(pending.event), **_end_json(pending)}, status=202)


def _text(when: datetime) -> str:
    return when.isoformat(timespec="milliseconds")
