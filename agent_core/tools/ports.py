"""The port of a tool, and what a tool is given when it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from agent_core.models.ports import ToolSpec
from state.audience import NOBODY, Viewer
from state.ids import SessionId, TurnId

RightsRole = Literal["owner", "member", "guest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """What a turn may use: the intersection of the rights of everybody whose text entered it.

    `tools` are tool group names (`files`, `terminal`, `web`, `todo`, `clarify` …).
    """

    role: RightsRole
    tools: frozenset[str]

    def meet(self, other: Rights) -> Rights:
        """The intersection of both."""
        order: tuple[RightsRole, ...] = ("guest", "member", "owner")
        return Rights(role=min(self.role, other.role, key=order.index), tools=self.tools & other.tools)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What a tool gives back. `content` goes to the model, `summary` is one line for people.

    `extract` is the bounded text for search (commands run, files touched).
    """

    content: str
    ok: bool = True
    summary: str = ""
    extract: str = ""


class Ask(Protocol):
    """How a running turn asks a person. Durable: the question outlives a restart of the process."""

    async def approve(self, call_id: str, what: str) -> bool:
        """Ask an owner to allow exactly `what`, once. False: denied, expired, or nobody can answer.

        `approvals: never` in the configuration makes it True at once (the owner's risk). After a crash
        a call that waited asks for the same approval again and does not make a second one.
        """
        ...

    async def clarify(self, call_id: str, question: str, options: Sequence[str]) -> str | None:
        """Ask the person of this turn. None: no answer in time, or nobody can answer."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OutFile:
    """A file that goes out: a copy below `home/files` that nobody changes any more."""

    path: str
    name: str
    mime: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """What became of a post, in words for the model."""

    ok: bool
    told: str


class Post(Protocol):
    """How a running turn says something before its end."""

    async def post(self, call_id: str, text: str, files: Sequence[OutFile], to: str | None) -> Posted:
        """Hand it over for delivery, durably; returns after the commit. `to` None is the turn's own chat.

        The same thing twice in one turn is sent once, and told. Raises the store's errors.
        """
        ...


class ProcessLedger(Protocol):
    """Where a tool records a process group before its command runs, so that a crash leaves no orphan."""

    async def started(self, call_id: str, pgid: int, start_ticks: int) -> None:
        """Commit it. The command must not run before this returns."""
        ...

    async def ended(self, pgid: int, start_ticks: int) -> None:
        """The whole group is gone."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """Given to every run. Everything about the session comes from here, nothing from globals (B04)."""

    session_id: SessionId
    turn_id: TurnId
    call_id: str
    rights: Rights
    root: Path
    """The only folder that `files` and `terminal` may work in."""
    home: Path
    """The state folder; refused by path to every tool."""
    ask: Ask
    processes: ProcessLedger
    post: Post | None = None
    """None: nothing can be sent from here."""
    viewer: Viewer = NOBODY
    """Who hears the answer of this turn."""
    memory: dict[str, Any] = field(default_factory=dict)
    """State of the session's tools that may be lost with the process (never a promise)."""


class Tool(Protocol):
    """One tool. Stateless; runs of different sessions are concurrent."""

    @property
    def spec(self) -> ToolSpec:
        """Its description for the model."""
        ...

    @property
    def group(self) -> str:
        """The group that rights are given by (`files`, `terminal`, `web`, `todo`, `clarify`, …)."""
        ...

    @property
    def parallel(self) -> bool:
        """True where calls may run beside others of the same step (reads without side effects)."""
        ...

    def describe(self, arguments: Mapping[str, Any]) -> str:
        """One line for people about this very call, without secrets. Never raises."""
        ...

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Run it. `arguments` are valid JSON and fit the schema.

        A failure that the model can react to is a `ToolResult(ok=False)`; an exception is a defect,
        which the loop turns into a failed result and logs. Cancelling ends it and what it started,
        within 5 s. Every wait inside is bounded.
        """
        ...


@runtime_checkable
class AsksFirst(Protocol):
    """A tool that has no effect before `Ask.approve` has said yes, or none at all (`clarify`).

    Its call stays *planned* while a person is asked, and becomes *started* at the yes: after a crash in
    between it asks again instead of ending as unknown. Every other tool is started before `run`.
    """

    @property
    def asks_first(self) -> Literal[True]:
        """The mark. A class attribute will do."""
        ...
