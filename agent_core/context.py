"""From the transcript to the messages of a request: the stored wire texts, made valid but never changed.

What is missing is filled in by a pure function of the rows, so that it has the same bytes in every request
and in every process. The stored rows stay as they are (B70).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from agent_core.models.ports import Model
from agent_core.translate import pictures, retell
from state.records import ToolStatus, TranscriptMessage

NO_RESULT = "[No result: this call was interrupted. Whether it took effect is not known.]"
NOT_RUN = "[No result: this call was interrupted before it ran.]"
NO_ANSWER = "[No answer: this turn was ended.]"
CUT_OFF = "[The beginning of this conversation is not shown.]"


class Replay:
    """How the rows of one session are told to one model.

    `dialects` says from which row on which dialect was written; rows in another dialect than the model's
    are retold. `images` is false for a model that takes no pictures.
    """

    def __init__(self, model: Model, dialect: str, dialects: Sequence[tuple[int, str]], *, images: bool) -> None:
        self._model = model
        self._dialect = dialect
        self._dialects = dialects
        self._images = images

    def messages(self, rows: Sequence[TranscriptMessage]) -> list[str]:
        """The messages, in the order of the rows. Every call has exactly one result behind it, no result
        is without its call, and the first message is a person's."""
        told: list[str] = []
        at = 0
        before: TranscriptMessage | None = None
        while at < len(rows):
            row = rows[at]
            at += 1
            if row.role == "tool":
                continue  # an orphan: the results of a call are taken with it, below
            if row.role == "user":
                if before is not None and before.role == "user" and before.turn_id != row.turn_id:
                    told.append(self._model.wire_assistant(NO_ANSWER))
                told.append(self._user(row))
            else:
                results: list[TranscriptMessage] = []
                while at < len(rows) and rows[at].role == "tool":
                    results.append(rows[at])
                    at += 1
                if not row.tool_calls and not row.content.strip():
                    continue  # strict providers refuse an empty message
                if not told:
                    told.append(self._model.wire_user(CUT_OFF))
                told.append(self._assistant(row))
                told.extend(self._results(row, results))
            before = row
        return told

    def _is_native(self, row: TranscriptMessage) -> bool:
        current = ""
        for since, dialect in self._dialects:
            if row.id >= since:
                current = dialect
        return current == self._dialect

    def _user(self, row: TranscriptMessage) -> str:
        if row.wire is None:
            return self._model.wire_user(row.content or "(empty message)")
        if not self._is_native(row) or (not self._images and pictures(row.wire)):
            return retell(row.wire, self._model, images=self._images)
        return row.wire

    def _assistant(self, row: TranscriptMessage) -> str:
        if row.wire is None or not self._is_native(row):
            return self._model.wire_assistant(row.content, row.tool_calls)
        return row.wire

    def _results(self, row: TranscriptMessage, results: Sequence[TranscriptMessage]) -> list[str]:
        by_call = {result.tool_call_id: result for result in reversed(results)}
        told = []
        for call in row.tool_calls:
            result = by_call.get(call.id)
            if result is None or result.wire is None:
                planned = result is not None and result.tool_status is ToolStatus.PLANNED
                told.append(self._model.wire_tool_result(call, NOT_RUN if planned else NO_RESULT))
            elif self._is_native(result):
                told.append(result.wire)
            else:
                told.append(self._model.wire_tool_result(call, result.content))
        return told


def extend_dialects(dialects: Sequence[tuple[int, str]], since: int, dialect: str) -> tuple[tuple[int, str], ...]:
    """The list after a change: rows from `since` on are written in `dialect`."""
    kept = [(start, name) for start, name in dialects if start < since]
    joined = [*kept, (since if kept else 0, dialect)]
    return (joined[0], *(second for first, second in pairwise(joined) if first[1] != second[1]))
