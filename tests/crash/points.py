"""The points at which a daemon under test dies: `python -m tests.crash.points POINT[:N] ARGS…` runs `tidings ARGS…`
and kills its own process with SIGKILL at the N-th passing of POINT (default: the first).

The product has no hooks for this: the methods that the point lies between are wrapped from outside, in the
child process only. `before` dies when the method is called, `after` once it has returned (committed).
"""

from __future__ import annotations

import functools
import importlib
import os
import signal
import sys
from typing import Any

POINTS: dict[str, tuple[str, str, str]] = {
    "accept": ("state.inbox:Inbox", "accept", "after"),
    "binding": ("state.sessions:Sessions", "activate", "after"),
    "lease": ("state.leases:Leases", "acquire", "after"),
    "user-row": ("state.turns:Turns", "begin", "after"),
    "mid-stream": ("gateway.streaming:TurnStream", "emit", "before"),
    "planned": ("state.turns:Turns", "append", "after"),
    "tool-started": ("state.turns:Turns", "start_call", "after"),
    "tool-run": ("state.turns:Turns", "finish_call", "before"),
    "tool-done": ("state.turns:Turns", "finish_call", "after"),
    "before-final": ("state.turns:Turns", "finish", "before"),
    "final": ("state.turns:Turns", "finish", "after"),
    "sending": ("state.outbox:Outbox", "sending", "after"),
    "sent-unrecorded": ("state.outbox:Outbox", "sent", "before"),
    "sent": ("state.outbox:Outbox", "sent", "after"),
    "handoff-claimed": ("state.handoffs:Handoffs", "claim", "after"),
    "handoff-thread": ("state.handoffs:Handoffs", "set_thread", "before"),
    "handoff-recorded": ("state.handoffs:Handoffs", "set_thread", "after"),
    "handoff-moving": ("state.handoffs:Handoffs", "rebind_done", "before"),
    "handoff-moved": ("state.handoffs:Handoffs", "rebind_done", "after"),
    "handoff-greeted": ("gateway.intake:Intake", "internal", "after"),
    "handoff-failed": ("state.handoffs:Handoffs", "fail", "after"),
    "consent": ("gateway.succession.successor:", "_ask", "after"),
    "store": ("gateway.succession.successor:Takeover", "take", "before"),
    "took": ("gateway.succession.successor:Takeover", "_serve", "before"),
    "signed": ("gateway.locks:Lock", "sign", "after"),
    "consented": ("gateway.succession.incumbent:Incumbent", "_give", "before"),
    "gave": ("gateway.succession.incumbent:Incumbent", "_leave", "before"),
    "left": ("gateway.httpd:HttpServer", "leave", "after"),
    "drains": ("gateway.succession.incumbent:", "_next", "before"),
    "shutdown": ("gateway.lifecycle:", "shut_down", "before"),
    "shutdown-parked": ("state.turns:Turns", "park", "after"),
}


def die() -> None:
    """As the kernel's out-of-memory killer would do it."""
    os.kill(os.getpid(), signal.SIGKILL)


def arm(point: str) -> None:
    """Wrap the method of `point` so that its N-th call is the last thing that this process does."""
    name, _, count = point.partition(":")
    where, method, when = POINTS[name]
    left = int(count or 1)
    module, _, cls = where.partition(":")
    owner: Any = importlib.import_module(module)
    owner = getattr(owner, cls) if cls else owner
    original = getattr(owner, method)

    def due() -> bool:
        nonlocal left
        left -= 1
        return left == 0

    @functools.wraps(original)
    async def wrapped(*args: Any, **kwargs: Any) -> Any:
        now = due()
        if now and when == "before":
            die()
        result = await original(*args, **kwargs)
        if now:
            die()
        return result

    @functools.wraps(original)
    def wrapped_plain(*args: Any, **kwargs: Any) -> Any:
        if due():
            die()
        return original(*args, **kwargs)

    import inspect

    setattr(owner, method, wrapped if inspect.iscoroutinefunction(original) else wrapped_plain)


def main() -> None:
    """Arm the point and run the command."""
    point, *args = sys.argv[1:]
    if ttl := os.environ.get("TEST_LEASE_TTL"):
        running = importlib.import_module("gateway.running")
        running.LEASE_TTL = float(ttl)  # before anybody has taken the name over
    if point != "none":
        arm(point)
    sys.argv = ["tidings", *args]
    from gateway.__main__ import main as tidings

    sys.exit(tidings())


if __name__ == "__main__":
    main()
