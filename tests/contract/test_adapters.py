"""The contract of `adapters/ports.py`, kept by every adapter. A platform joins by a class in `adapter_harness`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapters import registry
from adapters.errors import AdapterError, NotReady
from adapters.events import Attachment, Button, Buttons, ChatAddress, EventKind, Markdown, Media, RenderedChunk
from adapters.limits import length_in
from adapters.ports import (
    CanDelete,
    CanEdit,
    CanLookUp,
    CanStream,
    CanType,
    HearsFates,
    LivePart,
    PlatformAdapter,
    Renderer,
)
from tests.contract.adapter_harness import HARNESSES, Harness
from tests.counterparts.small_gateway import SmallGateway

NASTY = [
    "file_name is a_b",
    "**antique_identifier** and a lone *",
    "a < b && c > d",
    "[x](",
    "`unclosed",
    "1. item (x) #1 + = | { } . !",
    "`C:\\dir\\b` and `\\d+\\.`",
    "```print('`')```",
    "```py\n" + "x = 1\n" * 2000 + "```",
    "~~~\n" + "y" * 9000,
    "👨‍👩‍👧‍👦" * 900,
    "\ud800 \x00 \x1b[2J \u202e",
    "> " * 500 + "deep",
    "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 500,
    "<script>alert(1)</script> &amp; &lt;",
    "e\u0301" * 3000,
    "# " + "title " * 1000,
]


@pytest.fixture(params=HARNESSES, ids=lambda one: one.__name__.removesuffix("Harness"))
async def harness(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Harness]:
    found: Harness = request.param()
    gateway = SmallGateway()
    async with found.open(gateway, tmp_path):
        gateway.adapter = found.adapter
        found.gateway = gateway  # type: ignore[attr-defined]
        yield found
        await gateway.close()


@pytest.fixture
def gateway(harness: Harness) -> SmallGateway:
    return harness.gateway  # type: ignore[attr-defined,no-any-return]


@asynccontextmanager
async def running(harness: Harness, gateway: SmallGateway) -> AsyncIterator[asyncio.Task[None]]:
    ready = asyncio.Event()
    task = asyncio.create_task(harness.adapter.run(gateway, ready.set), name="adapter")
    async with asyncio.timeout(10):
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_it_is_an_adapter(harness: Harness, gateway: SmallGateway) -> None:
    adapter = harness.adapter
    assert isinstance(adapter, PlatformAdapter)
    assert adapter.platform in registry.manifests()
    async with running(harness, gateway):
        assert adapter.account == harness.address.account
        assert adapter.platform == harness.address.platform


async def test_everything_is_closed_after_a_cancel_and_it_runs_again(harness: Harness, gateway: SmallGateway) -> None:
    before = asyncio.all_tasks()
    async with running(harness, gateway) as task:
        assert not task.done()
    assert task.cancelled()
    await asyncio.sleep(0)
    left = {one.get_name() for one in asyncio.all_tasks() - before if "adapter" in one.get_name()}
    assert left == set()
    if harness.repeats:  # a front end of a person runs once
        async with running(harness, gateway) as task:
            assert not task.done()


async def test_an_event_is_complete(harness: Harness, gateway: SmallGateway) -> None:
    async with running(harness, gateway):
        await harness.hear("hello there", "10")
        await gateway.until(lambda: len(gateway.rows) == 1)
        (event,) = gateway.events
        assert event.text == "hello there"
        assert event.kind is EventKind.MESSAGE
        assert event.address == harness.address
        assert event.address.account == harness.adapter.account
        assert event.message_id
        assert event.dedup_id
        assert event.sender.id
        assert event.received_at.tzinfo is not None
        assert event.received_at.utcoffset().total_seconds() == 0  # type: ignore[union-attr]


async def test_it_waits_for_the_commit_before_the_platform_is_told(harness: Harness, gateway: SmallGateway) -> None:
    if not harness.confirms:
        pytest.skip("nobody is told")
    async with running(harness, gateway):
        gateway.gate.clear()
        hearing = asyncio.create_task(harness.hear("hello", "11"))
        await gateway.until(lambda: gateway.offered == 1)
        await asyncio.sleep(0.02)
        assert harness.confirmed() == 0
        gateway.gate.set()
        await gateway.until(lambda: len(gateway.rows) == 1)
        async with asyncio.timeout(5):
            await hearing
            while harness.confirmed() == 0:
                await asyncio.sleep(0.005)


async def test_what_the_store_cannot_take_is_not_confirmed(harness: Harness, gateway: SmallGateway) -> None:
    if not harness.confirms:
        pytest.skip("nobody is told")
    async with running(harness, gateway) as task:
        gateway.faults.append(NotReady("the disk is full"))
        with suppress(NotReady):
            await harness.hear("hello", "12")
        await gateway.until(lambda: gateway.offered >= 1)
        await asyncio.sleep(0.02)
        assert harness.confirmed() == len(gateway.rows)
        assert not task.done() or isinstance(task.exception(), AdapterError)


async def test_a_message_told_twice_is_one_event(harness: Harness, gateway: SmallGateway) -> None:
    async with running(harness, gateway):
        await harness.hear("first", "20")
        await gateway.until(lambda: len(gateway.rows) == 1)
        if harness.repeats:
            await harness.hear("first", "20")
            await gateway.until(lambda: gateway.offered == 2 or not harness.confirms or harness.confirmed() == 2)
            assert len(gateway.rows) == 1
            await harness.hear("second", "21")
            await gateway.until(lambda: len(gateway.rows) == 2)
            assert len({event.dedup_id for event in gateway.events}) == 2


async def test_a_rendered_chunk_arrives_once(harness: Harness, gateway: SmallGateway) -> None:
    async with running(harness, gateway):
        (chunk,) = harness.adapter.renderer.render([Markdown(text="a first word")])
        receipt = await harness.adapter.send(harness.address, chunk, key="k1", reply_to=None)
        assert receipt.message_ids
        assert all(isinstance(one, str) and one for one in receipt.message_ids)
        assert receipt.sent_at.utcoffset() is not None
        if harness.idempotent:
            again = await harness.adapter.send(harness.address, chunk, key="k1", reply_to=None)
            assert again.message_ids == receipt.message_ids
        if harness.shows:
            assert (await harness.seen()).count("a first word") == 1


async def test_a_chunk_without_a_payload_is_sent_as_its_plain_text(harness: Harness, gateway: SmallGateway) -> None:
    async with running(harness, gateway):
        chunk = RenderedChunk(payload="", plain="only * words_")
        assert (await harness.adapter.send(harness.address, chunk, key="p1", reply_to=None)).message_ids
        if harness.shows:
            assert "only * words_" in await harness.seen()


async def test_every_nasty_text_can_be_sent(harness: Harness, gateway: SmallGateway) -> None:
    async with running(harness, gateway):
        for number, text in enumerate(NASTY):
            for part, chunk in enumerate(harness.adapter.renderer.render([Markdown(text=text)])[:3]):
                receipt = await harness.adapter.send(harness.address, chunk, key=f"n{number}-{part}", reply_to=None)
                assert receipt.message_ids
                await harness.seen()


async def test_errors_are_typed(harness: Harness, gateway: SmallGateway) -> None:
    async with running(harness, gateway):
        (chunk,) = harness.adapter.renderer.render([Markdown(text="word")])
        for kind, inject in harness.faults.items():
            inject()
            with pytest.raises(AdapterError) as caught:
                await harness.adapter.send(harness.address, chunk, key=f"fault-{kind.__name__}", reply_to=None)
            assert type(caught.value) is kind
            receipt = await harness.adapter.send(harness.address, chunk, key=f"fault-{kind.__name__}", reply_to=None)
            assert receipt.message_ids


async def test_abilities_are_idempotent_and_never_stop_the_caller(harness: Harness, gateway: SmallGateway) -> None:
    adapter, address = harness.adapter, harness.address
    async with running(harness, gateway):
        first, second = (adapter.renderer.render([Markdown(text=text)])[0] for text in ("draft", "final"))
        (message_id, *_) = (await adapter.send(address, first, key="a1", reply_to=None)).message_ids
        if isinstance(adapter, CanEdit):
            for _ in range(2):
                await adapter.edit(address, message_id, second)
            assert "final" in await harness.seen()
            assert "draft" not in await harness.seen()
        if isinstance(adapter, CanLookUp):
            found = await adapter.look_up(address, "a1")
            assert found is not None
            assert message_id in found.message_ids
            assert await adapter.look_up(address, "never-sent") is None
        if isinstance(adapter, CanType):
            await adapter.typing(address, None)
        if isinstance(adapter, CanStream):
            other = ChatAddress(platform=address.platform, account=address.account, chat_id="nobody")
            for kind in ("text", "reset", "tool", "status", "something new"):
                adapter.live(address, "no-such-message", LivePart(kind=kind, text="\x1b[2J"))
                adapter.live(other, "no-such-message", LivePart(kind=kind, text=""))
        if isinstance(adapter, HearsFates):
            adapter.settled(address, "no-such-message", "answered", "")
        if isinstance(adapter, CanDelete):
            for _ in range(2):
                await adapter.delete(address, message_id)
            assert "final" not in await harness.seen()


def check_renderer(renderer: Renderer, text: str) -> None:
    limits, measure = renderer.limits, length_in(renderer.limits.unit)
    blocks = [Markdown(text=text)]
    chunks = renderer.render(blocks)
    assert chunks == renderer.render(blocks), "the same each time"
    for chunk in chunks:
        (chunk.payload + chunk.plain).encode()  # it can be stored
        if limits.text is not None:
            assert measure(chunk.plain) <= limits.text
    if text.strip() and text.isalnum():
        assert "".join("".join(chunk.plain.split()) for chunk in chunks) == "".join(text.split())


async def test_the_renderer_is_pure_and_keeps_its_limits(harness: Harness) -> None:
    renderer = harness.adapter.renderer
    assert renderer.render([]) == []
    for text in NASTY:
        check_renderer(renderer, text)
    button = Buttons(buttons=(Button(id="b1", label="Yes", value="yes"), Button(id="b2", label="No", value="no")))
    media = Media(attachment=Attachment(kind="image", name="a.png", mime="image/png", size=3, path="/x/a.png"))
    assert len(renderer.render([Markdown(text="Really?"), button])) == 1
    assert renderer.render([button])
    assert renderer.render([Markdown(text="Look"), media, Markdown(text="there")])


@given(text=st.text(max_size=2000))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@pytest.mark.parametrize("name", [n for n, m in registry.manifests().items() if m.renderer is not None])
def test_the_renderer_of_a_platform_is_there_without_its_adapter(name: str, text: str) -> None:
    check_renderer(registry.renderer_for(name), text)
