"""What a command is given and gives back."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from adapters.events import MessageEvent
from gateway.access import Role
from gateway.workers import Busy
from state.ids import EventId, SessionId, SessionKey, TurnId
from state.records import Fate

# "/name@bot arguments": the handle is cut off, the arguments keep their inner white space (B44)
_COMMAND = re.compile(r"/([A-Za-z][A-Za-z0-9_-]{0,31})(?:@[\w.-]+)?(?:\s+(.*))?\s*", re.DOTALL)


def parse(text: str) -> tuple[str, str] | None:
    """Name (lower case) and arguments of a typed command, or None where the text is none."""
    found = _COMMAND.fullmatch(text.strip())
    return None if found is None else (found[1].lower(), (found[2] or "").strip())


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A command as it was given. `args` is the text after the name."""

    event_id: EventId
    key: SessionKey
    event: MessageEvent
    role: Role
    name: str
    args: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The end of a command: what is said, and the fate of the event. `undo` takes a turn out of the
    context in the same transaction."""

    text: str
    fate: Fate = Fate.COMMAND
    detail: str = ""
    undo: tuple[SessionId, TurnId] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """The command is a message after all: answer `text`, in `mode` (None: the chat's own)."""

    text: str
    mode: Busy | None = None


Handler = Callable[[Call], Awaitable[Reply | Forward]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command. `usage` is its arguments as `/help` shows them; `needs` the least role."""

    name: str
    help: str
    handler: Handler
    usage: str = ""
    needs: Role = "guest"
