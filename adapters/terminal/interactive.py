"""The front end for a person: a prompt, the answer as it is made, and then drawn as markdown."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from adapters.errors import NotReady
from adapters.events import Button
from adapters.ports import LivePart
from adapters.render import Said
from adapters.terminal.attach import is_attach
from adapters.terminal.front import FrontEnd, HungUp, Outcome, SaidKind, Talk
from adapters.terminal.worker import Worker

if TYPE_CHECKING:
    from adapters.terminal.keyboard import Keyboard
    from adapters.terminal.screen import Screen

REDRAW = 0.08
"""Seconds between two drawings of a running answer."""
KEPT = 20_000
"""Characters of a running answer that are kept for drawing; the whole comes at the end."""
WORKING = "working … Ctrl-C stops it"


class InteractiveFront:
    """Implements `FrontEnd`.

    Ctrl-C stops a running answer; at the prompt it clears what is typed, and a second one at the empty
    prompt leaves, like Ctrl-D. Choices are answered by their number or letter.
    """

    def __init__(self, *, history: Path | None, out: TextIO | None = None) -> None:
        """`history` is the file of what was typed (None: it is not kept)."""
        self._history = history
        self._file = out or sys.stdout
        self._worker = Worker("terminal-screen")
        self._screen: Screen | None = None
        self._keyboard: Keyboard | None = None
        self._current: str | None = None
        self._stream = ""
        self._state = WORKING
        self._drawing: asyncio.TimerHandle | None = None
        self._paused = False
        self._asked: asyncio.Queue[tuple[Button, ...]] = asyncio.Queue(maxsize=16)
        self._late: deque[tuple[Button, ...]] = deque(maxlen=16)
        """Choices that no turn waits for."""
        self._stops: set[asyncio.Task[None]] = set()

    @property
    def attended(self) -> bool:
        """See the port."""
        return True

    async def run(self, talk: Talk) -> int:
        """See the port."""
        screen, keyboard = await self._worker.call(self._open, talk)
        self._screen, self._keyboard = screen, keyboard
        title = f"{talk.title} · " if talk.title else ""
        await self._worker.call(screen.line, f"{title}/help for commands, Ctrl-D to leave", "dim")
        with keyboard.held():
            return await self._converse(talk, screen, keyboard)

    async def _converse(self, talk: Talk, screen: Screen, keyboard: Keyboard) -> int:
        from adapters.terminal.keyboard import Interrupted, Left  # noqa: PLC0415 - is loaded by now

        leaving = False
        while True:
            await self._choose_late(talk, screen, keyboard)
            try:
                text = await keyboard.prompt()
            except Interrupted:
                if leaving:
                    return 0
                leaving = True
                await self._worker.call(screen.line, "Ctrl-C again, or Ctrl-D, leaves", "dim")
                continue
            except Left:
                return 0
            leaving = False
            if text.strip().isdecimal() and self._late:  # choices came up while the prompt was open
                await self._press(talk, screen, pick(self._late.popleft(), text))
            elif is_attach(text):
                for line in await talk.attach(text):
                    await self._worker.call(screen.line, line, "dim")
            elif text.strip():
                await self._ask(talk, screen, keyboard, text)

    def _open(self, talk: Talk) -> tuple[Screen, Keyboard]:
        from adapters.terminal.keyboard import Keyboard  # noqa: PLC0415 - as above
        from adapters.terminal.screen import Screen  # noqa: PLC0415 - heavy, and only for people

        return Screen(self._file), Keyboard(talk.commands, self._history, self._worker)

    async def _ask(self, talk: Talk, screen: Screen, keyboard: Keyboard, text: str) -> None:
        self._stream, self._state, self._paused = "", WORKING, False
        while not self._asked.empty():  # of a turn that has ended without
            self._asked.get_nowait()
        try:
            message_id = self._current = await talk.say(text)
            self._draw_soon()
            outcome = await self._attend(talk, screen, keyboard, message_id)
        except NotReady as error:
            await self._quiet()
            await self._worker.call(screen.line, f"not taken: {error}", "red")
            return
        finally:
            self._current = None
        await self._quiet()
        if not outcome.text or outcome.fate in {"merged", "steered"}:
            detail = f": {outcome.detail}" if outcome.detail else ""
            await self._worker.call(screen.line, f"{outcome.fate}{detail}", "yellow")

    async def _attend(self, talk: Talk, screen: Screen, keyboard: Keyboard, message_id: str) -> Outcome:
        """Wait for the end of the message; choices that come up meanwhile are put to the person."""
        ending = asyncio.create_task(talk.outcome(message_id), name="terminal-outcome")
        try:
            while True:
                asked = asyncio.create_task(self._asked.get(), name="terminal-choices")
                with keyboard.watching(lambda: self._stop(talk)):
                    await asyncio.wait({ending, asked}, return_when=asyncio.FIRST_COMPLETED)
                if not asked.done():
                    asked.cancel()
                    return await ending
                await self._choose(talk, screen, keyboard, asked.result(), ending)
        finally:
            ending.cancel()

    def _stop(self, talk: Talk) -> None:
        """Ctrl-C in a turn. Its own answer is shown like any other."""
        if self._stops:
            return
        self._state = "stopping …"
        self._draw_soon()
        task = asyncio.create_task(self._say_stop(talk), name="terminal-stop")
        self._stops.add(task)
        task.add_done_callback(self._stops.discard)

    async def _say_stop(self, talk: Talk) -> None:
        try:
            await talk.outcome(await talk.say("/stop"))
        except NotReady:
            self._state = "could not stop it: the store is busy"
        except HungUp:
            return

    async def _choose(
        self,
        talk: Talk,
        screen: Screen,
        keyboard: Keyboard,
        buttons: tuple[Button, ...],
        ending: asyncio.Task[Outcome],
    ) -> None:
        """Ask until a choice is made, or until the turn has ended without."""
        self._paused = True
        await self._quiet()
        try:
            while not ending.done():
                asking = asyncio.create_task(keyboard.choose("choice: "), name="terminal-choice")
                await asyncio.wait({ending, asking}, return_when=asyncio.FIRST_COMPLETED)
                if not asking.done():
                    asking.cancel()
                    await asyncio.wait({asking})
                    return
                if asking.exception() is not None:  # Ctrl-C or Ctrl-D
                    self._stop(talk)
                    return
                if (button := pick(buttons, asking.result())) is not None:
                    await self._press(talk, screen, button)
                    return
        finally:
            self._paused = False
            self._draw_soon()

    async def _choose_late(self, talk: Talk, screen: Screen, keyboard: Keyboard) -> None:
        """Put choices to the person that came with the end of a turn. Nothing, or Ctrl-C, leaves them."""
        while self._late:
            buttons = self._late.popleft()
            typed = await asyncio.gather(keyboard.choose("choice (Enter for none): "), return_exceptions=True)
            if isinstance(typed[0], str) and typed[0].strip():
                await self._press(talk, screen, pick(buttons, typed[0]))

    async def _press(self, talk: Talk, screen: Screen, button: Button | None) -> None:
        if button is None:
            await self._worker.call(screen.line, "there is no such choice", "yellow")
            return
        try:
            await talk.outcome(await talk.press(button))
        except NotReady as error:
            await self._worker.call(screen.line, f"not taken: {error}", "red")

    # -- what is shown -------------------------------------------------------------------------------

    async def show(self, said: Said, kind: SaidKind, message_id: str | None) -> None:
        """See the port."""
        screen, keyboard = self._screen, self._keyboard
        if screen is None or keyboard is None:
            raise HungUp
        await self._quiet()
        try:
            async with keyboard.aside():
                await self._worker.call(self._print, screen, said, kind)
        except (OSError, ValueError) as error:
            raise HungUp from error
        if kind in {"answer", "failure"} and message_id == self._current:
            self._stream = ""
        elif self._current is not None:
            self._draw_soon()
        if said.buttons and kind == "notice" and self._current is not None and not self._asked.full():
            self._asked.put_nowait(said.buttons)
        elif said.buttons:
            self._late.append(said.buttons)

    @staticmethod
    def _print(screen: Screen, said: Said, kind: SaidKind) -> None:
        if kind == "earlier":
            screen.line("an answer from before:", "dim")
        if said.text:
            screen.markdown(said.text)
        if said.media is not None:
            screen.line(f"[file: {said.media.path or said.media.name}]", "dim")
        for number, button in enumerate(said.buttons, start=1):
            screen.line(f"  {number}. {button.label}")

    def live(self, message_id: str, part: LivePart) -> None:
        """See the port."""
        if message_id != self._current or self._screen is None:
            return
        match part.kind:
            case "text":
                self._stream = (self._stream + part.text)[-KEPT:]
            case "reset":
                self._stream = ""
            case "tool":
                self._worker.post(self._screen.line, f"  · {part.text}", "cyan")
            case _:
                self._state = part.text or WORKING
        self._draw_soon()

    def _draw_soon(self) -> None:
        if self._drawing is None and not self._paused:
            self._drawing = asyncio.get_running_loop().call_later(REDRAW, self._draw)

    def _draw(self) -> None:
        self._drawing = None
        if self._current is not None and self._screen is not None and not self._paused:
            self._worker.post(self._screen.running, self._stream, self._state)

    async def _quiet(self) -> None:
        """Take the running part away, and draw it no more until something happens."""
        if self._drawing is not None:
            self._drawing.cancel()
            self._drawing = None
        if self._screen is not None:
            try:
                await self._worker.call(self._screen.settle)
            except (OSError, ValueError) as error:
                raise HungUp from error

    async def close(self) -> None:
        """See the port."""
        self._current = None
        for task in self._stops:
            task.cancel()
        try:
            async with asyncio.timeout(1.0):
                await self._quiet()
        except (TimeoutError, HungUp):
            pass
        await self._worker.drain(1.0)
        self._worker.close()


def pick(buttons: tuple[Button, ...], typed: str) -> Button | None:
    """The button that is meant by a number, a letter, a label or its beginning; None where that is not clear."""
    word = typed.strip().rstrip(".)").casefold()
    if word.isdecimal() and 1 <= int(word) <= len(buttons):
        return buttons[int(word) - 1]
    exact = [one for one in buttons if word in {one.label.casefold(), one.value.casefold()}]
    begin = [one for one in buttons if word and one.label.casefold().startswith(word)]
    for found in (exact, begin):
        if len(found) == 1:
            return found[0]
    if len(word) == 1 and "a" <= word <= "z" and not begin and ord(word) - ord("a") < len(buttons):
        return buttons[ord(word) - ord("a")]
    return None


if TYPE_CHECKING:

    def _conforms(front: InteractiveFront) -> None:
        _: FrontEnd = front
