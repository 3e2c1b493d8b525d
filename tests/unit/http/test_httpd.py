"""The border of the HTTP server: who may ask, what is bounded, how errors look."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import structlog
from aiohttp import web
from pydantic import ValidationError

from adapters.http.auth import KeyRing, is_loopback
from adapters.http.settings import HttpSettings
from adapters.ports import Route
from gateway.health import Health
from gateway.httpd import HttpdError, HttpServer
from gateway.httpd_checks import bare_host
from gateway.metrics import Metrics
from tests.unit.http.conftest import KEY, OTHER, House, running
from tests.unit.http.double import Gateway


def port_of(house: House) -> int:
    return int(house.url.rpartition(":")[2])


async def raw(house: House, content: bytes) -> tuple[int, dict[str, str], Any]:
    """One request as bytes; the answer's status, headers and JSON."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(house))
    writer.write(content)
    await writer.drain()
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in head[1:] if line)
    body = await reader.readexactly(int(headers["Content-Length"]))
    writer.close()
    await writer.wait_closed()
    return int(head[0].split()[1]), headers, json.loads(body)


def get(path: str, **headers: str) -> bytes:
    lines = [f"GET {path} HTTP/1.1", *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode()


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer wrong-key-wrong-key", f"Basic {KEY}", KEY, "Bearer \u00e9"]
)
@pytest.mark.parametrize("path", ["/api/sessions", "/v1/models", "/no/such/path"])
async def test_everything_needs_the_key(house: House, header: str | None, path: str) -> None:
    headers = {} if header is None else {"Authorization": header}
    async with aiohttp.ClientSession(house.url) as stranger, stranger.get(path, headers=headers) as answer:
        assert answer.status == 401
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        told = await answer.json()
    assert told["error"]["code"] == "invalid_api_key"
    assert "wrong" not in json.dumps(told)


async def test_two_authorization_headers_are_refused(house: House) -> None:
    content = get("/v1/models", Host="localhost", Authorization=f"Bearer {KEY}").replace(
        b"\r\n\r\n", f"\r\nAuthorization: Bearer {OTHER}\r\n\r\n".encode()
    )
    assert (await raw(house, content))[0] == 401


async def test_health_is_open_and_tells_what_is_missing(house: House) -> None:
    async with aiohttp.ClientSession(house.url) as stranger:
        async with stranger.get("/healthz") as answer:
            assert answer.status == 503
        house.health.store_open()
        house.health.intake_running()
        async with stranger.get("/healthz") as answer:
            assert answer.status == 200
            assert (await answer.json())["platforms"]["http"]["state"] == "starting"
        async with stranger.get("/readyz") as answer:
            assert answer.status == 503
            assert (await answer.json())["missing"] == ["platform http is starting"]
        house.health.connected("http")
        async with stranger.get("/readyz") as answer:
            assert answer.status == 200


async def test_metrics_are_open_on_loopback_only(house: House) -> None:
    async with aiohttp.ClientSession(house.url) as stranger:
        async with stranger.get("/metrics") as answer:
            assert answer.status == 200
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        async with stranger.get("/metrics") as answer:
            assert 'tidings_http_requests_total{listener="main",status="2xx"}' in await answer.text()
        async with stranger.get("/metrics", headers={"X-Forwarded-For": "192.0.2.1"}) as answer:
            assert answer.status == 401, "a proxy on this machine speaks for somebody else"


async def test_metrics_need_the_key_on_a_public_address(tmp_path: Path) -> None:
    async with running(tmp_path, host="0.0.0.0") as house:
        async with aiohttp.ClientSession(house.url) as stranger, stranger.get("/metrics") as answer:
            assert answer.status == 401
        async with house.client.get("/metrics") as answer:
            assert answer.status == 200


async def test_health_is_there_without_the_adapter_and_without_a_key() -> None:
    settings = HttpSettings.model_validate({"port": 0})
    async with (
        HttpServer(settings, keys=settings.ring(), health=Health(), metrics=Metrics()) as server,
        aiohttp.ClientSession(f"http://127.0.0.1:{server.address[1]}") as client,
    ):
        for path, status in {"/healthz": 503, "/readyz": 503, "/metrics": 200, "/v1/models": 401}.items():
            async with client.get(path) as answer:
                assert answer.status == status, path


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:1", "[::1]:8787", "LOCALHOST.", "127.0.0.1"])
async def test_own_names_are_taken(house: House, host: str) -> None:
    assert (await raw(house, get("/v1/models", Host=host, Authorization=f"Bearer {KEY}")))[0] == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8787", "localhost.evil.example", "192.0.2.1", ""])
@pytest.mark.parametrize("path", ["/healthz", "/v1/models", "/metrics"])
async def test_other_names_are_refused(house: House, host: str, path: str) -> None:
    status, _, told = await raw(house, get(path, Host=host, Authorization=f"Bearer {KEY}"))
    assert (status, told["error"]["code"]) == (403, "bad_host")


