"""The system prompt: built once, frozen, restored by any process, rebuilt only at a declared boundary."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_core.models.ports import Capabilities
from agent_core.models.scripted import ScriptedModel
from agent_core.prompt import (
    DEFAULT_IDENTITY,
    NO_TOOLS,
    TOOL_GUIDANCE,
    Frozen,
    PromptSettings,
    SystemText,
    build,
    cut_to,
    info,
    read_identity,
    tokens,
)
from agent_core.tools.ports import Rights
from state.records import Session
from tests.unit.agent_core.rig import FakeTool, Rig, opened, reopened, scripted

TODAY = date(2026, 12, 1)


def made(identity: str = "I am I.", *, brief: bool = False, **more: object) -> SystemText:
    values = {"settings": PromptSettings(), "has_tools": not brief, "instructions": None, **more}
    return build(identity, profile="brief" if brief else "full", today=TODAY, **values)  # type: ignore[arg-type]


def test_the_full_prompt_has_its_parts_in_order_of_stability() -> None:
    text = made(settings=PromptSettings(hint="You write in a chat."), instructions="Rhyme.").text
    parts = ["I am I.", "You write in a chat.", TOOL_GUIDANCE, "Rhyme.", "Tuesday, 1 December 2026"]
    assert [text.index(part) for part in parts] == sorted(text.index(part) for part in parts)


def test_the_brief_prompt_is_short_and_says_what_it_leaves_out() -> None:
    brief = made("word " * 5000, brief=True, instructions="rule " * 5000)
    assert tokens(brief.text) <= 1400
    assert NO_TOOLS in brief.text
    assert "characters of SOUL.md are left out" in brief.left_out
    assert "client's instructions are left out" in brief.left_out
    assert made("short", brief=True).left_out == ""


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=3000), st.text(max_size=3000), st.integers(200, 1500))
def test_the_brief_prompt_is_never_too_long(identity: str, instructions: str, most: int) -> None:
    text = made(identity, brief=True, instructions=instructions, settings=PromptSettings(brief_tokens=most)).text
    assert tokens(text) <= most


@settings(max_examples=100, deadline=None)
@given(st.text(), st.integers(0, 50))
def test_cutting_keeps_a_beginning_within_the_bound(text: str, most: int) -> None:
    kept, left = cut_to(text, most)
    assert text.startswith(kept)
    assert tokens(kept) <= most
    assert left == len(text) - len(kept)


def test_the_identity_is_read_or_why_not(tmp_path: Path) -> None:
    assert read_identity(tmp_path, PromptSettings()) == (DEFAULT_IDENTITY, "")
    (tmp_path / "SOUL.md").write_bytes(b"I am \xff me.\n")
    assert read_identity(tmp_path, PromptSettings()) == ("I am  me.", "")
    (tmp_path / "SOUL.md").write_text(" \n")
    assert read_identity(tmp_path, PromptSettings()) == (DEFAULT_IDENTITY, "SOUL.md is empty.")
    (tmp_path / "SOUL.md").unlink()
    (tmp_path / "SOUL.md").mkdir()
    text, why = read_identity(tmp_path, PromptSettings())
    assert text == DEFAULT_IDENTITY
    assert why.startswith("SOUL.md could not be read")


def test_a_frozen_prompt_is_restored_as_it_was() -> None:
    frozen = Frozen(
        model="m", dialect="d", profile="full", system='{"é"}', tools=("a", "b"), dialects=((0, "d"), (7, "e"))
    )
    assert Frozen.parse(frozen.dump()) == frozen


@pytest.mark.parametrize("text", [None, "", "[]", "{}", '{"v":2}', '{"v":1,"model":"x"}', "not json"])
def test_a_prompt_that_cannot_be_read_is_none(text: str | None) -> None:
    assert Frozen.parse(text) is None
    assert info(text) is None


async def _session(rig: Rig) -> Session:
    session = await rig.store.sessions.get(rig.session.id)
    assert session is not None
    return session


async def test_B75_nothing_that_changes_outside_enters_a_session(tmp_path: Path) -> None:
    async with opened(tmp_path, scripted(), tools=[FakeTool("look"), FakeTool("write")]) as rig:
        (tmp_path / "SOUL.md").write_text("I am Ada.")
        await rig.say("one")
        first = await _session(rig)
        assert "I am Ada." in (first.prompt or "")
        (tmp_path / "SOUL.md").write_text("I am Bob.")
        rig.clock.advance(86_400 * 3)
        rig.prompt = PromptSettings(hint="another hint")
        rig.disabled = frozenset({"write"})
        rig.steering.now = Rights(role="member", tools=frozenset({"test"}))
        await rig.say("two")
        async with reopened(rig) as other:
            await other.say("three")
            assert (await _session(other)).prompt == first.prompt


async def test_a_session_frozen_by_two_processes_keeps_one_prompt(tmp_path: Path) -> None:
    async with opened(tmp_path, scripted()) as rig, reopened(rig) as other:
        await rig.say("one")
        assert other.session.prompt is None  # read before the other froze it
        await other.say("two")
        assert (await _session(other)).prompt == (await _session(rig)).prompt
        assert (await _session(other)).prompt_reason == "new session"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("new tool", "the tool list changed"),
        ("tool gone", "the tool list changed"),
        ("tool rewritten", "the tool list changed"),
        ("more rights", "the tool list changed"),
        ("instructions", "the client's instructions changed"),
        ("model", "model changed from one to two"),
    ],
)
async def test_a_boundary_is_declared_and_recorded(tmp_path: Path, change: str, reason: str) -> None:
    look, write = FakeTool("look"), FakeTool("write", group="files")
    async with opened(tmp_path, scripted(), tools=[look, write]) as rig:
        rig.steering.now = Rights(role="owner", tools=frozenset({"test"}))
        await rig.say("one", instructions="Be kind.")
        more: dict[str, str] = {}
        if change == "new tool":
            rig.tools = [look, write, FakeTool("alone")]
        elif change == "tool gone":
            rig.tools = [write]
        elif change == "tool rewritten":
            rig.tools = [replace(look, description="Other words."), write]
        elif change == "more rights":
            rig.steering.now = Rights(role="owner", tools=frozenset({"test", "files"}))
        elif change == "instructions":
            more = {"instructions": "Be brief."}
        else:
            rig.models = (scripted(name="two"),)
        await rig.say("two", **more)
        session = await _session(rig)
        assert session.prompt_reason == reason
        assert ("Be brief." if more else "Be kind.") in (session.prompt or "")
        prompt = session.prompt
        await rig.say("three")
        assert (await _session(rig)).prompt == prompt


async def test_the_tool_list_of_a_room_only_grows(tmp_path: Path) -> None:
    async with opened(tmp_path, scripted(), tools=[FakeTool("look"), FakeTool("write", group="files")]) as rig:
        member, owner = Rights(role="member", tools=frozenset({"test"})), rig.steering.now
        prompts = []
        for rights in (member, owner, member, owner):
            rig.steering.now = rights
            await rig.say("hi")
            prompts.append((await _session(rig)).prompt)
        assert prompts[1] == prompts[2] == prompts[3] != prompts[0]


class Small(ScriptedModel):
    """A small model without tools."""

    async def capabilities(self) -> Capabilities:
        return Capabilities(context_tokens=8192, tools="none", images=False, brief=True)


async def test_a_brief_model_gets_the_short_profile_without_tools(tmp_path: Path) -> None:
    (tmp_path / "SOUL.md").write_text("I am long. " * 2000)
    async with opened(tmp_path, Small(scripted()._settings), tools=[FakeTool("look")]) as rig:
        assert (await rig.say("hi")).text.startswith("echo")
        prompt = (await _session(rig)).prompt
        told = info(prompt)
        assert told is not None
        assert (told.profile, told.tools) == ("brief", 0)
        assert "SOUL.md are left out" in told.left_out
        assert tokens(json.loads(prompt or "")["system"]) < 1500


async def test_a_child_session_knows_the_dialect_of_its_parents_rows(tmp_path: Path) -> None:
    async with opened(tmp_path, scripted()) as rig:
        await rig.say("one")
        parent = Frozen.parse((await _session(rig)).prompt)
        child = await rig.store.sessions.fork(rig.session.id, None, person="test:1", reason="compaction")
        rig.session = child
        await rig.say("two")
        frozen = Frozen.parse((await _session(rig)).prompt)
        assert frozen is not None
        assert parent is not None
        assert frozen.dialects == parent.dialects
        assert [row.content for row in await rig.rows()] == ["one", "echo 1: one", "two", "echo 2: two"]
