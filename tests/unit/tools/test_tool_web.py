"""Web fetch against real loopback servers, and the addresses that must stay out of reach."""

from __future__ import annotations

import asyncio
import gzip
import socket
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from agent_core.tools import addresses
from agent_core.tools.addresses import AddressRefused, Gate, Resolver, is_own, refusal
from agent_core.tools.html_text import readable
from agent_core.tools.ports import ToolContext, ToolResult
from agent_core.tools.settings import WebSettings
from agent_core.tools.web_fetch import FetchRefused, WebFetch, unpack

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[tuple[int, list[web.Request]]]:
    """A loopback server; gives its port and the requests that reached it."""
    seen: list[web.Request] = []

    async def note(request: web.BaseRequest) -> web.StreamResponse:
        assert isinstance(request, web.BaseRequest)
        seen.append(request)  # type: ignore[arg-type]
        return await handler(request)  # type: ignore[arg-type]

    runner = web.ServerRunner(web.Server(note), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield runner.addresses[0][1], seen
    finally:
        await runner.cleanup()


def text(body: str | bytes, kind: str = "text/plain", **headers: str) -> Handler:
    """Answers always this."""

    async def handler(_: web.Request) -> web.StreamResponse:
        data = body.encode() if isinstance(body, str) else body
        return web.Response(body=data, headers={"Content-Type": kind, **headers} if kind else headers)

    return handler


async def fetch(context: ToolContext, url: str, *ports: int, start: int = 0, **settings: Any) -> ToolResult:
    allow = frozenset(f"127.0.0.1:{port}" for port in ports)
    settings = {"seconds": 5.0, "max_bytes": 50_000, **settings}
    return await WebFetch(WebSettings(allow=allow, **settings)).run({"url": url, "start": start}, context)


async def test_a_page_becomes_text(context: ToolContext) -> None:
    page = (
        "<!doctype html><html><head><title>A &amp; B</title><style>x{}</style></head><body><script>var evil</script>"
        "<h1>Head</h1><p>One  <b>bold</b><br>two</p><ul><li>x<li>y</ul><a href='/more?a=1'>more</a>"
        "<pre>a\n  b</pre><table><tr><td>1</td><td>2</td></tr></table></body></html>"
    )
    async with serving(text(page, "text/html; charset=utf-8")) as (port, seen):
        result = await fetch(context, f"http://127.0.0.1:{port}/page#part", port)
    assert result.ok
    for part in ("Title: A & B", "# Head", "One bold\ntwo", "- x\n", f"more <http://127.0.0.1:{port}/more?a=1>"):
        assert part in result.content
    assert "a\n  b" in result.content
    assert "1\t2" in result.content
    assert "evil" not in result.content
    assert "not instruction" in result.content
    assert "Cookie" not in seen[0].headers
    assert "Authorization" not in seen[0].headers
    assert seen[0].path_qs == "/page"


@pytest.mark.parametrize(
    ("body", "kind", "expected"),
    [
        ("caf\u00e9".encode("latin-1"), "text/plain; charset=iso-8859-1", "caf\u00e9"),
        ("<meta charset=windows-1251><p>\u043c\u0438\u0440".encode("cp1251"), "text/html", "\u043c\u0438\u0440"),
        ("\u65e5\u672c".encode("utf-16"), "text/plain", "\u65e5\u672c"),
        (b"ok \xff", "text/plain; charset=no-such-set", "ok \ufffd"),
        (b"ok", "text/plain; charset=base64", "ok"),
        (b"ok", "text/plain; charset=punycode", "ok"),
        (b'{"a":[1,"\\ud800"]}', "application/json", '{\n "a": [\n  1,\n  "?"\n ]\n}'),
        (b"<a/>", "application/atom+xml", "<a/>"),
    ],
)
async def test_charsets_and_kinds(context: ToolContext, body: bytes, kind: str, expected: str) -> None:
    async with serving(text(body, kind)) as (port, _):
        result = await fetch(context, f"http://127.0.0.1:{port}/", port)
    assert result.ok, result.content
    assert result.content.endswith(expected)
    result.content.encode("utf-8")


async def test_without_a_content_type_the_bytes_decide(context: ToolContext) -> None:
    body = b""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + body)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        body = b" <p>plain"
        assert (await fetch(context, f"http://127.0.0.1:{port}/", port)).content.endswith("\nplain")
        body = b"\x7fELF\0\0"
        assert "the content is no text" in (await fetch(context, f"http://127.0.0.1:{port}/", port)).content
    finally:
        server.close()
        await server.wait_closed()


