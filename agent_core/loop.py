"""The agent loop: a turn from its first row to its end.

    open (prompt frozen, rows composed and committed)
      -> ask the model -> commit its calls as planned -> run them -> take what joins the turn -> ask again ...
      -> the end, which the gateway commits together with the delivery and the fates

Every request is made from stored rows only, so that each begins with the whole one before it (P5).
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from agent_core.compose import Album, ended_row, history_rows, user_row
from agent_core.errors import AgentError, BudgetSpent, ContextFull, Interrupted, ModelError
from agent_core.events import StepCommitted, TextReset, Waiting
from agent_core.model_calls import Caller
from agent_core.models.ports import Completion, Request
from agent_core.ports import Input
from agent_core.recall import recalled
from agent_core.seat import Seat
from agent_core.settle import settled
from agent_core.tool_calls import NOT_RUN, UNKNOWN_AFTER_CRASH, Calls, Outcome
from agent_core.turn import Budget, Final, TurnContext, TurnUsage
from state.errors import Conflict, StateError
from state.ids import RowId
from state.records import NewMessage, ToolCall, ToolStatus, TranscriptMessage, TurnState

__all__ = ["Budget", "Final", "TurnContext", "TurnUsage", "abandon", "run_turn"]

log = structlog.get_logger("agent_core.loop")

CUT = "[The answer was cut off: it reached the model's length limit.]"
EMPTY = "The model gave an empty answer, twice. Please ask again, or in other words."
EMPTY_LENGTH = "The model used up its whole length for thinking and gave no answer. Please ask for less at once."
DEFECT = "Something went wrong inside me with this turn. It is in the log."
STUCK_CALLS = 3
"""So many calls that are refused as repeats of failed ones end the turn."""


async def run_turn(context: TurnContext) -> Final:
    """Run the turn up to its end, which is not committed yet.

    Raises only a `StateError` (LeaseLost first of all) and CancelledError; everything else that goes wrong
    is a Final that tells it. When it is cancelled, every call that ran has its result stored; then call
    `abandon`, or leave the turn RUNNING to be resumed.
    """
    turn = _Turn(context)
    try:
        await turn.open()
        return await turn.go()
    except AgentError as error:
        log.warning("turn.failed", turn=context.lease.turn_id, kind=type(error).__name__, error=str(error))
        return await turn.ended(TurnState.FAILED, error.told, f"{type(error).__name__}: {error}", "failed")
    except StateError:
        raise
    except Exception as error:  # boundary: a defect ends the turn, told, and never the worker
        log.exception("turn.defect", turn=context.lease.turn_id)
        return await turn.ended(TurnState.FAILED, DEFECT, f"defect: {type(error).__name__}", "failed")


async def abandon(context: TurnContext, reason: str) -> Final:
    """The end of a turn that was ended from outside (`run_turn` has been cancelled and is over, or was never
    begun). `reason` is a clause such as "it was stopped".

    What was streamed and not committed is forgotten; every open call gets a result that says what is
    known of it. Raises a `StateError` only.
    """
    turn = _Turn(context)
    told = f"{Interrupted.told.rstrip('.')}: {reason.strip().rstrip('.') or 'it was asked for'}."
    return await turn.ended(TurnState.INTERRUPTED, told, reason, "interrupted")


class _Turn:
    """A turn at work. `rows` are all rows of the session so far, as the store has them."""

    def __init__(self, context: TurnContext) -> None:
        self._c = context
        self._seat = Seat(context)
        self._caller = Caller(context)
        self._calls = Calls(context)
        self._rows: list[TranscriptMessage] = []
        self._iterations = 0
        self._begun = False

    @property
    def _audience(self) -> str | None:
        own = (row for row in self._rows if row.turn_id == self._c.lease.turn_id and row.role == "user")
        first = next(own, None)
        return first.audience if first is not None else None

    # -- opening

    async def open(self) -> None:
        """Freeze the prompt if needed and begin the turn, or take it up where it was left."""
        if self._c.resume:
            await self._resume()
            return
        self._rows = await self._c.store.transcript.load(self._c.session.id)
        await self._seat.open(self._rows)
        await self._begin()

    async def _begin(self) -> None:
        context, model = self._c, self._seat.writer
        new: list[NewMessage] = []
        if not self._rows:  # a session that has begun keeps its own history
            audience = context.inputs[0].audience if context.inputs else None
            new += history_rows(context.history, model, audience)
        new += self._compose(context.inputs, await recalled(context))
        event_ids = [event_id for entry in context.inputs for event_id in entry.event_ids]
        ids = await settled(context.store.turns.begin(context.lease, context.key, event_ids, new), "begin")
        self._begun = True
        self._take(new, ids)
        log.info("turn.begun", turn=context.lease.turn_id, session=context.session.id, rows=len(self._rows))

    def _compose(self, inputs: Sequence[Input], background: str = "") -> list[NewMessage]:
        has_images = any(entry.images for entry in inputs)
        album = Album.of(self._rows if has_images else (), takes=self._seat.takes_images)
        rows = (background, *("" for _ in inputs))  # what is recalled stands before the first of them
        return [user_row(entry, self._seat.writer, album, told) for entry, told in zip(inputs, rows, strict=False)]

    async def _resume(self) -> None:
        context = self._c
        turn, own = await settled(context.store.turns.resume(context.lease, context.lease.turn_id), "resume")
        self._begun = True
        self._rows = await context.store.transcript.load(context.session.id)
        await self._seat.open(self._rows)
        self._calls.remember(own)
        self._iterations = sum(bool(row.tool_calls) for row in own)
        log.info("turn.resumed", turn=turn.id, session=context.session.id, attempts=turn.attempts, rows=len(own))
        await self._close(own, planned=None)
        planned = [(row, call) for row, call in _open_calls(own) if row.tool_status is ToolStatus.PLANNED]
        await self._run(planned)

    # -- the loop

    async def go(self) -> Final:
        """Ask, run tools, take what joins; until the model has said its last word or a bound is reached."""
        asked_again = False
        while True:
            if self._iterations >= self._c.budget.iterations:
                raise BudgetSpent(
                    f"{self._iterations} model calls",
                    told=f"I stopped: this turn has used up its {self._c.budget.iterations} steps. "
                    "What is done is done; say so if I shall go on.",
                )
            self._iterations += 1
            completion = await self._ask()
            if completion.tool_calls:
                await self._step(completion)
            elif completion.text.strip():
                return self._final(completion)
            elif asked_again:
                told = EMPTY_LENGTH if completion.finish_reason == "length" else EMPTY
                raise ModelError(f"an empty answer, twice (finish reason {completion.finish_reason})", told=told)
            else:
                # The very same request again: another one would not begin with this one (P5).
                asked_again = True
                log.warning("model.empty", turn=self._c.lease.turn_id, finish=completion.finish_reason)
                self._c.emit(TextReset(reason="the model gave an empty answer"))

    async def _ask(self) -> Completion:
        """One answer, from the first model that can give it."""
        while True:
            try:
                return await self._caller.ask(self._seat.model, self._request, waiting=self._seat.waiting)
            except ContextFull:
                raise  # another model does not make the conversation shorter; this is where compaction comes in
            except ModelError as error:
                if not self._seat.step_down(type(error).__name__):
                    raise
                self._c.emit(Waiting(text=f"{error.told} I go on with the model {self._seat.model.name}."))

    async def _request(self) -> Request:
        await self._seat.settle(self._rows)
        self._caller.boundary = self._seat.take_boundary() or self._caller.boundary
        return self._seat.request(self._rows)

    async def _step(self, completion: Completion) -> None:
        """Commit what the model said and its calls as planned, in one transaction; then run them."""
        planned = [
            NewMessage(
                role="tool", content="", tool_call_id=call.id, tool_name=call.name, tool_status=ToolStatus.PLANNED,
                audience=self._audience,
            )
            for call in completion.tool_calls
        ]
        new = [self._said(completion), *planned]
        ids = await settled(self._c.store.turns.append(self._c.lease, new), "append")
        rows = self._take(new, ids)
        self._c.emit(StepCommitted(row_id=ids[0], text=completion.text))
        cut = completion.finish_reason == "length"
        await self._run(list(zip(rows[1:], completion.tool_calls, strict=True)), cut=cut)
        if self._calls.refused_repeats >= STUCK_CALLS:
            raise BudgetSpent(
                "repeats of failed calls",
                told="I stopped: I kept trying the same thing although it had failed every time.",
            )
        await self._steer()

    async def _run(self, planned: Sequence[tuple[TranscriptMessage, ToolCall]], *, cut: bool = False) -> None:
        if planned:
            self._replace(await self._calls.run(planned, self._seat.writer, cut=cut))

    async def _steer(self) -> None:
        """What people have said meanwhile joins the turn as rows of its own."""
        for entry in self._c.steering.take():
            new = self._compose([entry])
            write = self._c.store.turns.steer(self._c.lease, entry.event_ids, new)
            try:
                self._take(new, await settled(write, "steer"))
            except Conflict:  # deleted or answered otherwise meanwhile: it does not join, the turn goes on
                log.info("turn.not_steered", turn=self._c.lease.turn_id, events=entry.event_ids)
            else:
                log.info("turn.steered", turn=self._c.lease.turn_id, events=entry.event_ids)

    # -- the end

    def _said(self, completion: Completion) -> NewMessage:
        return NewMessage(
            role="assistant",
            content=completion.text,
            wire=completion.wire,
            tool_calls=completion.tool_calls,
            reasoning=completion.reasoning or None,
            finish_reason=completion.finish_reason,
            audience=self._audience,
        )

    def _final(self, completion: Completion) -> Final:
        parts = [completion.text]
        if completion.finish_reason == "length":
            parts.append(CUT)
        parts.extend(f"[Note: {notice}.]" for notice in dict.fromkeys(self._calls.notices))
        return Final(
            state=TurnState.ANSWERED,
            rows=(self._said(completion),),
            text="\n\n".join(parts),
            detail="cut at the length limit" if completion.finish_reason == "length" else "",
            finish_reason=completion.finish_reason,
            model=self._seat.model.name,
            usage=self._caller.usage,
        )

    async def ended(self, state: TurnState, told: str, detail: str, finish_reason: str) -> Final:
        """The end without an answer, from wherever the turn stands. The person's rows stay, every call has
        a result, and one short row says that there was no answer."""
        if not self._begun:
            await self._begin_or_take_over()
        own = await self._c.store.transcript.rows_of(self._c.lease.turn_id)
        await self._close(own, planned=NOT_RUN)
        notes = [f"[Note: {notice}.]" for notice in dict.fromkeys(self._calls.notices)]
        return Final(
            state=state,
            rows=(ended_row(told, self._seat.writer, self._audience, finish_reason),),
            text="\n\n".join([told, *notes]),
            detail=" ".join(detail.split())[:500],
            finish_reason=finish_reason,
            model=self._seat.model.name,
            usage=self._caller.usage,
        )

    async def _begin_or_take_over(self) -> None:
        """Where the turn was ended before this run of it began: its rows are written all the same."""
        context = self._c
        self._rows = await context.store.transcript.load(context.session.id)
        await self._seat.open_as_it_is(self._rows)
        turn = await context.store.turns.get(context.lease.turn_id)
        if turn is None:
            await self._begin()
        elif turn.fence != context.lease.fence:
            await settled(context.store.turns.resume(context.lease, turn.id), "resume")
        self._begun = True

    async def _close(self, own: Sequence[TranscriptMessage], *, planned: str | None) -> None:
        """Give open calls of the turn a result. `planned` is what is said of calls that did not run; None
        leaves them planned."""
        closed: list[TranscriptMessage] = []
        for row, call in _open_calls(own):
            if row.tool_status is ToolStatus.PLANNED:
                if planned is None:
                    continue
                outcome = Outcome(status=ToolStatus.FAILED, content=planned, summary="not run")
            else:
                outcome = Outcome(status=ToolStatus.UNKNOWN, content=UNKNOWN_AFTER_CRASH, summary="outcome unknown")
                self._calls.notices.append(f"the outcome of a call of {call.name} is unknown, and it was not repeated")
            closed.append(await self._calls.store(row, call, self._seat.writer, outcome))
        self._replace(closed)

    # -- the rows

    def _take(self, new: Sequence[NewMessage], ids: Sequence[RowId]) -> list[TranscriptMessage]:
        """Add committed rows to those in memory; they are what a load would give."""
        lease, now = self._c.lease, self._c.clock.utc()
        rows = [
            TranscriptMessage(
                id=row_id, session_id=lease.session_id, turn_id=lease.turn_id, fence=lease.fence, role=one.role,
                content=one.content, wire=one.wire, tool_calls=one.tool_calls, tool_call_id=one.tool_call_id,
                tool_name=one.tool_name, tool_status=one.tool_status, reasoning=one.reasoning,
                finish_reason=one.finish_reason, platform_message_id=one.platform_message_id, author=one.author,
                audience=one.audience, active=True, created_at=now,
            )
            for one, row_id in zip(new, ids, strict=True)
        ]
        self._rows.extend(rows)
        return rows

    def _replace(self, finished: Sequence[TranscriptMessage]) -> None:
        by_id = {row.id: row for row in finished}
        self._rows = [by_id.get(row.id, row) for row in self._rows]


def _open_calls(own: Sequence[TranscriptMessage]) -> list[tuple[TranscriptMessage, ToolCall]]:
    """The tool rows without a result, each with its call."""
    found: list[tuple[TranscriptMessage, ToolCall]] = []
    calls: dict[str, ToolCall] = {}
    for row in own:
        if row.role == "assistant":
            calls = {call.id: call for call in row.tool_calls}
        elif row.role == "tool" and row.wire is None and row.tool_call_id in calls:
            found.append((row, calls[row.tool_call_id]))
    return found
