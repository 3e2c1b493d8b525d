"""The Discord adapter against the counterpart: what is said arrives once, or it is known why not."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from adapters.errors import (
    AdapterError,
    AuthFailed,
    Gone,
    NoRights,
    NotReady,
    OutcomeUnknown,
    Rejected,
    RetryAfter,
    TooLong,
)
from adapters.events import Attachment, Media, RenderedChunk
from tests.counterparts.discord_server import DiscordServer
from tests.unit.adapters.discord.rig import Rig

MESSAGES = "/channels/*/messages"


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with DiscordServer() as server:
        found = Rig(server, tmp_path)
        yield found
        assert server.violations == []


# what is said --------------------------------------------------------------------------------------------


async def test_model_text_calls_nobody(rig: Rig) -> None:
    async with rig.running():
        rig.mention("hello")
        (event,) = await rig.events(1)
        text = f"@everyone @here <@{rig.ann}> <@&{rig.server.guild}>"
        receipt = await rig.send(event.address, text, reply_to=event.message_id)
        await rig.adapter.edit(event.address, receipt.message_ids[0], RenderedChunk(payload="", plain=text))
        assert rig.server.shown(event.address.thread_id)[0].mentions == []
        bodies = [
            call.body for call in rig.server.calls if call.method in ("POST", "PATCH") and "content" in str(call.body)
        ]
        assert all(
            body["allowed_mentions"] == {"parse": [], "replied_user": False} for body in bodies if "content" in body
        )


@pytest.mark.parametrize(
    ("how", "kind"),
    [
        ({"code": 10003}, Gone),
        ({"code": 50001}, NoRights),
        ({"code": 50007}, NoRights),
        ({"code": 50013}, NoRights),
        ({"code": 40005}, Rejected),
        ({"code": 50006}, Rejected),
        ({"status": 401, "code": 0}, AuthFailed),
        ({"status": 500}, OutcomeUnknown),
        ({"status": 503}, OutcomeUnknown),
    ],
)
async def test_refusals_are_typed_by_their_remedy(rig: Rig, how: dict[str, object], kind: type[AdapterError]) -> None:
    async with rig.running():
        rig.server.fail("POST", MESSAGES, **how)  # type: ignore[arg-type]
        with pytest.raises(kind) as caught:
            await rig.send(rig.dm(), "x")
        assert type(caught.value) is kind
        assert rig.server.token not in str(caught.value)
        assert len(rig.server.called("POST", "/messages")) == 1  # no tries of its own


async def test_B30_the_wait_is_the_platforms_own(rig: Rig) -> None:
    async with rig.running():
        rig.server.fail("POST", MESSAGES, status=429, retry_after=30.25)
        with pytest.raises(RetryAfter) as one:
            await rig.send(rig.dm(), "x")
        assert (one.value.seconds, one.value.everywhere) == (30.25, False)
        rig.server.fail("POST", MESSAGES, status=429, html=True, headers={"Retry-After": "0.2"})
        with pytest.raises(RetryAfter) as two:
            await rig.send(rig.dm(), "x")
        assert (two.value.seconds, two.value.everywhere) == (0.2, True)
        calls = len(rig.server.called("POST", "/messages"))
        with pytest.raises(RetryAfter):
            await rig.send(rig.dm(), "x")  # nothing goes out before it is over
        assert len(rig.server.called("POST", "/messages")) == calls
        await asyncio.sleep(0.25)
        rig.server.fail("POST", MESSAGES, status=429, retry_after=0.2, global_=True)
        with pytest.raises(RetryAfter) as three:
            await rig.send(rig.dm(), "x")
        assert three.value.everywhere
        await asyncio.sleep(0.25)
        await rig.send(rig.dm(), "x")
        assert rig.contents(rig.dm().chat_id) == ["x"]


async def test_an_unknown_outcome_is_cleared_up_by_the_nonce(rig: Rig) -> None:
    async with rig.running():
        dm = rig.dm()
        rig.server.gateway.hold()  # the event of the message does not reach us either
        rig.server.accept_then_drop("POST", MESSAGES)
        with pytest.raises(OutcomeUnknown):
            await rig.send(dm, "once", key="k1")
        assert await rig.adapter.look_up(dm, "k1") is None  # a further try is recognised
        receipt = await rig.send(dm, "once", key="k1")
        assert rig.contents(dm.chat_id) == ["once"]
        found = await rig.adapter.look_up(dm, "k1")
        assert found is not None
        assert found.message_ids == receipt.message_ids
        rig.server.gateway.release()


async def test_a_draft_that_had_arrived_becomes_the_answer(rig: Rig) -> None:
    async with rig.running():
        dm = rig.dm()
        rig.server.gateway.hold()
        rig.server.accept_then_drop("POST", MESSAGES)
        with pytest.raises(OutcomeUnknown):
            await rig.send(dm, "the begin", key="k1")
        await rig.send(dm, "the begin and the end", key="k1")
        assert rig.contents(dm.chat_id) == ["the begin and the end"]
        rig.server.gateway.release()


async def test_our_own_event_tells_that_a_try_has_arrived(rig: Rig) -> None:
    async with rig.running():
        dm = rig.dm()
        rig.server.accept_then_drop("POST", MESSAGES)
        with pytest.raises(OutcomeUnknown):
            await rig.send(dm, "once", key="k1")
        await rig.quiet()
        receipt = await rig.adapter.look_up(dm, "k1")
        assert receipt is not None
        assert receipt.message_ids == (str(rig.server.shown(dm.chat_id)[0].id),)


async def test_after_the_window_the_history_tells(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adapters.discord.outbound.WINDOW", 0.0)
    async with rig.running():
        dm = rig.dm()
        await rig.send(dm, "once", key="k0")  # the same words, but it is known whose they are
        rig.server.gateway.hold()
        rig.server.drop("POST", MESSAGES)
        with pytest.raises(OutcomeUnknown):
            await rig.send(dm, "once", key="k1")
        assert await rig.adapter.look_up(dm, "k1") is None
        rig.server.accept_then_drop("POST", MESSAGES)
        with pytest.raises(OutcomeUnknown):
            await rig.send(dm, "once", key="k1")
        found = await rig.adapter.look_up(dm, "k1")
        assert found is not None
        assert found.message_ids == (str(rig.server.shown(dm.chat_id)[-1].id),)
        rig.server.gateway.release()


async def test_what_another_process_has_tried_cannot_be_told(rig: Rig) -> None:
    async with rig.running():
        await rig.send(rig.dm(), "once", key="k1")
    rig.make()
    async with rig.running():
        with pytest.raises(OutcomeUnknown):
            await rig.adapter.look_up(rig.dm(), "k1")
        await rig.send(rig.dm(), "once", key="k1")  # the nonce still holds
        assert rig.contents(rig.dm().chat_id) == ["once"]


async def test_a_server_that_cannot_be_reached_is_not_ready(tmp_path: Path) -> None:
    async with DiscordServer() as server:
        rig = Rig(server, tmp_path)
        async with rig.running():
            await server._runner.cleanup()  # type: ignore[union-attr]
            with pytest.raises(NotReady):
                await rig.send(rig.dm(), "x")
        server._runner = None
    with pytest.raises(NotReady):
        await rig.adapter.run(rig.gateway, rig._ready)


async def test_a_reply_without_the_right_to_read_history_is_sent_without_a_reference(rig: Rig) -> None:
    async with rig.running():
        said = rig.server.say(rig.dm().chat_id, rig.ann, "hello")
        rig.server.fail("POST", MESSAGES, status=403, code=160002)
        await rig.send(rig.dm(), "answer", reply_to=said["id"])
        (shown,) = rig.server.shown(rig.dm().chat_id)
        assert (shown.content, shown.reference) == ("answer", None)


async def test_B35_all_text_arrives_in_the_fewest_messages(rig: Rig) -> None:
    async with rig.running():
        for size, count in ((1999, 1), (2000, 1), (2001, 2), (4000, 2)):
            chunks = rig.chunks("x" * size)
            assert len(chunks) == count
            for number, chunk in enumerate(chunks):
                await rig.adapter.send(rig.dm(), chunk, key=f"{size}-{number}", reply_to=None)
        assert "".join(rig.contents(rig.dm().chat_id)) == "x" * (1999 + 2000 + 2001 + 4000)
        with pytest.raises(TooLong):
            await rig.adapter.send(rig.dm(), RenderedChunk(payload="", plain="x" * 2001), key="t", reply_to=None)


@pytest.mark.parametrize(
    "text",
    ["file_name is a_b", "**antique_identifier** and a lone *", "a < b && c", "[x](", "`unclosed",
     "1. item (x) #1 + = | { } . !"],
)  # fmt: skip
async def test_B36_content_is_always_delivered(rig: Rig, text: str) -> None:
    async with rig.running():
        await rig.send(rig.dm(), text)
        assert len(rig.contents(rig.dm().chat_id)) == 1


async def test_B81_only_regular_files_within_the_limit_are_sent(rig: Rig, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("key")
    link, pipe, big, empty = (tmp_path / name for name in ("link", "pipe", "big", "empty"))
    link.symlink_to(secret)
    os.mkfifo(pipe)
    with big.open("wb") as file:
        file.truncate(5 * 2**30)
    empty.touch()
    async with rig.running():
        for path in (link, pipe, big, empty, tmp_path, tmp_path / "absent", Path("/dev/zero")):
            media = Media(attachment=Attachment(kind="document", name=path.name, mime="x/y", path=str(path)))
            with pytest.raises(Rejected) as caught:
                await rig.send(rig.dm(), media)
            assert caught.value.told.startswith(f"The file {path.name} ")
        assert rig.server.called("POST", "/messages") == []


async def test_files_are_fetched_later_also_when_their_address_has_run_out(rig: Rig) -> None:
    rig.attachment_bytes = 100
    rig.make()
    async with rig.running():
        files = [("a.txt", "text/plain", b"hello"), ("b.bin", "application/octet-stream", b"x" * 200)]
        said = rig.server.say(rig.dm().chat_id, rig.ann, "look", attachments=files)
        rig.server.say(rig.dm().chat_id, rig.ann, "", voice=True, attachments=[("v.ogg", "audio/ogg", b"OggS")])
        rig.server.say(rig.dm().chat_id, rig.ann, "", forward=said)
        event, voice, forward = await rig.events(3)
        assert [one.path for one in event.attachments] == [None, None]
        assert "larger" in str(event.attachments[1].note)
        assert voice.attachments[0].kind == "voice"
        (again, _) = await rig.adapter.fetch(forward)
        assert Path(str(again.path)).read_bytes() == b"hello"
        rig.server.world.expire_links()
        small, large = await rig.adapter.fetch(event)
        assert Path(str(small.path)).read_bytes() == b"hello"
        assert large.path is None
        rig.server.delete(said)
        rig.server.world.expire_links()
        (gone, _) = await rig.adapter.fetch(event)
        assert (gone.path, gone.note) == (None, "its message is not there any more")