async def test_what_is_no_text_is_refused(context: ToolContext) -> None:
    for kind in ("image/png", "application/octet-stream", "application/pdf"):
        async with serving(text(b"\x89PNG", kind)) as (port, _):
            result = await fetch(context, f"http://127.0.0.1:{port}/", port)
        assert not result.ok
        assert f"the content is {kind}" in result.content


async def test_an_error_page_is_told_with_its_status(context: ToolContext) -> None:
    async def handler(_: web.Request) -> web.StreamResponse:
        return web.Response(status=404, text="nothing here")

    async with serving(handler) as (port, _):
        result = await fetch(context, f"http://127.0.0.1:{port}/", port)
    assert not result.ok
    assert "Status: 404" in result.content
    assert "nothing here" in result.content


async def test_a_long_text_comes_in_parts(context: ToolContext) -> None:
    async with serving(text("0123456789" * 100)) as (port, _):
        result = await fetch(context, f"http://127.0.0.1:{port}/", port, start=5, result_chars=10)
    assert "Characters 5 to 15 of 1,000" in result.content
    assert result.content.endswith("\n5678901234")


async def test_size_is_bounded(context: ToolContext) -> None:
    sent = 0

    async def endless(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        answer = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await answer.prepare(request)
        try:
            while sent < 50_000_000:
                await answer.write(b"x" * 10_000)
                sent += 10_000
        except ConnectionError:
            pass
        return answer

    async with serving(endless) as (port, _):
        result = await fetch(context, f"http://127.0.0.1:{port}/", port, result_chars=100)
    assert "larger than 50,000 bytes" in result.content
    assert sent < 20_000_000


async def test_a_bomb_is_bounded(context: ToolContext) -> None:
    bomb = gzip.compress(b"0" * 30_000_000)
    assert len(bomb) < 50_000
    async with serving(text(bomb, **{"Content-Encoding": "gzip"})) as (port, _):
        result = await fetch(context, f"http://127.0.0.1:{port}/", port, result_chars=100)
    assert "larger than 50,000 bytes" in result.content
    assert "of 50,000" in result.content


@pytest.mark.parametrize("packing", ["gzip", "deflate", "identity"])
async def test_packed_pages(context: ToolContext, packing: str) -> None:
    body = {"gzip": gzip.compress(b"hello"), "deflate": zlib.compress(b"hello"), "identity": b"hello"}[packing]
    async with serving(text(body, **{"Content-Encoding": packing})) as (port, _):
        assert (await fetch(context, f"http://127.0.0.1:{port}/", port)).content.endswith("hello")
        damaged = unpack(body[:3], packing, 100)[0] if packing == "identity" else b""
    assert damaged in {b"", b"hel"}


def test_damaged_and_unknown_packing() -> None:
    with pytest.raises(FetchRefused, match="damaged"):
        unpack(b"no gzip at all", "gzip", 100)
    bare = zlib.compressobj(wbits=-15)
    assert unpack(bare.compress(b"bare") + bare.flush(), "deflate", 100) == (b"bare", False)


async def test_an_unasked_packing_is_refused(context: ToolContext) -> None:
    async with serving(text(b"x", **{"Content-Encoding": "br"})) as (port, _):
        assert "was not asked for (br)" in (await fetch(context, f"http://127.0.0.1:{port}/", port)).content


async def test_time_is_bounded(context: ToolContext) -> None:
    async def drip(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await answer.prepare(request)
        try:
            while True:
                await answer.write(b"x")
                await asyncio.sleep(0.02)
        except ConnectionError:
            return answer

    async with serving(drip) as (port, _):
        before = time.monotonic()
        result = await fetch(context, f"http://127.0.0.1:{port}/", port, seconds=0.3)
    assert time.monotonic() - before < 2
    assert "within 0.3 s" in result.content


async def test_redirects_are_followed_up_to_a_bound(context: ToolContext) -> None:
    async def hop(request: web.Request) -> web.StreamResponse:
        left = int(request.path.strip("/"))
        if not left:
            return web.Response(text="arrived")
        answer = web.Response(status=302, headers={"Location": f"/{left - 1}"})
        answer.set_cookie("id", "1")
        return answer

    async with serving(hop) as (port, seen):
        assert (await fetch(context, f"http://127.0.0.1:{port}/5", port)).content.endswith("arrived")
        assert not any("Cookie" in request.headers for request in seen)
        result = await fetch(context, f"http://127.0.0.1:{port}/6", port)
    assert not result.ok
    assert "more than 5 redirects" in result.content


async def test_every_redirect_is_checked(context: ToolContext) -> None:
    async with serving(text("the secret of the inside")) as (inside, reached):
        for target, why in (
            (f"http://127.0.0.1:{inside}/", "not public"),
            (f"http://localhost:{inside}/", "not public"),
            (f"http://[::ffff:127.0.0.1]:{inside}/", "not public"),
            ("http://169.254.169.254/latest/meta-data/", "a metadata service"),
            ("file:///etc/passwd", "only http and https"),
            ("ftp://example.org/", "only http and https"),
            (f"http://me:word@127.0.0.1:{inside}/", "user name"),
        ):

            async def redirect(_: web.Request, target: str = target) -> web.StreamResponse:
                return web.Response(status=307, headers={"Location": target})

            async with serving(redirect) as (port, _):
                result = await fetch(context, f"http://127.0.0.1:{port}/", port)
            assert not result.ok, target
            assert why in result.content, target
        assert reached == []


LOOPBACK_FORMS = [
    "127.0.0.1",
    "127.1",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "0177.0.0.1",
    "017700000001",
    "0",
    "0.0.0.0",
    "127.255.255.254",
    "localhost",
    "LOCALHOST.",
    "[::1]",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[0:0:0:0:0:ffff:127.0.0.1]",
    "[::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
    "１２７.0.0.1",
    "127。0。0。1",
]


@pytest.mark.parametrize("host", LOOPBACK_FORMS)
async def test_no_notation_reaches_loopback(context: ToolContext, host: str) -> None:
    async with serving(text("the secret of the inside")) as (port, reached):
        result = await fetch(context, f"http://{host}:{port}/", seconds=3.0)
    assert not result.ok
    assert reached == []


@pytest.mark.parametrize(
    "address",
    [
        "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "100.100.100.200", "169.254.1.1", "169.254.169.254",
        "168.63.129.16", "192.0.0.192", "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1",
        "239.1.1.1",
        "240.0.0.1", "255.255.255.255", "0.0.0.0", "0.1.2.3", "127.0.0.1", "192.88.99.1", "::", "::1", "::ffff:8.8.8.8",
        "::ffff:10.0.0.1", "::8.8.8.8", "64:ff9b::808:808", "64:ff9b:1::1", "100::1", "2001::1", "2001:0:4136:e378::1",
        "2001:db8::1", "2002:808:808::1", "3fff::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%lo",
        "fec0::1", "ff02::1", "2606:4700::5efe:7f00:1", "2606:4700::200:5efe:7f00:1",
        "0177.0.0.1", "127.1", "2130706433", "0x7f000001", "", "localhost", " 8.8.8.8",
    ],
)  # fmt: skip
def test_refused_addresses(address: str) -> None:
    assert refusal(address)
    with pytest.raises(AddressRefused):
        Gate(frozenset()).check(address, 80)


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "2a00:1450::1"])
def test_public_addresses_pass(address: str) -> None:
    assert refusal(address) is None
    Gate(frozenset()).check(address, 443)


