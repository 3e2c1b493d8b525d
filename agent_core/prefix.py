"""Watches that each request of a session begins with the whole one before it (P5). In memory, bounded."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from dataclasses import dataclass

import structlog

from agent_core.models.ports import Request
from state.ids import SessionId

log = structlog.get_logger("agent_core.prefix")

FIRST = "first call in this process"
UNDECLARED = "undeclared"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """How a request relates to the one before: bytes of tools, system and messages that both begin with,
    and the boundary between them: declared, or found where the old one is not wholly contained."""

    prefix_bytes: int
    break_reason: str | None


@dataclass(slots=True)
class _Seen:
    hashes: array[int]
    sizes: array[int]


class Prefixes:
    """Remembers of each session's last request a hash and a size per part, not the text."""

    def __init__(self, limit: int = 2000) -> None:
        """`limit` is the number of sessions kept; the one unused longest is forgotten first."""
        self._limit = limit
        self._seen: OrderedDict[SessionId, _Seen] = OrderedDict()
        self._declared: dict[SessionId, str] = {}

    def declare(self, session_id: SessionId, reason: str) -> None:
        """The next request of the session may begin otherwise (/undo, a model change …). The first
        reason counts until that request."""
        if session_id in self._seen:
            self._declared.setdefault(session_id, reason)

    def note(self, session_id: SessionId, request: Request, reason: str | None = None) -> Shared:
        """Compare with the session's last request and remember this one. `reason` is a boundary that the
        caller knows of. Linear in the number of parts, and in the size of the new ones."""
        parts = (*request.tools, request.system, *request.messages)
        before = self._seen.pop(session_id, None)
        declared = self._declared.pop(session_id, None)
        hashes = array("q", map(hash, parts))
        equal = 0
        if before is not None:
            for old, new in zip(before.hashes, hashes, strict=False):
                if old != new:
                    break
                equal += 1
        sizes = array("q", before.sizes[:equal] if before is not None else ())
        sizes.extend(len(part) if part.isascii() else len(part.encode()) for part in parts[equal:])
        self._seen[session_id] = _Seen(hashes, sizes)
        while len(self._seen) > self._limit:
            forgotten, _ = self._seen.popitem(last=False)
            self._declared.pop(forgotten, None)
        return self._judge(session_id, before, equal, sum(sizes[:equal]), reason or declared)

    def _judge(self, session_id: SessionId, before: _Seen | None, equal: int, size: int, reason: str | None) -> Shared:
        if before is None:
            return Shared(prefix_bytes=0, break_reason=reason or FIRST)
        if equal == len(before.hashes):
            # A boundary counts although no byte differs: another model has another cache.
            return Shared(prefix_bytes=size, break_reason=reason)
        if reason is None:
            log.warning("prefix.broken", session=session_id, parts=len(before.hashes), equal=equal)
        return Shared(prefix_bytes=size, break_reason=reason or UNDECLARED)


PREFIXES = Prefixes()
"""The process's own watch; `declare` is called there before a turn that may begin otherwise."""
