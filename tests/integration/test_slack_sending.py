"""What the Slack adapter sends, with the genuine SDK against the counterpart."""

from __future__ import annotations

import asyncio
import dataclasses
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
    UnparsableMarkup,
)
from adapters.events import Attachment, Button, Buttons, EventKind, Media, RenderedChunk
from adapters.slack.mrkdwn import unescape
from tests.counterparts.small_slack_server import SlackServer
from tests.unit.adapters.slack.rig import Rig


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with SlackServer() as server:
        found = Rig(server, tmp_path)
        yield found
        assert server.violations == []


def picture(folder: Path, name: str = "a.txt", data: bytes = b"hello") -> Media:
    path = folder / name
    path.write_bytes(data)
    return Media(attachment=Attachment(kind="document", name=name, mime="text/plain", path=str(path)))


@pytest.mark.parametrize("restart", [False, True])
async def test_B41_everything_goes_to_the_thread(rig: Rig, restart: bool) -> None:
    async with rig.running():
        root = rig.mention("work")
        (event, *_) = await rig.events(1)
        await rig.acked(2)
    if restart:
        rig.renew()
    async with rig.running():
        await rig.adapter.typing(event.address, event.message_id)
        parts = rig.chunks("progress", picture(rig.folder), "word " * 2000)
        assert len(parts) == 5
        for number, chunk in enumerate(parts):
            await rig.adapter.send(event.address, chunk, key=f"c{number}", reply_to=event.message_id)
        assert len(rig.server.shown(rig.room, root["ts"])) == len(rig.server.shown(rig.room)) == 5
        assert rig.server.web.statuses == [(rig.room.id, root["ts"], "is thinking…")]
        assert all(not one.fields["reply_broadcast"] for one in rig.server.called("chat.postMessage"))


async def test_a_direct_message_is_answered_in_itself(rig: Rig) -> None:
    async with rig.running():
        rig.say("hello", rig.dm)
        (event,) = await rig.events(1)
        await rig.adapter.typing(event.address, event.message_id)  # there is no such thing
        await rig.adapter.send(event.address, rig.chunks("hi")[0], key="k", reply_to=event.message_id)
        (shown,) = rig.server.shown(rig.dm)
        assert "thread_ts" not in shown
        assert rig.server.web.statuses == []


@pytest.mark.parametrize("extra", [-1, 0, 1])
async def test_B35_posts_and_edits_take_the_same(rig: Rig, extra: int) -> None:
    async with rig.running():
        address = rig.address(rig.dm)
        text = "x" * (4000 + extra)
        parts = rig.chunks(text)
        assert len(parts) == (1 if extra <= 0 else 2)
        receipt = await rig.adapter.send(address, parts[0], key="k", reply_to=None)
        await rig.adapter.edit(address, receipt.message_ids[0], parts[0])
        assert len(rig.server.called("chat.update")[0].fields["text"]) <= 4000
        rig.server.web.post_limit = 1000
        with pytest.raises(TooLong):
            await rig.adapter.send(address, parts[0], key="k2", reply_to=None)


async def test_B36_nasty_words_arrive(rig: Rig) -> None:
    async with rig.running():
        for number, text in enumerate(["file_name is a_b", "a < b && c", "[x](", "`unclosed", "1. item (x) #1 + = |"]):
            await rig.adapter.send(rig.address(rig.dm), rig.chunks(text)[0], key=f"k{number}", reply_to=None)
            assert unescape(rig.texts(rig.dm)[-1]) == text


async def test_no_pings_and_no_previews(rig: Rig) -> None:
    async with rig.running():
        text = "<!channel> <!here> @here @channel <@U0001> <!subteam^S1> [x](!everyone)"
        for number, chunk in enumerate([*rig.chunks(text), RenderedChunk(payload="", plain=text)]):
            receipt = await rig.adapter.send(rig.address(rig.room), chunk, key=f"k{number}", reply_to=None)
            await rig.adapter.edit(rig.address(rig.room), receipt.message_ids[0], chunk)
        for call in rig.server.called("chat.postMessage"):
            assert (call.fields["parse"], call.fields["link_names"]) == ("none", False)
            assert (call.fields["unfurl_links"], call.fields["unfurl_media"]) == (False, False)
        assert all(one.fields["parse"] == "none" for one in rig.server.called("chat.update"))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("channel_not_found", Gone), ("is_archived", NoRights), ("not_in_channel", NoRights), ("msg_too_long", TooLong),
        ("invalid_blocks", UnparsableMarkup), ("thread_not_found", Gone), ("invalid_auth", AuthFailed),
        ("account_inactive", AuthFailed), ("missing_scope", NoRights), ("fatal_error", OutcomeUnknown),
        ("internal_error", OutcomeUnknown), ("no_text", Rejected),
    ],
)  # fmt: skip
async def test_refusals_are_typed(rig: Rig, error: str, kind: type[AdapterError]) -> None:
    async with rig.running():
        rig.server.fail("chat.postMessage", error=error)
        with pytest.raises(AdapterError) as caught:
            await rig.adapter.send(rig.address(rig.dm), rig.chunks("x")[0], key="k", reply_to=None)
        assert type(caught.value) is kind
        assert len(rig.server.called("chat.postMessage")) == 1  # no try of the SDK's own