def test_this_machine_is_not_public_to_itself() -> None:
    assert is_own("127.0.0.1")
    assert not is_own("8.8.8.8")


def test_the_allow_list_is_exact() -> None:
    gate = Gate(frozenset({"127.0.0.1:8080", "[::1]:9"}))
    gate.check("127.0.0.1", 8080)
    gate.check("::1", 9)
    for address, port in (("127.0.0.1", 8081), ("127.0.0.2", 8080), ("::1", 8080)):
        with pytest.raises(AddressRefused):
            gate.check(address, port)


async def test_a_name_that_changes_its_address_is_caught_on_the_connection(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rebinding: the name looked public when it was resolved, the connection goes to loopback."""

    async def lying(self: Resolver, host: str, port: int = 0, family: Any = 0) -> list[Any]:
        return [{"hostname": host, "host": "127.0.0.1", "port": port, "family": socket.AF_INET, "proto": 6, "flags": 0}]

    monkeypatch.setattr(addresses.Resolver, "resolve", lying)
    async with serving(text("the secret of the inside")) as (port, reached):
        result = await fetch(context, f"http://public.example:{port}/")
    assert "the address 127.0.0.1 is not public" in result.content
    assert reached == []


async def test_of_several_addresses_only_public_ones_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.1", 80)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.216.34", 80)),
    ]

    async def getaddrinfo(*_: Any, **__: Any) -> list[Any]:
        return answers

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
    resolver = Resolver(Gate(frozenset()), 1.0)
    assert [one["host"] for one in await resolver.resolve("name", 80)] == ["93.184.216.34"]
    del answers[1]
    with pytest.raises(AddressRefused, match=r"10\.0\.0\.1"):
        await resolver.resolve("name", 80)


async def test_a_name_server_that_hangs_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(*_: Any, **__: Any) -> list[Any]:
        await asyncio.sleep(60)
        return []

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", hang)
    with pytest.raises(OSError, match="not resolved in time"):
        await Resolver(Gate(frozenset()), 0.02).resolve("name", 80)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("file:///etc/passwd", "only http and https"),
        ("gopher://example.org/", "only http and https"),
        ("data:text/plain,x", "only http and https"),
        ("/etc/passwd", "only http and https"),
        ("http://", "only http and https|not a valid address"),
        ("http://a:b@example.org/", "user name or a password"),
        ("http://token@example.org/", "user name or a password"),
        ("http://example.org:99999/", "not a valid address"),
        ("http://[::1/", "not a valid address"),
    ],
)
async def test_addresses_that_are_not_fetched(context: ToolContext, url: str, why: str) -> None:
    result = await fetch(context, url)
    assert not result.ok
    assert any(one in result.content for one in why.split("|"))


async def test_proxies_of_the_environment_are_not_used(context: ToolContext, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(text("by proxy")) as (proxy, reached), serving(text("direct")) as (port, _):
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy}")
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy}")
        result = await fetch(context, f"http://127.0.0.1:{port}/", port, proxy)
    assert result.content.endswith("direct")
    assert reached == []


async def test_a_connection_refused_is_told(context: ToolContext) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    result = await fetch(context, f"http://127.0.0.1:{port}/", port)
    assert not result.ok
    assert "Not fetched" in result.content


@pytest.mark.parametrize(
    "piece",
    ["<!--", "<a ", "<a href='", "<script>", "<select>", "<![CDATA[", "<?", "&#", "<", "<p x=\"", "</", "<svg><b>",
     "<head>"],
)  # fmt: skip
def test_broken_pages_take_linear_time(piece: str) -> None:
    before = time.process_time()
    readable(piece * (400_000 // len(piece)), "http://example.org/")
    assert time.process_time() - before < 4


def test_quotes_and_odd_tags() -> None:
    page = '<p title="a > b">one</p><p class=x">two</p><a href="javascript:x">three</a> 1 < 2 <b>four</b>'
    assert readable(page, "http://example.org/")[1] == "one\n\ntwo\nthree 1 < 2 four"
