"""What is typed on an interactive terminal: the prompt, its history, its commands, and the keys of a turn."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.application import in_terminal
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, ThreadedHistory
from prompt_toolkit.input import create_input
from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from adapters.terminal.neutral import one_line
from adapters.terminal.worker import Worker

if TYPE_CHECKING:
    from prompt_toolkit.input import Input
    from prompt_toolkit.key_binding import KeyPress


class _Commands(Completer):
    """Completes slash commands at the beginning of a message."""

    def __init__(self, commands: Sequence[tuple[str, str]]) -> None:
        self._commands = [(f"/{one_line(name)}", one_line(about)) for name, about in commands]

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """The commands that begin with what is typed."""
        typed = document.text
        if not typed.startswith("/") or any(character.isspace() for character in typed):
            return
        for name, about in self._commands:
            if name.startswith(typed):
                yield Completion(name, start_position=-len(typed), display_meta=about)


class _History(FileHistory):
    """A history that is written in a thread; only its owner can read it."""

    def __init__(self, path: Path, worker: Worker) -> None:
        super().__init__(str(path))
        self._path = path
        self._worker = worker

    def store_string(self, string: str) -> None:
        """Called for every message that was entered."""
        self._worker.post(self._write, string)

    def _write(self, string: str) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(self._path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600))
        super().store_string(string)


class Interrupted(Exception):
    """Ctrl-C was typed at a prompt. (KeyboardInterrupt in a task would end the event loop.)"""


class Left(Exception):
    """Ctrl-D was typed at an empty prompt, or the terminal is closed."""


class Keyboard:
    """What a person types. `prompt` and `choose` raise `Interrupted` and `Left`."""

    def __init__(self, commands: Sequence[tuple[str, str]], history: Path | None, worker: Worker) -> None:
        self._input: Input = create_input()
        self._session: PromptSession[str] = PromptSession(
            input=self._input,
            history=ThreadedHistory(_History(history, worker)) if history is not None else None,
            completer=_Commands(commands),
            complete_while_typing=True,
            multiline=True,
            reserve_space_for_menu=5,
            key_bindings=_bindings(),
            prompt_continuation=lambda width, number, soft: " " * width,
            interrupt_exception=Interrupted,
            eof_exception=Left,
        )
        self._choices: PromptSession[str] = PromptSession(
            input=self._input, interrupt_exception=Interrupted, eof_exception=Left
        )

    async def prompt(self) -> str:
        """The next message. Enter sends it, Alt-Enter begins a new line, a paste keeps its lines."""
        return await self._session.prompt_async("> ", handle_sigint=False)

    async def choose(self, question: str) -> str:
        """A short answer, which does not enter the history."""
        return await self._choices.prompt_async(question, handle_sigint=False)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keys come as keys all the time: between two prompts a Ctrl-C must not end the process, nor a
        Ctrl-D get lost."""
        with self._input.raw_mode():
            yield

    @contextlib.asynccontextmanager
    async def aside(self) -> AsyncIterator[None]:
        """While something is printed: a prompt that is open makes room, and is drawn again below it."""
        async with in_terminal():
            yield

    @contextlib.contextmanager
    def watching(self, interrupted: Callable[[], None]) -> Iterator[None]:
        """While nothing is asked: call `interrupted` at every Ctrl-C, keep what else is typed for later."""
        source = self._input

        def keys() -> None:
            later: list[KeyPress] = []
            for key in source.read_keys():
                if key.key == Keys.ControlC:
                    interrupted()
                else:
                    later.append(key)
            if later:
                store_typeahead(source, later)

        with source.raw_mode(), source.attach(keys):
            yield


def _bindings() -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("enter")
    def _send(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @bindings.add("escape", "enter")
    def _new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return bindings