async def test_waits_and_broken_calls(rig: Rig) -> None:
    async with rig.running():
        address, (chunk,) = rig.address(rig.dm), rig.chunks("x")
        rig.server.fail("chat.postMessage", retry_after=7)
        with pytest.raises(RetryAfter) as wait:
            await rig.adapter.send(address, chunk, key="k", reply_to=None)
        assert wait.value.seconds == 7
        for fault in (lambda: rig.server.fail("chat.postMessage", status=502, html=True),
                      lambda: rig.server.accept_then_drop("chat.postMessage")):  # fmt: skip
            fault()
            with pytest.raises(OutcomeUnknown) as unknown:
                await rig.adapter.send(address, chunk, key="k", reply_to=None)
            assert rig.server.bot_token not in repr(unknown.value)
        assert len(rig.server.called("chat.postMessage")) == 3
    with pytest.raises(NotReady):
        await rig.adapter.send(address, chunk, key="k", reply_to=None)


@pytest.mark.parametrize("where", ["dm", "thread"])
@pytest.mark.parametrize("restart", [False, True])
async def test_an_unknown_outcome_is_looked_up(rig: Rig, where: str, restart: bool) -> None:
    root = rig.say("root", live=False)
    address = rig.address(rig.dm) if where == "dm" else rig.address(rig.room, root["ts"])
    async with rig.running():
        rig.server.accept_then_drop("chat.postMessage")
        with pytest.raises(OutcomeUnknown):
            await rig.adapter.send(address, rig.chunks("x")[0], key="d_1.1", reply_to=None)
        await rig.adapter.send(address, rig.chunks("y")[0], key="d_1.2", reply_to=None)
    if restart:
        rig.renew()
    async with rig.running():
        found = await rig.adapter.look_up(address, "d_1.1")
        assert found is not None
        channel = rig.dm if where == "dm" else rig.room
        assert channel.messages[found.message_ids[0]]["text"] == "x"
        assert await rig.adapter.look_up(address, "d_1.3") is None


