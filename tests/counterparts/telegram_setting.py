"""A Telegram server with a genuine client and two people: what most tests begin with."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from telegram import Bot
from telegram.error import TelegramError

from tests.counterparts.telegram_server import TelegramServer
from tests.counterparts.telegram_world import Chat, Person


@dataclass
class Setting:
    """`chat` is Ada's private chat with the bot."""

    server: TelegramServer
    bot: Bot
    ada: Person
    bob: Person
    chat: Chat

    async def polled(self, **more: Any) -> list[Any]:
        """What `getUpdates` gives without waiting."""
        return list(await self.bot.get_updates(**{"timeout": 0, **more}))


@asynccontextmanager
async def setting() -> AsyncIterator[Setting]:
    """The setting; at the end no request was out of the API's bounds."""
    async with TelegramServer() as server:
        ada, bob = server.world.person("Ada", username="ada"), server.world.person("Bob")
        bot = Bot(server.token, base_url=server.base_url, base_file_url=server.base_file_url)
        async with bot:
            yield Setting(server, bot, ada, bob, server.world.private(ada))
        assert server.violations == []


async def refused(call: Awaitable[object], kind: type[TelegramError], said: str) -> None:
    """The call is refused with these words, as the client writes them."""
    with pytest.raises(kind) as caught:
        await call
    assert caught.value.message == said
