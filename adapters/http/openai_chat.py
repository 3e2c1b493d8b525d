"""/v1/chat/completions and /v1/models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aiohttp import web

from adapters.events import MessageEvent
from adapters.http.desk import Desk, End, Pending
from adapters.http.errors import bad, json_response
from adapters.http.fields import checked_name, flag_of, list_of, name_of, object_of, read_object
from adapters.http.forms import message_event, principal, repeat_key
from adapters.http.images import save_images
from adapters.http.lines import address_of, fresh_id, stable_id
from adapters.http.native import DETACH_BEAT
from adapters.http.openai_common import (
    DEFAULT_MODEL,
    ModelNames,
    end_problem,
    finish_reason,
    no_model,
    read_conversation,
    refuse_unsupported,
)
from adapters.http.openai_stream import OneWay
from adapters.http.sse import HEARTBEAT, SseStream, frame, has_left
from adapters.ports import Answer, Route

SESSION_HEADER = "X-Tidings-Session"
"""Names the session of a request; without it (or `metadata.session`) the request stands alone."""


class ChatApi:
    """The handlers."""

    def __init__(self, desk: Desk, models: ModelNames, files: Path) -> None:
        self._desk = desk
        self._models = models
        self._files = files
        self._created = int(desk.now().timestamp())

    def routes(self) -> Sequence[Route]:
        """The route table."""
        return [
            Route(method="POST", path="/v1/chat/completions", handler=self.post_completion),
            Route(method="GET", path="/v1/models", handler=self.get_models),
            Route(method="GET", path="/v1/models/{id}", handler=self.get_model),
        ]

    async def get_models(self, _request: web.Request) -> web.StreamResponse:
        """The models that can be named."""
        return json_response({"object": "list", "data": [self._model(name) for name in self._models.listed()]})

    async def get_model(self, request: web.Request) -> web.StreamResponse:
        """One of them."""
        name = request.match_info["id"]
        if name not in self._models.listed():
            raise no_model(name)
        return json_response(self._model(name))

    async def post_completion(self, request: web.Request) -> web.StreamResponse:
        """A completion, whole or streamed."""
        data = await read_object(request)
        stream, detach = flag_of(data, "stream"), flag_of(data, "cancel_on_disconnect")
        with_usage = flag_of(object_of(data, "stream_options"), "include_usage")
        event = await self._event(request, data)
        pending = await self._desk.begin(event)
        try:
            if stream:
                return await self._stream(request, pending, with_usage=with_usage, detach=detach)
            await self._desk.finish(pending, lambda: has_left(request), beat=DETACH_BEAT if detach else HEARTBEAT)
            if pending.end is End.GONE and detach:
                await self._desk.cancel(pending.event)
            problem = end_problem(pending)
            if problem is not None:
                raise problem
            assert pending.answer is not None
            return json_response(self._completion(pending.event, pending.answer))
        finally:
            self._desk.leave(pending)

    async def _event(self, request: web.Request, data: dict[str, Any]) -> MessageEvent:
        refuse_unsupported(data)
        if "audio" in list_of(data, "modalities"):
            raise bad("modalities", "modalities: only text is supported.")
        name = principal(request)
        model = self._models.chosen(data)
        if data.get("messages") is None:
            raise bad("messages", "messages is missing.")
        talk = read_conversation(list_of(data, "messages"), "messages")
        session = _session(request, data)
        repeated = repeat_key(request)
        message_id = fresh_id("chatcmpl-") if repeated is None else stable_id("chatcmpl-", name, repeated)
        stateless = session is None
        return message_event(
            name,
            address_of(name, "m", message_id) if session is None else address_of(name, "s", session),
            message_id,
            talk.text,
            self._desk.now(),
            commands=not stateless,
            attachments=await save_images(talk.images, self._files),
            history=talk.history if stateless else (),
            instructions=talk.instructions if stateless else None,
            model=model,
        )

    async def _stream(
        self, request: web.Request, pending: Pending, *, with_usage: bool, detach: bool
    ) -> web.StreamResponse:
        beat = DETACH_BEAT if detach else HEARTBEAT
        one_way = OneWay()
        async with SseStream(request) as sse:
            await sse.send(self._chunk(pending.event, {"role": "assistant", "content": ""}))
            silent = 0.0
            while pending.end is None and not sse.gone:
                parts = await self._desk.step(pending, beat)
                silent = 0.0 if parts else silent + beat
                for part in parts:
                    if part.kind == "reset":
                        one_way.reset()
                    text = one_way.live(part.text) if part.kind == "text" else ""
                    if text:
                        await sse.send(self._chunk(pending.event, {"content": text}))
                if silent >= HEARTBEAT and pending.end is None:
                    silent = 0.0
                    await sse.beat()
            if pending.end is None:
                if detach:
                    await self._desk.cancel(pending.event)
                return sse.response
            await sse.raw(self._tail(pending, one_way, with_usage=with_usage))
            return sse.response

    def _tail(self, pending: Pending, one_way: OneWay, *, with_usage: bool) -> bytes:
        """The end of a stream, in one write."""
        problem = end_problem(pending)
        if problem is not None:
            return frame(problem.body()) + frame("[DONE]")
        answer = pending.answer
        assert answer is not None
        out = []
        rest = one_way.rest(answer.text)
        if rest:
            out.append(frame(self._chunk(pending.event, {"content": rest})))
        out.append(frame(self._chunk(pending.event, {}, finish=finish_reason(answer))))
        if with_usage:
            last = {**self._chunk(pending.event, {}), "choices": [], "usage": _usage(answer)}
            out.append(frame(last))
        out.append(frame("[DONE]"))
        return b"".join(out)

    def _chunk(self, event: MessageEvent, delta: dict[str, str], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return {**self._head(event, "chat.completion.chunk"), "choices": [choice]}

    def _completion(self, event: MessageEvent, answer: Answer) -> dict[str, Any]:
        message = {"role": "assistant", "content": answer.text, "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason(answer)}
        return {**self._head(event, "chat.completion"), "choices": [choice], "usage": _usage(answer)}

    def _head(self, event: MessageEvent, kind: str) -> dict[str, Any]:
        return {
            "id": event.message_id,
            "object": kind,
            "created": int(event.received_at.timestamp()),
            "model": event.model or DEFAULT_MODEL,
        }

    def _model(self, name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": self._created, "owned_by": "tidings"}


def _session(request: web.Request, data: dict[str, Any]) -> str | None:
    named = request.headers.get(SESSION_HEADER)
    if named is not None:
        return checked_name(named, SESSION_HEADER)
    return name_of(object_of(data, "metadata"), "session", path="metadata.")


def _usage(answer: Answer) -> dict[str, int]:
    spent, made = answer.input_tokens, answer.output_tokens
    return {"prompt_tokens": spent, "completion_tokens": made, "total_tokens": spent + made}
