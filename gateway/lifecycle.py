"""From the start of the process to its end: signals, the service manager, and the staged stop.

A stop goes through named stages, each with a bound of its own; what is left of one is named and left
behind. When the whole takes longer than it may, a last resort that needs neither the event loop nor
the interpreter's lock dumps every stack and ends the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import os
import signal
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

import structlog

log = structlog.get_logger("lifecycle")

_CANCEL_WAIT = 2.0
"""Seconds that a stage has to come to its end after it was cancelled."""
_LAST_RESORT_AFTER = 5.0
"""Seconds after the dump at which the kernel ends the process, should the dump hang in a full pipe."""
UNWIND = 10.0
"""Seconds that interrupted turns have to be parked."""
FLUSH = 10.0
"""Seconds that the outbox has to be flushed."""
LAST_RESORT_MARGIN = 15.0
"""Seconds over the bounds of all stages after which the process is ended with a dump of its stacks."""


def last_resort_seconds(drain: float) -> float:
    """When, after the beginning of a stop, the process is ended whatever it does."""
    return drain + UNWIND + FLUSH + LAST_RESORT_MARGIN


def longest_stop(drain: float) -> float:
    """After so many seconds a stop is over in any case. Whoever kills processes must wait longer."""
    return last_resort_seconds(drain) + _LAST_RESORT_AFTER


class ExitCode(IntEnum):
    """What the process ends with; service managers act on it."""

    OK = 0  #: it was asked to end
    FAULT = 1  #: a fault; to be started again
    RESTART = 75  #: it wants to be started again
    CONFIG = 78  #: the configuration cannot be used; starting it again is useless


class StopRequest:
    """Whether and why the process is to end. Made on the loop; `ask` is called on the loop."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.hurry = asyncio.Event()
        """Set by a second signal: what is left is to be interrupted and not waited for."""
        self.reason = ""
        self.code = ExitCode.OK

    def ask(self, reason: str, code: ExitCode = ExitCode.OK) -> None:
        """Ask for the stop. The first asker's code counts; a fault is never covered up by a later one.
        A second call hurries."""
        if self.asked.is_set():
            self.hurry.set()
            if code is ExitCode.FAULT:
                self.code = code
            return
        self.reason, self.code = reason, code
        self.asked.set()


@contextlib.contextmanager
def signals(stop: StopRequest, *, reload: Callable[[], None] | None = None) -> Iterator[None]:
    """Turn SIGTERM, SIGINT and SIGHUP into stop requests. The second hurries; the third ends the
    process at once with the stacks on standard error.

    With `reload` (a daemon) SIGHUP calls it instead, and SIGUSR1 asks for a restart: exit code 75."""
    loop = asyncio.get_running_loop()
    count = 0

    def on_signal(number: signal.Signals) -> None:
        nonlocal count
        count += 1
        log.info("signal.received", signal=number.name, count=count)
        if count > 2:
            faulthandler.dump_traceback(file=sys.__stderr__ or 2)
            os._exit(ExitCode.FAULT)
        stop.ask(f"{number.name} received")

    def on_hup() -> None:
        assert reload is not None
        log.info("signal.received", signal="SIGHUP")
        reload()

    def on_usr1() -> None:
        log.info("signal.received", signal="SIGUSR1")
        if not stop.asked.is_set():
            stop.ask("SIGUSR1 received", ExitCode.RESTART)

    handled = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]
    for number in handled:
        loop.add_signal_handler(number, on_signal, number)
    if reload is not None:
        loop.add_signal_handler(signal.SIGHUP, on_hup)
        loop.add_signal_handler(signal.SIGUSR1, on_usr1)
        handled.append(signal.SIGUSR1)
    try:
        yield
    finally:
        for number in handled:
            loop.remove_signal_handler(number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One step of the stop. `run` returns the names of what it had to leave; it is cancelled after
    `seconds`. With `hurried` it gets only that long once a second signal came."""

    name: str
    run: Callable[[], Awaitable[Sequence[str] | None]]
    seconds: float
    hurried: float | None = None


async def shut_down(stages: Sequence[Stage], stop: StopRequest) -> list[str]:
    """Run the stages in order, each bounded; a stage that fails or hangs does not keep the next from
    running. Returns what was left, as "stage: thing"; never raises but for its own cancellation."""
    left: list[str] = []
    for stage in stages:
        begun = asyncio.get_running_loop().time()
        names = await _run_stage(stage, stop)
        took = round(asyncio.get_running_loop().time() - begun, 3)
        if names:
            log.warning("stop.left", stage=stage.name, left=names, seconds=took)
            left.extend(f"{stage.name}: {name}" for name in names)
        else:
            log.info("stop.stage", stage=stage.name, seconds=took)
    return left


async def _run_stage(stage: Stage, stop: StopRequest) -> list[str]:
    task = asyncio.create_task(_awaited(stage), name=f"stop {stage.name}")
    hurry = asyncio.create_task(stop.hurry.wait(), name=f"stop {stage.name} hurry")
    try:
        await asyncio.wait({task, hurry}, timeout=stage.seconds, return_when=asyncio.FIRST_COMPLETED)
        if not task.done() and hurry.done():
            rest = stage.seconds if stage.hurried is None else min(stage.hurried, stage.seconds)
            await asyncio.wait({task}, timeout=rest)
    finally:
        hurry.cancel()
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=_CANCEL_WAIT)
    if not task.done():
        return ["it does not end"]
    if task.cancelled():
        return ["it took too long"]
    if (fault := task.exception()) is not None:
        log.error("stop.stage_failed", stage=stage.name, exc_info=fault)
        return [f"it failed ({type(fault).__name__})"]
    return list(task.result() or ())


async def _awaited(stage: Stage) -> Sequence[str] | None:
    return await stage.run()


class LastResort:
    """Ends the process when the stop takes longer than it may. Armed when the stop begins.

    The dump and the end are made by a thread of the `faulthandler` module that runs without the
    interpreter's lock; an alarm of the kernel stands behind it.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def arm(self) -> None:
        """Start the clock. The service manager's own bound must be longer."""
        if sys.__stderr__ is not None:
            faulthandler.dump_traceback_later(self.seconds, exit=True, file=sys.__stderr__)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, self.seconds + _LAST_RESORT_AFTER)

    def disarm(self) -> None:
        """Stop the clock."""
        faulthandler.cancel_dump_traceback_later()
        if threading.current_thread() is threading.main_thread():
            signal.setitimer(signal.ITIMER_REAL, 0)


