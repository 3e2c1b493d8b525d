"""`tidings reload`, `tidings restart`, `tidings stop`: what is asked of the running daemon by a signal."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.common import ConfigOption, JsonOption, fail, family, out, out_json, stop
from gateway.config import ConfigError, load
from gateway.daemon_process import LOOK_EVERY, NoDaemon, NotReachable, RunningDaemon, home_of, successor
from gateway.lifecycle import ExitCode, longest_stop
from gateway.reload import Reloaded, read_result

reload_app = family("Have the daemon take over the configuration.", single=True)
restart_app = family("End the daemon so that it is started again.", single=True)
stop_app = family("End the daemon.", single=True)

RELOAD = 60.0
"""Seconds for the answer: reading, checking, and the slowest platform's end."""
BACK = 30.0
LONGEST_DRAIN = 600.0
"""The bound of `limits.drain_seconds`, for a file that cannot be read."""

WaitOption = Annotated[
    float | None,
    typer.Option("--wait", min=0, help="Seconds to wait for its end (default: as long as a stop can take)."),
]


@reload_app.command()
def reload(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Take over the configuration file, and tell what was taken over, or why nothing was (exit code 78)."""
    home = home_of(config, os.environ)
    with _found(home) as daemon:
        asked = time.monotonic()
        _ask(lambda: daemon.send(signal.SIGHUP))
        result = _answer(home, daemon, asked)
    if as_json:
        out_json(asdict(result))
    elif not result.faults:
        for line in result.lines():
            out(line)
    if result.faults:
        raise stop("\n".join(result.lines()), ExitCode.CONFIG)


@restart_app.command()
def restart(
    config: ConfigOption = None,
    wait: WaitOption = None,
    back: Annotated[float, typer.Option("--back", min=0, help="Seconds to wait for the next one.")] = BACK,
) -> None:
    """End the daemon with the code that asks for a new start (75), and wait for the new one.

    Running turns are drained as at a stop. Whoever supervises the daemon starts it again; this command does not.
    """
    home = home_of(config, os.environ)
    with _found(home) as daemon:
        _end(daemon, signal.SIGUSR1, config, wait)
        before = daemon.holder
    new = successor(home, before, back)
    if new is None:
        raise stop(f"process {before.pid} has ended, and nothing has started it again within {back:g} s: `tidings run`")
    out(f"restarted: process {before.pid} has ended, process {new.pid} runs")


@stop_app.command("stop")
def stop_daemon(config: ConfigOption = None, wait: WaitOption = None) -> None:
    """End the daemon: drain what runs, then leave. Nothing is to be done where none runs (exit code 0)."""
    home = home_of(config, os.environ)
    try:
        daemon = RunningDaemon.find(home)
    except NoDaemon as none:
        out(str(none))
        return
    except NotReachable as fault:
        raise stop(str(fault)) from None
    with daemon:
        _end(daemon, signal.SIGTERM, config, wait)
        out(f"process {daemon.holder.pid} has ended")


def _found(home: Path) -> RunningDaemon:
    try:
        return RunningDaemon.find(home)
    except (NoDaemon, NotReachable) as fault:
        raise stop(str(fault)) from None


def _ask(send: Callable[[], None]) -> None:
    try:
        send()
    except (NoDaemon, NotReachable) as fault:
        raise stop(str(fault)) from None


def _end(daemon: RunningDaemon, number: signal.Signals, config: Path | None, wait: float | None) -> None:
    """Signal it and wait for its end; the end of the command where it does not come."""
    _ask(lambda: daemon.send(number))
    bound = _longest(config) if wait is None else wait
    if not daemon.ended(bound):
        raise typer.Exit(fail(f"{daemon.holder} has not ended within {bound:g} s; it is still at it, see its log"))


def _longest(config: Path | None) -> float:
    try:
        return longest_stop(load(config, environ=os.environ).limits.drain_seconds)
    except ConfigError:
        return longest_stop(LONGEST_DRAIN)


def _answer(home: Path, daemon: RunningDaemon, asked: float) -> Reloaded:
    """What the daemon has noted about a reload that began after `asked`."""
    until = time.monotonic() + RELOAD
    while time.monotonic() < until:
        result = read_result(home)
        if result is not None and result.pid == daemon.holder.pid and result.began >= asked:
            return result
        if daemon.ended(LOOK_EVERY):
            raise stop("the daemon has ended")
    raise stop(f"the daemon has not answered within {RELOAD:g} s; its log says why")
