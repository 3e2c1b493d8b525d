"""/v1/responses: one response a message, chained by `previous_response_id`."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aiohttp import web

from adapters.events import ChatAddress, MessageEvent
from adapters.http.desk import OPEN_FATES, Desk, End, Pending
from adapters.http.errors import HttpProblem, bad, json_response, missing
from adapters.http.fields import clean, flag_of, list_of, name_of, object_of, read_object, text_of
from adapters.http.forms import message_event, principal, repeat_key
from adapters.http.images import save_images
from adapters.http.lines import address_of, fresh_id, line_of, stable_id
from adapters.http.native import DETACH_BEAT
from adapters.http.openai_common import (
    Conversation,
    ModelNames,
    end_problem,
    fate_problem,
    read_conversation,
    refuse_unsupported,
)
from adapters.http.openai_events import ResponseEvents
from adapters.http.openai_shapes import response_json
from adapters.http.sse import HEARTBEAT, SseStream, has_left
from adapters.ports import Answer, Conversations, Route

CHAINS = 10_000
"""How many lines are remembered with their newest response. Of a line that is not known the chain goes on
in a fork, which is right as well and only costs a session."""


class ResponsesApi:
    """The handlers of /v1/responses."""

    def __init__(self, desk: Desk, conversations: Conversations, models: ModelNames, files: Path) -> None:
        self._desk = desk
        self._conversations = conversations
        self._models = models
        self._files = files
        self._newest: OrderedDict[str, str] = OrderedDict()

    def routes(self) -> Sequence[Route]:
        """The route table."""
        return [
            Route(method="POST", path="/v1/responses", handler=self.post_response),
            Route(method="GET", path="/v1/responses/{id}", handler=self.get_response),
            Route(method="POST", path="/v1/responses/{id}/cancel", handler=self.cancel_response),
        ]

    async def get_response(self, request: web.Request) -> web.StreamResponse:
        """A stored response of the principal, finished or not."""
        answer = await self._stored_response(principal(request), request.match_info["id"])
        return json_response(response_json(answer))

    async def cancel_response(self, request: web.Request) -> web.StreamResponse:
        """Take a response back: its turn ends if it still runs."""
        name = principal(request)
        answer = await self._stored_response(name, request.match_info["id"])
        if answer.fate in OPEN_FATES:
            event = message_event(name, answer.address, answer.message_id, "", self._desk.now(), commands=False)
            await self._desk.cancel(event)
        return json_response(response_json(answer))

    async def post_response(self, request: web.Request) -> web.StreamResponse:
        """A response: whole, streamed, or in the background."""
        data = await read_object(request)
        stream, background = flag_of(data, "stream"), flag_of(data, "background")
        detach = flag_of(data, "cancel_on_disconnect")
        if stream and background:
            raise bad("background", "background and stream cannot be combined here.")
        event = await self._event(request, data)
        if background:
            known = await self._desk.once(event)
            self._remember(event)
            return json_response(response_json(known or _not_yet(event)))
        pending = await self._desk.begin(event)
        try:
            self._remember(pending.event)
            if stream:
                return await self._stream(request, pending, detach=detach)
            await self._desk.finish(pending, lambda: has_left(request), beat=DETACH_BEAT if detach else HEARTBEAT)
            if pending.end is End.GONE and detach:
                await self._desk.cancel(pending.event)
            problem = end_problem(pending)
            if problem is not None:
                raise problem
            assert pending.answer is not None
            return json_response(response_json(pending.answer))
        finally:
            self._desk.leave(pending)

    async def _stored_response(self, name: str, response_id: str) -> Answer:
        answer = await self._desk.find(name, response_id)
        if answer is None or line_of(answer.address).kind != "r":
            raise missing("response", response_id)
        return answer

    async def _event(self, request: web.Request, data: dict[str, Any]) -> MessageEvent:
        refuse_unsupported(data)
        _check_text_format(data)
        name = principal(request)
        model = self._models.chosen(data)
        previous = name_of(data, "previous_response_id")
        instructions = text_of(data, "instructions")
        talk = _read_input(data)
        if previous is not None and talk.history:
            raise bad("input", "With previous_response_id the input may hold one user message only.")
        repeated = repeat_key(request)
        response_id = fresh_id("resp_") if repeated is None else stable_id("resp_", name, repeated)
        store = flag_of(data, "store", True)
        address = await self._address(name, response_id, previous, known=repeated is not None, store=store)
        told = "\n\n".join(text for text in (instructions, talk.instructions) if text) or None
        return message_event(
            name,
            address,
            response_id,
            talk.text,
            self._desk.now(),
            commands=False,
            attachments=await save_images(talk.images, self._files),
            history=talk.history,
            instructions=told,
            model=model,
            note={
                "previous": previous,
                "model": model,
                "instructions": instructions,
                "metadata": object_of(data, "metadata"),
                "store": store,
            },
        )

    async def _address(
        self, name: str, response_id: str, previous: str | None, *, known: bool, store: bool
    ) -> ChatAddress:
        """The line of a new response: a fresh one, the one before it, or a fork of that."""
        if known:
            before = await self._desk.find(name, response_id)
            if before is not None:
                return before.address  # a repeated request: its own line, whatever has happened since
        own = address_of(name, "r" if store else "u", response_id)
        if previous is None:
            return own
        answer = await self._stored_response(name, previous)
        if store and self._newest.get(answer.address.chat_id) == previous:
            return answer.address
        if not await self._conversations.fork(answer.address, previous, own):
            told = f"The response {previous!r} cannot be continued: it is not answered."
            raise HttpProblem(400, told, code="previous_response_not_answered", param="previous_response_id")
        return own

    def _remember(self, event: MessageEvent) -> None:
        chat = event.address.chat_id
        self._newest[chat] = event.message_id
        self._newest.move_to_end(chat)
        if len(self._newest) > CHAINS:
            self._newest.popitem(last=False)

    async def _stream(self, request: web.Request, pending: Pending, *, detach: bool) -> web.StreamResponse:
        beat = DETACH_BEAT if detach else HEARTBEAT
        events = ResponseEvents(_not_yet(pending.event))
        async with SseStream(request) as sse:
            await sse.raw(events.begin())
            silent = 0.0
            while pending.end is None and not sse.gone:
                parts = await self._desk.step(pending, beat)
                silent = 0.0 if parts else silent + beat
                content = b"".join(events.part(part) for part in parts)
                if content:
                    await sse.raw(content)
                if silent >= HEARTBEAT and pending.end is None:
                    silent = 0.0
                    await sse.beat()
            if pending.end is None:
                if detach:
                    await self._desk.cancel(pending.event)
                return sse.response
            problem = end_problem(pending)
            if pending.answer is None and problem is not None:
                await sse.raw(events.broken(problem))
            elif pending.answer is not None:
                await sse.raw(events.end(pending.answer, failed=fate_problem(pending.answer) is not None))
            return sse.response


def _read_input(data: dict[str, Any]) -> Conversation:
    given = data.get("input")
    if given is None:
        raise bad("input", "input is missing.")
    if isinstance(given, str):
        if not given.strip():
            raise bad("input", "input must not be empty.")
        return Conversation(text=clean(given), images=(), history=(), instructions=None)
    return read_conversation(list_of(data, "input"), "input")


def _check_text_format(data: dict[str, Any]) -> None:
    form = object_of(object_of(data, "text"), "format")
    if form.get("type", "text") != "text":
        raise HttpProblem(
            400, "text.format: only text is supported.", code="unsupported_parameter", param="text.format"
        )


def _not_yet(event: MessageEvent) -> Answer:
    """A message that has just been accepted."""
    return Answer(
        event_id=0,
        message_id=event.message_id,
        address=event.address,
        fate="waiting",
        detail="",
        text="",
        session_id=None,
        turn_id=None,
        received_at=event.received_at,
        platform_data=event.platform_data,
    )
