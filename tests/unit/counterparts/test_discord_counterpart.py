"""The small Discord, seen by the genuine discord.py: one test for each refusal and for each fault."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
import discord
import pytest
from discord.http import Route

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


@pytest.fixture
async def server() -> AsyncIterator[DiscordServer]:
    async with DiscordServer(heartbeat_interval=0.2) as running:
        with running.pointed():
            yield running


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


@pytest.fixture
async def bot(server: DiscordServer) -> AsyncIterator[Bot]:
    async with connected(server, Bot()) as running:
        yield running


def channel_of(bot: Bot, server: DiscordServer) -> discord.TextChannel:
    channel = bot.get_channel(server.channel)
    assert isinstance(channel, discord.TextChannel)
    return channel


async def test_a_client_connects_hears_and_answers(server: DiscordServer, bot: Bot) -> None:
    alice = server.person("alice", global_name="Alice")
    said = server.say(server.channel, alice, f"<@{server.bot}> hello", attachments=[("a b.txt", "text/plain", b"abc")])
    await server.until(lambda: bot.heard)
    heard = bot.heard[0]
    assert heard.id == int(said["id"])
    assert bot.user in heard.mentions
    assert isinstance(heard.author, discord.Member)
    assert await heard.attachments[0].read() == b"abc"
    await heard.reply("**hi**", nonce="n-1")
    (shown,) = server.shown(server.channel)
    assert (shown.content, shown.reference, shown.nonce, shown.edits) == ("**hi**", heard.id, "n-1", [])
    assert server.violations == []
    assert (server.sockets, server.identifies, server.resumes) == (1, 1, 0)
    await server.until(lambda: server.gateway.heartbeats >= 2)


async def test_without_the_privileged_intent_of_content_it_is_empty(server: DiscordServer) -> None:
    intents = discord.Intents(guilds=True, messages=True)
    alice = server.person("alice")
    async with connected(server, Bot(intents=intents)) as bot:
        server.say(server.channel, alice, "secret", attachments=[("a.txt", "text/plain", b"x")])
        server.say(server.channel, alice, f"<@{server.bot}> open")
        server.say(server.dm(alice), alice, "private")
        await server.until(lambda: len(bot.heard) == 3)
        assert [message.content for message in bot.heard] == ["", f"<@{server.bot}> open", "private"]
        assert bot.heard[0].attachments == []


async def test_an_intent_that_the_application_lacks_closes_with_4014(server: DiscordServer) -> None:
    server.gateway.approved.discard("message_content")
    async with Bot() as bot:
        with pytest.raises(discord.PrivilegedIntentsRequired):
            await bot.start(server.token or "")


async def test_a_wrong_token(server: DiscordServer) -> None:
    async with Bot() as bot:
        with pytest.raises(discord.LoginFailure):
            await bot.start("wrong")


async def test_a_revoked_token_is_401_and_4004(server: DiscordServer) -> None:
    async with Bot() as bot:
        await bot.login(server.token or "")
        task = asyncio.create_task(bot.connect(), name="bot")
        await server.until(lambda: bot.readies)
        token = server.token
        server.revoke()
        with pytest.raises(discord.ConnectionClosed) as closed:
            await task
        assert closed.value.code == 4004
        async with (
            aiohttp.ClientSession(headers={"Authorization": f"Bot {token}"}) as session,
            session.get(f"{server.url}/api/v10/users/@me") as response,
        ):
            assert response.status == 401


async def test_a_cut_connection_is_resumed_and_nothing_is_missed(server: DiscordServer, bot: Bot) -> None:
    alice = server.person("alice")
    server.drop_sockets()
    server.say(server.channel, alice, "meanwhile")
    await server.until(lambda: bot.heard and server.resumes == 1)
    assert [message.content for message in bot.heard] == ["meanwhile"]
    assert server.identifies == 1


async def test_a_forgotten_session_is_begun_anew(server: DiscordServer, bot: Bot) -> None:
    alice = server.person("alice")
    server.drop_sockets(resumable=False)
    server.say(server.channel, alice, "missed")
    await server.until(lambda: bot.readies == 2)
    assert (server.identifies, server.resumes, bot.heard) == (2, 0, [])
    assert [m.content async for m in channel_of(bot, server).history(limit=5)] == ["missed"]


async def test_nonces(server: DiscordServer, bot: Bot) -> None:
    channel = channel_of(bot, server)
    first = await channel.send("once", nonce="n")
    again = await channel.send("twice", nonce="n")
    assert first.id == again.id
    assert [shown.content for shown in server.shown(channel.id)] == ["once"]
    assert (await channel.fetch_message(first.id)).nonce is None
    server.nonce_seconds = 0
    await channel.send("late", nonce="n")
    assert len(server.shown(channel.id)) == 2


async def refused(server: DiscordServer, bot: Bot, method: str, path: str, body: Any = None) -> tuple[int, int]:
    with pytest.raises(discord.HTTPException) as caught:
        await bot.http.request(Route(method, path), json=body)
    return caught.value.status, caught.value.code


def buttons(count: int, label: str = "b") -> list[dict[str, Any]]:
    return [{"type": 2, "style": 1, "label": "x", "custom_id": f"{label}{n}"} for n in range(count)]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"content": "x" * 2001}, 400, 50035),
        ({"content": "  "}, 400, 50006),
        ({}, 400, 50006),
        ({"content": "x", "nonce": "n" * 26}, 400, 50035),
        ({"content": "x", "components": [{"type": 1, "components": buttons(1, "c" * 100)}]}, 400, 50035),
        ({"content": "x", "components": [{"type": 1, "components": buttons(6)}]}, 400, 50035),
        (
            {"content": "x", "components": [{"type": 1, "components": buttons(1, f"r{n}")} for n in range(6)]},
            400,
            50035,
        ),
        ({"content": "x", "message_reference": {"message_id": "1"}}, 400, 50035),
        ({"embeds": [{"description": "x" * 4097}]}, 400, 50035),
    ],
)
async def test_messages_that_discord_refuses(
    server: DiscordServer, bot: Bot, body: dict[str, Any], status: int, code: int
) -> None:
    path = f"/channels/{server.channel}/messages"
    assert await refused(server, bot, "POST", path, body) == (status, code)
    assert server.shown(server.channel) == []


async def test_press_a_button(server: DiscordServer, bot: Bot) -> None:
    alice = server.person("alice")
    view = discord.ui.View(timeout=None)
    view.add_item(discord.ui.Button(label="stop", custom_id="stop:1"))
    sent = await channel_of(bot, server).send("working", view=view)
    pressed = server.press(sent.id, alice, "stop:1")
    await server.until(lambda: bot.pressed)
    await bot.pressed[0].response.edit_message(content="stopped", view=None)
    (shown,) = server.shown(server.channel)
    assert (shown.content, shown.components, [edit.content for edit in shown.edits]) == ("stopped", [], ["working"])
    assert server.outcome(pressed).responded
    with pytest.raises(LookupError):
        server.press(sent.id, alice, "stop:1")
    assert server.violations == []


async def test_files(server: DiscordServer, bot: Bot) -> None:
    channel = channel_of(bot, server)
    sent = await channel.send(
        "two", files=[discord.File(io.BytesIO(b"1"), "1.txt"), discord.File(io.BytesIO(b"2"), "2.txt")]
    )
    assert [await attachment.read() for attachment in sent.attachments] == [b"1", b"2"]
    assert server.violations == []
    server.max_file_size = 3
    with pytest.raises(discord.HTTPException) as caught:
        await channel.send(file=discord.File(io.BytesIO(b"four"), "4.txt"))
    assert (caught.value.status, caught.value.code) == (413, 40005)


async def test_accept_then_drop(server: DiscordServer, bot: Bot) -> None:
    server.accept_then_drop("POST", "/channels/*/messages")
    with pytest.raises(aiohttp.ClientError):
        await channel_of(bot, server).send("done")
    assert [shown.content for shown in server.shown(server.channel)] == ["done"]