async def test_a_request_needs_one_host(house: House) -> None:
    for content in (get("/healthz", Accept="*/*"), get("/healthz", Host="localhost\r\nHost: evil.example")):
        assert (await raw(house, content))[0] == 400


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://localhost:3000", 200),
        ("https://127.0.0.1", 200),
        ("https://page.example", 200),
        ("https://page.example:444", 403),
        ("https://evil.example", 403),
        ("null", 403),
        ("http://localhost.evil.example", 403),
        ("http://[", 403),
    ],
)
async def test_origins(tmp_path: Path, origin: str, status: int) -> None:
    async with running(tmp_path, allowed_origins=["https://page.example/"], allowed_hosts=["Bot.Example"]) as house:
        headers = {"Origin": origin, "Host": "bot.example:443"}
        async with house.client.get("/v1/models", headers=headers) as answer:
            assert answer.status == status


async def test_an_oversized_body_is_413_in_json(tmp_path: Path) -> None:
    async with running(tmp_path, max_body=2048) as house:
        async with house.client.post("/api/messages", data=b"x" * 5000) as answer:
            assert answer.status == 413
            assert (await answer.json())["error"]["code"] == "body_too_large"

        async def pieces() -> Any:
            for _ in range(5):
                yield b"x" * 1000

        async with house.client.post("/api/messages", data=pieces()) as answer:
            assert answer.status == 413
        assert house.gateway.rows == []


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b'"x"', b"\xff\xfe", b'{"text": \xff}', b"[" * 100_000, b'{"text": 1' + b"0" * 5000 + b"}"],
)
async def test_malformed_json_is_400(house: House, body: bytes) -> None:
    async with house.client.post("/api/messages", data=body) as answer:
        assert answer.status == 400
        assert (await answer.json())["error"]["code"] == "invalid_json"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"text": 5}, "text"),
        ({"text": "  "}, "text"),
        ({}, "text"),
        ({"text": "x", "session": ""}, "session"),
        ({"text": "x", "session": "a\nb"}, "session"),
        ({"text": "x", "session": "a" * 201}, "session"),
        ({"text": "x", "id": 7}, "id"),
        ({"text": "x", "id": ".."}, "id"),
        ({"text": "x", "wait": "no"}, "wait"),
        ({"text": "x", "images": ["http://example.org/x.png"]}, "images[0]"),
        ({"text": "x", "images": {"a": 1}}, "images"),
    ],
)
async def test_wrong_fields_are_named(house: House, body: dict[str, Any], param: str) -> None:
    async with house.client.post("/api/messages", json=body) as answer:
        assert answer.status == 400
        assert (await answer.json())["error"]["param"] == param
    assert house.gateway.rows == []


async def test_errors_of_the_protocol_are_json_and_quote_nothing(house: House) -> None:
    with structlog.testing.capture_logs() as logs:
        status, _, told = await raw(house, f"GET / HTTP/9.9 {KEY}\r\n\r\n".encode())
    assert status == 400
    assert told["error"]["message"] == "The request is no valid HTTP."
    assert KEY not in json.dumps(told) + repr(logs)
    async with house.client.get("/nowhere") as answer:
        assert (answer.status, (await answer.json())["error"]["type"]) == (404, "not_found_error")
    async with house.client.put("/api/messages") as answer:
        assert (answer.status, answer.headers["Allow"]) == (405, "POST")


async def test_a_defect_is_a_500_without_detail(tmp_path: Path) -> None:
    async def broken(_request: web.Request) -> web.StreamResponse:
        raise KeyError("something secret")

    with structlog.testing.capture_logs() as logs:
        async with (
            running(tmp_path, routes=[Route(method="GET", path="/broken", handler=broken)]) as house,
            house.client.get("/broken") as answer,
        ):
            assert answer.status == 500
            assert "secret" not in await answer.text()
    assert any(entry["event"] == "http.defect" for entry in logs)


async def test_B78_the_access_log_holds_no_body_and_no_key(house: House) -> None:
    with structlog.testing.capture_logs() as logs:
        data = {"text": "my password is swordfish", "stream": False}
        async with house.client.post(f"/api/messages?key={KEY}", json=data) as answer:
            await answer.read()
        async with house.client.get(f"/made/up/{KEY}") as answer:
            await answer.read()
    lines = [entry for entry in logs if entry["event"] == "http.request"]
    assert [line["route"] for line in lines] == ["/api/messages", "unknown"]
    assert lines[0]["principal"] == "default"
    assert "swordfish" not in repr(logs)
    assert KEY not in repr(logs)


async def test_too_many_connections_are_told(tmp_path: Path) -> None:
    async with running(tmp_path, max_connections=8) as house:
        held = [await asyncio.open_connection("127.0.0.1", port_of(house)) for _ in range(8)]
        await asyncio.sleep(0.01)
        status, headers, told = await raw(house, get("/healthz", Host="localhost"))
        assert (status, headers["Retry-After"]) == (503, "2")
        assert "too many connections" in told["error"]["message"]
        for _, writer in held:
            writer.close()
            await writer.wait_closed()
        await asyncio.sleep(0.01)
        assert (await raw(house, get("/healthz", Host="localhost")))[0] == 503  # of the health itself
        assert (await raw(house, get("/metrics/", Host="localhost")))[0] == 401


