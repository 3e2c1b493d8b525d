"""Faults a test asks for, and what was called."""

from __future__ import annotations

import asyncio
import fnmatch
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

JsonDict = dict[str, Any]

_DESCRIPTIONS = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    409: "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running",
    429: "Too Many Requests: retry later",
}
HTML = "<html>\r\n<head><title>{0} Bad Gateway</title></head>\r\n<body><center><h1>{0}</h1></center></body>\r\n</html>"


@dataclass(frozen=True, slots=True)
class Call:
    """A request as it arrived."""

    method: str
    params: JsonDict
    uploads: Mapping[str, Any]
    at: float
    """Monotonic, in seconds (the loop's clock)."""
    connection: int
    """The port it came from: one for each connection."""
    headers: Mapping[str, str]

    @property
    def chat(self) -> Any:
        return self.params.get("chat_id")


@dataclass(slots=True)
class Fault:
    """What happens instead of an answer."""

    method: str
    kind: str
    """`answer`, `drop` (executed, then the connection is closed), `hang` (until healed), `mute` (executed, then
    nothing until healed) or `delay` (`seconds`, then executed)."""
    status: int = 500
    description: str | None = None
    retry_after: int | None = None
    body: str | None = None
    times: int | None = 1
    until: float | None = None
    chat: int | None = None
    seconds: float = 0.0

    def answer(self) -> tuple[int, str, str]:
        """Status, content type and body."""
        if self.body is not None:
            return self.status, "text/html", self.body
        if self.status >= 500 and self.description is None:
            return self.status, "text/html", HTML.format(self.status)
        description = self.description or _DESCRIPTIONS.get(self.status, "Error")
        answer: JsonDict = {"ok": False, "error_code": self.status, "description": description}
        if self.retry_after is not None:
            if self.description is None:
                answer["description"] = f"Too Many Requests: retry after {self.retry_after}"
            answer["parameters"] = {"retry_after": self.retry_after}
        return self.status, "application/json", json.dumps(answer)


class Faults:
    """The faults that wait, in order; each fits methods (a pattern as `send*`) and perhaps a chat."""

    def __init__(self) -> None:
        self._waiting: list[Fault] = []
        self.healed = asyncio.Event()

    def add(self, fault: Fault) -> None:
        """Put it behind the others."""
        self._waiting.append(fault)

    def take(self, method: str, params: JsonDict, now: float) -> Fault | None:
        """The fault that fits this call, used up once; None where there is none."""
        self._waiting = [one for one in self._waiting if one.until is None or one.until > now]
        for fault in self._waiting:
            if not fnmatch.fnmatchcase(method.lower(), fault.method):
                continue
            if fault.chat is not None and fault.chat != params.get("chat_id"):
                continue
            if fault.times is not None:
                fault.times -= 1
                if fault.times <= 0:
                    self._waiting.remove(fault)
            return fault
        return None

    def heal(self) -> None:
        """No more faults; requests that hang go on."""
        self._waiting.clear()
        self.healed.set()
        self.healed = asyncio.Event()
