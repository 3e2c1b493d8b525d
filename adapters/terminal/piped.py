"""The front end for pipes: one message a line in, only the answers out."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

from adapters.errors import NotReady
from adapters.ports import LivePart
from adapters.render import Said, choices
from adapters.terminal.attach import is_attach
from adapters.terminal.front import FrontEnd, HungUp, Outcome, SaidKind, Talk
from adapters.terminal.lines import LineReader, LineWriter, TooLongLine
from adapters.terminal.neutral import neutral, one_line


class PipedFront:
    """Implements `FrontEnd`. Each line is answered before the next one is read; blank lines are skipped.

    Answers go to `out`, each with a line break after it; everything else goes to `err`. Ends at the end
    of the input: 0, or 1 where a message was not answered or nobody reads the answers.
    """

    def __init__(self, stdin: BinaryIO, out: int | None, err: int | None) -> None:
        """`out` and `err` are file descriptors, None where closed."""
        self._in = LineReader(stdin)
        self._out = LineWriter(out, "terminal-out")
        self._err = LineWriter(err, "terminal-err")

    @property
    def attended(self) -> bool:
        """See the port."""
        return False

    async def run(self, talk: Talk) -> int:
        """See the port."""
        failed = False
        while True:
            try:
                line = await self._in.line()
            except TooLongLine as error:
                failed = True
                self._err.post(f"tidings: {error}\n")
                continue
            if line is None:
                return 1 if failed else 0
            if is_attach(line):
                for told in await talk.attach(line):
                    self._err.post(f"tidings: {one_line(told)}\n")
            elif line.strip():
                try:
                    failed |= not await self._ask(talk, line)
                except HungUp:
                    return 1

    async def _ask(self, talk: Talk, line: str) -> bool:
        try:
            outcome = await talk.outcome(await talk.say(line))
        except NotReady as error:
            self._err.post(f"tidings: not taken: {one_line(str(error))}\n")
            return False
        self._tell(outcome)
        return outcome.ok

    def _tell(self, outcome: Outcome) -> None:
        """An end without a word would be taken for an answer that got lost."""
        if not outcome.ok or not outcome.text or outcome.fate in {"merged", "steered"}:
            detail = f": {one_line(outcome.detail)}" if outcome.detail else ""
            self._err.post(f"tidings: {outcome.fate}{detail}\n")

    async def show(self, said: Said, kind: SaidKind, message_id: str | None) -> None:
        """See the port."""
        text = neutral(said.text)
        if kind == "answer":
            await self._out.write(text + "\n")
            text = ""
        extra = [text] if text else []
        if said.media is not None:
            extra.append(f"[file: {one_line(said.media.path or said.media.name)}]")
        if said.buttons:
            extra.append(neutral(choices(said.buttons)))
        if extra:
            self._err.post("\n".join(extra) + "\n")

    def live(self, message_id: str, part: LivePart) -> None:
        """Tools and states are told aside; the answer comes whole."""
        if part.kind in {"tool", "status"} and part.text:
            self._err.post(f"{one_line(part.text)}\n")

    async def close(self) -> None:
        """See the port."""
        self._in.close()
        await self._out.close()
        await self._err.close()


if TYPE_CHECKING:

    def _conforms(front: PipedFront) -> None:
        _: FrontEnd = front
