"""What a command is given and gives back."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from adapters.events import EventKind, MessageEvent
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
    """The command is a message after all: answer `text`, in `mode` (None: the chat's own).

    `event` is given where it is an earlier message (`again`): it takes the place of the command in the
    inbox, so that a crash leaves a message to be answered, with its files and with whose words it holds.
    """

    text: str
    mode: Busy | None = None
    event: MessageEvent | None = None


def again(call: Call, said: Sequence[MessageEvent], text: str) -> MessageEvent:
    """What was `said` (the parts of one message of the caller) as the event of this call, with `text`."""
    return dataclasses.replace(
        said[0],
        kind=EventKind.MESSAGE,
        dedup_id=call.event.dedup_id,
        message_id=call.event.message_id,
        received_at=call.event.received_at,
        text=text,
        attachments=tuple(file for one in said for file in one.attachments),
        facts=tuple(fact for one in said for fact in one.facts),
        forwarded_from=next((one.forwarded_from for one in said if one.forwarded_from is not None), None),
        group_id=None,
        mentions_us=True,
    )


Handler = Callable[[Call], Awaitable[Reply | Forward]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command. `usage` is its arguments as `/help` shows them; `needs` the least role."""

    name: str
    help: str
    handler: Handler
    usage: str = ""
    needs: Role = "guest"
