"""Logs: structure, redaction, and that nobody waits for standard error."""

from __future__ import annotations

import io
import json
import logging
import os
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from gateway import log
from gateway.redact import MASK, Redactor

TOKEN = "123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1"


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """A stream that the logs go to; everything global is put back afterwards."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    yield io.StringIO()
    log.shutdown()
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)
    structlog.reset_defaults()


def written(stream: io.StringIO) -> list[dict[str, Any]]:
    writer = log.writer()
    assert writer is not None
    assert writer.flush()
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_lines_are_json_with_level_and_time(stream: io.StringIO) -> None:
    log.configure(stream=stream)
    structlog.get_logger("x").info("turn.started", session="s_1", count=3)
    structlog.get_logger("x").debug("not.shown")
    (line,) = written(stream)
    assert line["event"] == "turn.started"
    assert line["level"] == "info"
    assert line["session"] == "s_1"
    assert line["timestamp"].endswith("Z")


def test_libraries_write_into_the_same_stream(stream: io.StringIO) -> None:
    log.configure(stream=stream, secrets=[TOKEN])
    logging.getLogger("somelib").warning("calling %s", f"https://api.example/bot{TOKEN}/getMe")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("careful", UserWarning, stacklevel=1)
    lines = written(stream)
    assert lines[0]["logger"] == "somelib"
    assert "getMe" in lines[0]["event"]
    assert TOKEN not in stream.getvalue()
    assert "careful" in lines[1]["event"]


def test_a_broken_log_call_of_a_library_harms_nobody(stream: io.StringIO) -> None:
    log.configure(stream=stream)
    logging.getLogger("somelib").warning("%d", "no number")
    assert written(stream)[0] == {"event": "log.broken", "level": "warning", "logger": "somelib"}


def test_the_console_format_is_redacted_too(stream: io.StringIO) -> None:
    log.configure(stream=stream, format="console", secrets=["hunter2hunter2"])
    structlog.get_logger().info("login", user="a", note="hunter2hunter2")
    assert log.writer() is not None
    log.shutdown()
    assert "login" in stream.getvalue()
    assert "hunter2" not in stream.getvalue()


def test_B77_no_token_in_lines_fields_exceptions_and_tracebacks(stream: io.StringIO) -> None:
    log.configure(stream=stream, level="debug", secrets=[TOKEN])
    url = f"https://api.example/bot{TOKEN}/getUpdates"

    def call(url: str) -> None:
        raise ConnectionError(f"cannot connect to {url}")

    logger = structlog.get_logger()
    try:
        call(url)
    except ConnectionError as exc:
        logger.exception("poll.failed", url=url, nested={"request": [url, {"deep": exc}]})
        logging.getLogger("lib").exception("in a library: %s", exc)  # noqa: TRY401 - as libraries do
    logger.info("other forms", text_form=url.replace(":", "%3A"), raw=repr(url), half=TOKEN.partition(":")[2])
    try:
        call(url)
    except ConnectionError:
        kind, value, trace = sys.exc_info()
        assert kind is not None
        assert value is not None
        sys.excepthook(kind, value, trace)
    assert len(written(stream)) == 4
    out = stream.getvalue()
    assert "ConnectionError" in out
    assert "Traceback" in out
    for part in (TOKEN, TOKEN.partition(":")[2], "AAHdqTcv"):
        assert part not in out


SHAPES = {
    "telegram": TOKEN,
    "discord": "MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWsZnCjm1XVW7",
    "slack bot": "xoxb-123456789012-1234567890123-abcDEFghiJKLmnoPQRstuVWX",
    "slack app": "xapp-1-A0123456789-1234567890123-abcdef0123456789abcdef",
    "matrix": "syt_YWxpY2U_abcdefghijklmnopqrst_1a2b3c",
    "google": "GOCSPX-abcdefghijklmnopqrstuvwxyz12",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
    "openai": "sk-proj-abcdefghijklmnop1234567890",
    "bearer": "Bearer abcdefghijklmnop1234",
    "slack webhook": "https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX",
    "discord webhook": "https://discord.com/api/webhooks/123456789012345678/AbCdEfGhIjKlMnOpQrStUvWxYz0123456789AbCdEfGhIjKlMnOpQr",
    "pem": "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA1234567890\nabcdef\n-----END RSA PRIVATE KEY-----",
    "url": "https://user:correct-horse@example.org/path",
    "assignment": "api_key=abcdef1234567890",
}


@pytest.mark.parametrize("shape", SHAPES)
def test_B78_shapes_of_tokens_are_masked_wherever_they_stand(shape: str) -> None:
    secret = SHAPES[shape]
    body = secret.split()[-1].split("/")[-1].split("@")[0].split("=")[-1] if shape != "pem" else "MIIEpAIBAAKCAQEA"
    body = "correct-horse" if shape == "url" else body
    redactor = Redactor()
    for frame in ("{}", "before {} after", '{{"client_secret": "{}"}}', "a={};b", "({})", "x\n{}\ny", "[{}]", "'{}'"):
        text = frame.format(secret)
        assert body in text
        assert body not in redactor.text(text), text


def test_ordinary_text_is_left_alone() -> None:
    redactor = Redactor(["a-configured-secret"])
    for text in (
        "The task-based scheduler asked: is the token bucket empty?",
        "2026-12-01T00:00:00Z 12:30:45 session s_0123456789abcdef0123 turn t_0123456789abcdef0123",
        "pip install discord.py==2.7.1 and read docs.example.org/a/b",
        "a secret meeting; the password is due; bearer of news",
        "sha256 b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        "日本語のテキスト",
    ):
        assert redactor.text(text) == text


def test_known_secrets_are_masked_in_every_form() -> None:
    redactor = Redactor(["p@ss w/ör=d&more", "short"])
    for text in ("p@ss w/ör=d&more", "p%40ss%20w%2F%C3%B6r%3Dd%26more", "p%40ss+w%2F%C3%B6r%3Dd%26more"):
        assert redactor.text(f"x{text}y") == f"x{MASK}y"
    assert redactor.text("short") == "short"  # too short to be told from ordinary words
    redactor.add(["later-known-secret"])
    assert redactor.text("a later-known-secret b") == f"a {MASK} b"


def test_fields_with_a_secret_name_lose_their_value_whatever_it_is() -> None:
    event = Redactor().fields({"event": "x", "api_key": "abc", "headers": {"Authorization": "zz"}, "tokens": 5})
    assert event == {"event": "x", "api_key": MASK, "headers": {"Authorization": MASK}, "tokens": 5}


def test_bodies_are_logged_by_length_only(stream: io.StringIO) -> None:
    log.configure(stream=stream)
    structlog.get_logger().info("event.accepted", text="my private words", payload=b"123")
    (line,) = written(stream)
    assert line["text"] == "<16 long>"
    assert line["payload"] == "<3 long>"


def test_odd_values_do_not_break_a_line(stream: io.StringIO) -> None:
    class Broken:
        def __str__(self) -> str:
            raise ValueError

    log.configure(stream=stream)
    loop: list[Any] = []
    loop.append(loop)
    structlog.get_logger().info("odd", a=Broken(), b=b"\xff", c=loop, d={1: {2}}, e="\ud800", f=float("inf"))
    assert written(stream)[0]["a"] == "<Broken>"


def test_redaction_is_cheap_and_linear() -> None:
    redactor = Redactor([f"secret-number-{n:04d}" for n in range(20)])
    evil = ("bearer " * 20_000, "a." * 50_000, "-----BEGIN PRIVATE KEY-----" * 2_000, "token=" * 20_000, "://" * 30_000,
            "x" * 200_000, "eyJ" * 50_000, "1" * 200_000, "https://discord" * 10_000)  # fmt: skip
    for text in evil:
        before = time.process_time()
        redactor.text(text)
        assert time.process_time() - before < 2, text[:20]
    before = time.process_time()
    for _ in range(2000):
        redactor.text('{"event": "turn.ended", "session": "s_0123456789abcdef0123", "seconds": 0.123}')
    assert time.process_time() - before < 0.5


def test_a_stuck_standard_error_stalls_nobody_and_losses_are_told() -> None:
    read, write = os.pipe()
    with os.fdopen(write, "w", encoding="utf-8") as stream:
        writer = log.Writer(stream, limit=100)
        begun = time.monotonic()
        for number in range(3000):
            writer.write(f'{{"n": {number}, "pad": "{"x" * 4000}"}}')
        assert time.monotonic() - begun < 2
        assert writer.dropped_total > 0
        assert not writer.flush(0.01)
        got = bytearray()
        reader = threading.Thread(target=lambda: _drain(read, got), name="reader")
        reader.start()
        assert writer.flush(5)
        writer.write('{"n": "last"}')
        writer.close(5)
    reader.join(5)
    os.close(read)
    lines = [json.loads(line) for line in got.decode().splitlines()]
    told = sum(line["lines"] for line in lines if line.get("event") == "log.dropped")
    assert told == writer.dropped_total
    assert lines[-1]["n"] == "last" or lines[-2]["n"] == "last"


def _drain(descriptor: int, into: bytearray) -> None:
    while data := os.read(descriptor, 65536):
        into += data


def test_a_closed_standard_error_harms_nobody() -> None:
    stream = io.StringIO()
    writer = log.Writer(stream)
    stream.close()
    writer.write("lost")
    assert writer.flush()
    assert writer.dropped_total == 1
    writer.close()
    writer.close()
