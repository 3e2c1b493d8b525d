"""The hand-off where it is narrow: crashes around the choice, late hellos, threads that stay, readers (P6, P7)."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import pytest

from adapters.errors import NoRights
from adapters.events import Attachment, ChatAddress, EventKind, MessageEvent, Sender
from gateway.chat import ChatOptions, find_line
from gateway.convert import address_from_json, address_to_json
from gateway.handoff_follow import follow
from gateway.keys import session_key
from state.records import BindingState, Fate, HandoffState, InboxEvent
from tests.counterparts.model_script import Step
from tests.counterparts.model_server import ModelServer
from tests.integration.process import Process, dead_owner, process
from tests.integration.test_handoff import (
    ANN,
    ROOM,
    Threading,
    asked,
    ended,
    known,
    messages,
    one_owner,
    say,
    session_of,
    talk,
)


@pytest.fixture
def platform() -> Threading:
    return Threading()


@pytest.mark.parametrize("crash", ["no", "before the move", "after the move"])
async def test_what_waits_for_the_choice_is_answered_whole_also_after_a_crash(
    tmp_path: Path, model: ModelServer, monkeypatch: pytest.MonkeyPatch, crash: str
) -> None:
    """An album that somebody else has written: both pictures, and still marked as another's words."""
    home = tmp_path / "home"
    (home / "files").mkdir(parents=True)
    pictures = []
    for name in ("one.png", "two.png"):
        (home / "files" / name).write_bytes(b"x" * 10)
        pictures.append(Attachment(kind="document", name=name, mime="image/png", path=str(home / "files" / name)))
    never = asyncio.Event()

    async def hang(*_args: object, **_more: object) -> None:
        await never.wait()

    owner = dead_owner() if crash != "no" else None
    async with process(home, model, platform=Threading(), owner=owner) as run:
        await talk(run, model, "my colour is blue", "m1")
        moving = await session_of(run, "chat")
        there = run.platform.address("there")
        await run.store.sessions.move(moving, session_key(there), address_to_json(there), moved_to="there")
        for number, picture in enumerate(pictures):
            event = MessageEvent(
                dedup_id=f"q{number}", kind=EventKind.MESSAGE, message_id=f"q{number}", sender=ANN,
                address=run.platform.address("chat"), received_at=run.store.clock.utc(), group_id="album",
                text="look at this" if number == 0 else "", forwarded_from="Eve", attachments=(picture,),
            )  # fmt: skip
            await run.platform.accept(event)
        await run.fate("q1")
        kept = await run.row("q0")

        async def pressing(run: Process = run) -> InboxEvent:
            return (await run.store.inbox.recent(kept.key, 1))[0]

        async def has_moved(run: Process = run) -> bool:
            active = await run.store.sessions.bindings_of(moving)
            return [one.key for one in active if one.state is BindingState.ACTIVE] == [kept.key]

        pressed = kept
        model.script(Step(text="I see both.", when="look at this"))
        if crash == "before the move":
            monkeypatch.setattr(run.store.sessions, "move", hang)
        elif crash == "after the move":
            monkeypatch.setattr(run.core.intake, "_join", hang)
        await run.platform.press(f"moved-{kept.id}", "back", message_id="q0")
        if crash == "no":
            await run.says("I see both.")
        else:
            async with asyncio.timeout(10):
                while "look at this" not in (await pressing()).payload or (await has_moved()) is (crash[0] == "b"):
                    await asyncio.sleep(0.005)
            pressed = await pressing()
    if crash != "no":
        again = Threading()
        async with process(home, model, platform=again) as run:
            if crash == "before the move":  # the choice is asked for again, for what waits now
                await again.room.until(lambda: any("has moved to there" in one for one in run.texts()))
                await again.press(f"moved-{pressed.id}", "back", message_id="q9")
            await again.room.until(lambda: "I see both." in run.texts())
            assert await session_of(run, "chat") == moving
            await run.check_ledger()
    shown = messages(model)[-1]
    assert "one.png" in shown
    assert "two.png" in shown
    assert "forwarded, the words of: Eve" in shown
    assert any("my colour is blue" in one for one in messages(model))


async def test_a_private_chat_of_somebody_else_wants_a_confirmation_like_a_room(
    tmp_path: Path, model: ModelServer, platform: Threading
) -> None:
    """Ben calls his chat what he likes; an owner's own chat needs no confirmation."""
    ben = Sender(id="ben", name="Ann")
    async with process(tmp_path / "home", model, platform=platform) as run:
        await known(run, model, "own")
        await talk(run, model, "hello", "b1", chat="bens", sender=ben)
        await talk(run, model, "a secret", "m1")
        moving = await session_of(run, "chat")
        await say(run, "/handoff memory the bens", "h1")
        await run.says("Whoever reads the bens will")
        assert await run.store.handoffs.open_for(moving) is None
        assert await session_of(run, "chat") == moving
        await say(run, "/handoff memory the own", "h2")
        await ended(run, moving, HandoffState.DONE)
        await run.quiet()


