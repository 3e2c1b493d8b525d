"""The new daemon: is let in by the one that runs, takes platform after platform from it, and serves in its place.

Whatever fails before it serves ends this process and leaves the other one as it was. Where the other one dies in the
middle, this one goes on alone: the lock came with the consent.
"""

from __future__ import annotations

import asyncio
import os
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from gateway import locks
from gateway.config_types import Config
from gateway.core import Core
from gateway.health import PlatformState
from gateway.platforms import Platforms
from gateway.succession import wire
from gateway.succession.rehearsal import rehearse
from gateway.succession.wire import Gone, Line
from state.ids import Owner

log = structlog.get_logger("gateway.succession")

ANSWER = 60.0
"""Seconds for an answer of the other daemon: it ends a platform in between."""
CONNECT = 30.0
"""Seconds in which a platform that was connected there must be connected here."""
LOOK = 0.02


class TakeoverFailed(Exception):
    """This process cannot take over; the other one goes on. The message says why."""


@dataclass(slots=True, kw_only=True, eq=False)
class Takeover:
    """A hand-over that the running daemon has agreed to. `lock` is the daemon's lock, shared with it."""

    home: Path
    line: Line
    lock: locks.Lock
    other: Owner
    drain: float
    platforms: tuple[str, ...]
    sockets: dict[str, socket.socket]
    other_is_dead: bool = field(default=False)

    async def take(self, core: Core, platforms: Platforms, config: Config) -> None:
        """Take over platform after platform, and serve. Raises `TakeoverFailed`, with everything given back."""
        for name in config.enabled():
            connected = await self._wait_for(name) if name in self.platforms else False
            if name in self.platforms or self.other_is_dead:
                await core.recovery.start(all_turns=True)  # what it has left to us, before anything new comes
            platforms.start(config, name)
            if connected and not await _is_connected(core, name):
                await platforms.end(name)
                await self._give_back(f"{name} does not connect here, and did there")
        await self._serve(core)

    async def _wait_for(self, name: str) -> bool:
        """Ask for a platform; whether it was connected there. A daemon that has died gives everything."""
        if not self.other_is_dead:
            try:
                await self.line.send({"op": "give", "platform": name})
                answer = await self.line.read(ANSWER)
                if answer.get("op") == "given":
                    return answer.get("connected") is True
            except Gone as gone:
                self._alone(str(gone))
            else:
                await self._give_back("the running daemon does not make sense")
        return False

    def _alone(self, why: str) -> None:
        log.warning("succession.alone", reason=why)
        self.other_is_dead = True

    async def _give_back(self, reason: str) -> None:
        if not self.other_is_dead:
            try:
                await self.line.send({"op": "back", "reason": reason})
            except Gone:
                log.warning("succession.alone", reason=reason)
        raise TakeoverFailed(f"I do not take over: {reason}")

    async def _serve(self, core: Core) -> None:
        await asyncio.to_thread(self.lock.sign, what="a daemon", home=self.home)
        if not self.other_is_dead:
            try:
                await self.line.send({"op": "serving"})
                await self.line.read(ANSWER)
                core.overlap.begin(self.other, self.drain)
            except Gone as gone:
                self._alone(str(gone))
        if self.other_is_dead:
            core.overlap.end()
            await core.recovery.start(all_turns=True)
        log.info("succession.serving", pid=os.getpid(), other=self.other)

    async def follow(self, core: Core) -> None:
        """Hear what the other one says while it drains, until it is gone; then its leavings are ours. A task of
        the composition root."""
        try:
            while not self.other_is_dead:
                match await self.line.read(None):
                    case {"op": "wake", "chat": str(chat)}:
                        core.deliveries.wake(chat)
                    case _:
                        continue
        except Gone as gone:
            log.info("succession.over", reason=str(gone))
        core.overlap.end()
        await core.recovery.start(all_turns=True)
        self.close()

    def close(self) -> None:
        """Hang up; sockets that nobody has taken are closed. Idempotent."""
        self.line.close()
        for sock in self.sockets.values():
            sock.close()


async def _is_connected(core: Core, name: str) -> bool:
    loop = asyncio.get_running_loop()
    until = loop.time() + CONNECT
    while loop.time() < until:
        health = core.health.platforms().get(name)
        if health is not None and health.state is PlatformState.CONNECTED:
            return True
        await asyncio.sleep(LOOK)
    return False


async def ask(config: Config, owner: Owner) -> Takeover | None:
    """Rehearse, and ask the running daemon to hand over. None where none runs: then this is a plain start.

    Raises `TakeoverFailed`, and `locks.LockUnusable`.
    """
    holder = await asyncio.to_thread(locks.holder, locks.daemon_lock_path(config.home))
    if holder is None:
        log.info("succession.nobody", home=str(config.home))
        return None
    faults = await asyncio.to_thread(rehearse, config)
    if faults:
        reason = "; ".join(faults[:5])
        await tell_unfit(config.home, reason)
        raise TakeoverFailed(f"the rehearsal has failed: {reason}")
    try:
        line = Line(await asyncio.to_thread(wire.connect, config.home, ANSWER))
    except OSError as error:
        raise TakeoverFailed(f"{holder} cannot be asked ({error}): restart it instead") from error
    try:
        return await _ask(config, owner, line)
    except Gone as gone:
        line.close()
        raise TakeoverFailed(f"{holder} does not answer: {gone}") from gone
    except BaseException:
        line.close()
        raise


async def _ask(config: Config, owner: Owner, line: Line) -> Takeover:
    await line.send({"op": "hello", "owner": owner, "pid": os.getpid()})
    match await line.read(ANSWER):
        case {
            "op": "consent", "owner": str(other), "platforms": [*names], "listening": [*addresses],
            "drain": int() | float() as drain,
        }:  # fmt: skip
            files = line.files()
        case answer:
            raise TakeoverFailed(str(answer.get("reason") or "the running daemon refuses"))
    if len(files) != 1 + len(addresses):
        for one in files:
            os.close(one)
        raise TakeoverFailed("the running daemon has not handed its sockets over")
    sockets = {str(address): socket.socket(fileno=one) for address, one in zip(addresses, files[1:], strict=True)}
    return Takeover(
        home=config.home,
        line=line,
        lock=locks.Lock(locks.daemon_lock_path(config.home), files[0]),
        other=Owner(other),
        drain=float(drain),
        platforms=tuple(str(name) for name in names),
        sockets=sockets,
    )


async def tell_unfit(home: Path, reason: str) -> None:
    """Let the running daemon know why its successor does not come. Best effort."""
    try:
        line = Line(await asyncio.to_thread(wire.connect, home, 5.0))
    except OSError:
        return
    try:
        await line.send({"op": "unfit", "reason": reason})
    except Gone:
        return
    finally:
        line.close()


async def upgrade(home: Path, program: list[str], seconds: float) -> dict[str, Any]:
    """Ask the running daemon to start `program` as its successor; its answer. Raises OSError and `Gone`."""
    line = Line(await asyncio.to_thread(wire.connect, home, 10.0))
    try:
        await line.send({"op": "upgrade", "program": program})
        return await line.read(seconds)
    finally:
        line.close()
