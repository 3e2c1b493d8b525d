"""Who may ask: Host and Origin against DNS rebinding, the bearer key, the stated length of the body."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from aiohttp import web

from adapters.http.auth import PRINCIPAL, KeyRing, is_loopback
from adapters.http.errors import HttpProblem

OPEN = frozenset({"/healthz", "/readyz"})
_PROXIED = ("X-Forwarded-For", "Forwarded", "X-Real-IP")


class OriginCheck:
    """Refuses a request whose Host is not a name of ours, or that comes from somebody else's web page.

    A page that has its own name resolve to our address reaches us with that name as Host, hence the list.
    """

    def __init__(self, bound: str, hosts: Sequence[str], origins: Sequence[str]) -> None:
        self._hosts = {bare_host(name) for name in ("localhost", "127.0.0.1", "::1", *hosts)}
        if bound not in ("0.0.0.0", "::", ""):
            self._hosts.add(bare_host(bound))
        self._origins = {origin.rstrip("/").lower() for origin in origins}

    def __call__(self, request: web.Request) -> None:
        """Raises `HttpProblem`."""
        named = request.headers.getall("Host", [])
        if len(named) != 1:
            raise HttpProblem(400, "The request needs exactly one Host header.", code="bad_host")
        host = bare_host(named[0])
        if host not in self._hosts and host != _own_address(request):
            raise HttpProblem(403, "This server does not answer to that Host.", code="bad_host")
        origin = request.headers.get("Origin")
        if origin is not None and not self._allowed(origin):
            raise HttpProblem(403, "This server takes no requests from that Origin.", code="bad_origin")

    def _allowed(self, origin: str) -> bool:
        if origin.rstrip("/").lower() in self._origins:
            return True
        try:
            return is_loopback(urlsplit(origin).hostname or "")
        except ValueError:
            return False


def bare_host(host: str) -> str:
    """A Host header's name: lower case, without port, brackets and a closing dot."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    if host.count(":") == 1:
        host = host.partition(":")[0]
    return host.rstrip(".")


def _own_address(request: web.Request) -> str | None:
    """The address that the client connected to: as a literal in Host it is no rebinding."""
    transport = request.transport
    name = None if transport is None else transport.get_extra_info("sockname")
    return str(name[0]).lower() if isinstance(name, tuple) else None


def authorize(request: web.Request, keys: KeyRing, *, loopback: bool) -> None:
    """Leave the principal with the request, or raise `HttpProblem`. `loopback`: where we are bound.

    The same answer for a path that exists and one that does not.
    """
    given = request.headers.getall("Authorization", [])
    principal = keys.principal(given[0]) if len(given) == 1 else None
    if principal is not None:
        request[PRINCIPAL] = principal
        return
    if request.path in OPEN:
        return
    if request.path == "/metrics" and loopback and _is_near(request):
        return
    raise HttpProblem(
        401,
        "A valid key is needed: send the header 'Authorization: Bearer KEY'.",
        code="invalid_api_key",
        headers={"WWW-Authenticate": "Bearer"},
    )


def _is_near(request: web.Request) -> bool:
    """True for a client on this machine that is no proxy for somebody else."""
    if any(header in request.headers for header in _PROXIED):
        return False
    return is_loopback(request.remote or "")


def check_length(request: web.Request, limit: int) -> None:
    """Refuse at once a body that says it is too large; the reading is bounded as well."""
    length = request.content_length
    if length is not None and length > limit:
        raise too_large(limit)


def too_large(limit: int) -> HttpProblem:
    """The body is larger than the limit."""
    return HttpProblem(413, f"The body is larger than {limit} bytes.", code="body_too_large")
