"""Calls of the model: streamed, retried within one budget a turn, counted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import structlog

from agent_core.errors import ModelError, ModelUnavailable
from agent_core.events import TextDelta, TextReset, Waiting
from agent_core.models.ports import Completion, Model, Request
from agent_core.turn import TurnContext, TurnUsage
from state.errors import StateError
from state.records import NewUsage

log = structlog.get_logger("agent_core.model_calls")

Prepare = Callable[[], Awaitable[Request]]
"""Makes the request; asked again before every try. May raise `ModelUnavailable` (it asks the model)."""


class Caller:
    """The model calls of one turn."""

    def __init__(self, context: TurnContext) -> None:
        self._context = context
        self._retries = context.budget.retries
        self._seconds = context.budget.retry_seconds
        self.boundary: str | None = None
        """Why the next request may begin otherwise than the last one; recorded with it."""
        self.usage = TurnUsage()

    async def ask(self, model: Model, prepare: Prepare, *, waiting: int) -> Completion:
        """One answer. Passing faults are retried while the turn's budget lasts; `waiting` fall-back models
        are left their share of it. Raises the `ModelError` that ended it."""
        share = -(-self._retries // (waiting + 1))
        seconds = self._seconds / (waiting + 1)
        tries = 0
        while True:
            began = self._context.clock.monotonic()
            try:
                return await self._once(model, await prepare(), tries)
            except ModelUnavailable as error:
                delay = self._delay(error, tries)
                spent = self._context.clock.monotonic() - began + delay
                log.warning("model.unavailable", model=model.name, error=str(error), tries=tries, delay=round(delay, 2))
                if tries >= share or spent > seconds:
                    raise _given_up(error) from error
                seconds -= spent
            tries += 1
            self._retries -= 1
            self._seconds -= spent
            self.usage = replace(self.usage, retries=self.usage.retries + 1)
            self._context.emit(Waiting(text=f"The model cannot be reached; next try in {max(delay, 1.0):.0f} s."))
            await self._context.sleep(delay)

    def _delay(self, error: ModelUnavailable, tries: int) -> float:
        if error.retry_after is not None:
            return max(error.retry_after, 0.0)
        budget = self._context.budget
        return self._context.jitter(min(budget.retry_base * 2.0**tries, budget.retry_longest))

    async def _once(self, model: Model, request: Request, tries: int) -> Completion:
        context, streamed = self._context, False
        completion: Completion | None = None
        began = context.clock.monotonic()
        try:
            async for piece in model.stream(request):
                if isinstance(piece, Completion):
                    completion = piece
                elif piece.text:
                    streamed = True
                    context.emit(TextDelta(text=piece.text))
            if completion is None:
                raise ModelUnavailable("the model's answer broke off")
        except (ModelError, OSError) as error:
            took = context.clock.monotonic() - began
            context.watch.model_called(model.name, took, type(error).__name__, None, None, tries)
            if streamed:
                context.emit(TextReset(reason="the model's answer broke off"))
            if isinstance(error, ModelError):
                raise
            raise ModelUnavailable(f"no connection to the model ({type(error).__name__})") from error
        await self._count(model, request, completion, context.clock.monotonic() - began, tries)
        return completion

    async def _count(
        self, model: Model, request: Request, completion: Completion, seconds: float, tries: int
    ) -> None:
        context, used = self._context, completion.usage
        shared = context.prefixes.note(context.session.id, request, self.boundary)
        self.boundary = None
        context.watch.model_called(model.name, seconds, completion.finish_reason, used, shared.break_reason, tries)
        row = NewUsage(
            model=model.name,
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens,
            cached_tokens=used.cached_tokens,
            request_bytes=len(completion.request_body),
            prefix_bytes=shared.prefix_bytes,
            break_reason=shared.break_reason,
            seconds=seconds,
        )
        self.usage = replace(
            self.usage,
            calls=self.usage.calls + 1,
            input_tokens=self.usage.input_tokens + row.input_tokens,
            output_tokens=self.usage.output_tokens + row.output_tokens,
            cached_tokens=self.usage.cached_tokens + row.cached_tokens,
            request_bytes=self.usage.request_bytes + row.request_bytes,
            prefix_bytes=self.usage.prefix_bytes + row.prefix_bytes,
        )
        log.info(
            "model.answered", turn=context.lease.turn_id, model=model.name, seconds=round(seconds, 3),
            finish=completion.finish_reason, calls=len(completion.tool_calls), request_bytes=row.request_bytes,
            prefix_bytes=row.prefix_bytes, cached_tokens=row.cached_tokens, boundary=shared.break_reason,
        )
        try:
            await context.store.usage.add(context.session.id, context.lease.turn_id, row)
        except StateError as error:  # figures are worth less than the answer
            log.warning("usage.not_stored", turn=context.lease.turn_id, error=str(error))


def _given_up(error: ModelUnavailable) -> ModelUnavailable:
    if error.retry_after is None:
        return ModelUnavailable(str(error), told=error.told)
    wait = f"{error.retry_after:.0f} s" if error.retry_after < 120 else f"{error.retry_after / 60:.0f} minutes"
    told = f"The model cannot be reached at the moment; its server asks to wait {wait}."
    return ModelUnavailable(str(error), retry_after=error.retry_after, told=told)
