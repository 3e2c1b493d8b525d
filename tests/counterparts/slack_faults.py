"""Faults that a test asks of the Slack counterpart, and what was called."""

from __future__ import annotations

import asyncio
import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

HTML = "<!DOCTYPE html><html><head><title>Slack is down</title></head><body>Server Error</body></html>"


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the Web API as it came. `params` hold what was given by form, JSON or query, without the token."""

    method: str
    params: Mapping[str, Any]
    time: float
    """Monotonic, in seconds."""
    headers: Mapping[str, str]
    token: str


@dataclass(slots=True, eq=False)
class Fault:
    """What the next calls of a method get (a pattern: `chat.*`, `*`; `download`, `upload` and `socket` too)."""

    method: str
    kind: str
    """`answer`, `drop` (carried out, then the connection is closed), `mute` (carried out, then nothing), `hang` or
    `delay` (`seconds`, then carried out)."""
    times: int | None = 1
    status: int = 200
    error: str | None = None
    retry_after: float | str | None = None
    body: str | None = None
    channel: str | None = None
    seconds: float = 0.0
    more: Mapping[str, Any] = field(default_factory=dict)

    def answer(self) -> tuple[int, dict[str, str], dict[str, Any] | str]:
        """Status, headers and body; a text is HTML."""
        status = 429 if self.retry_after is not None and self.status == 200 else self.status
        headers = {} if self.retry_after is None else {"Retry-After": _number(self.retry_after)}
        if self.body is not None:
            return status, headers, self.body
        if status >= 500 and self.error is None:
            return status, headers, HTML
        error = self.error or ("ratelimited" if status == 429 else "internal_error")
        return status, headers, {"ok": False, "error": error, **self.more}


def _number(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"


class Faults:
    """The faults that wait, in order."""

    def __init__(self) -> None:
        self._waiting: list[Fault] = []
        self.healed = asyncio.Event()

    def add(self, fault: Fault) -> None:
        """Put it behind the others."""
        self._waiting.append(fault)

    def take(self, method: str, channel: Any = None) -> Fault | None:
        """The fault that fits this call, used up once; None where there is none."""
        for fault in self._waiting:
            if not fnmatch.fnmatchcase(method, fault.method):
                continue
            if fault.channel is not None and fault.channel != channel:
                continue
            if fault.times is not None:
                fault.times -= 1
                if fault.times <= 0:
                    self._waiting.remove(fault)
            return fault
        return None

    def heal(self) -> None:
        """No more faults; what hangs goes on."""
        self._waiting.clear()
        self.healed.set()
        self.healed = asyncio.Event()


class Faulty:
    """How a test makes the counterpart misbehave. `channel` limits a fault to calls about that channel."""

    faults: Faults

    def fail(
        self,
        method: str,
        *,
        status: int = 200,
        error: str | None = None,
        retry_after: float | str | None = None,
        times: int | None = 1,
        body: str | None = None,
        channel: str | None = None,
        **more: Any,
    ) -> None:
        """Answer the next `times` calls (None: all until `heal`) so; nothing is carried out.

        `retry_after` makes it 429 `ratelimited`; 500 and above without an `error` come with HTML; `body` is HTML of
        the test's own; `more` goes into the JSON (`needed=…`, `provided=…`).
        """
        self.faults.add(
            Fault(method, "answer", times, status, error, retry_after, body=body, channel=channel, more=more)
        )

    def accept_then_drop(self, method: str, *, times: int | None = 1, channel: str | None = None) -> None:
        """Carry it out, then close the connection without an answer."""
        self.faults.add(Fault(method, "drop", times, channel=channel))

    def accept_then_hang(self, method: str, *, times: int | None = 1, channel: str | None = None) -> None:
        """Carry it out, then answer nothing until `heal`."""
        self.faults.add(Fault(method, "mute", times, channel=channel))

    def hang(self, method: str, *, times: int | None = 1, channel: str | None = None) -> None:
        """Take it and do nothing until `heal`; then it goes its way, if its sender still waits."""
        self.faults.add(Fault(method, "hang", times, channel=channel))

    def delay(self, method: str, seconds: float, *, times: int | None = 1, channel: str | None = None) -> None:
        """Carry it out after `seconds` only."""
        self.faults.add(Fault(method, "delay", times, channel=channel, seconds=seconds))

    def heal(self) -> None:
        """No more faults; what hangs goes on."""
        self.faults.heal()
