"""The Telegram adapter with the genuine python-telegram-bot against the counterpart: what is said."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from adapters.errors import (
    AuthFailed,
    Gone,
    NoRights,
    NotReady,
    OutcomeUnknown,
    Rejected,
    RetryAfter,
    TooLong,
    UnparsableMarkup,
)
from adapters.events import Attachment, AttachmentKind, Button, Buttons, Markdown, Media, RenderedChunk
from tests.counterparts.telegram_server import TelegramServer
from tests.unit.adapters.telegram.rig import Rig

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with TelegramServer() as server:
        found = Rig(server, tmp_path)
        async with found.running():
            yield found
        assert server.violations == []


def media(path: Path, kind: AttachmentKind = "document", mime: str = "text/plain", name: str = "") -> Media:
    return Media(attachment=Attachment(kind=kind, name=name or path.name, mime=mime, size=1, path=str(path)))


# texts


async def test_an_answer_is_a_reply_with_markup_and_without_a_preview(rig: Rig) -> None:
    said = rig.server.say(rig.chat, rig.ann, "hello")
    await rig.say(rig.chat, "**Hi** [x](https://x.example)", reply_to=str(said["message_id"]))
    (shown,) = rig.server.shown(rig.chat)
    assert shown.text == "Hi x"
    assert shown.reply == said["message_id"]
    assert [one["type"] for one in shown.entities] == ["bold", "text_link"]
    assert rig.server.called("sendMessage")[0].params["link_preview_options"] == {"is_disabled": True}


async def test_the_answer_to_a_message_that_is_gone_still_comes(rig: Rig) -> None:
    said = rig.server.say(rig.chat, rig.ann, "hello")
    rig.server.delete(rig.chat, said["message_id"])
    await rig.say(rig.chat, "hi", reply_to=str(said["message_id"]))
    assert [one.text for one in rig.server.shown(rig.chat)] == ["hi"]


async def test_B36_what_is_refused_as_markup_goes_as_plain_text_and_calls_nobody(rig: Rig) -> None:
    address = rig.address(rig.chat)
    with pytest.raises(UnparsableMarkup):
        await rig.adapter.send(
            address, RenderedChunk(payload='{"text":"<b>x","parse_mode":"HTML"}', plain="x"), key="k", reply_to=None
        )
    await rig.adapter.send(address, RenderedChunk(payload="", plain="😀 @ann_lee <b>"), key="k", reply_to=None)
    (shown,) = rig.server.shown(rig.chat)
    assert shown.text == "😀 @ann_lee <b>"
    assert [one["type"] for one in shown.entities] == ["code"]


@pytest.mark.parametrize("size", [4095, 4096, 4097])
async def test_B35_the_same_limit_holds_for_sends_and_edits(rig: Rig, size: int) -> None:
    chunks = rig.chunks("ä" * size)
    assert len(chunks) == (1 if size <= 4096 else 2)
    ids = await rig.say(rig.chat, "ä" * size)
    await rig.adapter.edit(rig.address(rig.chat), ids[0], rig.chunks("b" * 4096)[0])
    with pytest.raises(TooLong):
        await rig.adapter.edit(rig.address(rig.chat), ids[0], RenderedChunk(payload="", plain="b" * 4097))
    with pytest.raises(TooLong):
        await rig.adapter.send(
            rig.address(rig.chat), RenderedChunk(payload="", plain="b" * 4097), key="k", reply_to=None
        )


async def test_B40_general_is_written_to_without_its_id_and_typing_has_it(rig: Rig) -> None:
    forum = rig.server.world.forum("Forum", rig.ann)
    rig.server.say(forum, rig.ann, "/status")
    (event,) = await rig.events(1)
    assert event.address.thread_id == "1"
    file = rig.folder / "a.txt"
    file.write_text("x")
    picture = rig.folder / "a.png"
    picture.write_bytes(PNG)
    await rig.say(event.address, "text", media(file), media(picture, "image", "image/png"), reply_to=event.message_id)
    assert [one.kind for one in rig.server.shown(forum)] == ["text", "document", "photo"]
    for name in ("sendMessage", "sendDocument", "sendPhoto"):
        assert "message_thread_id" not in rig.server.called(name)[-1].params
    await rig.adapter.typing(event.address, None)
    assert rig.server.world.chat(forum).actions == [("typing", 1)]


async def test_typing_in_a_topic_and_in_a_private_chat(rig: Rig) -> None:
    forum = rig.server.world.forum("Forum", rig.ann)
    topic = rig.server.open_topic(forum, rig.ann, "Plans")
    await rig.adapter.typing(rig.address(forum, str(topic.id)), None)
    await rig.adapter.typing(rig.address(rig.chat), "5")
    assert rig.server.world.chat(forum).actions == [("typing", topic.id)]


async def test_edits_and_deletions_are_idempotent_and_typed(rig: Rig) -> None:
    address = rig.address(rig.chat)
    (number,) = await rig.say(rig.chat, "draft")
    (final,) = rig.chunks("final")
    for _ in range(2):
        await rig.adapter.edit(address, number, final)
    for _ in range(2):
        await rig.adapter.delete(address, number)
    with pytest.raises(Gone):
        await rig.adapter.edit(address, number, final)
    theirs = rig.server.say(rig.chat, rig.ann, "mine")
    with pytest.raises(Rejected):
        await rig.adapter.edit(address, str(theirs["message_id"]), final)
    with pytest.raises(Gone):
        await rig.adapter.edit(address, "j77", final)


Break = Callable[[Rig], Any]


@pytest.mark.parametrize(
    ("break_it", "kind"),
    [
        (lambda rig: rig.server.block(rig.ann), NoRights),
        (lambda rig: rig.server.revoke(), AuthFailed),
        (lambda rig: rig.server.fail("sendMessage", status=500), OutcomeUnknown),
        (lambda rig: rig.server.fail("sendMessage", status=200, body="<html>"), OutcomeUnknown),
    ],
)
async def test_refusals_have_a_type(rig: Rig, break_it: Break, kind: type[Exception]) -> None:
    break_it(rig)
    with pytest.raises(kind) as caught:
        await rig.say(rig.chat, "hi")
    assert type(caught.value) is kind
    assert rig.server.token not in str(caught.value)
    assert rig.server.shown(rig.chat) == []


async def test_a_chat_and_a_topic_that_do_not_exist_are_gone(rig: Rig) -> None:
    with pytest.raises(Gone):
        await rig.say(replace(rig.address(rig.chat), chat_id="-999"), "hi")
    with pytest.raises(Gone):
        await rig.say(replace(rig.address(rig.chat), chat_id="nowhere"), "hi")
    forum = rig.server.world.forum("Forum", rig.ann)
    with pytest.raises(Gone):
        await rig.say(rig.address(forum, "4444"), "hi")
    topic = rig.server.open_topic(forum, rig.ann, "Plans")
    rig.server.set_bot(forum, "member", by=rig.ann)
    rig.server.close_topic(forum, rig.ann, topic.id)
    with pytest.raises(NoRights):
        await rig.say(rig.address(forum, str(topic.id)), "hi")


@pytest.mark.parametrize(("seconds", "in_text"), [(30, False), (25, True), (0, False), (0, True), (3600, False)])
async def test_B30_a_flood_is_told_with_its_own_figure_and_not_repeated(rig: Rig, seconds: int, in_text: bool) -> None:
    for method, call in (
        ("sendMessage", lambda: rig.say(rig.chat, "hi")),
        ("editMessageText", lambda: rig.adapter.edit(rig.address(rig.chat), "5", rig.chunks("x")[0])),
        ("sendChatAction", lambda: rig.adapter.typing(rig.address(rig.chat), None)),
    ):
        rig.server.flood(method, seconds, in_text_only=in_text)
        with pytest.raises(RetryAfter) as caught:
            await call()
        assert caught.value.seconds == seconds
        assert not caught.value.everywhere
        assert len(rig.server.called(method)) == 1


async def test_an_outcome_that_is_unknown_is_not_repeated_into_an_outage(rig: Rig) -> None:
    rig.server.accept_then_drop("sendMessage")
    with pytest.raises(OutcomeUnknown):
        await rig.say(rig.chat, "hi")
    rig.server.fail("getMe", times=2)
    for _ in range(2):
        with pytest.raises(NotReady):
            await rig.say(rig.chat, "hi")
    assert len(rig.server.called("sendMessage")) == 1
    await rig.say(rig.chat, "hi")
    assert [one.text for one in rig.server.shown(rig.chat)] == ["hi", "hi"]
    await rig.say(rig.chat, "more")
    assert len(rig.server.called("getMe")) == 4  # once at the start, three times after the failure


async def test_what_is_not_connected_is_not_ready(tmp_path: Path) -> None:
    async with TelegramServer() as server:
        rig = Rig(server, tmp_path)
        with pytest.raises(NotReady):
            await rig.say(rig.chat, "hi")
        with pytest.raises(NotReady):
            await rig.adapter.typing(rig.address(rig.chat), None)
        assert rig.adapter.account == ""


# files


@pytest.mark.parametrize(
    ("kind", "mime", "data", "form"),
    [
        ("image", "image/png", PNG, "photo"),
        ("image", "image/png", b"no picture", "document"),
        ("voice", "audio/ogg", b"OggS", "voice"),
        ("audio", "audio/mpeg", b"ID3", "audio"),
        ("audio", "audio/flac", b"fLaC", "document"),
        ("video", "video/mp4", b"mp4", "video"),
        ("sticker", "image/webp", b"RIFF0000WEBP", "sticker"),
        ("document", "application/pdf", b"%PDF", "document"),
    ],
)
async def test_a_file_goes_in_the_form_that_fits(
    rig: Rig, kind: AttachmentKind, mime: str, data: bytes, form: str
) -> None:
    path = rig.folder / "file.bin"
    path.write_bytes(data)
    await rig.say(
        rig.chat, media(path, kind, mime, name="näme.bin"), Buttons(buttons=(Button(id="a", label="B", value="c"),))
    )
    (shown,) = rig.server.shown(rig.chat)
    assert shown.kind == form
    assert shown.buttons == [("B", "11:ac")]
    uploads = [upload for call in rig.server.calls for upload in call.uploads.values()]
    assert uploads[-1].data == data
    assert uploads[-1].filename == "näme.bin"


async def test_a_picture_that_is_too_large_for_one_is_a_document(rig: Rig) -> None:
    path = rig.folder / "big.png"
    path.write_bytes(PNG + b"\0" * (10 << 20))
    await rig.say(rig.chat, media(path, "image", "image/png"))
    assert [one.kind for one in rig.server.shown(rig.chat)] == ["document"]
    assert not rig.server.called("sendPhoto")


async def test_B81_only_a_regular_file_of_bounded_size_is_sent(rig: Rig) -> None:
    folder = rig.folder
    (folder / "link").symlink_to("/etc/passwd")
    os.mkfifo(folder / "pipe")
    (folder / "empty").touch()
    with (folder / "huge").open("wb") as file:
        file.truncate(5 << 30)
    for name in ("link", "pipe", "empty", "huge", "missing", "."):
        with pytest.raises(Rejected) as caught:
            await asyncio.wait_for(rig.say(rig.chat, media(folder / name, name=f"{name}.txt")), 5)
        assert name in caught.value.told
        assert "/etc" not in caught.value.told
    assert rig.server.shown(rig.chat) == []
    assert not [call for call in rig.server.calls if call.uploads]


async def test_files_come_in_behind_their_event(rig: Rig) -> None:
    rig.server.send_document(rig.chat, rig.ann, b"the words", name="ä/../n.txt", caption="read it")
    rig.server.send_photo(rig.chat, rig.ann, PNG)
    document, photo = await rig.events(2)
    assert rig.server.downloads == []
    (one,) = await rig.adapter.fetch(document)
    assert one.path is not None
    assert Path(one.path).read_bytes() == b"the words"
    assert Path(one.path).is_relative_to(rig.folder / "telegram")
    assert (one.size, one.note) == (9, None)
    (two,) = await rig.adapter.fetch(photo)
    assert two.path is not None
    assert await rig.adapter.fetch(replace(document, attachments=(one,))) == (one,)


async def test_B49_a_file_that_cannot_be_fetched_has_a_note(tmp_path: Path) -> None:
    async with TelegramServer() as server:
        rig = Rig(server, tmp_path, attachment_bytes=1000)
        async with rig.running():
            server.send_document(rig.chat, rig.ann, b"x", size=60_000_000, caption="one")  # told
            server.send_document(rig.chat, rig.ann, b"x" * 5000, size=0, caption="two")  # a lie
            server.send_document(rig.chat, rig.ann, b"x" * 900, cut=True, caption="three")
            server.send_document(rig.chat, rig.ann, b"x" * 900, name="n" * 300, caption="four")
            events = await rig.events(4)
            await rig.settled()
            assert [event.text for event in events] == ["one", "two", "three", "four"]
            notes = [(await rig.adapter.fetch(event))[0].note for event in events]
            assert notes[0] == notes[1] == "it is larger than the 0.001 MB that I fetch"
            assert notes[2] == "the transfer broke off"
            assert notes[3] is None
            left = [path for path in (tmp_path / "telegram").rglob("*") if path.is_file()]
            assert len(left) == 1
            assert len(left[0].name) <= 100
            server.fail("getFile", status=400, description="Bad Request: file is too big")
            (one,) = await rig.adapter.fetch(events[3])
            assert one.note == "it is larger than the 0.001 MB that I fetch"
            server.fail("getFile", status=400, description="Bad Request: wrong file_id")
            (one,) = await rig.adapter.fetch(events[3])
            assert one.note == "the platform does not have it any more"
            server.fail("download", status=404)
            (one,) = await rig.adapter.fetch(events[3])
            assert one.note == "the platform does not give it out (status 404)"
            server.fail("getFile", times=1)
            (one,) = await rig.adapter.fetch(events[3])  # one failure passes
            assert one.path is not None


async def test_a_server_of_ones_own_may_tell_a_path_of_its_disk(rig: Rig) -> None:
    rig.server.send_document(rig.chat, rig.ann, b"over the wire")
    (event,) = await rig.events(1)
    (stored,) = rig.server.world.files.values()
    local = rig.folder / "on-disk.txt"
    local.write_bytes(b"from the disk")
    stored.path = str(local)
    (one,) = await rig.adapter.fetch(event)
    assert one.path is not None
    assert Path(one.path).read_bytes() == b"from the disk"
    assert rig.server.downloads == []
    local.unlink()
    (one,) = await rig.adapter.fetch(event)  # not there: asked for over HTTP
    assert rig.server.downloads != []


# topics of our own


async def test_a_topic_of_our_own_has_the_address_of_its_messages(rig: Rig) -> None:
    forum = rig.server.world.forum("Forum", rig.ann)
    address = await rig.adapter.open_thread(rig.address(forum), "A  talk " + "x" * 200)
    assert address is not None
    (topic,) = [one for one in rig.server.world.chat(forum).topics.values() if one.id != 1]
    assert len(topic.name) == 128
    rig.server.say(forum, rig.ann, "/status", thread=topic.id)
    (event,) = await rig.events(1)
    assert event.address == address
    await rig.say(address, "hello there")
    for _ in range(2):
        await rig.adapter.close_thread(address)
    rig.server.delete_topic(forum, topic.id)
    await rig.adapter.close_thread(address)
    assert await rig.adapter.open_thread(rig.address(rig.chat), "x") is None
    group = rig.server.world.group("Team", rig.ann)
    assert await rig.adapter.open_thread(rig.address(group), "x") is None
    rig.server.set_bot(forum, "member", by=rig.ann)
    with pytest.raises(NoRights):
        await rig.adapter.open_thread(rig.address(forum), "x")


async def test_every_kind_of_block_in_one_delivery(rig: Rig) -> None:
    path = rig.folder / "a.txt"
    path.write_text("x")
    await rig.say(rig.chat, Markdown(text="# Title\n" + "word " * 1000), media(path), "end")
    assert [one.kind for one in rig.server.shown(rig.chat)] == ["text", "text", "document", "text"]
