"""Runs one shell command below a guardian (see `guardian.py`), recorded before it starts."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pwd
import shutil
import signal
import sys
from asyncio.subprocess import PIPE, Process
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from agent_core.tools.ports import ProcessLedger
from agent_core.tools.reap import end_group
from state.errors import StateError

GUARDIAN = Path(__file__).with_name("guardian.py")
GRACE = 1.0
"""Seconds between SIGTERM and SIGKILL."""
END_SECONDS = 3.5
"""Bound for the guardian's own clearing up; after it, it is killed and the rest is ended from here."""
KEPT_NAMES = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "USER", "LOGNAME")

Why = Literal["exit", "limit", "closed", "lost"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a command ended. `why` is `exit` (by itself), `limit` (time over) or `lost` (its guardian was
    killed). `code` is -1 where a signal ended it. `head` and `tail` are the kept output of `size` bytes."""

    why: Why
    code: int
    signal: int
    ended: int
    """Processes that were still running at the end and were ended."""
    left: int
    """Processes that could not be ended."""
    head: bytes
    tail: bytes
    size: int


class Output:
    """Keeps the beginning and the end of a stream, and counts the rest."""

    def __init__(self, limit: int) -> None:
        self._each = limit // 2
        self.head = bytearray()
        self.tail = bytearray()
        self.size = 0

    def add(self, block: bytes) -> None:
        """Take the next bytes."""
        self.size += len(block)
        room = self._each - len(self.head)
        self.head += block[:room]
        self.tail += block[room:] if room > 0 else block
        if len(self.tail) > self._each:
            del self.tail[: len(self.tail) - self._each]


def environment() -> dict[str, str]:
    """The environment of every command: an allow-list, so that no token of the daemon gets in."""
    kept = {name: os.environ[name] for name in KEPT_NAMES if name in os.environ}
    kept.setdefault("PATH", os.defpath)
    kept["HOME"] = os.environ.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir
    kept["TERM"] = "dumb"
    return kept


def find_shell() -> str:
    """bash where there is one, else sh."""
    return shutil.which("bash") or "/bin/sh"


async def run_shell(
    command: str, *, folder: Path, seconds: float, output_bytes: int, ledger: ProcessLedger, call_id: str
) -> Outcome:
    """Run it to its end or for `seconds`. Afterwards nothing of it runs, however it ended.

    The command begins only after `ledger.started` has returned. Cancelling ends everything within 5 s
    and then raises CancelledError. Raises OSError where no process can be made.
    """
    guardian = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-S",
        str(GUARDIAN),
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        env=environment(),
        cwd="/",
        start_new_session=True,
    )
    run = _Run(guardian, ledger, Output(output_bytes))
    reader = asyncio.create_task(run.collect(), name=f"output of {call_id}")
    try:
        shell = await asyncio.to_thread(find_shell)
        request = {"shell": shell, "command": command, "folder": str(folder), "seconds": seconds, "grace": GRACE}
        await run.start(request, call_id)
        await run.watch(seconds)
    finally:
        await _to_the_end(asyncio.create_task(run.end(reader), name=f"end of {call_id}"))
    return run.outcome()


async def _to_the_end(task: asyncio.Task[None]) -> None:
    """Wait for a bounded task through any number of cancellations, then let the last one through."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            if task.cancelled():
                raise
            cancelled = error
    task.result()
    if cancelled is not None:
        raise cancelled


class _Run:
    """One command on its way."""

    def __init__(self, guardian: Process, ledger: ProcessLedger, output: Output) -> None:
        self.guardian = guardian
        self.ledger = ledger
        self.output = output
        self.group: tuple[int, int] | None = None
        self.report: dict[str, Any] | None = None
        self.left = 0

    async def collect(self) -> None:
        """Read the output until its end."""
        assert self.guardian.stderr is not None
        while block := await self.guardian.stderr.read(65536):
            self.output.add(block)

    async def start(self, request: dict[str, Any], call_id: str) -> None:
        """Have the process made, commit its group, let it run."""
        await self._say(request)
        born = await self._hear(10.0)
        if born is None:
            raise ChildProcessError("the guardian of the command did not start")
        self.group = (born["group"], born["ticks"])
        await self.ledger.started(call_id, *self.group)
        await self._say({"go": True})

    async def watch(self, seconds: float) -> None:
        """Wait for the guardian's report. It keeps the time; the bound here is for its own failure."""
        self.report = await self._hear(seconds + GRACE + 10.0)

    async def end(self, reader: asyncio.Task[None]) -> None:
        """Clear up, in at most 5 s: the closed pipe makes the guardian end everything below it."""
        assert self.guardian.stdin is not None
        self.guardian.stdin.close()
        if self.report is None:
            self.report = await self._hear(END_SECONDS)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.5 if self.report else 0.1):
                await self.guardian.wait()
        if self.guardian.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.guardian.send_signal(signal.SIGKILL)
        self.left = self.report["left"] if self.report else 0
        if self.group is not None and (self.report is None or self.left):
            self.left = (await asyncio.to_thread(end_group, *self.group, 0.5)).left
        await asyncio.wait({reader}, timeout=0.5)
        reader.cancel()
        if self.group is not None and not self.left:
            # A row that stays costs one look at /proc before the next resume; nothing else hangs on it.
            with contextlib.suppress(StateError):
                await self.ledger.ended(*self.group)

    def outcome(self) -> Outcome:
        """What to tell."""
        report = self.report or {"why": "lost", "code": -1, "signal": 0, "ended": 0}
        return Outcome(
            why=report["why"],
            code=report["code"],
            signal=report["signal"],
            ended=report["ended"],
            left=self.left,
            head=bytes(self.output.head),
            tail=bytes(self.output.tail),
            size=self.output.size,
        )

    async def _say(self, message: dict[str, Any]) -> None:
        assert self.guardian.stdin is not None
        self.guardian.stdin.write(json.dumps(message).encode() + b"\n")
        with contextlib.suppress(ConnectionError):  # its death shows as the missing answer
            await self.guardian.stdin.drain()

    async def _hear(self, seconds: float) -> dict[str, Any] | None:
        """The guardian's next line, or None if it is gone or too slow."""
        assert self.guardian.stdout is not None
        try:
            async with asyncio.timeout(seconds):
                text = await self.guardian.stdout.readline()
        except TimeoutError:
            return None
        return json.loads(text) if text.endswith(b"\n") else None
