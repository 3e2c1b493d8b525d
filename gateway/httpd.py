"""The HTTP server: one listener for clients, health and metrics, and one of its own for webhooks.

It checks who asks (Host, Origin, bearer key), bounds what comes in (body, headers, connections, time) and
gives every error the same shape. What the paths mean is the business of their owners (`HasRoutes`).
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any

import structlog
from aiohttp import web

from adapters.http.auth import PRINCIPAL, KeyRing, is_loopback
from adapters.http.errors import HttpProblem, json_response
from adapters.http.settings import HttpSettings
from adapters.ports import Handler, Route
from gateway.health import Health
from gateway.httpd_checks import OriginCheck, authorize, check_length, too_large
from gateway.httpd_site import BoundedSite
from gateway.metrics import CONTENT_TYPE, Metrics

log = structlog.get_logger("gateway.httpd")

CLOSE_SECONDS = 3.0
"""How long requests may still take when the server closes, after those who wait were told."""
ANY = "/{tail}"
HOOK = web.RequestKey("hook", str)
QUIET = frozenset({"/healthz", "/readyz", "/metrics"})


class HttpdError(Exception):
    """The server cannot start as it is configured. The message names the address and the cause."""


class HttpServer:
    """Both listeners. Serves between `async with`; closing tells those who wait, then waits a little.

    `routes` are those of every enabled adapter, asked for once; `closers` are called before the close
    (`HearsClosing`). `keys` is `settings.ring()`; without any only `/healthz` and `/readyz` answer, and
    `/metrics` on loopback.
    """

    def __init__(
        self,
        settings: HttpSettings,
        *,
        keys: KeyRing,
        health: Health,
        metrics: Metrics,
        routes: Sequence[Route] = (),
        closers: Sequence[Callable[[], None]] = (),
        inherited: dict[str, socket.socket] | None = None,
    ) -> None:
        """`inherited` are sockets that listen already, by the address that they were configured for (`listening`);
        those that are used are taken out of it."""
        self._settings = settings
        self._keys = keys
        self._health = health
        self._metrics = metrics
        self._routes = tuple(route for route in routes if not route.public)
        self._public = tuple(route for route in routes if route.public)
        self._published: dict[str, dict[str, Handler]] = {}
        self._closers = tuple(closers)
        self._stack = AsyncExitStack()
        self._main: BoundedSite | None = None
        self._webhook: BoundedSite | None = None
        self._inherited = {} if inherited is None else inherited
        self._leaving = asyncio.Event()

    @property
    def address(self) -> tuple[str, int]:
        """Where the main listener is bound; the port that was taken where 0 was asked for."""
        return self._settings.host, self._settings.port if self._main is None else self._main.port

    @property
    def webhook_address(self) -> tuple[str, int] | None:
        """Where the webhook listener is bound; None where no platform needs one."""
        return None if self._webhook is None else (self._settings.webhook_host, self._webhook.port)

    async def __aenter__(self) -> HttpServer:
        """Start listening. Raises `HttpdError`."""
        async with AsyncExitStack() as stack:
            settings = self._settings
            self._main = await self._listen(stack, settings.host, settings.port, self._main_app())
            await self.listen_for(self._public, stack)
            self.publish(self._public)
            self._stack = stack.pop_all()
        log.info("http.listening", address=self.address, webhook=self.webhook_address)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        for tell in self._closers:
            tell()
        await self._stack.aclose()

    def listening(self) -> dict[str, int]:
        """The listening sockets by the address that they were configured for."""
        settings = self._settings
        found = {} if self._main is None else {f"{settings.host}:{settings.port}": self._main.descriptor}
        if self._webhook is not None:
            found[f"{settings.webhook_host}:{settings.webhook_port}"] = self._webhook.descriptor
        return found

    @property
    def connections(self) -> int:
        """How many connections both listeners have."""
        return sum(site.connections for site in (self._main, self._webhook) if site is not None)

    def leave(self) -> None:
        """Another process listens from now on: no new connections, and those that there are end with their next
        answer, so that their clients connect to the other one."""
        self._leaving.set()
        for site in (self._main, self._webhook):
            if site is not None:
                site.leave()

    async def listen_for(self, public: Sequence[Route], stack: AsyncExitStack | None = None) -> None:
        """Open the webhook listener where these need it and it is not open. Raises `HttpdError`."""
        settings = self._settings
        if not public or self._webhook is not None:
            return
        if settings.webhook_port is None:
            raise HttpdError(f"the webhook {public[0].path} needs webhook_port to be set")
        app = self._app(_webhook_gate, "webhook", [Route(method="*", path="/{tail:.*}", handler=self._hook)])
        self._webhook = await self._listen(stack or self._stack, settings.webhook_host, settings.webhook_port, app)

    def publish(self, public: Sequence[Route]) -> None:
        """Serve exactly these on the webhook listener from now on (a platform has come, gone or changed)."""
        table: dict[str, dict[str, Handler]] = {}
        for route in public:
            table.setdefault(route.path, {})[route.method] = route.handler
        self._published = table

    async def _hook(self, request: web.Request) -> web.StreamResponse:
        methods = self._published.get(request.path)
        if methods is None:
            raise web.HTTPNotFound
        request[HOOK] = request.path
        handler = methods.get(request.method)
        if handler is None:
            raise web.HTTPMethodNotAllowed(request.method, methods)
        return await handler(request)

    def _main_app(self) -> web.Application:
        settings = self._settings
        own = [
            Route(method="GET", path="/healthz", handler=self._get_health),
            Route(method="GET", path="/readyz", handler=self._get_ready),
            Route(method="GET", path="/metrics", handler=self._get_metrics),
        ]
        check = OriginCheck(settings.host, settings.allowed_hosts, settings.allowed_origins)
        loopback = is_loopback(settings.host)

        def gate(request: web.Request) -> None:
            check(request)
            authorize(request, self._keys, loopback=loopback)

        return self._app(gate, "main", [*own, *self._routes])

    def _app(self, gate: Callable[[web.Request], None], listener: str, routes: Sequence[Route]) -> web.Application:
        app = web.Application(
            client_max_size=self._settings.max_body,
            middlewares=[_Border(gate, listener, self._settings.max_body, self._metrics, self._leaving).middleware()],
        )
        for route in routes:
            app.router.add_route(route.method, route.path, route.handler)
        return app

    async def _listen(self, stack: AsyncExitStack, host: str, port: int, app: web.Application) -> BoundedSite:
        runner = web.AppRunner(app, shutdown_timeout=CLOSE_SECONDS)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        inherited = self._inherited.pop(f"{host}:{port}", None)
        site = BoundedSite(runner, host, port, self._settings.max_connections, inherited)
        try:
            await site.start()
        except OSError as exc:
            raise HttpdError(f"cannot listen on {host}:{port}: {_cause(exc)}") from exc
        return site

    async def _get_health(self, _request: web.Request) -> web.StreamResponse:
        healthy, body = self._health.live()
        return json_response(body, status=200 if healthy else 503)

    async def _get_ready(self, _request: web.Request) -> web.StreamResponse:
        ready, body = self._health.ready()
        return json_response(body, status=200 if ready else 503)

    async def _get_metrics(self, _request: web.Request) -> web.StreamResponse:
        body = await asyncio.to_thread(self._metrics.render)  # it reads /proc
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})


class _Border:
    """What every request of a listener passes: the gate, the bounds, the shape of errors, the log."""

    def __init__(
        self,
        gate: Callable[[web.Request], None],
        listener: str,
        max_body: int,
        metrics: Metrics,
        leaving: asyncio.Event,
    ) -> None:
        self._leaving = leaving
        self._gate = gate
        self._listener = listener
        self._max_body = max_body
        self._metrics = metrics

    def middleware(self) -> Any:
        """As aiohttp wants it."""

        @web.middleware
        async def border(request: web.Request, handler: Handler) -> web.StreamResponse:
            began = asyncio.get_running_loop().time()
            status = 499  # the client went away, or the server closes
            try:
                response = await self._answer(request, handler)
                status = response.status
                if self._leaving.is_set() and not response.prepared:
                    response.force_close()
                return response
            finally:
                self._told(request, status, asyncio.get_running_loop().time() - began)

        return border

    async def _answer(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        try:
            self._gate(request)
            check_length(request, self._max_body)
            return await handler(request)
        except HttpProblem as problem:
            return problem.response()
        except web.HTTPRequestEntityTooLarge:
            return too_large(self._max_body).response()
        except web.HTTPException as exc:
            allow = {"Allow": exc.headers["Allow"]} if "Allow" in exc.headers else None
            message = {404: "There is no such path.", 405: "This path does not take that method."}
            return HttpProblem(exc.status, message.get(exc.status, exc.reason), headers=allow).response()
        except ConnectionError:
            raise  # the client has gone; aiohttp closes what is left
        except Exception:
            # a boundary: one request's defect is logged, and told neither as HTML nor in detail
            log.exception("http.defect", route=_route(request))
            if request.writer.output_size > 0:
                raise ConnectionError("the answer had begun already") from None
            return HttpProblem(500, "The server failed on this request; its log says why.").response()

    def _told(self, request: web.Request, status: int, seconds: float) -> None:
        self._metrics.http_request(self._listener, status)
        route = _route(request)
        write = log.debug if route in QUIET and status < 500 else log.info
        write(
            "http.request",
            listener=self._listener,
            method=request.method,
            route=route,
            status=status,
            seconds=round(seconds, 4),
            principal=request.get(PRINCIPAL),
            peer=request.remote,
        )


def _webhook_gate(_request: web.Request) -> None:
    """Webhooks come from everywhere under the public name; their handlers check the signature."""


def _route(request: web.Request) -> str:
    """The path as it was declared: a path that a client made up may hold anything, a key for instance."""
    hook: str | None = request.get(HOOK)
    if hook is not None:
        return hook
    resource = request.match_info.route.resource
    return "unknown" if resource is None or resource.canonical == ANY else resource.canonical


def _cause(exc: OSError) -> str:
    if exc.errno == errno.EADDRINUSE:
        return "the port is already in use (is another tidings running, or another program?)"
    if exc.errno == errno.EACCES:
        return "this user may not use that port"
    if exc.errno == errno.EADDRNOTAVAIL:
        return "this machine has no such address"
    return exc.strerror or str(exc)