async def test_a_hello_that_comes_too_late_asks_nobody(
    tmp_path: Path, model: ModelServer, platform: Threading, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The conversation was taken back before the hello was said."""
    async with process(tmp_path / "home", model, platform=platform) as run:
        idle(run, monkeypatch)
        await talk(run, model, "one", "m1")
        there, here = run.platform.address("there"), run.platform.address("chat")
        moving = await session_of(run, "chat")
        made = await run.store.handoffs.get(await asked(run, moving, there))
        assert made is not None
        await run.store.handoffs.cancel_pending(made.id)
        await run.store.sessions.move(moving, session_key(there), address_to_json(there), moved_to="there")
        await run.store.sessions.move(moving, session_key(here), address_to_json(here), moved_to="back")
        await run.core.handoffs._greet(made, there, session_key(there), run.core.intake.internal)
        async with asyncio.timeout(10):
            while (await run.store.inbox.counts())[Fate.SILENT] == 0:
                await asyncio.sleep(0.005)
        await run.check_ledger()
        assert run.texts("there") == []


def idle(run: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process neither claims nor sweeps from now on."""

    async def nothing(*_: object) -> None:
        """No work."""

    monkeypatch.setattr(run.core.handoffs, "_claim_all", nothing)
    monkeypatch.setattr(run.core.handoffs, "_sweep", nothing)


async def test_a_start_says_no_hello_where_the_conversation_has_gone_on_from(
    tmp_path: Path, model: ModelServer, platform: Threading, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hello of each move belongs to the place of that move, also where another platform does not know it."""
    there = dataclasses.replace(platform.address("x"), account="another", chat_id="there")
    async with process(tmp_path / "home", model, platform=platform) as run:
        await talk(run, model, "one", "m1")
        moving = await session_of(run, "chat")
        idle(run, monkeypatch)
        made = await asked(run, moving, there)
        token = await run.store.handoffs.claim(made, run.store.owner)
        await run.store.handoffs.rebind_done(made, token, session_key(there), address_to_json(there), moved_to="there")
        back = run.platform.address("chat")
        await run.store.sessions.move(moving, session_key(back), address_to_json(back), moved_to="back")
        counts = await run.store.inbox.counts()
    again = Threading()
    async with process(tmp_path / "home", model, platform=again) as run:
        while run.core.handoffs._owes_hellos:
            await asyncio.sleep(0.005)
        await run.quiet()
        assert await run.store.inbox.counts() == counts
        assert again.room.texts(back) == []


async def test_a_move_closes_every_other_place_of_the_session(
    tmp_path: Path, model: ModelServer, platform: Threading
) -> None:
    async with process(tmp_path / "home", model, platform=platform) as run:
        await known(run, model, "other")
        await talk(run, model, "one", "m1")
        moving = await session_of(run, "chat")
        second = run.platform.address("second")  # as `tidings chat --session` and /resume do
        await run.store.sessions.rebind(
            session_key(second), moving, expect_version=None, address_json=address_to_json(second)
        )
        await say(run, "/handoff memory other", "h1")
        await ended(run, moving, HandoffState.DONE)
        await one_owner(run, moving)
        await run.quiet()


async def test_a_thread_that_cannot_be_closed_is_named_and_keeps_nobody_waiting(
    tmp_path: Path, model: ModelServer, platform: Threading, monkeypatch: pytest.MonkeyPatch
) -> None:
    closing, gate = asyncio.Event(), asyncio.Event()

    async def slow(_thread: ChatAddress) -> None:
        closing.set()
        await gate.wait()
        raise NoRights

    monkeypatch.setattr(platform, "close_thread", slow)
    async with process(tmp_path / "home", model, platform=platform) as run:
        await known(run, model, "other")
        await talk(run, model, "one", "m1")
        await talk(run, model, "quick", "m2", chat="two")
        moving, quick = await session_of(run, "chat"), await session_of(run, "two")
        made = await asked(run, moving, ROOM)
        token = await run.store.handoffs.claim(made, dead_owner())
        await run.store.handoffs.set_thread(made, token, address_to_json(dataclasses.replace(ROOM, thread_id="t")))
        await closing.wait()
        await say(run, "/handoff memory other", "h2", chat="two")
        await ended(run, quick, HandoffState.DONE)
        gate.set()
        await run.says("Nothing has moved. An empty thread is left there")
        await run.quiet()


async def test_a_follower_ends_no_hand_off_but_its_own(
    tmp_path: Path, model: ModelServer, platform: Threading, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever sweeps has to tell the giver; a command line can only tell of its own."""
    async with process(tmp_path / "home", model, platform=platform) as run:
        await talk(run, model, "one", "m1")
        await talk(run, model, "two", "m2", chat="two")
        idle(run, monkeypatch)
        ids = []
        for chat in ("chat", "two"):
            made = await asked(run, await session_of(run, chat), ROOM)
            await run.store.handoffs.claim(made, dead_owner())
            ids.append(made)
        assert (await follow(run.store, ids[0])).state is HandoffState.FAILED
        other = await run.store.handoffs.get(ids[1])
        assert other is not None
        assert other.state is HandoffState.RUNNING


async def test_only_who_asks_for_it_takes_a_conversation_back_to_the_terminal(
    tmp_path: Path, model: ModelServer, platform: Threading
) -> None:
    """`echo … | tidings chat` goes on with the last terminal session, but not with one that is in a chat now."""
    async with process(tmp_path / "home", model, platform=platform) as run:
        await talk(run, model, "one", "m1")
        moving = await session_of(run, "chat")
        await say(run, "/handoff terminal", "h1")
        await run.says("tidings chat --continue")
        tty, here = await run.store.sessions.last_on("terminal"), run.platform.address("chat")
        assert tty is not None
        line = address_from_json(tty.address_json).chat_id
        assert (await find_line(run.store, "terminal:me", ChatOptions(), piped=True)).id == line
        await run.store.sessions.move(moving, session_key(here), address_to_json(here), moved_to="the chat")
        piped = await find_line(run.store, "terminal:me", ChatOptions(), piped=True)
        assert piped.id != line
        assert await session_of(run, "chat") == moving
        back = await find_line(run.store, "terminal:me", ChatOptions(resume=True), piped=True)
        assert (back.id, len(back.taken_from)) == (line, 1)
        await one_owner(run, moving)
