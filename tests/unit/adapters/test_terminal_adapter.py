"""The terminal's adapter in one process: what is awaited, what is shown once, what a crash leaves."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from adapters.errors import NotReady
from adapters.events import Button, ChatAddress, EventKind, Markdown, RenderedChunk, Sender
from adapters.ports import LivePart
from adapters.render import Said
from adapters.terminal import adapter as module
from adapters.terminal.adapter import TerminalAdapter
from adapters.terminal.front import HungUp, SaidKind, Talk
from tests.counterparts.small_gateway import Row, SmallGateway


class Front:
    """A front end that a test drives."""

    def __init__(self, drive: Callable[[Talk], Awaitable[int]]) -> None:
        self.drive = drive
        self.shown: list[tuple[str, SaidKind]] = []
        self.parts: list[LivePart] = []
        self.closed = 0
        self.gone = False

    async def run(self, talk: Talk) -> int:
        return await self.drive(talk)

    async def show(self, said: Said, kind: SaidKind, message_id: str | None) -> None:
        if self.gone:
            raise HungUp
        self.shown.append((said.text, kind))

    def live(self, message_id: str, part: LivePart) -> None:
        self.parts.append(part)

    async def close(self) -> None:
        self.closed += 1


def build(front: Front, gateway: SmallGateway) -> TerminalAdapter:
    gateway.adapter = TerminalAdapter(
        front, chat_id="line-1", sender=Sender(id="ann", name="Ann"), conversations=gateway, title="T"
    )
    return gateway.adapter


async def serve(drive: Callable[[Talk], Awaitable[int]], gateway: SmallGateway) -> tuple[Front, TerminalAdapter]:
    front = Front(drive)
    adapter = build(front, gateway)
    async with asyncio.timeout(10):
        await adapter.run(gateway, lambda: None)
    await gateway.close()
    return front, adapter


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", (0.0, 0.0))
    monkeypatch.setattr(module, "LOOK_EVERY", 0.02)
    monkeypatch.setattr(module, "SHOWN_WITHIN", 0.05)


async def one_question(talk: Talk) -> int:
    outcome = await talk.outcome(await talk.say("hello"))
    return 0 if outcome.ok else 3


async def test_an_answer_is_shown_once_in_either_order() -> None:
    async def fate_first(gateway: SmallGateway, row: Row) -> None:
        await gateway.end(row, text="the answer")

    async def delivery_first(gateway: SmallGateway, row: Row) -> None:
        row.fate, row.text = "answered", "the answer"
        await gateway.say(row, Markdown(text="the answer"))
        await gateway.end(row, text="the answer", deliver=False)

    for script in (fate_first, delivery_first):
        front, adapter = await serve(one_question, SmallGateway(script))
        assert front.shown == [("the answer", "answer")]
        assert adapter.exit_code == 0
        assert front.closed == 1


async def test_a_fate_that_nobody_told_is_found() -> None:
    async def script(gateway: SmallGateway, row: Row) -> None:
        await gateway.end(row, "silent", detail="not addressed", tell=False)

    _, adapter = await serve(one_question, SmallGateway(script))
    assert adapter.exit_code == 3


async def test_a_late_delivery_is_not_shown_again() -> None:
    gateway = SmallGateway()
    told: list[str] = []

    async def script(gateway: SmallGateway, row: Row) -> None:
        await gateway.end(row, text="the answer", deliver=False)

    async def drive(talk: Talk) -> int:
        told.append((await talk.outcome(await talk.say("hello"))).text)
        await gateway.say(gateway.rows[0], Markdown(text="the answer"))
        return 0

    gateway.script = script
    front, _ = await serve(drive, gateway)
    assert told == ["the answer"]
    assert front.shown == [("the answer", "answer")]


async def test_what_is_said_meanwhile_is_a_notice_and_of_others_earlier() -> None:
    async def script(gateway: SmallGateway, row: Row) -> None:
        await gateway.say(row, Markdown(text="the model is slow"), key="n")
        (chunk,) = gateway.adapter.renderer.render([Markdown(text="from before")])  # type: ignore[union-attr]
        await gateway.adapter.send(row.event.address, chunk, key="old", reply_to="long-ago")  # type: ignore[union-attr]
        gateway.live(row, "text", "th")
        await gateway.end(row, "failed", text="it failed")

    front, adapter = await serve(one_question, SmallGateway(script))
    assert front.shown == [("the model is slow", "notice"), ("from before", "earlier"), ("it failed", "failure")]
    assert [part.text for part in front.parts] == ["th"]
    assert adapter.exit_code == 3


async def test_commands_and_presses_are_what_they_are() -> None:
    async def script(gateway: SmallGateway, row: Row) -> None:
        await gateway.end(row, "command", text="done")

    async def drive(talk: Talk) -> int:
        for text in ("/new", "/title two words", "/etc/passwd is a file", "// no", "/x"):
            await talk.outcome(await talk.say(text))
        await talk.outcome(await talk.press(Button(id="b7", label="Yes", value="yes")))
        return 0

    gateway = SmallGateway(script)
    await serve(drive, gateway)
    kinds = [event.kind for event in gateway.events]
    assert kinds == [EventKind.COMMAND] * 2 + [EventKind.MESSAGE] * 2 + [EventKind.COMMAND, EventKind.ACTION]
    action = gateway.events[-1].action
    assert action is not None
    assert (action.button_id, action.value) == ("b7", "yes")
    assert len({event.dedup_id for event in gateway.events}) == 6


async def test_a_busy_store_is_waited_for_and_then_told() -> None:
    async def script(gateway: SmallGateway, row: Row) -> None:
        await gateway.end(row, text="ok")

    gateway = SmallGateway(script)
    gateway.faults.extend([NotReady("locked"), NotReady("locked")])
    _, adapter = await serve(one_question, gateway)
    assert (adapter.exit_code, gateway.offered, len(gateway.rows)) == (0, 3, 1)

    async def drive(talk: Talk) -> int:
        with pytest.raises(NotReady, match="locked"):
            await talk.say("hello")
        return 5

    full = SmallGateway(script)
    full.faults.extend([NotReady("locked")] * 9)
    _, adapter = await serve(drive, full)
    assert (adapter.exit_code, len(full.rows)) == (5, 0)


async def test_a_terminal_that_is_gone_keeps_the_answer_for_later() -> None:
    refused: list[NotReady] = []

    async def script(gateway: SmallGateway, row: Row) -> None:
        front.gone = True
        row.fate, row.text = "answered", "the answer"
        try:
            await gateway.say(row, Markdown(text="the answer"))
        except NotReady as error:
            refused.append(error)

    gateway = SmallGateway(script)
    front = Front(one_question)
    adapter = build(front, gateway)
    async with asyncio.timeout(10):
        await adapter.run(gateway, lambda: None)
    assert adapter.exit_code == 1
    assert len(refused) == 1
    assert front.shown == []
    chunk = RenderedChunk(payload='{"text":"x"}', plain="x")
    with pytest.raises(NotReady):
        await adapter.send(adapter.address, chunk, key="k", reply_to=None)


async def test_another_line_is_not_shown_here() -> None:
    async def drive(talk: Talk) -> int:
        other = ChatAddress(platform="terminal", account="local", chat_id="line-2")
        with pytest.raises(NotReady):
            await talk.send(other, RenderedChunk(payload='{"text":"x"}', plain="x"), key="k", reply_to=None)  # type: ignore[attr-defined]
        return 0

    front, _ = await serve(drive, SmallGateway())
    assert front.shown == []


async def test_a_merged_message_is_not_answered_twice() -> None:
    async def script(gateway: SmallGateway, row: Row) -> None:
        await gateway.end(row, "merged", text="the answer of the other", deliver=False)

    front, adapter = await serve(one_question, SmallGateway(script))
    assert front.shown == []
    assert adapter.exit_code == 0


async def test_attached_files_go_with_the_next_message(tmp_path: Path) -> None:
    notes, picture, pipe = tmp_path / "my notes.txt", tmp_path / "p.png", tmp_path / "pipe"
    notes.write_text("words")
    picture.write_bytes(b"\x89PNG")
    os.mkfifo(pipe)

    async def drive(talk: Talk) -> int:
        lines = await talk.attach(f"/attach '{notes}' {picture} {pipe} {tmp_path}/nowhere")
        assert len(lines) == 3
        assert "my notes.txt (5 bytes), p.png (4 bytes)" in lines[-1]
        assert any("no file" in one for one in lines)
        assert any("No such file" in one for one in lines)
        await talk.say("/help")  # a command takes nothing along
        await talk.say("look at these")
        await talk.say("and now nothing")
        assert (await talk.attach(f"/attach {picture}"))[-1].startswith("with the next")
        assert await talk.attach("/attach") == ["nothing is attached"]
        await talk.say("nothing either")
        return 0

    gateway = SmallGateway()
    await serve(drive, gateway)
    first, second, third, last = gateway.events
    assert [one.kind for one in second.attachments] == ["document", "image"]
    assert second.attachments[0].path == str(notes)
    assert second.attachments[0].sha256 is not None
    assert first.attachments == third.attachments == last.attachments == ()