async def test_a_port_in_use_is_one_clear_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        settings = HttpSettings.model_validate({"port": port})
        with pytest.raises(HttpdError, match=f"127.0.0.1:{port}: the port is already in use"):
            async with HttpServer(settings, keys=settings.ring(), health=Health(), metrics=Metrics()):
                pass
    strange = HttpSettings.model_validate({"host": "192.0.2.1", "port": 0})
    with pytest.raises(HttpdError, match="no such address"):
        async with HttpServer(strange, keys=strange.ring(), health=Health(), metrics=Metrics()):
            pass


async def test_webhooks_have_a_listener_of_their_own() -> None:
    async def hook(request: web.Request) -> web.StreamResponse:
        return web.Response(text=str(len(await request.read())))

    route = Route(method="POST", path="/hook", handler=hook, public=True)
    settings = HttpSettings.model_validate({"port": 0, "webhook_port": 0, "max_body": 1024})
    async with (
        HttpServer(settings, keys=settings.ring(), health=Health(), metrics=Metrics(), routes=[route]) as server,
        aiohttp.ClientSession() as client,
    ):
        assert server.webhook_address is not None
        public = f"http://127.0.0.1:{server.webhook_address[1]}"
        async with client.post(f"{public}/hook", data=b"abc", headers={"Host": "bot.example"}) as answer:
            assert await answer.text() == "3"
        async with client.post(f"{public}/hook", data=b"x" * 2000) as answer:
            assert answer.status == 413
        async with client.get(f"{public}/healthz") as answer:
            assert answer.status == 404
        async with client.post(f"http://127.0.0.1:{server.address[1]}/hook") as answer:
            assert answer.status == 401
    without = HttpSettings.model_validate({"port": 0})
    with pytest.raises(HttpdError, match="/hook needs webhook_port"):
        async with HttpServer(without, keys=without.ring(), health=Health(), metrics=Metrics(), routes=[route]):
            pass


async def test_before_and_after_the_adapter_runs_nothing_is_accepted(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        house.adapter._desk.inbox = None
        async with house.client.post("/api/messages", json={"text": "x"}) as answer:
            assert (answer.status, answer.headers["Retry-After"]) == (503, "2")
        assert house.adapter.waiting == 0


async def test_the_server_closes_in_time_and_its_waiters_are_told(tmp_path: Path) -> None:
    gateway = Gateway()
    began = asyncio.get_running_loop().time()
    async with aiohttp.ClientSession() as client:
        async with running(tmp_path, gateway) as house:
            headers = {"Authorization": f"Bearer {KEY}"}
            answer = await client.post(f"{house.url}/api/messages", json={"text": "wait x"}, headers=headers)
            while not gateway.runs:
                await asyncio.sleep(0.001)
        assert b'"fate":"running"' in await answer.read()
    assert asyncio.get_running_loop().time() - began < 2


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"key": None}, "is needed while the platform is on"),
        ({"key": ""}, "at least 16"),
        ({"key": "short"}, "at least 16"),
        ({"key": "fifteen-letters"}, "at least 16"),
        ({"key": "sixteen letters 16"}, "without blanks"),
        ({"key": None, "host": "0.0.0.0"}, "a public address needs a key"),
        ({"keys": {"a/b": OTHER}}, "a key's name"),
        ({"keys": {"default": OTHER}}, "the setting `key`"),
        ({"keys": {"other": "short"}}, "at least 16"),
        ({"surprise": 1}, "Extra inputs"),
    ],
)
def test_unfit_settings_refuse_to_start(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told) as caught:
        HttpSettings.model_validate({"enabled": True, "key": KEY, **changes})
    assert KEY not in str(caught.value)


def test_one_key_under_two_names_is_refused() -> None:
    settings = HttpSettings.model_validate({"enabled": True, "key": KEY, "keys": {"other": KEY}})
    with pytest.raises(ValueError, match="also the key of another name"):
        settings.ring()


def test_the_ring_knows_who_is_who() -> None:
    ring = KeyRing({"default": KEY, "other": OTHER})
    assert ring.names == ("default", "other")
    assert ring.principal(f"Bearer {OTHER}") == "other"
    assert ring.principal(f"bearer  {KEY}") == "default"
    assert ring.principal(f"Bearer {KEY}x") is None
    assert KeyRing({}).principal("Bearer ") is None
    assert not KeyRing({})
    assert KEY not in repr(vars(ring))


@pytest.mark.parametrize(
    ("host", "near"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("[::1]", True),
        ("localhost", True),
        ("::ffff:127.0.0.1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("example.org", False),
        ("", False),
    ],
)
def test_loopback(host: str, near: bool) -> None:
    assert is_loopback(host) is near


def test_bare_hosts() -> None:
    assert [bare_host(h) for h in ("A.example.:80", "[::1]:80", "::1", "x")] == ["a.example", "::1", "::1", "x"]
