"""The daemon that runs: lets a successor in, gives it platform after platform, and takes back what it gave where
that one fails. Until the successor says that it serves, everything can be undone, and whatever goes wrong ends so.

Order for one platform: nothing new of it is taken → files under way are fetched → its adapter is ended, which frees
the token → what waits of it is left to the successor. Turns that run go on here to their end.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from gateway.config_types import Config
from gateway.core import Core
from gateway.fetching import has_unfetched
from gateway.health import PlatformState
from gateway.httpd import HttpServer
from gateway.intake import give_up
from gateway.lifecycle import Notifier, StopRequest
from gateway.locks import Lock
from gateway.platforms import Platforms
from gateway.succession import wire
from gateway.succession.wire import Gone, Line
from state.errors import StateError
from state.ids import EventId, Owner

log = structlog.get_logger("gateway.succession")

FIRST = 10.0
"""Seconds for the first line of a connection."""
SILENCE = 120.0
"""The longest silence of a successor: it connects a platform in between."""
UPGRADE = 300.0
"""Seconds from the start of the new process until it serves."""
FETCHES = 10.0
CALM = 0.05
TOKENS = 60.0
"""Seconds for which platforms that are taken back are tried again and again: a dying process frees its tokens late."""
CONNECTIONS = 4
LAST_CONNECTIONS = 30.0
HTTP = "http"


@dataclass(slots=True, kw_only=True, eq=False)
class House:
    """What a daemon is made of, as far as it can be given away."""

    config: Callable[[], Config]
    core: Core
    platforms: Platforms
    server: HttpServer
    lock: Lock
    notifier: Notifier
    stop: StopRequest
    retire: Callable[[Sequence[str]], None]
    """Ends tasks of the composition root by name."""
    drain: float
    """Seconds that running turns have after the successor serves."""


class Incumbent:
    """One a daemon."""

    def __init__(self, house: House) -> None:
        self._h = house
        self._admitted = False
        self._upgrading = False
        self._unfit = ""
        self._served: asyncio.Event = asyncio.Event()
        self._listener: socket.socket | None = None

    @property
    def busy(self) -> bool:
        """Whether a hand-over is under way, or done: the configuration must not change under it."""
        return self._admitted or self._upgrading

    async def run(self) -> None:
        """Listen for successors until cancelled, or until one serves. A task of the composition root."""
        home = self._h.config().home
        try:
            listener = self._listener = await asyncio.to_thread(wire.listen, home)
        except OSError as error:
            log.warning("succession.no_socket", error=str(error), so="an upgrade needs a restart")
            return
        loop, open_now = asyncio.get_running_loop(), 0

        async def serve(sock: socket.socket) -> None:
            nonlocal open_now
            open_now += 1
            line = Line(sock)
            try:
                await self._serve(line)
            except Gone as gone:
                log.info("succession.hung_up", reason=str(gone))
            finally:
                open_now -= 1
                line.close()

        try:
            while not self._served.is_set():
                sock, _ = await loop.sock_accept(listener)
                if open_now >= CONNECTIONS or not wire.is_same_user(sock):
                    log.warning("succession.turned_away", connections=open_now)
                    sock.close()
                    continue
                sock.setblocking(False)
                self._h.core.background.spawn(serve(sock), "succession")
        except OSError as error:
            if not self._served.is_set():
                log.warning("succession.no_socket", error=str(error))
        finally:
            self._shut()

    def _shut(self) -> None:
        """The name must be gone before the successor takes it; nothing here blocks for long."""
        listener, self._listener = self._listener, None
        if listener is not None:
            with contextlib.suppress(OSError):
                asyncio.get_running_loop().remove_reader(listener)
            listener.close()
            wire.remove(self._h.config().home)

    async def _serve(self, line: Line) -> None:
        first = await line.read(FIRST)
        match first:
            case {"op": "hello", "owner": str(owner), "pid": int(pid)}:
                await self._hand_over(line, Owner(owner), pid)
            case {"op": "upgrade", "program": [*program]} if all(isinstance(one, str) for one in program):
                await self._upgrade(line, [str(one) for one in program])
            case {"op": "unfit", "reason": str(reason)}:
                self._unfit = reason
                log.error("succession.unfit", reason=reason)
            case _:
                await line.send({"op": "refused", "reason": "that is not understood here"})

    # -- upgrade: the new process is a child of ours, so that it stays in the service's group

    async def _upgrade(self, line: Line, program: list[str]) -> None:
        if why := self._not_now():
            await line.send({"op": "failed", "reason": why})
            return
        self._upgrading, self._unfit = True, ""
        file = str(self._h.config().file)
        log.info("upgrade.begun", program=program)
        process: asyncio.subprocess.Process | None = None
        try:
            process = await asyncio.create_subprocess_exec(
                *program, "run", "--takeover", "--config", file,
                stdin=asyncio.subprocess.DEVNULL, env={**os.environ, **self._h.notifier.environ()},
                start_new_session=True,
            )  # fmt: skip
            reason = await self._outcome(process)
        except OSError as error:
            reason = f"{program[0]} cannot be started: {error.strerror or error}"
        finally:
            self._upgrading = False
        if not reason:
            assert process is not None
            log.info("upgrade.done", pid=process.pid)
            await line.send({"op": "done", "pid": process.pid})
            return
        log.error("upgrade.failed", reason=reason, so="this process goes on")
        await line.send({"op": "failed", "reason": reason})

    async def _outcome(self, process: asyncio.subprocess.Process) -> str:
        """Wait until the child serves ("") or has failed (why)."""
        ended, served = (
            asyncio.create_task(process.wait(), name="upgrade:child"),
            asyncio.create_task(self._served.wait(), name="upgrade:served"),
        )
        try:
            await asyncio.wait({ended, served}, timeout=UPGRADE, return_when=asyncio.FIRST_COMPLETED)
            if served.done():
                return ""
            if ended.done():
                return self._unfit or f"the new process has ended with code {ended.result()}; the log says why"
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)
            return f"the new process did not serve within {UPGRADE:g} s"
        finally:
            ended.cancel()
            served.cancel()

    def _not_now(self) -> str:
        if self._admitted or self._upgrading or self._served.is_set():
            return "a hand-over is under way already"
        if os.getpid() == 1:
            return "a container ends with its first process: start a new container instead"
        return "the daemon is ending" if self._h.stop.asked.is_set() else ""

    # -- the hand-over

    async def _hand_over(self, line: Line, owner: Owner, pid: int) -> None:
        why = "" if self._upgrading and not self._admitted else self._not_now()
        if why:
            await line.send({"op": "refused", "reason": why})
            return
        self._admitted = True
        house, given = self._h, list[str]()
        listening = house.server.listening()
        log.info("succession.admitted", pid=pid, owner=owner)
        try:
            house.core.overlap.begin(owner)
            consent = {
                "op": "consent",
                "owner": house.core.store.owner,
                "platforms": [name for name in house.core.adapters if name != HTTP],
                "listening": list(listening),
                "drain": house.drain,
            }
            await line.send(consent, [house.lock.descriptor, *listening.values()])
            await self._give(line, given)
        except (Gone, StateError) as error:
            log.exception("succession.failed", reason=str(error), given=given, so="this process goes on")
            house.core.overlap.end()
            self._admitted = False
            await self._take_back(given)
            return
        await self._leave(line, pid)

    async def _give(self, line: Line, given: list[str]) -> None:
        """Give one platform after the other; returns when the successor serves. Raises `Gone` where it does not."""
        while True:
            match await line.read(SILENCE):
                case {"op": "give", "platform": str(name)}:
                    given.append(name)
                    connected = await self._give_one(name)
                    await line.send({"op": "given", "platform": name, "connected": connected})
                case {"op": "serving"}:
                    return
                case {"op": "back", "reason": reason}:
                    raise Gone(f"the successor gives up: {reason}")
                case _:
                    raise Gone("the successor does not make sense")

    async def _give_one(self, name: str) -> bool:
        core = self._h.core
        health = core.health.platforms().get(name)
        connected = health is not None and health.state is PlatformState.CONNECTED
        core.intake.refused.add(name)
        until = time.monotonic() + FETCHES
        left: list[EventId] = []
        while time.monotonic() < until:
            ids, at_work = give_up(core.intake.lanes, name)
            left += [*ids, *(item.event_id for item in core.workers.give_up(name) if item.resume is None)]
            if not at_work and not self._fetches(name):
                break
            await asyncio.sleep(CALM)
        core.adapters.pop(name, None)
        core.deliveries.pause(name)
        await self._h.platforms.end(name)
        core.health.gone(name)
        count = await core.store.inbox.release(left)
        log.info("succession.given", platform=name, waiting=count)
        return connected

    def _fetches(self, name: str) -> bool:
        """Whether the beginning of a turn may still need the platform for its files."""
        return any(
            item.event.address.platform == name and has_unfetched(item.event)
            for worker in self._h.core.workers.all().values()
            for item in worker.current
        )

    async def _take_back(self, given: Sequence[str]) -> None:
        core, config = self._h.core, self._h.config()
        await core.recovery.start(all_turns=True)
        for name in given:
            core.intake.refused.discard(name)
            core.adapters[name] = await self._h.platforms.make(config, name)
            self._h.platforms.start(config, name)
        until = time.monotonic() + TOKENS
        while time.monotonic() < until and any(
            state.state is PlatformState.PARKED for name, state in core.health.platforms().items() if name in given
        ):
            await asyncio.sleep(1.0)
            self._h.platforms.wake()
        log.info("succession.taken_back", platforms=list(given))

    async def _leave(self, line: Line, pid: int) -> None:
        """The successor serves: end what is not for two, and go when everything here is over."""
        house, core = self._h, self._h.core
        house.retire(("handoffs", "recovery", "upkeep", "pairing"))
        self._shut()
        house.notifier.hand_over(pid)
        house.server.leave()
        loop = asyncio.get_running_loop()
        chats: asyncio.Queue[str] = asyncio.Queue(1000)

        def elsewhere(chat: str) -> None:
            if not chats.full():  # what is not told is found within seconds all the same
                chats.put_nowait(chat)

        core.deliveries.elsewhere = elsewhere
        self._served.set()
        log.info("succession.leaving", pid=pid, running=len(core.work.all()))
        alone = await _tell(line, {"op": "bye"})
        until, calm_since = loop.time() + house.drain, loop.time()
        while loop.time() < until and not house.stop.asked.is_set():
            chat = await _next(chats)
            if chat is not None and not alone:
                alone = await _tell(line, {"op": "wake", "chat": chat})
                continue
            if alone:  # it has died already: whoever looks after it starts another, and nothing of it is waited for
                core.overlap.end()
            if len(core.workers) or core.intake.lanes or core.work.all():
                calm_since = loop.time()
            elif not house.server.connections or loop.time() - calm_since > LAST_CONNECTIONS:
                break
        house.stop.ask("a successor serves")


async def _next(chats: asyncio.Queue[str]) -> str | None:
    """The next chat that has something to be said; None where there is none for a moment."""
    try:
        async with asyncio.timeout(0.2):
            return await chats.get()
    except TimeoutError:
        return None


async def _tell(line: Line, message: dict[str, Any]) -> bool:
    """Tell the successor; True where it is gone."""
    try:
        await line.send(message)
    except Gone:
        return True
    return False
