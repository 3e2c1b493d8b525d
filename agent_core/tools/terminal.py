"""The tool `terminal`: one shell command, asked for, bounded, and gone when its turn is."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from agent_core.models.ports import ToolSpec
from agent_core.tools import text
from agent_core.tools.patterns import first_match
from agent_core.tools.ports import ToolContext, ToolResult
from agent_core.tools.settings import TerminalSettings
from agent_core.tools.shell import Outcome, run_shell

_PARAMETERS = (
    '{"type":"object","properties":{'
    '"command":{"type":"string","description":"The command line for bash.","minLength":1,"maxLength":20000},'
    '"seconds":{"type":"integer","description":"Time limit in seconds.","minimum":1,"maximum":3600}'
    '},"required":["command"],"additionalProperties":false}'
)


class Terminal:
    """Runs a command with the rights of the daemon's user, after an owner has allowed exactly it.

    It starts in `root`, but a shell cannot be kept inside a folder: that is what the approval is for. The
    state folder is refused where the command names it; this stops accidents, not intent.
    """

    group = "terminal"
    parallel = False
    asks_first: Literal[True] = True

    def __init__(self, settings: TerminalSettings) -> None:
        self._settings = settings
        self.spec = ToolSpec(
            name="terminal",
            description=(
                "Run a shell command in the working folder and get its output. There is no standard input and no "
                "terminal. Background processes are ended when the command ends. An owner is asked first."
            ),
            parameters=_PARAMETERS,
        )

    def describe(self, arguments: Mapping[str, Any]) -> str:
        """The command, shortened."""
        return text.line(f"runs: {text.argument(arguments, 'command')}")

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Ask, run, tell. See `Tool.run`."""
        command: str = arguments["command"]
        extract = text.cut(f"ran: {text.redact(command)}", 600)
        refusal = await asyncio.to_thread(_refusal, command, context, self._settings.never)
        if refusal is not None:
            return ToolResult(content=refusal, ok=False, summary=text.line(refusal), extract=extract)
        if not await context.ask.approve(context.call_id, command):
            told = "The command was not allowed and did not run. Do not try to reach the same by other means."
            return ToolResult(content=told, ok=False, summary="not allowed", extract=extract)
        seconds = min(float(arguments.get("seconds", self._settings.seconds)), self._settings.max_seconds)
        try:
            outcome = await run_shell(
                command,
                folder=context.root,
                seconds=seconds,
                output_bytes=self._settings.output_bytes,
                ledger=context.processes,
                call_id=context.call_id,
            )
        except OSError as error:
            told = f"The command did not run: {error}"
            return ToolResult(content=told, ok=False, summary=text.line(told), extract=extract)
        status = _status(outcome, seconds)
        return ToolResult(
            content=f"{status}\n{_output(outcome)}",
            ok=outcome.why == "exit" and outcome.code == 0,
            summary=status.splitlines()[0],
            extract=f"{extract}\n{status.splitlines()[0]}",
        )


def _refusal(command: str, context: ToolContext, never: tuple[str, ...]) -> str | None:
    if (pattern := first_match(never, command)) is not None:
        return (
            f"The operator has forbidden commands like this ({pattern}). It did not run. "
            "Do not try to reach the same by other means."
        )
    if (hidden := text.hiding(command)) is not None:
        return (
            f"The command holds {hidden}, which the person who allows it could not see. It did not run. "
            "Write such a character as an escape, for example with printf."
        )
    root, home = context.root.resolve(), context.home.resolve()
    if not root.is_dir():
        return "The working folder does not exist. The command did not run."
    if root == home:
        return "The working folder is the state folder, which is closed to tools. The command did not run."
    if not root.is_relative_to(home) and any(_names(command, one) for one in (context.home, home)):
        return "The command names the state folder, which is closed to tools. It did not run."
    return None


def _names(command: str, folder: Path) -> bool:
    return folder != Path("/") and str(folder) in command


def _status(outcome: Outcome, seconds: float) -> str:
    if outcome.why == "limit":
        first = f"Ended: the time limit of {seconds:g} s was reached."
    elif outcome.why != "exit":
        first = "Ended: the process that watched over the command was killed. Its outcome is unknown."
    elif outcome.signal:
        first = f"Ended by signal {_signal(outcome.signal)}."
    else:
        first = f"Exit code {outcome.code}."
    if outcome.ended and outcome.why == "exit":
        many = outcome.ended > 1
        first += f"\n{outcome.ended} process{'es' if many else ''} still ran and {'were' if many else 'was'} ended."
    if outcome.left:
        first += f"\n{outcome.left} could not be ended (another user's, or stuck)."
    return first


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def _output(outcome: Outcome) -> str:
    left_out = outcome.size - len(outcome.head) - len(outcome.tail)
    if not left_out:
        return text.plain((outcome.head + outcome.tail).decode("utf-8", "replace")) or "(no output)"
    head = text.plain(outcome.head.decode("utf-8", "replace"))
    tail = text.plain(outcome.tail.decode("utf-8", "replace"))
    return f"{head}\n[… {text.count(left_out, 'byte')} of {text.count(outcome.size, 'byte')} left out …]\n{tail}"
