"""A scripted model behind an OpenAI-compatible endpoint on loopback (real sockets, no SDK involved).

In process::

    async with ModelServer() as server:                 # or ModelServer(latency=1.0, record=folder)
        server.script("hello", Step(text="two", chunks=5, delay=0.01))
        ...ModelSettings(base_url=server.url, api_key="k", name="scripted")...
        server.calls[0].body                            # the raw bytes of the first chat call
        await server.wait_calls(2)                      # until two calls have arrived (bounded)
        server.release()                                # lets a step with hold_after go on

As a process (the port is in FILE once it listens; SIGTERM ends it)::

    python -m tests.counterparts.model_server --port-file FILE [--port N] [--latency S] [--script FILE]
                                              [--record DIR]

`--script` is a JSON array of steps (`model_script.Step`; a bare string is a text). With `--record` each
chat call is written to DIR/00001.json … before it is answered. The same over HTTP:

    GET  /_calls            {"count": n, "sizes": [...]}
    GET  /_calls/{n}        the raw body of call n, counted from 1
    POST /_script           a JSON array of steps, added to those that wait
    POST /_latency          a number, in seconds
    POST /_release          lets every step with hold_after go on

Steps are used in order; when none is left (or none fits) the answer is an echo: `echo {n}: {text}` with the
number of the call and the text of the last user message. `/v1/models` lists one model, `scripted`.
`/v1/messages` answers from the same script in the dialect of Anthropic's API (base URL without `/v1`: `root`).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from aiohttp import web

from tests.counterparts import messages_script
from tests.counterparts.model_script import Step, default_usage, stream_events, whole_message


@dataclass(frozen=True, slots=True)
class Call:
    """A chat call as it arrived."""

    number: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """The body, parsed."""
        return json.loads(self.body)

    def messages(self) -> list[dict[str, Any]]:
        """The messages of the body."""
        found: list[dict[str, Any]] = self.json()["messages"]
        return found


def last_user_text(request: dict[str, Any]) -> str:
    """The text of the last user message; of its text parts where it has several parts."""
    for message in reversed(request.get("messages", [])):
        if message.get("role") == "user":
            content = message.get("content")
            if isinstance(content, str):
                return content
            return " ".join(part.get("text", "") for part in content or [] if part.get("type") == "text")
    return ""


class ModelServer:
    """The server; an async context manager. Without a script it echoes."""

    def __init__(self, *, latency: float = 0.0, record: Path | None = None, port: int = 0) -> None:
        self.latency = latency
        self.record = record
        self.calls: list[Call] = []
        self.aborted = 0
        """Streams whose client went away before the end."""
        self._steps: list[Step] = []
        self._arrived = asyncio.Condition()
        self._released = asyncio.Event()
        self._port = port
        self._runner: web.AppRunner | None = None

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._port

    @property
    def url(self) -> str:
        """The base URL for an OpenAI client."""
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def root(self) -> str:
        """The base URL for an Anthropic client."""
        return f"http://127.0.0.1:{self._port}"

    def script(self, *steps: Step | str) -> None:
        """Add steps behind those that wait."""
        self._steps.extend(Step(text=step) if isinstance(step, str) else step for step in steps)

    def release(self) -> None:
        """Let every step that holds go on (later ones hold again)."""
        self._released.set()
        self._released = asyncio.Event()

    async def wait_calls(self, count: int, timeout: float = 10.0) -> None:  # noqa: ASYNC109 - plain for tests
        """Return when `count` calls have arrived; TimeoutError after `timeout` seconds."""
        async with asyncio.timeout(timeout), self._arrived:
            await self._arrived.wait_for(lambda: len(self.calls) >= count)

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=64 * 2**20)
        app.add_routes(
            [
                web.post("/v1/chat/completions", self._chat),
                web.post("/v1/messages", self._messages),
                web.get("/v1/models", self._models),
                web.get("/_calls", self._list_calls),
                web.get("/_calls/{number}", self._one_call),
                web.post("/_script", self._take_script),
                web.post("/_latency", self._take_latency),
                web.post("/_release", self._take_release),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port, backlog=512)
        await site.start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    def _next_step(self, said: str) -> Step:
        fitting = [at for at, step in enumerate(self._steps) if step.when is not None and step.when in said]
        free = fitting or [at for at, step in enumerate(self._steps) if step.when is None]
        if not free:
            return Step(text=f"echo {{n}}: {said}", chunks=3)
        step = self._steps[free[0]]
        if step.times > 1:
            self._steps[free[0]] = replace(step, times=step.times - 1)
        else:
            del self._steps[free[0]]
        return step

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, messages=False)

    async def _messages(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, messages=True)

    async def _answer(self, request: web.Request, *, messages: bool) -> web.StreamResponse:
        body = await request.read()
        number = len(self.calls) + 1
        if self.record is not None:
            (self.record / f"{number:05}.json").write_bytes(body)
        self.calls.append(Call(number, dict(request.headers), body))
        async with self._arrived:
            self._arrived.notify_all()
        try:
            asked = json.loads(body)
        except ValueError:
            return web.json_response({"error": {"message": "body is not JSON"}}, status=400)
        step = self._next_step(last_user_text(asked))
        latency = self.latency if step.latency is None else step.latency
        if latency:
            await asyncio.sleep(latency)
        if step.silent:
            await asyncio.Event().wait()
        if step.status != 200:
            return _error(step)
        text = step.text.replace("{n}", str(number))
        if messages:
            usage = step.usage or messages_script.default_usage(body, text)
        else:
            usage = step.usage or default_usage(body, text)
        if asked.get("stream"):
            wanted = messages or (asked.get("stream_options") or {}).get("include_usage", False)
            make = messages_script.stream_events if messages else stream_events
            return await self._stream(request, step, make(step, text, number, usage if wanted else {}))
        if step.cut_after is not None:
            _abort(request)
        if step.malformed_after is not None:
            return web.Response(text='{"choices": [', content_type="application/json")
        whole = messages_script.whole_message if messages else whole_message
        return web.json_response(whole(step, text, number, usage))

    async def _stream(self, request: web.Request, step: Step, events: Iterator[str]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", **step.headers})
        await response.prepare(request)
        released = self._released
        try:
            for sent, event in enumerate(events):
                if sent == step.cut_after:
                    _abort(request)
                    return response
                if sent == step.malformed_after:
                    await response.write(event[: event.rfind("{") + 1].encode() + b'"con\n\n')
                if sent == step.hold_after:
                    await released.wait()
                if step.delay and sent:
                    await asyncio.sleep(step.delay)
                await response.write(event.encode())
        except (asyncio.CancelledError, ConnectionError):
            self.aborted += 1
            raise
        return response

    async def _models(self, _: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": "scripted", "object": "model"}]})

    async def _list_calls(self, _: web.Request) -> web.Response:
        return web.json_response({"count": len(self.calls), "sizes": [len(call.body) for call in self.calls]})

    async def _one_call(self, request: web.Request) -> web.Response:
        number = int(request.match_info["number"])
        if not 1 <= number <= len(self.calls):
            raise web.HTTPNotFound
        return web.Response(body=self.calls[number - 1].body, content_type="application/json")

    async def _take_script(self, request: web.Request) -> web.Response:
        self.script(*(Step.from_json(raw) for raw in await request.json()))
        return web.json_response({"waiting": len(self._steps)})

    async def _take_latency(self, request: web.Request) -> web.Response:
        self.latency = float(await request.json())
        return web.json_response({"latency": self.latency})

    async def _take_release(self, _: web.Request) -> web.Response:
        self.release()
        return web.json_response({})


def _error(step: Step) -> web.Response:
    error: Any = {"message": "scripted fault"} if step.error is None else step.error
    if isinstance(error, str):
        return web.Response(text=error, status=step.status, headers=step.headers)
    return web.json_response({"error": dict(error)}, status=step.status, headers=step.headers)


def _abort(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()


async def _serve(options: argparse.Namespace) -> None:
    if options.record is not None:
        options.record.mkdir(parents=True, exist_ok=True)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with ModelServer(latency=options.latency, record=options.record, port=options.port) as server:
        if options.script is not None:
            server.script(*(Step.from_json(raw) for raw in json.loads(options.script.read_text("utf-8"))))
        unfinished = options.port_file.with_name(options.port_file.name + ".new")
        unfinished.write_text(str(server.port), "ascii")
        os.replace(unfinished, options.port_file)
        await stop.wait()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it as a process."""
    parser = argparse.ArgumentParser(prog="model_server", description="A scripted OpenAI-compatible model.")
    parser.add_argument("--port-file", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency", type=float, default=0.0)
    parser.add_argument("--script", type=Path)
    parser.add_argument("--record", type=Path)
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(parser.parse_args(arguments)))


if __name__ == "__main__":
    main()
