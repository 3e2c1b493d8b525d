"""What a turn is given, what bounds it, and what it gives back."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agent_core.models.ports import Model
from agent_core.ports import Emit, Input, Recall, Standing, Steering, Unwatched, Watch
from agent_core.prefix import PREFIXES, Prefixes
from agent_core.prompt import PromptSettings
from agent_core.tools.ports import Ask, Post, ProcessLedger
from agent_core.tools.registry import Registry
from state.audience import NOBODY, Viewer
from state.clock import SYSTEM, Clock
from state.ids import SessionKey
from state.records import NewMessage, Role, Session, TurnLease, TurnState
from state.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The bounds of one turn. Seconds where nothing else is said."""

    iterations: int = 60
    """Model calls that give an answer."""
    retries: int = 8
    """Repeated model calls after passing faults, over all models."""
    retry_seconds: float = 180.0
    """For waiting between them and for the calls that failed."""
    retry_base: float = 0.5
    """The first delay where the server names none; doubled each time."""
    retry_longest: float = 30.0
    tool_seconds: float = 1800.0
    """One tool call, the time in which a person is asked not counted."""
    cancel_seconds: float = 5.0
    """How long a cancelled tool may take to end before it is left behind."""
    calls_per_step: int = 32
    """Tool calls of one answer; what is more is refused."""
    parallel: int = 8
    """Calls that run at once."""
    recall_seconds: float = 8.0
    """For everything that is recalled at the start."""
    recall_chars: int = 12_000
    """Of one recalled text; what is longer is cut."""
    same_failures: int = 3
    """So often may the very same call fail in one turn; then it is not run again."""


def _jitter(seconds: float) -> float:
    return seconds * random.uniform(0.5, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnContext:
    """Everything that `run_turn` works with. `models`: the session's own first, then the fall-backs.

    `inputs` is empty when `resume` (the rows are in the store). `history` and `instructions` come from a
    stateless client: its earlier messages, written before the turn if the session has none yet, and its
    own system message, which goes into the frozen prompt, marked.
    """

    store: Store
    lease: TurnLease
    key: SessionKey
    session: Session
    inputs: Sequence[Input]
    resume: bool
    history: Sequence[tuple[Role, str]] = ()
    instructions: str | None = None
    models: Sequence[Model]
    registry: Registry
    disabled: frozenset[str] = frozenset()
    emit: Emit
    steering: Steering
    ask: Ask
    processes: ProcessLedger
    post: Post | None = None
    viewer: Viewer = NOBODY
    """Who hears the answer: nothing is recalled, searched or shown that they may not see."""
    recall: Sequence[Recall] = ()
    standing: Sequence[Standing] = ()
    """Whoever has something for a prompt that is frozen in this turn."""
    memory: Standing | None = None
    """The memory files, which come before them."""
    home: Path
    root: Path
    budget: Budget
    prompt: PromptSettings
    clock: Clock = SYSTEM
    prefixes: Prefixes = field(default=PREFIXES)
    watch: Watch = field(default_factory=Unwatched)
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    jitter: Callable[[float], float] = _jitter


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnUsage:
    """Sums over the model calls of this run; the rows of each call are in the store already."""

    calls: int = 0
    retries: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    request_bytes: int = 0
    prefix_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Final:
    """The end of a turn, to be committed with `turns.finish` together with the delivery and the fates.

    `text` is what the person is told ("" is never given), `rows` what the transcript keeps, `detail` one
    line for `/why`.
    """

    state: TurnState
    rows: tuple[NewMessage, ...]
    text: str
    detail: str = ""
    finish_reason: str | None = None
    model: str = ""
    usage: TurnUsage = field(default_factory=TurnUsage)
