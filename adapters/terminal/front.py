"""The port between the terminal's adapter and its front ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from adapters.events import Button
from adapters.ports import LivePart
from adapters.render import Said

SaidKind = Literal["answer", "failure", "notice", "earlier"]
"""`answer` and `failure` end the question that was asked, `notice` is about it (an approval, a delay),
`earlier` belongs to a message of an earlier terminal."""

ANSWERED = frozenset({"answered", "command", "merged", "steered"})
"""Fates after which nothing has gone wrong."""
OPEN = frozenset({"waiting", "running"})


class HungUp(Exception):
    """Nobody reads what is written any more (a closed pipe, a closed terminal)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a message ended. `text` is what was answered, also where that is why it failed."""

    message_id: str
    fate: str
    detail: str
    text: str
    session_id: str | None = None
    turn_id: str | None = None
    finish_reason: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def ok(self) -> bool:
        """Whether it was answered or carried out."""
        return self.fate in ANSWERED


class Talk(Protocol):
    """What a front end does with what is typed. Implemented by the adapter."""

    @property
    def title(self) -> str:
        """The name of the conversation, "" where it has none."""
        ...

    @property
    def commands(self) -> Sequence[tuple[str, str]]:
        """The slash commands: name without the slash, and help."""
        ...

    async def attach(self, line: str) -> Sequence[str]:
        """Carry out `/attach FILE…`: the files go with the next message. The lines to show."""
        ...

    async def say(self, text: str) -> str:
        """Hand over a message or, where it begins with a slash, a command. Returns its id once it is
        committed; raises `NotReady` where the store has not taken it for a while."""
        ...

    async def outcome(self, message_id: str) -> Outcome:
        """Wait for the end of a message of ours, and until what was answered has been shown."""
        ...

    async def press(self, button: Button) -> str:
        """Choose. Returns the id of the event; it ends like a command."""
        ...


class FrontEnd(Protocol):
    """Reads what is typed and shows what is said. All methods run on the event loop."""

    @property
    def attended(self) -> bool:
        """Whether somebody is there who can choose (not where a pipe is read)."""
        ...

    async def run(self, talk: Talk) -> int:
        """Serve until the person leaves; the exit code of the process."""
        ...

    async def show(self, said: Said, kind: SaidKind, message_id: str | None) -> None:
        """Show it; it counts as delivered when this returns. `message_id` is the message that it
        answers. Raises `HungUp` where nobody sees it."""
        ...

    def live(self, message_id: str, part: LivePart) -> None:
        """A part of a running turn. Never blocks, never raises, may be dropped."""
        ...

    async def close(self) -> None:
        """Give the terminal back as it was. Called once, also after a fault or a cancellation."""
        ...
