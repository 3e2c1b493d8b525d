"""What is drawn on an interactive terminal. Every method writes, and so is called in a thread."""

from __future__ import annotations

from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.markdown import Markdown
from rich.text import Text

from adapters.terminal.neutral import neutral, one_line

TAIL = 20_000
"""Characters of a running answer that are looked at: no terminal shows more."""


class Screen:
    """Lines that stay, and below them a part that is drawn anew: the running answer and one line of state.

    The running part never grows over the height of the terminal, so that it can be taken away whole
    before the finished answer is drawn.
    """

    def __init__(self, file: TextIO) -> None:
        self._console = Console(file=file, highlight=False, soft_wrap=False)
        self._live: Live | None = None

    def line(self, text: str, style: str = "") -> None:
        """One line that stays."""
        self._console.print(Text(one_line(text), style=style))

    def words(self, text: str, style: str = "") -> None:
        """Plain text that stays."""
        self._console.print(Text(neutral(text), style=style))

    def markdown(self, text: str) -> None:
        """A text that stays, drawn as markdown."""
        self._console.print(Markdown(neutral(text), hyperlinks=False))
        self._console.print()

    def running(self, text: str, state: str) -> None:
        """Draw the end of the running answer, and `state` below it."""
        shown = Text("\n").join([*self._tail(text), Text(one_line(state), style="dim")])
        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        self._live.update(shown, refresh=True)

    def _tail(self, text: str) -> list[Text]:
        height = max(self._console.height - 3, 1)
        width = max(self._console.width, 2)
        lines = Text(neutral(text[-min(TAIL, height * width * 2) :])).wrap(self._console, width)
        return list(lines)[-height:] if text else []

    def settle(self) -> None:
        """Take the running part away."""
        if self._live is not None:
            self._live.stop()
            self._live = None
