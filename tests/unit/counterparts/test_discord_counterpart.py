"""The small Discord, seen by the genuine discord.py: one test for each refusal and for each fault."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import discord
import pytest
from discord.http import Route

from tests.counterparts import discord_spec
from tests.counterparts.discord_client import Bot, channel_of, connected
from tests.counterparts.discord_server import DiscordServer


@pytest.fixture
async def server() -> AsyncIterator[DiscordServer]:
    async with DiscordServer(heartbeat_interval=0.2) as running:
        with running.pointed():
            yield running


@pytest.fixture
async def bot(server: DiscordServer) -> AsyncIterator[Bot]:
    async with connected(server, Bot()) as running:
        yield running


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


# faults of REST


async def test_the_limit_of_a_route_and_of_all_are_waited_for_by_the_client(server: DiscordServer, bot: Bot) -> None:
    for everywhere in (False, True):
        server.fail("POST", "/channels/*/messages", status=429, retry_after=0.05, global_=everywhere)
        await channel_of(bot, server).send("x")
    assert [call.status for call in server.called("POST", "/messages")] == [429, 200, 429, 200]


async def test_the_limit_of_cloudflare_is_raised(server: DiscordServer, bot: Bot) -> None:
    server.fail("POST", "/channels/*/messages", status=429, html=True, retry_after=60)
    with pytest.raises(discord.HTTPException) as caught:
        await channel_of(bot, server).send("x")
    assert (caught.value.status, caught.value.code) == (429, 0)
    assert caught.value.response.headers["Retry-After"] == "60"


async def test_a_real_limit_is_told_in_headers(server: DiscordServer, bot: Bot) -> None:
    limit = server.limit("POST", "/channels/*/messages", 2, 0.1)
    for text in ("1", "2", "3", "4", "5"):
        await channel_of(bot, server).send(text)
    assert limit.refused == 0
    assert len(server.shown(server.channel)) == 5
    async with aiohttp.ClientSession(headers={"Authorization": f"Bot {server.token}"}) as session:
        statuses = []
        for _ in range(4):
            url = f"{server.url}/api/v10/channels/{server.channel}/messages"
            async with session.post(url, json={"content": "x"}) as response:
                statuses.append(response.status)
    assert 429 in statuses
    assert limit.refused >= 1


async def test_pages_of_html(server: DiscordServer, bot: Bot) -> None:
    server.fail("POST", "/channels/*/messages", status=503)
    with pytest.raises(discord.DiscordServerError):
        await channel_of(bot, server).send("x")
    assert server.shown(server.channel) == []


async def test_drop_does_nothing(server: DiscordServer, bot: Bot) -> None:
    server.drop("POST", "/channels/*/messages")
    with pytest.raises(aiohttp.ClientError):
        await channel_of(bot, server).send("x")
    assert server.shown(server.channel) == []


async def test_a_call_that_hangs_goes_on_when_it_is_released(server: DiscordServer, bot: Bot) -> None:
    await channel_of(bot, server).send("first")  # discord.py calls one at a time until it knows the bucket
    rule = server.hang("POST", "/channels/*/messages", when=lambda call: call.body["content"] == "slow")
    task = asyncio.create_task(channel_of(bot, server).send("slow"), name="slow")
    await server.until(lambda: rule.met)
    await channel_of(bot, server).send("fast")
    rule.release()
    await task
    assert [shown.content for shown in server.shown(server.channel)] == ["first", "fast", "slow"]


@pytest.mark.parametrize(
    ("code", "error"),
    [(10003, discord.NotFound), (10008, discord.NotFound), (50001, discord.Forbidden), (50013, discord.Forbidden)],
)
async def test_codes_bring_their_status(
    server: DiscordServer, bot: Bot, code: int, error: type[discord.HTTPException]
) -> None:
    server.fail("GET", "/channels/{channel}/messages/{message}", code=code)
    with pytest.raises(error) as caught:
        await channel_of(bot, server).fetch_message(1)
    assert caught.value.code == code


async def test_the_cdn(server: DiscordServer, bot: Bot) -> None:
    alice = server.person("alice")
    said = server.say(server.channel, alice, attachments=[("a.bin", "image/png", b"abc")])
    await server.until(lambda: bot.heard)
    attachment = bot.heard[0].attachments[0]
    assert (attachment.content_type, attachment.size, await attachment.read()) == ("image/png", 3, b"abc")
    server.world.expire_links()
    with pytest.raises(discord.NotFound):
        await attachment.read()
    again = await channel_of(bot, server).fetch_message(int(said["id"]))
    assert await again.attachments[0].read() == b"abc"
    server.fail("GET", "/attachments/**", status=500)
    with pytest.raises(discord.HTTPException):
        await again.attachments[0].read()
    assert len(server.downloads) == 4


# refusals by what there is and what the bot may


async def test_permissions(server: DiscordServer, bot: Bot) -> None:
    path = f"/channels/{server.channel}/messages"
    body = {"content": "x"}
    server.permit(channel=server.channel, send_messages=False)
    assert await refused(server, bot, "POST", path, body) == (403, 50013)
    server.permit(channel=server.channel, send_messages=True, attach_files=False)
    with pytest.raises(discord.Forbidden):
        await channel_of(bot, server).send(file=discord.File(io.BytesIO(b"x"), "x"))
    server.permit(view_channel=False)
    assert await refused(server, bot, "POST", path, body) == (403, 50001)
    before = len(bot.heard)
    server.say(server.channel, server.person("alice"), "unseen")
    server.permit(view_channel=True)
    server.say(server.channel, server.person("bob"), "seen")
    await server.until(lambda: len(bot.heard) > before)
    assert [message.content for message in bot.heard] == ["seen"]


async def test_what_is_unknown(server: DiscordServer, bot: Bot) -> None:
    alice = server.person("alice")
    assert await refused(server, bot, "POST", "/channels/1/messages", {"content": "x"}) == (404, 10003)
    path = f"/channels/{server.channel}/messages"
    assert await refused(server, bot, "GET", f"{path}/1") == (404, 10008)
    assert await refused(server, bot, "PATCH", f"{path}/1", {"content": "x"}) == (404, 10008)
    said = server.say(server.channel, alice, "hers")
    assert await refused(server, bot, "PATCH", f"{path}/{said['id']}", {"content": "x"}) == (403, 50005)
    assert await refused(server, bot, "DELETE", f"{path}/{said['id']}") == (403, 50013)
    assert await refused(server, bot, "PUT", f"{path}/{said['id']}/reactions/nonsense/@me") == (400, 10014)
    pinned = server.people.pin(said, alice)
    reference = {"message_reference": {"message_id": pinned["id"]}, "content": "x"}
    assert await refused(server, bot, "POST", path, reference) == (400, 50035)
    server.people.close_dms(alice)
    assert await refused(server, bot, "POST", f"/channels/{server.dm(alice)}/messages", {"content": "x"}) == (
        403,
        50007,
    )
    assert server.violations == []
    assert await refused(server, bot, "GET", "/no/such/route") == (404, 0)
    assert len(server.violations) == 1


async def test_more_than_ten_files(server: DiscordServer, bot: Bot) -> None:
    form: list[dict[str, Any]] = [{"name": "payload_json", "value": "{}"}]
    form += [{"name": f"files[{n}]", "value": b"x", "filename": f"{n}.txt"} for n in range(11)]
    with pytest.raises(discord.HTTPException) as caught:
        await bot.http.request(Route("POST", f"/channels/{server.channel}/messages"), form=form)
    assert (caught.value.status, caught.value.code) == (400, 50035)


async def test_bodies_are_held_against_the_description(server: DiscordServer, bot: Bot) -> None:
    if not discord_spec.PATH.is_file():
        pytest.skip("no description here")
    path = f"/channels/{server.channel}/messages"
    assert (await refused(server, bot, "POST", path, {"content": 5}))[0] == 400
    assert server.violations == [f"POST {path}: $.content: 5 is not of type 'string', 'null'"]


async def test_answers_are_as_described(server: DiscordServer, bot: Bot) -> None:
    alice = server.person("alice")
    said = server.say(server.channel, alice, "x", attachments=[("a.txt", "text/plain", b"x")], stickers=["wave"])
    server.say(server.channel, alice, "y", reply_to=said)
    sent = await channel_of(bot, server).send("<@1>", embed=discord.Embed(title="t", description="d"))
    await sent.edit(content="z")
    await sent.create_thread(name="thread")
    await (await bot.create_dm(discord.Object(alice))).send("hello")
    await bot.fetch_channel(server.channel)
    guild = bot.get_guild(server.guild)
    assert guild is not None
    assert [thread.id for thread in await guild.active_threads()] == [sent.id]
    assert len([message async for message in channel_of(bot, server).history()]) == 3
    spec = discord_spec.load()
    told = [spec.faults_of_answer(call.method, call.path, call.status, call.answer) for call in server.calls]
    assert [faults for faults in told if faults] == []
    assert server.violations == []


# threads, history, interactions


async def test_threads(server: DiscordServer, bot: Bot) -> None:
    alice = server.person("alice")
    said = server.say(server.channel, alice, "topic")
    await server.until(lambda: bot.heard)
    thread = await bot.heard[0].create_thread(name="topic")
    assert thread.id == int(said["id"])
    path = f"/channels/{server.channel}/messages/{said['id']}/threads"
    assert await refused(server, bot, "POST", path, {"name": "again"}) == (400, 160004)
    assert [message.type async for message in thread.history()] == [discord.MessageType.thread_starter_message]
    found = await channel_of(bot, server).fetch_message(thread.id)
    assert found.thread is not None
    assert found.flags.has_thread
    server.say(thread.id, alice, "inside")
    await server.until(lambda: bot.heard[-1].content == "inside")
    assert isinstance(bot.heard[-1].channel, discord.Thread)
    other = server.thread(server.channel, alice, "alone")
    await server.until(lambda: bot.heard[-1].type is discord.MessageType.thread_created)
    assert bot.heard[-1].content == "alone"
    assert bot.get_channel(other) is not None


async def test_archived_and_locked_threads(server: DiscordServer, bot: Bot) -> None:
    alice = server.person("alice")
    thread = server.thread(server.channel, alice, "old")
    path = f"/channels/{thread}/messages"
    sent = await bot.http.request(Route("POST", path), json={"content": "x"})
    server.people.archive(thread)
    assert await refused(server, bot, "PATCH", f"{path}/{sent['id']}", {"content": "y"}) == (400, 50083)
    await bot.http.request(Route("POST", path), json={"content": "awake"})
    await bot.http.request(Route("PATCH", f"{path}/{sent['id']}"), json={"content": "y"})
    server.people.archive(thread, locked=True)
    assert await refused(server, bot, "POST", path, {"content": "y"}) == (400, 50083)


async def test_history_is_paged_from_where_one_asks(server: DiscordServer, bot: Bot) -> None:
    alice = server.person("alice")
    told = [server.say(server.channel, alice, str(n), live=n % 2 == 0) for n in range(6)]
    channel = channel_of(bot, server)

    async def contents(**where: Any) -> list[str]:
        return [message.content async for message in channel.history(**where)]

    first, last = discord.Object(int(told[0]["id"])), discord.Object(int(told[5]["id"]))
    assert await contents(limit=2) == ["5", "4"]
    assert await contents(limit=2, after=first) == ["1", "2"]
    assert await contents(limit=2, before=last) == ["4", "3"]
    assert await contents(limit=3, around=discord.Object(int(told[2]["id"]))) == ["3", "2", "1"]
    raw = await bot.http.logs_from(channel.id, 2, after=first.id)
    assert [message["content"] for message in raw] == ["2", "1"]
    await server.until(lambda: len(bot.heard) == 3)
    assert [message.content for message in bot.heard] == ["0", "2", "4"]
    assert await refused(server, bot, "GET", f"/channels/{channel.id}/messages?limit=101") == (400, 50035)


async def test_commands(server: DiscordServer, bot: Bot) -> None:
    alice = server.person("alice")
    tree: discord.app_commands.CommandTree[Bot] = discord.app_commands.CommandTree(bot)
    asked: list[tuple[str, str]] = []

    @tree.command(description="asks")
    async def ask(interaction: discord.Interaction[Bot], question: str, whom: discord.User) -> None:
        asked.append((question, whom.name))
        await interaction.response.defer(ephemeral=True, thinking=True)
        await interaction.followup.send("done")

    await tree.sync()
    assert [command["name"] for command in server.commands()] == ["ask"]
    made = server.slash(server.channel, alice, "ask", question="why", whom=alice)
    await server.until(lambda: any(shown.content for shown in server.shown(server.channel)))
    assert asked == [("why", "alice")]
    (shown,) = server.shown(server.channel)
    assert (shown.content, shown.ephemeral, shown.loading, server.outcome(made).loading) == ("done", True, False, False)
    assert server.violations == []
    with pytest.raises(LookupError):
        server.slash(server.channel, alice, "unknown")


async def test_an_interaction_is_answered_once_and_in_time(server: DiscordServer, bot: Bot) -> None:
    alice = server.person("alice")
    view = discord.ui.View(timeout=None)
    view.add_item(discord.ui.Button(label="x", custom_id="x"))
    sent = await channel_of(bot, server).send("x", view=view)
    server.press(sent.id, alice, "x")
    server.press(sent.id, alice, "x")
    await server.until(lambda: len(bot.pressed) == 2)
    first, second = bot.pressed
    await first.response.send_message("yes", ephemeral=True)
    first.response._response_type = None
    with pytest.raises(discord.HTTPException) as again:
        await first.response.send_message("no")
    assert again.value.code == 40060
    server.world.advance_clock(4)
    with pytest.raises(discord.NotFound) as late:
        await second.response.send_message("late")
    assert late.value.code == 10062


async def test_a_menu_and_a_modal(server: DiscordServer, bot: Bot) -> None:
    alice = server.person("alice")
    view = discord.ui.View(timeout=None)
    view.add_item(
        discord.ui.Select(custom_id="menu", options=[discord.SelectOption(label="a"), discord.SelectOption(label="b")])
    )
    sent = await channel_of(bot, server).send("choose", view=view)
    chosen = server.press(sent.id, alice, "menu", values=["b"])
    await server.until(lambda: bot.pressed)
    modal = discord.ui.Modal(title="Why?", custom_id="why")
    modal.add_item(discord.ui.TextInput(label="Reason", custom_id="reason"))
    await bot.pressed[0].response.send_modal(modal)
    server.interactions.submit(chosen, alice, reason="so")
    await server.until(lambda: len(bot.pressed) == 2)
    await bot.pressed[1].response.edit_message(content="b, so", view=None)
    assert [shown.content for shown in server.shown(server.channel)] == ["b, so"]
    assert server.violations == []


async def test_a_forum(server: DiscordServer, bot: Bot) -> None:
    forum = server.add_channel("forum", kind=15)
    post = server.thread(forum, server.person("alice"), "question", text="how?")
    await server.until(lambda: bot.heard)
    assert (bot.heard[0].id, bot.heard[0].channel.id, bot.heard[0].content) == (post, post, "how?")
    channel = bot.get_channel(forum)
    assert isinstance(channel, discord.ForumChannel)
    made = await channel.create_thread(name="mine", content="hello")
    assert made.thread.id == made.message.id
    assert await refused(server, bot, "POST", f"/channels/{forum}/messages", {"content": "x"}) == (400, 50008)


# the people


async def test_what_people_do(server: DiscordServer, bot: Bot) -> None:
    alice, rival = server.person("alice", nick="Al"), server.person("rival", bot=True)
    said = server.say(server.channel, alice, "first ", embeds=[{"title": "t"}], stickers=["wave"])
    server.edit(said, "second")
    server.react(said, alice, "👍")
    server.say(server.channel, rival, "beep", reply_to=said)
    server.people.say_as_webhook(server.channel, "Hook", "ping")
    server.say(server.channel, alice, forward=said)
    server.say(server.channel, alice, voice=True, attachments=[("voice-message.ogg", "audio/ogg", b"o")])
    server.people.pin(said, alice)
    server.people.type(server.channel, alice)
    server.say(server.dm(alice), alice, "psst")
    server.delete(said)
    server.people.leave(alice)
    await server.until(lambda: "GUILD_MEMBER_REMOVE" in bot.told and len(bot.heard) == 7)
    first, beep, hook, forward, voice, pin, private = bot.heard
    assert isinstance(first.author, discord.Member)
    assert (first.content, first.author.nick, first.stickers[0].name) == ("second", "Al", "wave")
    assert beep.author.bot
    assert beep.reference is not None
    assert (hook.webhook_id is not None, hook.author.name) == (True, "Hook")
    assert forward.message_snapshots[0].content == "second"
    assert voice.flags.voice
    assert (pin.type, pin.content) == (discord.MessageType.pins_add, "")
    assert isinstance(private.channel, discord.DMChannel)
    assert {"MESSAGE_REACTION_ADD", "TYPING_START", "MESSAGE_DELETE", "CHANNEL_PINS_UPDATE"} <= set(bot.told)
    assert [event.message_id for event in bot.edited] == [int(said["id"])]


# faults of the gateway


async def test_it_is_asked_to_reconnect(server: DiscordServer, bot: Bot) -> None:
    server.gateway.ask_to_reconnect()
    await server.until(lambda: server.resumes == 1)
    server.gateway.invalidate(resumable=True)
    await server.until(lambda: server.resumes == 2)
    server.gateway.invalidate()
    await server.until(lambda: bot.readies == 2)
    server.gateway.refusing_resumes = 1
    server.drop_sockets(code=4000)
    await server.until(lambda: bot.readies == 3)
    assert (server.identifies, server.resumes) == (3, 2)


async def test_heartbeats_that_nobody_answers_end_the_connection(server: DiscordServer) -> None:
    async with connected(server, Bot(heartbeat_timeout=0.5)) as bot:
        await server.until(lambda: server.gateway.heartbeats >= 4)
        assert server.resumes == 0
        server.gateway.acknowledging = False
        await server.until(lambda: server.resumes == 1)
        server.gateway.acknowledging = True
        assert not bot.is_closed()


async def test_events_come_twice_and_out_of_order(server: DiscordServer, bot: Bot) -> None:
    alice = server.person("alice")
    server.gateway.repeat()
    server.say(server.channel, alice, "twice")
    server.gateway.hold()
    server.say(server.channel, alice, "1")
    server.say(server.channel, alice, "2")
    server.gateway.release(reverse=True)
    await server.until(lambda: len(bot.heard) == 4)
    assert [message.content for message in bot.heard] == ["twice", "twice", "2", "1"]


async def test_the_bot_is_kicked_and_comes_back(server: DiscordServer, bot: Bot) -> None:
    server.kick()
    await server.until(lambda: bot.get_guild(server.guild) is None)
    path = f"/channels/{server.channel}/messages"
    assert await refused(server, bot, "POST", path, {"content": "x"}) == (403, 50001)
    server.invite()
    await server.until(lambda: bot.get_guild(server.guild) is not None)
    server.gateway.set_available(server.guild, available=False)
    await server.until(lambda: bot.get_channel(server.channel) is None or bot.guilds[0].unavailable)
    server.gateway.set_available(server.guild, available=True)
    await server.until(lambda: bot.get_channel(server.channel) is not None)


async def test_a_gateway_that_takes_nobody(server: DiscordServer, bot: Bot) -> None:
    server.gateway.accepting = False
    server.drop_sockets()
    await server.until(lambda: server.sockets == 0)
    server.gateway.accepting = True
    await server.until(lambda: server.resumes == 1)


async def test_the_gateway_speaks_plain_json_too(server: DiscordServer) -> None:
    async with aiohttp.ClientSession() as session, session.ws_connect(server.gateway.url + "?v=10") as socket:
        hello = await socket.receive_json()
        assert hello == {"op": 10, "d": {"heartbeat_interval": 200, "_trace": []}, "s": None, "t": None}
        await socket.send_json({"op": 2, "d": {"token": server.token, "intents": 1, "properties": {}}})
        told = [(await socket.receive_json()) for _ in range(2)]
        assert [(event["t"], event["s"]) for event in told] == [("READY", 1), ("GUILD_CREATE", 2)]
        await socket.send_json({"op": 2, "d": {}})
        assert (await socket.receive()).data == 4005


async def test_whoever_waits_in_vain_is_told_what_happened(server: DiscordServer) -> None:
    with pytest.raises(TimeoutError) as caught:
        await server.until(lambda: False, timeout=0.05)
    assert "last calls" in caught.value.__notes__[0]
