"""Memory through the whole gateway: a fact counts at once, the prefix stays whole, and nobody hears another's."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from adapters.events import ChatAddress, EventKind, MessageEvent, Sender
from state.clock import SYSTEM
from tests.counterparts.model_script import Step
from tests.counterparts.model_server import ModelServer
from tests.integration.process import ACCESS, Process, process

OWNER = replace(ACCESS, owners=frozenset({"memory:ann"}), member_tools=frozenset({"memory"}))
ROOM = ChatAddress(platform="memory", account="bot", chat_id="kitchen", chat_kind="group")


def writes(text: str, when: str, target: str = "memory", **more: object) -> list[Step]:
    """The model notes something, and says so."""
    arguments = {"target": target, "steps": [{"action": "add", "text": text, **more}]}
    call = {"name": "memory", "arguments": json.dumps(arguments)}
    return [Step(when=when, tool_calls=(call,)), Step(text="Noted.")]


async def hear(run: Process, text: str, message_id: str, address: ChatAddress | None = None, who: str = "ann") -> None:
    await run.platform.accept(
        MessageEvent(
            dedup_id=message_id,
            kind=EventKind.COMMAND if text.startswith("/") else EventKind.MESSAGE,
            message_id=message_id,
            address=address or run.platform.address(f"private-{who}"),
            sender=Sender(id=who, name=who.title()),
            received_at=SYSTEM.utc(),
            text=text,
            mentions_us=True,
        )
    )
    assert (await run.fate(message_id))[0] in ("answered", "command")


def bodies(model: ModelServer) -> list[dict]:  # type: ignore[type-arg]
    return [call.json() for call in model.calls]


async def test_a_new_fact_counts_at_once_and_the_prefix_stays_whole(tmp_path: Path, model: ModelServer) -> None:
    home = tmp_path / "home"
    async with process(home, model, access=OWNER) as run:
        model.script(*writes("Ada likes tea", "remember"), "of course")
        await hear(run, "remember what I like", "m1")
        await hear(run, "and now?", "m2")
        (first, *_, last) = bodies(model)
        assert "Ada likes tea" not in first["messages"][0]["content"]
        assert last["messages"][0] == first["messages"][0], "the prompt is frozen"
        assert "Noted in this conversation since its beginning:\n- Ada likes tea" in last["messages"][-1]["content"]
        assert last["messages"][-1]["content"].endswith("and now?")
        rows = await run.store.transcript.load((await run.store.sessions.list_all(1))[0].id)
        assert [row.content for row in rows if row.role == "user"] == ["remember what I like", "and now?"]
        await hear(run, "once more", "m3")
        assert "Noted in this conversation" not in bodies(model)[-1]["messages"][-1]["content"], "told once"
    async with process(home, model, access=OWNER) as run:
        await hear(run, "after a restart", "m4")
        found = bodies(model)
        for before, after in pairwise(found):
            assert after["messages"][: len(before["messages"])] == before["messages"]
            assert after["tools"] == before["tools"]
        await hear(run, "/new", "m5")
        await hear(run, "a new conversation", "m6")
        assert "- Ada likes tea" in bodies(model)[-1]["messages"][0]["content"]


async def test_P6_a_room_does_not_know_what_was_said_in_private(tmp_path: Path, model: ModelServer) -> None:
    async with process(tmp_path / "home", model, access=OWNER) as run:
        model.script(*writes("Ann plans a surprise", "secret"), *writes("Ann is called Ann", "about me", "user"))
        await hear(run, "a secret: remember it", "m1")
        await hear(run, "remember something about me", "m2")
        model.script(*writes("The kitchen is blue", "kitchen"))
        await hear(run, "note that the kitchen is blue", "m3", ROOM)
        await hear(run, "/new", "m4", ROOM)
        await hear(run, "what do you know?", "m5", ROOM, who="ann")
        prompt = bodies(model)[-1]["messages"][0]["content"]
        assert "The kitchen is blue" in prompt
        assert "surprise" not in prompt
        assert "called Ann" not in prompt
        await hear(run, "/new", "m6")
        await hear(run, "and here?", "m7")
        prompt = bodies(model)[-1]["messages"][0]["content"]
        assert "surprise" in prompt
        assert "called Ann" in prompt
        assert "The kitchen is blue" not in prompt, "nobody has said that she was there"


async def test_the_command_shows_declassifies_and_forgets(tmp_path: Path, model: ModelServer) -> None:
    async with process(tmp_path / "home", model, access=OWNER) as run:
        await hear(run, "/memory", "m1")
        model.script(*writes("the office closes at six", "remember"))
        await hear(run, "remember the office", "m2")
        await hear(run, "/memory", "m3")
        await hear(run, "/memory public 1", "m4")
        await hear(run, "/memory", "m5", ROOM)
        await hear(run, "/memory forget 1", "m6")
        await hear(run, "/memory", "m7")
        await run.quiet()
        here, there = run.texts("private-ann"), [one.text for one in run.platform.room.shown(ROOM)]
        assert here[0] == "I remember nothing for this place."
        assert "1. the office closes at six (memory)" in here
        assert there == ["1. the office closes at six (memory; public)"]
        assert here[-2:] == ["Forgotten, from the next conversation on.", "I remember nothing for this place."]


def looks(when: str, **arguments: object) -> list[Step]:
    """The model searches, and says so."""
    call = {"name": "session_search", "arguments": json.dumps(arguments)}
    return [Step(when=when, tool_calls=(call,)), Step(text="I have looked.")]


SEARCHES = replace(OWNER, member_tools=frozenset({"session_search"}))


async def test_P6_search_finds_only_what_whoever_reads_was_there_for(tmp_path: Path, model: ModelServer) -> None:
    async with process(tmp_path / "home", model, access=SEARCHES) as run:
        await hear(run, "my secret is a zebra", "m1")
        await hear(run, "the kitchen has a zebra cake", "m2", ROOM)
        await hear(run, "a zebra of Ben", "m3", who="ben")
        readers = [(None, "ann", "my secret"), (ROOM, "ann", "kitchen has"), (ROOM, "ben", "kitchen has")]
        for number, (address, who, sees) in enumerate([*readers, (None, "ben", "of Ben")]):
            await hear(run, "/new", f"n{number}", address, who=who)
            model.script(*looks(f"look {number}", query="zebra"))
            await hear(run, f"look {number}", f"l{number}", address, who=who)
            (result,) = [one["content"] for one in bodies(model)[-1]["messages"] if one["role"] == "tool"]
            assert result.startswith("From earlier conversations; background")
            told = {one for one in ("my secret", "kitchen has", "of Ben") if one in result}
            assert told == {sees}, (address, who)
            row = int(result.split("#")[1].split()[0])
            model.script(*looks(f"read {number}", around=row))
            await hear(run, f"read {number}", f"r{number}", address, who=who)
            result = [one["content"] for one in bodies(model)[-1]["messages"] if one["role"] == "tool"][-1]
            assert sees in result
        hidden = (await run.store.search.find("secret", persons=None))[-1].row_id
        model.script(*looks("pry", around=hidden))
        await hear(run, "pry", "p1", who="ben")
        result = [one["content"] for one in bodies(model)[-1]["messages"] if one["role"] == "tool"][-1]
        assert result == f"There is nothing at #{hidden}."


async def test_the_search_command_finds_the_same_and_leaves_the_conversation_at_hand_out(
    tmp_path: Path, model: ModelServer
) -> None:
    async with process(tmp_path / "home", model, access=SEARCHES) as run:
        await hear(run, "the boat is called Ada", "m1")
        await hear(run, "/search boat", "m2")
        await hear(run, "/new", "m3")
        await hear(run, "hello", "m4")
        await hear(run, "/search boat", "m5")
        await hear(run, "/search boat", "m6", ROOM)
        await run.quiet()
        said = run.texts("private-ann")
        assert said[1] == "Nothing was found."
        assert "user: the boat is called Ada" in said[-1]
        assert run.platform.room.shown(ROOM)[-1].text == "Nothing was found."
        number = said[-1].split("#")[1].split()[0]
        await hear(run, f"/search #{number}", "m7")
        await run.says("the boat is called Ada\n", "private-ann")


async def test_cache_tells_what_the_prefix_was_and_what_broke_it(tmp_path: Path, model: ModelServer) -> None:
    async with process(tmp_path / "home", model, access=OWNER) as run:
        await hear(run, "/cache", "m1")
        await hear(run, "hello", "m2")
        await hear(run, "and again", "m3")
        await hear(run, "/undo", "m4")
        await hear(run, "once more", "m5")
        await hear(run, "/cache", "m6")
        await run.quiet()
        said = run.texts("private-ann")
        assert said[0] == "There is no conversation here yet."
        lines = said[-1].splitlines()
        assert lines[0].endswith("in 3 calls")
        breaks = [line for line in lines if " broken: " in line]
        assert len(breaks) == 2, breaks
        assert "undo" in breaks[0]
        assert "new session" in breaks[1]
