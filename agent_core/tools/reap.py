"""Ends what is left of a command whose daemon has died: called by the gateway before a turn is resumed."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from dataclasses import dataclass

from agent_core.tools import proc
from state.records import ToolProcess


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaped:
    """What was done. `left` processes could not be ended (another user's, or stuck in the kernel):
    keep the ledger's row and tell the operator."""

    ended: int
    left: int


async def reap(process: ToolProcess, *, within: float = 5.0) -> Reaped:
    """End every process of that recorded group, in at most `within` seconds. Raises nothing.

    Ended are: the recorded process (by id *and* start time, so that a recycled id is not touched), its
    group, what carries its mark, and everything below these. Not found is a process that wiped its
    environment and whose shell and guardian are both dead; nothing that this daemon started is touched.
    """
    if process.boot_id != proc.boot_id():
        return Reaped(ended=0, left=0)
    return await asyncio.to_thread(end_group, process.pgid, process.started, within)


def end_group(group: int, ticks: int, within: float) -> Reaped:
    """The blocking form of `reap`, for a group of this boot."""
    ended: set[int] = set()
    limit = time.monotonic() + within
    while True:
        living = _belonging(group, ticks)
        if not living or time.monotonic() > limit:
            return Reaped(ended=len(ended - living.keys()), left=len(living))
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for one in living.values():
                _send(one, number)
        ended |= living.keys()
        time.sleep(0.005)


def _belonging(group: int, ticks: int) -> dict[int, proc.Process]:
    processes = proc.everything()
    mark = proc.marker(group, ticks)
    leader = processes.get(group)
    ours = {pid for pid, one in processes.items() if one.ticks >= ticks and proc.marked(pid, mark)}
    if leader is not None and leader.ticks == ticks:
        ours |= {pid for pid, one in processes.items() if one.group == group}
    found = {pid: processes[pid] for pid in ours if processes[pid].state not in "ZX"}
    found |= proc.descendants(ours, processes)
    for pid in _family(processes):
        found.pop(pid, None)
    return found


def _family(processes: dict[int, proc.Process]) -> set[int]:
    """This process, what is above it and what is below it: a daemon that a command has started carries
    the mark of that command, and must not end itself."""
    me = os.getpid()
    family = {me, *proc.descendants({me}, processes)}
    above = processes.get(me)
    while above is not None and above.pid > 1:
        family.add(above.pid)
        above = processes.get(above.parent)
    return family


def _send(process: proc.Process, number: int) -> None:
    """Signal that very process: the start time is compared while a descriptor pins its id."""
    try:
        pinned = os.pidfd_open(process.pid)
    except OSError:
        return
    try:
        now = proc.read(process.pid)
        if now is not None and now.ticks == process.ticks:
            signal.pidfd_send_signal(pinned, number)
    except OSError:
        return
    finally:
        os.close(pinned)
