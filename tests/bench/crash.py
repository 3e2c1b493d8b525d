"""kill -9 at random moments and at each named point, and a count of what was lost and what was doubled.

The client does what a platform does: a message whose acceptance it was not told it sends again, under the same
id. A message counts as lost where it has no answer in the end, and as doubled where its text was answered more
than once in the transcript, or where a turn has more than one final delivery.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

from tests.bench.daemon import Bench, bench
from tests.crash.harness import Client, DaemonProcess, rows

THINKS = 0.1
"""Seconds that the model thinks: with the start of a turn and its streaming, kills fall into every phase."""
WINDOW = 0.6
"""A kill comes so many seconds after the messages at most; what is done by then was answered before it."""
TEXT_POINTS = (
    "accept",
    "binding",
    "lease",
    "user-row",
    "mid-stream:2",
    "before-final",
    "final",
    "sending",
    "sent-unrecorded",
    "sent",
)
TOOL_POINTS = ("planned", "tool-started", "tool-run", "tool-done")


async def crash(quick: bool) -> dict[str, Any]:
    """Kills at random moments; kills that fall into the recovery from the one before, too; and the named points."""
    kills = 8 if quick else 40
    return {
        "random": await _random(kills, settle=True),
        "in_recovery": await _random(kills // 2, settle=False),
        "points": await _points(),
    }


async def _random(kills: int, *, settle: bool) -> dict[str, int]:
    """Five new messages to each daemon, which is killed in the midst of them.

    With `settle` the next daemon answers what is left before it gets its own five: a message meets one kill at
    most. Without it, it is killed in the midst of both, and a message may meet several: the product gives up what
    it has begun twice without coming to an end, and tells the sender. That is a stated fate, counted on its own.
    """
    rng = random.Random(3)
    texts: dict[str, str] = {}
    untaken: set[str] = set()
    in_flight = 0
    async with bench() as one:
        await one.latency(THINKS)
        one.daemon.kill()
        daemon = await DaemonProcess(one.config).ready()
        for kill in range(kills):
            client = Client(one.session, daemon)
            new = {f"m{kill}-{number}": f"question {kill}-{number}." for number in range(5)}
            texts |= new
            untaken |= set(new)
            posts = asyncio.gather(*(_post(client, one_id, texts[one_id]) for one_id in sorted(untaken)))
            await asyncio.sleep(rng.random() * WINDOW)
            daemon.kill()
            untaken -= {one_id for one_id in await posts if one_id is not None}
            in_flight += rows(one.home, "SELECT count(*) FROM inbox WHERE fate IN ('waiting', 'running')")[0][0]
            daemon = await DaemonProcess(one.config).ready()
            if settle or kill == kills - 1:
                client = Client(one.session, daemon)
                for one_id in sorted(untaken):
                    await _post(client, one_id, texts[one_id])
                untaken.clear()
                for one_id in texts if not settle else new:
                    await client.settled(one_id, 60)
        daemon.kill()
        counted = _count(one.home, texts)
    return {"kills": kills, "messages_in_flight_at_a_kill": in_flight, **counted}


async def _post(client: Client, one_id: str, text: str) -> str | None:
    """The id, where the daemon said that it has the message."""
    return one_id if await client.post(text, one_id, session=f"s{one_id[-1]}") else None


def _count(home: Path, texts: dict[str, str]) -> dict[str, int]:
    fates = dict(rows(home, "SELECT message_id, fate FROM inbox"))
    said = [
        content
        for (content,) in rows(home, "SELECT content FROM transcript WHERE role = 'assistant' AND tool_calls IS NULL")
    ]
    times = {one_id: sum(content.endswith(text) for content in said) for one_id, text in texts.items()}
    told = {
        message_id
        for (message_id,) in rows(
            home,
            "SELECT i.message_id FROM inbox i JOIN outbox o ON o.turn_id = i.turn_id"
            " WHERE i.fate = 'failed' AND o.state = 'sent'",
        )
    }
    finals = rows(home, "SELECT turn_id FROM outbox WHERE kind = 'final' GROUP BY turn_id HAVING count(*) > 1")
    answered = {one_id for one_id, fate in fates.items() if fate == "answered" and times[one_id] > 0}
    return {
        "messages": len(texts),
        "given_up_and_told": len(told - answered),
        "lost": len(set(texts) - answered - told),
        "doubled": sum(count > 1 for count in times.values()) + len(finals),
    }


async def _points() -> dict[str, int]:
    """One message and one kill a point, all in one home, each in a chat of its own (a binding is made only once)."""
    texts: dict[str, str] = {}
    async with bench() as one:
        one.daemon.kill()
        effects = one.home.parent / "work" / "effects"
        effects.parent.mkdir(exist_ok=True)
        for number, point in enumerate((*TEXT_POINTS, *TOOL_POINTS)):
            text = texts[f"m{number}"] = f"question {number}."
            if point in TOOL_POINTS:
                await _script_call(one, number, text)
            await _die_at(one, point, f"m{number}", text)
        counted = _count(one.home, texts)
        ran = effects.read_text().split() if effects.exists() else []
    return {"points": len(texts), **counted, "tools_run_twice": len(ran) - len(set(ran))}


async def _script_call(one: Bench, number: int, text: str) -> None:
    """The model asks for a tool with an effect that can be counted, then says the text."""
    call = {"name": "terminal", "arguments": {"command": f"echo ran-{number} >> effects"}, "id": f"call_{number}"}
    steps = [{"tool_calls": [call], "text": "I look."}, {"text": f"done: {text}"}]
    async with one.session.post(f"http://127.0.0.1:{one.model_port}/_script", json=steps) as answer:
        answer.raise_for_status()


async def _die_at(one: Bench, point: str, one_id: str, text: str) -> None:
    daemon = await DaemonProcess(one.config, point=point).ready()
    taken = await Client(one.session, daemon).post(text, one_id, session=one_id)
    if await daemon.dead() != -9:
        raise RuntimeError(f"{point} was not reached: {daemon.log}")
    daemon.kill()  # closes its log
    daemon = await DaemonProcess(one.config).ready()
    client = Client(one.session, daemon)
    if not taken:
        await client.post(text, one_id, session=one_id)
    await client.settled(one_id)
    daemon.kill()
