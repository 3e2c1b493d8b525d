"""A daemon as a real process over a real home, a scripted model beside it, and a client that looks at both."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp

KEY = "a-key-for-the-tests-of-crashes"
START_SECONDS = 20.0


def write_config(home: Path, model_url: str, **changes: Any) -> Path:
    """A configuration with the http platform only. `changes` replace whole sections."""
    work = home / "work"
    config: dict[str, Any] = {
        "home": str(home),
        "log": {"level": "debug", "format": "json"},
        "model": {
            "provider": "openai",
            "base_url": model_url,
            "api_key": "${MODEL_API_KEY}",
            "name": "scripted",
            "context_tokens": 100000,
            "stream": True,
        },
        "access": {"owners": ["http:default"], "pairing": False},
        "tools": {
            "guests": ["clarify"],
            "members": ["todo"],
            "owners": ["files", "terminal"],
            "root": str(work.parent.parent / "work"),
            "approvals": "never",
        },
        "platforms": {"http": {"enabled": True, "host": "127.0.0.1", "port": 0, "key": "${TIDINGS_HTTP_KEY}"}},
    }
    config.update(changes)
    home.mkdir(parents=True, exist_ok=True)
    path = home / "config.yaml"
    path.write_text(json.dumps(config), encoding="utf-8")  # JSON is YAML
    return path


def private(config: Path) -> dict[str, str]:
    """The environment of a process of ours. Locks of tokens lie in the test's own folder: other runs of the
    tests on this machine may use the same tokens."""
    locks = str(config.parent.parent / "xdg-state")
    return {"MODEL_API_KEY": "k" * 20, "TIDINGS_HTTP_KEY": KEY, "XDG_STATE_HOME": locks}


class DaemonProcess:
    """One start of `tidings run`."""

    def __init__(
        self,
        config: Path,
        *,
        point: str = "none",
        env: Mapping[str, str] | None = None,
        direct: bool = False,
        takeover: bool = False,
    ) -> None:
        """`direct` starts the product's own command, without the wrapper that can die at a point."""
        self.config = config
        self.log = config.parent / f"log-{os.urandom(4).hex()}.jsonl"
        self._out = self.log.open("wb")
        command = ["gateway"] if direct else ["tests.crash.points", point]
        self.process = subprocess.Popen(
            [sys.executable, "-m", *command, "run", *(["--takeover"] if takeover else []), "--config", str(config)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._out,
            env={**os.environ, **private(config), **(env or {})},
            cwd=Path(__file__).parents[2],
        )
        self.port = 0

    def lines(self) -> list[dict[str, Any]]:
        """The log so far."""
        found = []
        for line in self.log.read_text(encoding="utf-8", errors="replace").splitlines():
            with suppress(ValueError):
                found.append(json.loads(line))
        return found

    def told(self, event: str) -> list[dict[str, Any]]:
        """The log lines of one event."""
        return [line for line in self.lines() if line.get("event") == event]

    async def ready(self) -> DaemonProcess:
        """Wait until it serves."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + START_SECONDS
        while loop.time() < deadline:
            if self.process.poll() is not None:
                raise AssertionError(f"the daemon ended with {self.process.returncode}: {self.log.read_text()[-3000:]}")
            # platforms connect beside the start: a message before that is refused, to be sent again
            heard = {line["platform"] for line in self.told("adapter.connected")}
            if (ready := self.told("daemon.ready")) and heard >= {"http"} & set(ready[0]["platforms"]):
                self.port = ready[0]["http"][1]
                return self
            await asyncio.sleep(0.02)
        raise AssertionError(f"the daemon is not ready: {self.log.read_text()[-3000:]}")

    async def dead(self, seconds: float = 20.0) -> int:
        """Wait for its end; the return code."""
        return await asyncio.to_thread(self.process.wait, seconds)

    def kill(self) -> None:
        """kill -9, now."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)
        self._out.close()

    async def terminate(self, seconds: float = 30.0) -> int:
        """SIGTERM, and its end."""
        if self.process.poll() is None:
            self.process.terminate()
        code = await self.dead(seconds)
        self._out.close()
        return code


class Client:
    """A person behind the HTTP adapter."""

    def __init__(self, session: aiohttp.ClientSession, daemon: DaemonProcess) -> None:
        self._session = session
        self._daemon = daemon

    def _url(self, path: str) -> str:
        return f"http://127.0.0.1:{self._daemon.port}{path}"

    @property
    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {KEY}"}

    async def post(self, text: str, message_id: str, **more: Any) -> bool:
        """Post without waiting for the answer. False where the connection broke (the daemon died)."""
        body = {"text": text, "id": message_id, "wait": False, **more}
        try:
            async with self._session.post(self._url("/api/messages"), json=body, headers=self._headers) as answer:
                return answer.status == 202
        except aiohttp.ClientError:
            return False

    async def get(self, message_id: str) -> dict[str, Any] | None:
        """What became of a message; None where it is not known."""
        async with self._session.get(self._url(f"/api/messages/{message_id}"), headers=self._headers) as answer:
            return await answer.json() if answer.status == 200 else None

    async def settled(self, message_id: str, seconds: float = 30.0) -> dict[str, Any]:
        """Wait until the message has its fate."""
        loop = asyncio.get_running_loop()
        deadline, found = loop.time() + seconds, None
        while loop.time() < deadline:
            found = await self.get(message_id)
            if found is not None and found["fate"] not in ("waiting", "running"):
                return found
            await asyncio.sleep(0.05)
        raise AssertionError(f"{message_id} has no fate: {found}; log: {self._daemon.log.read_text()[-4000:]}")

    async def raw(self, path: str) -> tuple[int, str]:
        """Any GET."""
        async with self._session.get(self._url(path), headers=self._headers) as answer:
            return answer.status, await answer.text()


def rows(home: Path, sql: str, args: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Look into the database from outside, when no daemon has it open or beside it."""
    with sqlite3.connect(f"file:{home / 'tidings.db'}?mode=ro", uri=True) as db:
        return db.execute(sql, args).fetchall()
