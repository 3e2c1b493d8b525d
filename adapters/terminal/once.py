"""The front end for scripts: one question, one answer, as text or as a JSON object."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from adapters.errors import NotReady
from adapters.ports import LivePart
from adapters.render import Said, choices
from adapters.terminal.front import FrontEnd, HungUp, Outcome, SaidKind, Talk
from adapters.terminal.lines import LineWriter
from adapters.terminal.neutral import neutral, one_line

_CONTROLS = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class OnceFront:
    """Implements `FrontEnd`. Asks `question`; ends with 0 where it was answered and 1 where it was not.

    With `as_json` the output is one object a line: `ok`, `text`, `fate`, `detail`, `message_id`,
    `session_id`, `turn_id`, `finish_reason`, `usage`, `files`; where it was not taken, `ok` and `detail`.
    """

    def __init__(self, question: str, out: int | None, err: int | None, *, as_json: bool = False) -> None:
        self._question = question
        self._as_json = as_json
        self._out = LineWriter(out, "terminal-out")
        self._err = LineWriter(err, "terminal-err")
        self._files: list[str] = []

    @property
    def attended(self) -> bool:
        """See the port."""
        return False

    async def run(self, talk: Talk) -> int:
        """See the port."""
        try:
            outcome = await talk.outcome(await talk.say(self._question))
        except NotReady as error:
            return await self._not_taken(str(error))
        except HungUp:
            return 1
        if self._as_json:
            await self._out.write(self._object(outcome))
        elif not outcome.ok or not outcome.text:
            await self._err.write(f"tidings: {outcome.fate}: {one_line(outcome.detail)}\n")
        return 0 if outcome.ok else 1

    async def _not_taken(self, why: str) -> int:
        if self._as_json:
            await self._out.write(json.dumps({"ok": False, "fate": "refused", "detail": why}) + "\n")
        else:
            await self._err.write(f"tidings: not taken: {one_line(why)}\n")
        return 1

    def _object(self, outcome: Outcome) -> str:
        data = {
            "ok": outcome.ok,
            "text": outcome.text,
            "fate": outcome.fate,
            "detail": outcome.detail,
            "message_id": outcome.message_id,
            "session_id": outcome.session_id,
            "turn_id": outcome.turn_id,
            "finish_reason": outcome.finish_reason,
            "usage": {"input_tokens": outcome.input_tokens, "output_tokens": outcome.output_tokens},
            "files": self._files,
        }
        # JSON leaves these as they are, and some terminals obey them
        return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(data, ensure_ascii=False)) + "\n"

    async def show(self, said: Said, kind: SaidKind, message_id: str | None) -> None:
        """See the port."""
        if said.media is not None:
            self._files.append(said.media.path or said.media.name)
        if kind == "answer":
            if not self._as_json:
                await self._out.write(neutral(said.text) + "\n")
            return
        words = [neutral(said.text), neutral(choices(said.buttons))]
        if (text := "\n".join(word for word in words if word)) and not (kind == "failure" and self._as_json):
            self._err.post(text + "\n")

    def live(self, message_id: str, part: LivePart) -> None:
        """Told aside."""
        if part.kind in {"tool", "status"} and part.text:
            self._err.post(f"{one_line(part.text)}\n")

    async def close(self) -> None:
        """See the port."""
        await self._out.close()
        await self._err.close()


if TYPE_CHECKING:

    def _conforms(front: OnceFront) -> None:
        _: FrontEnd = front
