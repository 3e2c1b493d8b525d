"""The genuine discord.py client that the tests of the small Discord look through."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import discord

from tests.counterparts.discord_server import DiscordServer


class Bot(discord.Client):
    """Keeps what it is told."""

    def __init__(self, **options: Any) -> None:
        intents = options.pop("intents", None) or discord.Intents(
            guilds=True, members=True, messages=True, message_content=True, reactions=True, typing=True
        )
        super().__init__(intents=intents, guild_ready_timeout=0.05, **options)
        self.heard: list[discord.Message] = []
        self.edited: list[discord.RawMessageUpdateEvent] = []
        self.pressed: list[discord.Interaction[Any]] = []
        self.told: list[str] = []
        self.readies = 0

    async def before_identify_hook(self, shard_id: int | None, *, initial: bool = False) -> None:
        """Not five seconds of waiting, which discord.py does before it identifies again."""

    async def on_ready(self) -> None:
        self.readies += 1

    async def on_message(self, message: discord.Message) -> None:
        if message.author.id != self.application_id:
            self.heard.append(message)

    async def on_raw_message_edit(self, event: discord.RawMessageUpdateEvent) -> None:
        self.edited.append(event)

    async def on_interaction(self, interaction: discord.Interaction[Any]) -> None:
        self.pressed.append(interaction)

    async def on_socket_event_type(self, event: str) -> None:
        self.told.append(event)


@asynccontextmanager
async def connected(server: DiscordServer, bot: Bot) -> AsyncIterator[Bot]:
    async with bot:
        await bot.login(server.token or "")
        task = asyncio.create_task(bot.connect(), name="bot")
        try:
            await server.until(lambda: bot.readies or task.done())
            yield bot
        finally:
            await bot.close()
            with suppress(discord.ConnectionClosed, discord.LoginFailure, discord.PrivilegedIntentsRequired):
                await task


def channel_of(bot: Bot, server: DiscordServer) -> discord.TextChannel:
    channel = bot.get_channel(server.channel)
    assert isinstance(channel, discord.TextChannel)
    return channel
