"""Measures of the store alone: appends with their index, and bytes on the disk."""

from __future__ import annotations

import json
import random
import tempfile
import time
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from state.database import Database
from state.ids import SessionKey, new_turn_id
from state.owners import this_process
from state.records import Fate, NewEvent, NewMessage, NewUsage, ToolCall, ToolStatus, TurnState
from state.store import Store
from tests.bench.corpus import listing, text
from tests.bench.daemon import percentile

KEY = SessionKey("bench:a:~:c:~:~")


def user(content: str) -> NewMessage:
    """A user row as the loop writes it."""
    return NewMessage(
        role="user", content=content, wire=json.dumps({"role": "user", "content": content}, ensure_ascii=False)
    )


async def appends(count: int) -> dict[str, Any]:
    """`count` rows of 1 KB with their search index, one awaited after the other: as the product commits them (WAL,
    synchronous=NORMAL), and with synchronous=FULL; and accepts of events, which are FULL in the product too."""
    normal, accepts = await _appends(count)
    with _always_full():
        full, _ = await _appends(count)
    return {
        "appends": count,
        "append_normal": _told(normal),
        "append_full": _told(full),
        "accept_full": _told(accepts),
    }


async def _appends(count: int) -> tuple[list[float], list[float]]:
    rng = random.Random(1)
    with tempfile.TemporaryDirectory(prefix="tidings-bench-") as folder:
        async with Store.open(Path(folder) / "tidings.db", owner=this_process("bench")) as store:
            binding = await store.sessions.claim(KEY, store.owner, "{}")
            _, session = await store.sessions.activate(KEY, binding.version, person="bench:u")
            lease = await store.leases.acquire(session.id, new_turn_id(), ttl=3600)
            await store.turns.begin(lease, KEY, [], [user("begin")])
            rows = [user(text(rng, 1000)) for _ in range(count)]
            took = [await _timed(store.turns.append(lease, [row])) for row in rows]
            accepts = [await _timed(store.inbox.accept(_event(store, number))) for number in range(min(count, 1000))]
    return took, accepts


async def _timed(work: Awaitable[Any]) -> float:
    began = time.perf_counter()
    await work
    return time.perf_counter() - began


def _told(took: list[float]) -> dict[str, float]:
    return {
        "seconds": round(sum(took), 2),
        "p50_ms": round(percentile(took, 0.5) * 1000, 2),
        "p99_ms": round(percentile(took, 0.99) * 1000, 2),
    }


@contextmanager
def _always_full() -> Iterator[None]:
    """Every commit of this process waits for the disk. The product has no such switch: it is put on from outside."""
    original = Database.write

    async def write(self: Database, run: Any, *, full: bool = False) -> Any:
        return await original(self, run, full=True)

    Database.write = write  # type: ignore[method-assign]
    try:
        yield
    finally:
        Database.write = original  # type: ignore[method-assign]


def _event(store: Store, number: int) -> NewEvent:
    return NewEvent(
        dedup_id=str(number),
        platform="bench",
        account="a",
        kind="message",
        key=KEY,
        message_id=str(number),
        sender_id="u",
        payload="x" * 300,
        received_at=store.clock.utc(),
    )


async def size(turns: int) -> dict[str, Any]:
    """Bytes of the database over bytes of content, wire forms and tool results, after `turns` natural turns."""
    rng = random.Random(2)
    content_bytes = 0
    with tempfile.TemporaryDirectory(prefix="tidings-bench-") as folder:
        path = Path(folder) / "tidings.db"
        async with Store.open(path, owner=this_process("bench")) as store:
            binding = await store.sessions.claim(KEY, store.owner, "{}")
            _, session = await store.sessions.activate(KEY, binding.version, person="bench:u")
            for number in range(turns):
                content_bytes += await _turn(store, session.id, number, rng)
            await store.checkpoint()
        bytes_on_disk = sum(file.stat().st_size for file in path.parent.iterdir())
    return {
        "turns": turns,
        "content_mb": round(content_bytes / 1e6, 2),
        "database_mb": round(bytes_on_disk / 1e6, 2),
        "ratio": round(bytes_on_disk / content_bytes, 2),
    }


async def _turn(store: Store, session_id: Any, number: int, rng: random.Random) -> int:
    """A turn with, every third time, a tool call. Returns the bytes that it says."""
    event = await store.inbox.accept(_event(store, number))
    lease = await store.leases.acquire(session_id, new_turn_id())
    asked = user(text(rng, rng.randrange(60, 900)))
    await store.turns.begin(lease, KEY, [event.event_id], [asked])
    said = [asked]
    if number % 3 == 0:
        said += await _call(store, lease, number, rng)
    answer = text(rng, rng.randrange(200, 2500))
    final = NewMessage(
        role="assistant", content=answer, wire=json.dumps({"role": "assistant", "content": answer}, ensure_ascii=False)
    )
    await store.usage.add(session_id, lease.turn_id, NewUsage(model="bench", input_tokens=100, output_tokens=50))
    await store.turns.finish(
        lease, state=TurnState.ANSWERED, rows=[final], fates=[(event.event_id, Fate.ANSWERED, "")], delivery=None
    )
    return sum(len(row.content.encode()) + len((row.wire or "").encode()) for row in [*said, final])


async def _call(store: Store, lease: Any, number: int, rng: random.Random) -> list[NewMessage]:
    call = ToolCall(id=f"call_{number}", name="terminal", arguments=json.dumps({"command": f"ls -l /data/{number}"}))
    wire = json.dumps(
        {"role": "assistant", "content": None, "tool_calls": [{"id": call.id, "arguments": call.arguments}]}
    )
    asks = NewMessage(role="assistant", content="", wire=wire, tool_calls=(call,))
    planned = NewMessage(
        role="tool", content="", tool_call_id=call.id, tool_name=call.name, tool_status=ToolStatus.PLANNED
    )
    _, row = await store.turns.append(lease, [asks, planned])
    await store.turns.start_call(lease, row)
    result = listing(rng, rng.randrange(5, 60))
    result_wire = json.dumps({"role": "tool", "tool_call_id": call.id, "content": result})
    await store.turns.finish_call(
        lease, row, ToolStatus.DONE, content=result, wire=result_wire, extract=f"ran: ls {number}"
    )
    return [asks, NewMessage(role="tool", content=result, wire=result_wire)]
