"""The user's side of the shared server: join it, start it where none lives, leave it. Blocks."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

from agent_core.errors import ModelKeyBad, ModelUnavailable
from agent_core.models.embedded.install import installed
from agent_core.models.embedded.shared import POLL, Busy, Listening, Place, User

START_BOUND = 60.0
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
STEADY_AFTER = 60.0
"""A server that lived so long in seconds has shown that it works: its next death counts as a first one."""


class Host:
    """Keeps this process a user of the server. One a process and home; calls come one at a time."""

    def __init__(self, home: Path, *, context: int, grace: float) -> None:
        self._home = home
        self._place = Place(home)
        self._context = context
        self._grace = grace
        self._user: User | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._deaths = 0
        self._started_at = float("-inf")

    def ensure(self) -> Listening:
        """Where the living server listens; started if there is none.

        Raises `ModelKeyBad` where the weights are missing, and `ModelUnavailable`: the library is missing, it
        does not come up, or it has died so often of late that the next start waits (`retry_after` says how long).
        """
        if self._user is not None and self._place.is_alive():
            listening = self._place.published()
            if listening is not None:
                return listening
        if not installed(self._home):
            raise ModelKeyBad(  # nothing but the operator helps: not to be tried again within the turn
                "the weights are not installed",
                told="The embedded model is not installed. The operator has to run `tidings model install`.",
            )
        try:
            self._place.prepare()
            with self._place.gate(START_BOUND + 10):
                if self._user is None:
                    self._user = self._place.join()
                if not self._place.is_alive():
                    self._place.withdraw()
                    self._start()
                return self._await_ready()
        except Busy:
            raise ModelUnavailable("another process has been starting the embedded model for too long") from None
        except OSError as exc:
            raise ModelUnavailable(f"the embedded model cannot be started: {exc}") from exc

    def _start(self) -> None:
        self._reap()
        now = time.monotonic()
        if now - self._started_at > STEADY_AFTER:
            self._deaths = 0
        elif self._deaths:
            pause = min(FIRST_PAUSE * 2 ** (self._deaths - 1), LONGEST_PAUSE)
            left = self._started_at + pause - now
            if left > 0:
                raise ModelUnavailable(
                    "the embedded model's server has died; it is started again soon", retry_after=left
                )
        self._deaths += 1
        self._started_at = now
        with self._place.log.open("wb") as log:
            # Its own session: a Ctrl-C in the terminal of one user must not end it for the others.
            self._child = subprocess.Popen(
                self._command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", start_new_session=True
            )
        # It may outlive our use of it; its end is waited for so that no zombie stays behind.
        threading.Thread(target=self._child.wait, name="embedded-server-end", daemon=True).start()

    def _command(self) -> list[str]:
        command = [sys.executable, "-m", "agent_core.models.embedded.server", "--home", str(self._home)]
        return [*command, "--context", str(self._context), "--grace", str(self._grace)]

    def _await_ready(self) -> Listening:
        deadline = time.monotonic() + START_BOUND
        while time.monotonic() < deadline:
            listening = self._place.published()
            if listening is not None:
                return listening
            ended = self._child is not None and self._child.poll() is not None
            # A child that found another server alive has gone away; then that one is waited for.
            if (ended or self._child is None) and not self._place.is_alive():
                self._reap()
                raise ModelUnavailable(f"the embedded model's server did not start: {self._last_words()}")
            time.sleep(POLL)
        if self._child is not None:
            self._child.kill()
            self._reap()
        raise ModelUnavailable(f"the embedded model's server was not ready after {START_BOUND:g} s")

    def _last_words(self) -> str:
        lines = self._place.log.read_text("utf-8", "replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "it gave no reason")[:200]

    def _reap(self) -> None:
        if self._child is not None and self._child.poll() is not None:
            self._child = None

    def leave(self) -> None:
        """Give up the use of it; the server ends itself when nobody is left. Idempotent."""
        user, self._user = self._user, None
        if user is not None:
            user.leave()
        self._reap()
