"""The child process: llama.cpp's own server on loopback, for as long as anybody uses it.

    python -m agent_core.models.embedded.server --home HOME --context 8192 --grace 5

It is nobody's property: the first process that needs it starts it, and it ends itself when the last user
has been gone for `--grace` seconds, however that user ended. A first SIGTERM (a service manager sends it to
the whole group) only takes the grace away, so that turns which are being drained still get their answers; a
second one ends it at once. The slot's cache is restored at the start and saved at the end.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agent_core.models.embedded.manifest import SMOLLM2
from agent_core.models.embedded.shared import Busy, Listening, Place

SLOT_FILE = "slot.bin"
LOOK_EVERY = 1.0
CACHE_MB = 200
"""For the states of other sessions that shared the one slot before."""


class Child:
    """The process: start, watch, end."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._place = Place(options.home)
        self._key = secrets.token_urlsafe(32)
        self._url = ""
        self._signals = 0
        self._wake = threading.Event()

    def run(self) -> int:
        """Until nobody needs it; the exit code."""
        self._place.prepare()
        try:
            self._place.hold_alive(5.0)
        except Busy:
            sys.stderr.write("another server of this home lives\n")
            return 3
        _step_back()
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)
        server = self._start()  # it serves from its own threads for as long as this name holds it
        context = self._ask("GET", "/props")["default_generation_settings"]["n_ctx"]
        self._restore()
        self._place.publish(Listening(url=self._url, pid=os.getpid(), context_tokens=context, key=self._key))
        self._until_unused()
        del server
        return 0

    def _start(self) -> Any:
        # Only this process pays for the library; it prints to standard error, which is the log.
        import xllamacpp  # noqa: PLC0415

        params = xllamacpp.CommonParams()
        threads = len(os.sched_getaffinity(0))
        params.model.path = str(SMOLLM2.path(self._options.home))
        params.n_ctx = self._options.context
        params.n_parallel = 1
        params.cpuparams.n_threads = threads
        params.cpuparams_batch.n_threads = threads
        params.hostnames = ["127.0.0.1"]
        params.port = 0
        params.api_keys = [self._key]
        params.slot_save_path = f"{self._place.slots}/"
        params.cache_ram_mib = CACHE_MB
        params.warmup = False
        params.ui = False
        params.verbosity = 1
        # Small models ramble and repeat themselves at the usual settings.
        params.sampling.temp = 0.2
        params.sampling.penalty_repeat = 1.1
        server = xllamacpp.Server(params)
        self._url = server.listening_address
        return server

    def _until_unused(self) -> None:
        """Watch the users. Without any it ends the process under the gate, so that nobody joins a server that
        ends; it returns only where it was told twice to stop."""
        unused_since: float | None = None
        while True:
            self._wake.wait(LOOK_EVERY)
            self._wake.clear()
            if self._signals > 1:
                self._save()
                self._place.withdraw()
                return
            if not self._is_unused():
                unused_since = None
                continue
            now = time.monotonic()
            unused_since = unused_since or now
            if self._signals or now - unused_since >= self._options.grace:
                self._save()
                self._leave()
                unused_since = None

    def _is_unused(self) -> bool:
        try:
            with self._place.gate(0.0):
                return not self._place.has_users()
        except Busy:
            return False  # somebody is joining

    def _leave(self) -> None:
        """End the process, unless somebody came while the slot was saved."""
        with suppress(Busy), self._place.gate(0.0):
            if not self._place.has_users():
                self._place.withdraw()
                _exit()

    def _restore(self) -> None:
        path = self._place.slots / SLOT_FILE
        if not path.exists():
            return
        try:
            self._ask("POST", "/slots/0?action=restore", {"filename": SLOT_FILE})
        except OSError as exc:
            # Made by another version, or cut off: worth nothing, and the first turn is only slower.
            sys.stderr.write(f"the saved slot is not usable: {exc}\n")
            path.unlink(missing_ok=True)

    def _save(self) -> None:
        fresh = f"{SLOT_FILE}.{os.getpid()}.new"
        with suppress(OSError):
            self._ask("POST", "/slots/0?action=save", {"filename": fresh})
            os.replace(self._place.slots / fresh, self._place.slots / SLOT_FILE)

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Ask our own server. OSError if it refuses."""
        where = urlsplit(self._url)
        connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=20.0)
        try:
            headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read()
            if answer.status != 200:
                raise OSError(f"{path} answered {answer.status}: {text[:200].decode('utf-8', 'replace')}")
            return json.loads(text)
        except http.client.HTTPException as exc:
            raise OSError(f"{path}: {exc}") from exc
        finally:
            connection.close()

    def _on_signal(self, *_: object) -> None:
        self._signals += 1
        self._wake.set()


def _step_back() -> None:
    """Let everybody else go first: the processor, and survival when memory is short."""
    with suppress(OSError):
        os.nice(10)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500", "ascii")
    os.umask(0o077)


def _exit() -> None:
    """End at once: the library's threads hold nothing that matters, and joining them can hang."""
    sys.stderr.flush()
    os._exit(0)


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point of the child process."""
    parser = argparse.ArgumentParser(prog="tidings-embedded")
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--context", type=int, default=8192)
    parser.add_argument("--grace", type=float, default=5.0)
    code = Child(parser.parse_args(arguments)).run()
    if code == 0:
        _exit()
    sys.exit(code)


if __name__ == "__main__":
    main()
