"""The Telegram counterpart, held against the genuine python-telegram-bot client: one test a refusal and a fault."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from aiohttp import web
from telegram import (
    Bot,
    BotCommand,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    InputMediaDocument,
    InputMediaPhoto,
    MessageEntity,
    ReplyParameters,
)
from telegram.error import (
    BadRequest,
    ChatMigrated,
    Conflict,
    Forbidden,
    InvalidToken,
    NetworkError,
    RetryAfter,
    TelegramError,
    TimedOut,
)
from telegram.ext import Updater

from tests.counterparts.telegram_server import TelegramServer
from tests.counterparts.telegram_text import BadText, parse_html
from tests.counterparts.telegram_world import Chat, Person

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 200
HTML = "HTML"


@dataclass
class Setting:
    server: TelegramServer
    bot: Bot
    ada: Person
    bob: Person
    chat: Chat

    async def polled(self, **more: Any) -> list[Any]:
        return list(await self.bot.get_updates(**{"timeout": 0, **more}))


@pytest.fixture
async def here() -> AsyncIterator[Setting]:
    async with TelegramServer() as server:
        ada, bob = server.world.person("Ada", username="ada"), server.world.person("Bob")
        bot = Bot(server.token, base_url=server.base_url, base_file_url=server.base_file_url)
        async with bot:
            yield Setting(server, bot, ada, bob, server.world.private(ada))
        if not getattr(server, "violations_wanted", False):
            assert server.violations == []


def button(data: str = "x", text: str = "Go") -> InlineKeyboardMarkup:
    return InlineKeyboardMarkup([[InlineKeyboardButton(text, callback_data=data)]])


async def test_a_message_is_shown(here: Setting) -> None:
    sent = await here.bot.send_message(here.chat.id, "hello <b>you</b> &lt;&#128512;", parse_mode=HTML)
    [shown] = here.server.shown(here.chat)
    assert shown.text == "hello you <😀"
    assert shown.message_id == sent.message_id
    assert [(one.type, one.offset, one.length) for one in sent.entities] == [("bold", 6, 3)]
    assert here.server.called("sendMessage")[0].params["chat_id"] == here.chat.id


async def test_updater_hears_people_and_confirms(here: Setting) -> None:
    here.server.say(here.chat, here.ada, "/start now")
    updater = Updater(here.bot, asyncio.Queue())
    async with updater:
        await updater.start_polling(timeout=10)
        update: Any = await asyncio.wait_for(updater.update_queue.get(), 5)
        assert update.message.text == "/start now"
        assert update.message.entities[0].type == "bot_command"
        await here.server.until(lambda: here.server.confirmed == update.update_id + 1)
        here.server.say(here.chat, here.ada, "more")
        assert (await asyncio.wait_for(updater.update_queue.get(), 5)).message.text == "more"  # type: ignore[attr-defined]
        await updater.stop()
    assert here.server.updates.waiting == []
