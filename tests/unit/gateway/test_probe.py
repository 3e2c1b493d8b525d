"""The probe of containers: 0 for a 200, 1 and a reason for everything else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from gateway import probe


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/healthz" else 503)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that is overridden
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Answers) as server:
        thread = threading.Thread(target=server.serve_forever, name="server")
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_what_answers_is_alive_whatever_the_proxy(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert probe.main([f"{server}/healthz"]) == 0
    monkeypatch.setenv("TIDINGS_PROBE", f"{server}/healthz")
    assert probe.main([]) == 0


def test_what_is_ill_or_away_is_told(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert probe.main([f"{server}/readyz"]) == 1
    assert "503" in capsys.readouterr().err
    assert probe.main(["http://127.0.0.1:9/healthz"]) == 1
    assert probe.main(["nonsense"]) == 1
    assert "nonsense" in capsys.readouterr().err
