"""The Telegram counterpart, held against the genuine python-telegram-bot client: updates, webhooks and faults."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from aiohttp import web
from telegram import (
    Bot,
    MessageEntity,
)
from telegram.error import (
    BadRequest,
    ChatMigrated,
    Conflict,
    Forbidden,
    NetworkError,
    RetryAfter,
    TelegramError,
    TimedOut,
)
from telegram.ext import Updater

from tests.counterparts.telegram_setting import Setting, refused, setting

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 200
HTML = "HTML"


@pytest.fixture
async def here() -> AsyncIterator[Setting]:
    async with setting() as made:
        yield made


async def test_updater_hears_people_and_confirms(here: Setting) -> None:
    here.server.say(here.chat, here.ada, "/start now")
    updater: Updater = Updater(here.bot, asyncio.Queue())
    async with updater:
        queue: Any = await updater.start_polling(timeout=10)
        update = await asyncio.wait_for(queue.get(), 5)
        assert update.message.text == "/start now"
        assert update.message.entities[0].type == "bot_command"
        await here.server.until(lambda: here.server.confirmed == update.update_id + 1)
        here.server.say(here.chat, here.ada, "more")
        assert (await asyncio.wait_for(queue.get(), 5)).message.text == "more"
        await updater.stop()
    assert here.server.updates.waiting == []


async def test_offset_and_limit(here: Setting) -> None:
    for text in ("a", "b", "c"):
        here.server.say(here.chat, here.ada, text)
    assert [one.message.text for one in await here.polled(limit=2)] == ["a", "b"]
    first = (await here.polled())[0].update_id
    assert [one.message.text for one in await here.polled(offset=first + 1)] == ["b", "c"]
    assert here.server.confirmed == first + 1
    assert [one.message.text for one in await here.polled(offset=-1)] == ["c"]


async def test_kinds_not_asked_for_do_not_come(here: Setting) -> None:
    said = here.server.say(here.chat, here.ada, "x")
    here.server.react(here.chat, here.ada, said["message_id"], "👍")
    assert [one["message_reaction"]["user"]["id"] for one in here.server.updates.skipped] == [here.ada.id]
    await here.polled(allowed_updates=["message_reaction"])
    here.server.react(here.chat, here.ada, said["message_id"], "👎")
    here.server.say(here.chat, here.ada, "y")
    updates = await here.polled()
    assert [one.message_reaction is not None for one in updates] == [False, True]
    assert updates[1].message_reaction.old_reaction[0].emoji == "👍"


async def test_two_polls_conflict(here: Setting) -> None:
    first = asyncio.create_task(here.polled(timeout=20), name="first")
    await here.server.until(lambda: here.server.updates.polling == 1)
    other = Bot(here.server.token, base_url=here.server.base_url)
    await other.initialize()
    second = asyncio.create_task(other.get_updates(timeout=20), name="second")
    with pytest.raises(Conflict, match="terminated by other getUpdates request"):
        await first
    here.server.say(here.chat, here.ada, "x")
    assert [one.message and one.message.text for one in await second] == ["x"]
    await other.shutdown()


async def test_privacy_mode(here: Setting) -> None:
    here.server.world.abilities["can_read_all_group_messages"] = False
    group = here.server.world.group("Room", here.ada)
    mine = await here.bot.send_message(group.id, "hi")
    for text in ("plain", "/go", "/go@other_bot", "hey @Hermes_bot"):
        here.server.say(group, here.ada, text)
    here.server.say(group, here.ada, "answer", reply_to=mine.message_id)
    assert [one.message.text for one in await here.polled()] == ["/go", "hey @Hermes_bot", "answer"]


async def test_duplicates_and_order(here: Setting) -> None:
    here.server.updates.hold()
    for text in ("a", "b"):
        here.server.say(here.chat, here.ada, text)
    assert await here.polled() == []
    here.server.updates.release(order=[1, 0])
    updates = await here.polled()
    assert [one.message.text for one in updates] == ["b", "a"]
    await here.polled(offset=updates[0].update_id + 1)
    here.server.updates.duplicate(updates[0].to_dict())
    assert [one.update_id for one in await here.polled(offset=updates[0].update_id + 1)] == [updates[0].update_id]


async def test_malformed_updates_go_out_as_they_are(here: Setting) -> None:
    here.server.inject({"message": {"message_id": 1}})
    with pytest.raises(KeyError):  # what the client makes of a message without date and chat
        await here.polled()
    assert len(here.server.updates.waiting) == 1


async def test_what_people_do(here: Setting) -> None:
    server = here.server
    group, channel = server.world.supergroup("Room", here.ada, here.bob), server.world.channel("News")
    await here.polled(allowed_updates=["message", "edited_message", "channel_post", "my_chat_member", "chat_member"])
    server.say_anonymous(group, "who")
    said = server.say(group, here.ada, "one @hermes_bot", media_group_id="7", quote="q")
    server.say(group, here.bob, "two", reply_to=said["message_id"])
    server.edit(group, said["message_id"], "one more")
    server.post(channel, "post")
    server.leave(group, here.bob)
    server.join(group, here.bob, by=here.ada)
    server.set_bot(group, "administrator", by=here.ada)
    server.send_location(group, here.ada, 1, 2)
    server.send_contact(group, here.ada, "+1", "Eve")
    server.send_sticker(group, here.ada, emoji="🎉")
    server.send_voice(group, here.ada, b"v")
    updates = await here.polled()
    first, second, third = (one.message for one in updates[:3])
    assert (first.from_user.id, first.sender_chat.id) == (1087968824, group.id)
    assert [one.type for one in second.entities] == [MessageEntity.MENTION]
    assert third.reply_to_message.message_id == third.message_thread_id == second.message_id
    assert updates[3].edited_message.text == "one more"
    assert updates[4].channel_post.sender_chat.id == channel.id
    assert updates[5].chat_member.new_chat_member.status == "left"
    assert updates[6].message.left_chat_member.id == here.bob.id
    assert updates[8].message.new_chat_members[0].id == here.bob.id
    assert updates[9].my_chat_member.new_chat_member.status == "administrator"
    assert updates[12].message.sticker.emoji == "🎉"


@pytest.mark.parametrize("order", ["to-from", "from-to", "none"])
async def test_migration(here: Setting, order: str) -> None:
    group = here.server.world.group("Room", here.ada)
    new = here.server.migrate(group, here.ada, order=order)
    marks = [one.message.migrate_to_chat_id or one.message.migrate_from_chat_id for one in await here.polled()]
    assert marks == {"to-from": [new.id, group.id], "from-to": [group.id, new.id], "none": []}[order]
    with pytest.raises(ChatMigrated) as caught:
        await here.bot.send_message(group.id, "x")
    assert caught.value.new_chat_id == new.id
    await here.bot.send_message(new.id, "x")


# the webhook


@dataclass
class Hook:
    url: str
    got: list[tuple[str, Any]]
    answers: list[int]


@pytest.fixture
async def hook() -> AsyncIterator[Hook]:
    found = Hook("", [], [])

    async def take(request: web.Request) -> web.Response:
        found.got.append((request.headers.get("X-Telegram-Bot-Api-Secret-Token", ""), await request.json()))
        return web.Response(status=found.answers.pop(0) if found.answers else 200)

    app = web.Application()
    app.router.add_post("/hook", take)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    found.url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook"
    yield found
    await runner.cleanup()


async def test_webhook_posts_in_order_until_taken(here: Setting, hook: Hook) -> None:
    hook.answers += [500, 503, 200]
    await here.bot.set_webhook(hook.url, secret_token="s3cret", allowed_updates=["message"])
    for text in ("a", "b"):
        here.server.say(here.chat, here.ada, text)
    await here.server.until(lambda: not here.server.updates.waiting)
    assert [one["message"]["text"] for _, one in hook.got] == ["a", "a", "a", "b"]
    assert {secret for secret, _ in hook.got} == {"s3cret"}
    info = await here.bot.get_webhook_info()
    assert (info.url, info.last_error_message) == (hook.url, "Wrong response from the webhook: 503 Service Unavailable")
    with pytest.raises(Conflict, match="can't use getUpdates method while webhook is active"):
        await here.polled()
    await here.bot.delete_webhook()
    assert await here.polled() == []


async def test_pending_updates_are_dropped_only_on_request(here: Setting) -> None:
    here.server.say(here.chat, here.ada, "x")
    await here.bot.delete_webhook()
    assert len(await here.polled()) == 1
    await here.bot.delete_webhook(drop_pending_updates=True)
    assert [one["message"]["text"] for one in here.server.updates.dropped] == ["x"]


async def test_webhook_refused(here: Setting) -> None:
    said = "Bad webhook: an https url must be provided for webhook"
    await refused(here.bot.set_webhook("http://example.org/x"), BadRequest, said)
    call = here.bot.set_webhook("https://example.org/x", secret_token="a b")
    await refused(call, BadRequest, "Secret token contains unallowed characters")


# faults


@pytest.mark.parametrize(
    ("status", "kind"), [(500, NetworkError), (502, NetworkError), (409, Conflict), (400, BadRequest)]
)
async def test_fail(here: Setting, status: int, kind: type[TelegramError]) -> None:
    here.server.fail("sendMessage", status=status, times=2)
    for _ in range(2):
        with pytest.raises(kind):
            await here.bot.send_message(here.chat.id, "x")
    await here.bot.send_message(here.chat.id, "x")
    assert len(here.server.shown(here.chat)) == 1


async def test_fail_in_one_chat_and_for_a_time(here: Setting) -> None:
    other = here.server.world.private(here.bob)
    here.server.fail("*", status=400, description="Bad Request: odd", seconds=0.3, chat=other)
    await here.bot.send_message(here.chat.id, "x")
    began = time.monotonic()
    for _ in range(3):
        await refused(here.bot.send_message(other.id, "x"), BadRequest, "Odd")
    while True:
        try:
            await here.bot.send_message(other.id, "x")
        except BadRequest:
            continue
        break
    assert 0.25 < time.monotonic() - began < 5


@pytest.mark.parametrize("seconds", [7, 3600])
async def test_flood(here: Setting, seconds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTB_TIMEDELTA", "true")
    here.server.flood("sendMessage", seconds)
    with pytest.raises(RetryAfter) as caught:
        await here.bot.send_message(here.chat.id, "x")
    assert caught.value.retry_after == timedelta(seconds=seconds)


async def test_flood_told_in_the_text_or_with_nothing(here: Setting) -> None:
    here.server.flood("sendMessage", 7, in_text_only=True)
    await refused(here.bot.send_message(here.chat.id, "x"), NetworkError, "Too Many Requests: retry after 7")
    here.server.flood("sendMessage", 0)
    with pytest.raises(NetworkError, match="retry after 0"):
        await here.bot.send_message(here.chat.id, "x")


async def test_accept_then_drop(here: Setting) -> None:
    here.server.accept_then_drop("sendMessage")
    with pytest.raises(NetworkError):
        await here.bot.send_message(here.chat.id, "once")
    assert [one.text for one in here.server.shown(here.chat)] == ["once"]


async def test_hang_and_heal(here: Setting) -> None:
    here.server.hang("sendMessage")
    with pytest.raises(TimedOut):
        await here.bot.send_message(here.chat.id, "x", read_timeout=0.1)
    late = asyncio.create_task(here.bot.send_message(here.chat.id, "y"), name="late")
    await here.server.until(lambda: len(here.server.called("sendMessage")) == 2)
    here.server.heal()
    await late
    assert [one.text for one in here.server.shown(here.chat)] == ["y"]


async def test_connections(here: Setting) -> None:
    waits = asyncio.create_task(here.polled(timeout=20), name="poll")
    await here.server.until(lambda: here.server.updates.polling == 1)
    assert here.server.open_connections >= 1
    here.server.drop_connections()
    with pytest.raises(NetworkError):
        await waits
    await here.server.until(lambda: here.server.updates.polling == 0)
    await here.server.until(lambda: here.server.open_connections <= 1)  # getMe's
    await here.bot.get_me()
    calls = [call.connection for call in here.server.calls]
    assert len(set(calls)) >= 2


async def test_accept_then_hang(here: Setting) -> None:
    here.server.accept_then_hang("sendMessage")
    with pytest.raises(TimedOut):
        await here.bot.send_message(here.chat.id, "once", read_timeout=0.1)
    assert [one.text for one in here.server.shown(here.chat)] == ["once"]


async def test_delay(here: Setting) -> None:
    here.server.delay("send*", 0.2)
    late = asyncio.create_task(here.bot.send_message(here.chat.id, "late"), name="late")
    await here.server.until(lambda: here.server.called("sendMessage"))
    await here.bot.send_message(here.chat.id, "early")
    await late
    assert [one.text for one in here.server.shown(here.chat)] == ["early", "late"]


async def test_an_outage(here: Setting) -> None:
    await here.server.stop()
    here.server.say(here.chat, here.ada, "x")
    with pytest.raises(NetworkError):
        await here.polled()
    await here.server.start()
    assert [one.message.text for one in await here.polled()] == ["x"]


async def test_a_body_of_html_and_a_word_of_ones_own(here: Setting) -> None:
    here.server.fail("sendMessage", status=502)
    with pytest.raises(NetworkError, match="Bad Gateway"):
        await here.bot.send_message(here.chat.id, "x")
    here.server.fail("sendMessage", status=403, description="Forbidden: user is deactivated")
    await refused(here.bot.send_message(here.chat.id, "x"), Forbidden, "Forbidden: user is deactivated")


async def test_a_faulty_download(here: Setting) -> None:
    sent = here.server.send_voice(here.chat, here.ada, b"v" * 100)
    file = await here.bot.get_file(sent["voice"]["file_id"])
    here.server.fail("download", status=500)
    with pytest.raises(NetworkError):
        await file.download_as_bytearray()
    assert len(await file.download_as_bytearray()) == 100


async def test_webhook_answered_with_a_method(here: Setting) -> None:
    async def take(request: web.Request) -> web.Response:
        update = await request.json()
        chat = update["message"]["chat"]["id"]
        return web.json_response({"method": "sendMessage", "chat_id": chat, "text": "by webhook"})

    app = web.Application()
    app.router.add_post("/hook", take)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    await here.bot.set_webhook(f"http://127.0.0.1:{runner.addresses[0][1]}/hook")
    here.server.say(here.chat, here.ada, "x")
    await here.server.until(lambda: here.server.shown(here.chat))
    await runner.cleanup()