class Notifier:
    """Tells systemd how we are, where it listens (`Type=notify`). Never blocks and never raises."""

    def __init__(self, address: str | None, watchdog_seconds: float | None = None) -> None:
        self._address = address
        self.watchdog_seconds = watchdog_seconds
        """How often systemd wants to hear from us at least, None: not at all."""

    @classmethod
    def from_environ(cls, environ: MutableMapping[str, str]) -> Notifier:
        """As the environment says. The variables are taken out, so that no child speaks for us."""
        address = environ.pop("NOTIFY_SOCKET", None)
        micros, pid = environ.pop("WATCHDOG_USEC", ""), environ.pop("WATCHDOG_PID", "")
        ours = not pid or pid == str(os.getpid())
        return cls(address or None, int(micros) / 1e6 if micros.isdigit() and int(micros) and ours else None)

    def ready(self, status: str = "") -> None:
        """The store is open and intake runs (not: every platform is connected)."""
        self._send({"READY": "1", "STATUS": status} if status else {"READY": "1"})

    def stopping(self, seconds: float | None = None) -> None:
        """The stop has begun, and may take so many `seconds`: systemd waits at least that long, even where its
        unit was written for a shorter drain."""
        extend = {} if seconds is None else {"EXTEND_TIMEOUT_USEC": str(int(seconds * 1e6))}
        self._send({"STOPPING": "1", **extend})

    def environ(self) -> dict[str, str]:
        """The variables with which a child that is to take our place speaks for itself."""
        found = {} if self._address is None else {"NOTIFY_SOCKET": self._address}
        if self._address is not None and self.watchdog_seconds is not None:
            found["WATCHDOG_USEC"] = str(int(self.watchdog_seconds * 1e6))
        return found

    def hand_over(self, pid: int) -> None:
        """Another process of the unit is the service's main one from now on, and we say nothing more
        (sd_notify(3), MAINPID: from the main process itself, so that NotifyAccess=main is enough)."""
        self._send({"MAINPID": str(pid)})
        self._address = None

    def status(self, text: str) -> None:
        """One line for `systemctl status`."""
        self._send({"STATUS": text})

    def alive(self) -> None:
        """The watchdog's sign of life."""
        self._send({"WATCHDOG": "1"})

    async def keep_alive(self, healthy: Callable[[], bool]) -> None:
        """Give the sign of life at half the demanded time, as long as `healthy` says so. Runs until
        cancelled; returns at once where systemd does not ask for it."""
        if self._address is None or self.watchdog_seconds is None:
            return
        while True:
            if healthy():
                self.alive()
            await asyncio.sleep(self.watchdog_seconds / 2)

    def _send(self, fields: Mapping[str, str]) -> None:
        if self._address is None:
            return
        name = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        text = "\n".join(f"{key}={value}".replace("\n", " ") for key, value in fields.items())
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
            out.setblocking(False)
            out.sendto(text.encode(), name)