async def test_a_look_up_that_cannot_be_sure_says_so(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adapters.slack.outbound.LOOK", 20)
    for number in range(40):
        rig.say(f"{number}", rig.dm, live=False)
    async with rig.running():
        with pytest.raises(OutcomeUnknown):
            await rig.adapter.look_up(rig.address(rig.dm), "d_9.1")
        rig.server.fail("conversations.history", status=500, html=True)
        with pytest.raises(NotReady):
            await rig.adapter.look_up(rig.address(rig.dm), "d_9.1")


async def test_B27_a_failed_edit_is_an_error_and_sends_nothing(rig: Rig) -> None:
    async with rig.running():
        address = rig.address(rig.dm)
        receipt = await rig.adapter.send(address, rig.chunks("Answer.▌")[0], key="k", reply_to=None)
        rig.server.fail("chat.update", retry_after=3)
        with pytest.raises(RetryAfter):
            await rig.adapter.edit(address, receipt.message_ids[0], rig.chunks("Answer.")[0])
        rig.server.fail("chat.update", error="edit_window_closed")
        with pytest.raises(Rejected):
            await rig.adapter.edit(address, receipt.message_ids[0], rig.chunks("Answer.")[0])
        assert rig.texts(rig.dm) == ["Answer.▌"]


async def test_buttons_are_pressed_and_go_with_the_edit(rig: Rig) -> None:
    async with rig.running():
        rig.mention("delete it", twins=("message",))
        (asked,) = await rig.events(1)
        buttons = Buttons(
            buttons=(Button(id="ap_1", label="Approve", value="yes"), Button(id="ap_1", label="Deny", value="no"))
        )
        (chunk,) = rig.chunks("Really?", buttons)
        receipt = await rig.adapter.send(asked.address, chunk, key="k", reply_to=None)
        (shown,) = rig.server.shown(rig.room)
        rig.server.people.press(rig.room, rig.bob, shown, "Deny")
        press = (await rig.events(2))[1]
        assert press.kind is EventKind.ACTION
        assert press.action is not None
        assert (press.action.button_id, press.action.value) == ("ap_1", "no")
        assert (press.address, press.message_id, press.sender.id) == (asked.address, receipt.message_ids[0], rig.bob)
        await rig.acked(3)
        await rig.adapter.edit(asked.address, receipt.message_ids[0], rig.chunks("Denied.")[0])
        (shown,) = rig.server.shown(rig.room)
        assert "blocks" not in shown
        assert shown["metadata"]["event_payload"] == {"key": "k"}


async def test_B81_only_regular_files_go_out(rig: Rig) -> None:
    secret = rig.folder / "secret"
    secret.write_text("s")
    link, fifo = rig.folder / "link", rig.folder / "fifo"
    link.symlink_to(secret)
    os.mkfifo(fifo)
    async with rig.running():
        for path in (link, fifo, rig.folder, Path("/dev/null"), rig.folder / "none", None):
            media = Media(attachment=Attachment(kind="document", name="a", mime="text/plain", path=path and str(path)))
            with pytest.raises(Rejected):
                await asyncio.wait_for(
                    rig.adapter.send(rig.address(rig.dm), rig.chunks(media)[0], key="k", reply_to=None), 5
                )
        assert rig.server.called("files.getUploadURLExternal") == []


async def test_files_go_out_once(rig: Rig) -> None:
    async with rig.running():
        address, (chunk,) = rig.address(rig.dm), rig.chunks(picture(rig.folder, data=b"z" * 300_000))
        receipt = await rig.adapter.send(address, chunk, key="f1", reply_to=None)
        (shown,) = rig.server.shown(rig.dm)
        assert receipt.message_ids == (shown["ts"],)
        assert rig.server.world.files[shown["files"][0]["id"]].data == b"z" * 300_000
        rig.server.accept_then_drop("files.completeUploadExternal")
        with pytest.raises(OutcomeUnknown):
            await rig.adapter.send(address, chunk, key="f2", reply_to=None)
        found = await rig.adapter.look_up(address, "f2")
        assert found is not None
        assert found.message_ids == (rig.server.shown(rig.dm)[1]["ts"],)
        assert await rig.adapter.look_up(address, "f3") is None
        for fault in ("files.getUploadURLExternal", "files.completeUploadExternal"):
            rig.server.fail(fault, error="file_uploads_disabled")
            with pytest.raises(NoRights):
                await rig.adapter.send(address, chunk, key="f4", reply_to=None)
        await rig.adapter.delete(address, receipt.message_ids[0])
        await rig.adapter.delete(address, receipt.message_ids[0])
    rig.renew()
    async with rig.running():  # another process cannot know whose that file is
        with pytest.raises(OutcomeUnknown):
            await rig.adapter.look_up(address, "f2")


async def test_files_come_in_later_with_the_token_only_for_slack(rig: Rig) -> None:
    async with rig.running():
        rig.say("look", rig.dm, files=[("a.txt", "text/plain", b"words"), ("b.png", "image/png", b"\x89PNG")])
        (event,) = await rig.events(1)
        assert all(one.path is None and one.ref for one in event.attachments)
        first, second = await rig.adapter.fetch(event)
        assert Path(first.path or "").read_bytes() == b"words"
        assert second.kind == "image"
        assert Path(second.path or "").parent.parent == rig.folder / "slack"
        for url in ("https://evil.example/x", "http://slack.com/x", "https://slack.com.evil.example/x",
                    "https://evil.example/slack.com"):  # fmt: skip
            foreign = dataclasses.replace(first, path=None, ref=f'{{"id": "F1", "url": "{url}"}}')
            (refused,) = await rig.adapter.fetch(dataclasses.replace(event, attachments=(foreign,)))
            assert refused.note == "it lies outside of Slack, and I do not fetch it there"
        (file,) = [one for one in rig.server.world.files.values() if one.name == "a.txt"]
        asked = dataclasses.replace(first, path=None, ref=f'{{"id": "{file.id}", "url": ""}}')
        (found,) = await rig.adapter.fetch(dataclasses.replace(event, attachments=(asked,)))
        assert found.path is not None
        rig.server.bot_token = "xoxb-another"  # the page to log in comes instead
        (page,) = await rig.adapter.fetch(
            dataclasses.replace(event, attachments=(dataclasses.replace(first, path=None),))
        )
        assert page.path is None
        assert "files:read" in str(page.note)


async def test_a_thread_is_opened_and_closed(rig: Rig) -> None:
    async with rig.running():
        assert await rig.adapter.open_thread(rig.address(rig.dm), "x") is None
        thread = await rig.adapter.open_thread(rig.address(rig.room), "A *trip* <!here>")
        assert thread is not None
        rig.say("go on", thread_ts=thread.thread_id)
        (event,) = await rig.events(1)
        assert event.address == thread
        assert event.mentions_us
        await rig.adapter.close_thread(thread)
        await rig.adapter.close_thread(thread)
        assert rig.texts() == []
