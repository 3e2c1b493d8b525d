"""What the loop needs from its surroundings. Implemented by the gateway."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from agent_core.events import AgentEvent
from agent_core.models.ports import Image, Usage
from agent_core.tools.ports import Rights
from state.audience import Viewer
from state.ids import EventId, SessionId, TurnId

Emit = Callable[[AgentEvent], None]
"""Takes an event of the loop. Never blocks and never raises."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """One person's message on its way into a turn.

    `text` is the person's own words; `note` is what the model sees besides (quoted reply, attachments
    that are files, the author's name in a shared session), already neutralised.
    """

    event_ids: tuple[EventId, ...]
    text: str
    note: str = ""
    images: tuple[Image, ...] = ()
    author: str | None = None
    audience: str | None = None
    platform_message_id: str | None = None


class Steering(Protocol):
    """The messages that join a running turn."""

    def take(self) -> Sequence[Input]:
        """What has arrived since the last call, in order; taken once. Never blocks."""
        ...

    def rights(self) -> Rights:
        """The rights of the turn as they are now (configuration and steering may lower them)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is known when a turn begins, for those who have something to add. `query` is what the person wrote, without
    notes, names or scaffolding."""

    session_id: SessionId
    turn_id: TurnId
    query: str
    viewer: Viewer


class Recall(Protocol):
    """Adds background to the message that begins a turn: memory, what was said elsewhere. It goes into the wire form
    of that message only, marked as no one's instruction, and is replayed byte for byte (P5)."""

    @property
    def name(self) -> str:
        """For the log."""
        ...

    async def recall(self, asked: Asked) -> str:
        """The text, "" for nothing. Holds only what `asked.viewer` may see. Called once a turn, beside the others,
        and never for a resumed one; bounded by `Budget.recall_seconds`, after which it counts as nothing. A failure
        is logged and counts as nothing."""
        ...


class Standing(Protocol):
    """Has lasting facts for the system prompt."""

    async def standing(self, viewer: Viewer) -> str:
        """The text, "" for nothing. Holds only what the viewer may see. Called when a prompt is frozen; bounded, and
        never raises."""
        ...


class Watch(Protocol):
    """Hears how long the parts of a turn took. Never blocks and never raises."""

    def model_called(
        self, model: str, seconds: float, outcome: str, usage: Usage | None, boundary: str | None, tries: int
    ) -> None:
        """A model call has ended: `outcome` is its finish reason, or the name of the error (`usage` is None then).

        `boundary` says why the request did not begin with the one before, None where it did.
        `tries` counts the calls before this one that failed.
        """
        ...

    def tool_called(self, tool: str, seconds: float, status: str, call_id: str) -> None:
        """A tool call has ended and its result is stored. `tool` is "unknown" where there is no such tool."""
        ...


class Unwatched:
    """Nobody hears it."""

    def model_called(
        self, model: str, seconds: float, outcome: str, usage: Usage | None, boundary: str | None, tries: int
    ) -> None:
        """Nothing."""

    def tool_called(self, tool: str, seconds: float, status: str, call_id: str) -> None:
        """Nothing."""
