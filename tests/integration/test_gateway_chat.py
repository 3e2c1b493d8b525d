"""Talking with the gateway as people do: order, busy modes, edits, deletions, commands, questions."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from adapters.events import ChatAddress, EventKind, MessageEvent, Sender
from adapters.memory.adapter import MemoryAdapter
from state.records import ToolStatus
from tests.counterparts.model_script import Step
from tests.counterparts.model_server import ModelServer
from tests.integration.process import Process, process

GROUP = ChatAddress(platform="memory", account="bot", chat_id="room", chat_kind="group")


def users(model: ModelServer, call: int = -1) -> list[str]:
    """The user messages of a call of the model."""
    return [str(m["content"]) for m in model.calls[call].messages() if m["role"] == "user"]


async def test_a_question_is_answered_once(run: Process) -> None:
    await run.platform.hear("hello", message_id="m1")
    assert (await run.fate("m1"))[0] == "answered"
    await run.says("echo 1: hello")
    again = await run.platform.hear("hello", message_id="m1")
    assert not again.is_new
    await run.check_ledger()
    assert len(run.texts()) == 1


async def test_B20_honest_repetition_is_answered_twice(run: Process) -> None:
    for number in (1, 2):
        await run.platform.hear("yes", message_id=f"m{number}")
    assert [(await run.fate(f"m{n}"))[0] for n in (1, 2)] == ["answered", "answered"]
    await run.check_ledger()
    assert len(run.texts()) == 2


async def test_B01_one_turn_at_a_time_and_rows_never_interleave(run: Process) -> None:
    run.model.latency = 0.02
    for number in range(20):
        await run.platform.hear(f"q{number}", message_id=f"m{number}")
    for number in range(20):
        await run.fate(f"m{number}")
    (session,) = await run.store.sessions.list_all()
    rows = await run.store.transcript.load(session.id)
    assert [row.role for row in rows] == ["user", "assistant"] * 20
    assert [row.content for row in rows[::2]] == [f"q{n}" for n in range(20)]
    await run.check_ledger()


async def test_B06_chats_do_not_wait_for_each_other(run: Process) -> None:
    run.model.script(Step(when="slow", silent=True))
    await run.platform.hear("slow", chat="one", message_id="m1")
    await run.model.wait_calls(1)
    for number in range(2, 8):
        await run.platform.hear("quick", chat=f"c{number}", message_id=f"m{number}")
    for number in range(2, 8):
        assert (await run.fate(f"m{number}"))[0] == "answered"
    assert "m1" not in run.platform.fates
    await run.platform.hear("/stop", chat="one", message_id="m9")
    assert (await run.fate("m1"))[0] == "cancelled"


async def test_B03_new_in_a_blocked_turn_starts_afresh_at_once(run: Process) -> None:
    run.model.script(Step(when="block", text="a late answer", hold_after=0))
    await run.platform.hear("block", message_id="m1")
    await run.model.wait_calls(1)
    (old,) = await run.store.sessions.list_all()
    await run.platform.hear("/new", message_id="m2")
    assert (await run.fate("m2"))[0] == "command"
    await run.platform.hear("hi", message_id="m3")
    assert (await run.fate("m3"))[0] == "answered"
    run.model.release()
    await run.check_ledger()
    assert (await run.fate("m1"))[0] == "cancelled"
    binding = await run.store.sessions.binding((await run.row("m3")).key)
    assert binding is not None
    assert binding.session_id is not None
    assert binding.session_id != old.id
    assert (await run.store.transcript.load(binding.session_id))[0].content == "hi"
    assert not any("late" in text for text in run.texts())


async def test_B05_what_comes_while_a_turn_runs_is_answered_in_order(run: Process) -> None:
    run.model.script(Step(when="q1", text="one", hold_after=0))
    for number in range(1, 6):
        await run.platform.hear(f"q{number}", message_id=f"m{number}")
    await run.model.wait_calls(1)
    run.model.release()
    for number in range(1, 6):
        assert (await run.fate(f"m{number}"))[0] == "answered"
    await run.check_ledger()
    assert [text.split(": ")[-1] for text in run.texts()] == ["one", "q2", "q3", "q4", "q5"]


async def test_steering_joins_after_the_next_tool_call(run: Process) -> None:
    await run.platform.hear("/busy steer", message_id="b")
    await run.fate("b")
    call = {"name": "todo", "arguments": {"items": []}, "id": "c1"}
    run.model.script(Step(when="begin", tool_calls=(call,), hold_after=0), Step(text="both are done"))
    await run.platform.hear("begin", message_id="m1")
    await run.model.wait_calls(1)
    await run.platform.hear("and this too", message_id="m2")
    await asyncio.sleep(0.1)
    run.model.release()
    assert (await run.fate("m1"))[0] == "answered"
    assert (await run.fate("m2"))[0] == "steered"
    assert "and this too" in users(run.model)[-1]
    await run.check_ledger()


async def test_a_steer_that_nothing_takes_is_answered_afterwards(run: Process) -> None:
    run.model.script(Step(when="begin", text="first", hold_after=0))
    await run.platform.hear("begin", message_id="m1")
    await run.model.wait_calls(1)
    await run.platform.hear("/steer more", message_id="m2")
    await asyncio.sleep(0.1)
    run.model.release()
    assert (await run.fate("m2"))[0] == "answered"
    await run.check_ledger()


async def test_a_steer_of_somebody_with_fewer_rights_is_queued(run: Process) -> None:
    thread = ChatAddress(platform="memory", account="bot", chat_id="room", thread_id="t", chat_kind="thread")
    run.model.script(Step(when="begin", text="first", hold_after=0))
    await run.platform.hear("begin", chat=thread, sender="ann", message_id="m1", mentions_us=True)
    await run.model.wait_calls(1)
    await run.platform.hear("/steer obey me", chat=thread, sender="ben", message_id="m2", mentions_us=True)
    await asyncio.sleep(0.1)
    run.model.release()
    assert (await run.fate("m2"))[0] == "answered"
    assert len(run.model.calls) == 2


async def test_an_interrupting_message_ends_the_turn(run: Process) -> None:
    await run.platform.hear("/busy interrupt", message_id="b")
    run.model.script(Step(when="long", silent=True))
    await run.platform.hear("long", message_id="m1")
    await run.model.wait_calls(1)
    await run.platform.hear("rather this", message_id="m2")
    assert (await run.fate("m1"))[0] == "cancelled"
    assert (await run.fate("m2"))[0] == "answered"
    await run.check_ledger()


async def test_collected_messages_are_one_turn(tmp_path: Path, model: ModelServer) -> None:
    chat = {"busy": "collect", "collect_seconds": 0.2}
    async with process(tmp_path / "home", model, chat=chat) as run:
        for number, text in enumerate(("one", "two", "three")):
            await run.platform.hear(text, message_id=f"m{number}")
        assert (await run.fate("m0"))[0] == "answered"
        assert [(await run.fate(f"m{n}"))[0] for n in (1, 2)] == ["merged", "merged"]
        assert len(model.calls) == 1
        assert all(word in users(model)[0] for word in ("one", "two", "three"))
        await run.check_ledger()


async def test_B23_an_edit_before_the_turn_replaces_the_text(run: Process) -> None:
    run.model.script(Step(when="first", text="ok", hold_after=0))
    await run.platform.hear("first", message_id="m1")
    await run.model.wait_calls(1)
    await run.platform.hear("delete file A", message_id="m2")
    await run.platform.hear("delete file B", message_id="m2", kind=EventKind.EDIT)
    await run.platform.hear("delete file B", message_id="m2", kind=EventKind.EDIT)  # B19: nothing has changed
    await asyncio.sleep(0.1)
    run.model.release()
    await run.says("delete file B")
    await run.check_ledger()
    assert not any("file A" in text for text in users(run.model))
    assert len(run.model.calls) == 2


async def test_B23_an_edit_after_the_answer_counts_from_the_next_message_on(run: Process) -> None:
    await run.platform.hear("delete file A", message_id="m1")
    await run.says("echo 1")
    await run.platform.hear("delete file B", message_id="m1", kind=EventKind.EDIT)
    await run.quiet()
    assert len(run.model.calls) == 1
    await run.platform.hear("go on", message_id="m2")
    await run.fate("m2")
    assert "delete file B" in users(run.model)[-1]
    await run.platform.hear("and now", message_id="m3")
    await run.fate("m3")
    assert "delete file B" not in users(run.model)[-1]
    await run.check_ledger()


async def test_B23_retry_answers_the_corrected_text(run: Process) -> None:
    await run.platform.hear("file A", message_id="m1")
    await run.says("echo 1")
    await run.platform.hear("file B", message_id="m1", kind=EventKind.EDIT)
    await run.quiet()
    await run.platform.hear("/retry", message_id="m2")
    assert (await run.fate("m2"))[0] == "answered"
    assert users(run.model) == [users(run.model)[0]]
    assert "file B" in users(run.model)[0]
    await run.check_ledger()


async def test_a_deletion_cancels_exactly_its_turn(run: Process) -> None:
    run.model.script(Step(when="first", silent=True))
    await run.platform.hear("first", message_id="m1")
    await run.model.wait_calls(1)
    await run.platform.hear("second", message_id="m2")
    await run.platform.hear("third", message_id="m3")
    await run.platform.hear(message_id="m2", kind=EventKind.DELETE)
    assert (await run.fate("m2"))[0] == "cancelled"
    await run.platform.hear(message_id="m1", kind=EventKind.DELETE)
    await run.says("third")
    await run.check_ledger()
    assert not any("second" in text for text in run.texts())


async def test_B54_a_hung_model_is_stopped_and_the_next_message_is_answered(run: Process) -> None:
    run.model.script(Step(when="hang", silent=True))
    await run.platform.hear("hang", message_id="m1")
    await run.model.wait_calls(1)
    await run.platform.hear("/stop", message_id="m2")
    assert (await run.fate("m1"))[0] == "cancelled"
    await run.platform.hear("hello", message_id="m3")
    assert (await run.fate("m3"))[0] == "answered"
    await run.check_ledger()


@pytest.mark.parametrize(
    "step",
    [
        Step(text="", times=5),
        Step(text="  \n ", times=5),
        Step(reasoning="hm", times=5),
        Step(refusal="no", times=5),
        Step(text="x", finish="content_filter", times=5),
    ],
    ids=["empty", "blank", "reasoning", "refusal", "filter"],
)
async def test_B55_an_answer_without_words_is_told_and_the_next_message_works(run: Process, step: Step) -> None:
    run.model.script(step)
    await run.platform.hear("hello", message_id="m1")
    await run.fate("m1")
    await run.quiet()
    assert len([text for text in run.texts() if text.strip()]) == 1
    run.model.script(*[Step(when="again", text="fine", times=2)])
    await run.platform.hear("again", message_id="m2")
    assert (await run.fate("m2"))[0] == "answered"
    await run.says("fine")
    await run.check_ledger()


async def test_B83_nobody_resumes_a_session_of_another(run: Process) -> None:
    await run.platform.hear("the budget is 7", chat="anns", sender="ann", message_id="m1")
    await run.fate("m1")
    await run.platform.hear("/title Budget", chat="anns", sender="ann", message_id="m2")
    await run.fate("m2")
    (session,) = await run.store.sessions.list_all()
    for number, wanted in enumerate(("Budget", "1", session.id, "budget")):
        await run.platform.hear(f"/resume {wanted}", chat="bens", sender="ben", message_id=f"r{number}")
        await run.fate(f"r{number}")
    await run.platform.hear("/sessions", chat="bens", sender="ben", message_id="s")
    await run.fate("s")
    await run.check_ledger()
    assert all("no such" in text or "no conversations" in text for text in run.texts("bens"))
    assert not any("Budget" in text or session.id in text for text in run.texts("bens"))
    await run.platform.hear("/resume Budget", chat="anns2", sender="ann", message_id="own")
    await run.says("Budget", chat="anns2")


async def _ask_for_terminal(run: Process, message_id: str = "m1") -> str:
    """Ann's turn asks to run a command; the id of the question."""
    call = {"name": "terminal", "arguments": {"command": "echo ran >> effects"}, "id": "c1"}
    run.model.script(Step(when="do it", tool_calls=(call,)), Step(text="it is over"))
    await run.platform.hear("do it", message_id=message_id)
    await run.says("echo ran >> effects")
    rows = [one for one in run.platform.room.messages.values() if "effects" in one.text]
    return str(rows[-1].said.buttons[0].id)


async def test_B84_a_plain_yes_approves_nothing(run: Process, tmp_path: Path) -> None:
    question = await _ask_for_terminal(run)
    await run.platform.hear("yes", message_id="y")
    await run.platform.press(question, "approve", sender="ben", message_id="p1")
    await run.says("Only an owner")
    assert not (tmp_path / "work" / "effects").exists()
    await run.platform.press(question, "approve", sender="ann", message_id="p2")
    assert (await run.fate("m1"))[0] == "answered"
    assert (tmp_path / "work" / "effects").read_text() == "ran\n"
    await run.platform.press(question, "approve", sender="ann", message_id="p3")
    await run.fate("p3")
    assert (await run.fate("y"))[0] == "answered"
    await run.check_ledger()
    assert (tmp_path / "work" / "effects").read_text() == "ran\n"


async def test_a_denied_command_does_not_run(run: Process, tmp_path: Path) -> None:
    question = await _ask_for_terminal(run)
    await run.platform.hear(f"/deny {question}", message_id="d")
    assert (await run.fate("m1"))[0] == "answered"
    assert not (tmp_path / "work" / "effects").exists()
    (session,) = await run.store.sessions.list_all()
    tools = [row for row in await run.store.transcript.load(session.id) if row.role == "tool"]
    assert tools[0].tool_status is ToolStatus.FAILED
    await run.check_ledger()


async def test_a_clarify_question_is_answered_by_the_words_of_the_person_asked(run: Process) -> None:
    call = {"name": "clarify", "arguments": {"question": "Tabs or spaces?", "options": ["tabs", "spaces"]}, "id": "c1"}
    run.model.script(Step(when="format", tool_calls=(call,)), Step(text="formatted"))
    await run.platform.hear("format it", message_id="m1")
    await run.says("Tabs or spaces?")
    await run.platform.hear("spaces please", message_id="m2")
    assert (await run.fate("m2"))[0] == "steered"
    assert (await run.fate("m1"))[0] == "answered"
    results = [m for m in run.model.calls[-1].messages() if m["role"] == "tool"]
    assert "spaces please" in str(results[0]["content"])
    await run.check_ledger()


async def test_strangers_are_refused_and_told_and_groups_are_left_in_peace(run: Process) -> None:
    await run.platform.hear("let me in", chat="x", sender="eve", message_id="m1")
    assert (await run.fate("m1"))[0] == "refused"
    await run.says("memory:eve", chat="x")
    await run.platform.hear("just talk", chat=GROUP, message_id="m2")
    assert (await run.fate("m2"))[0] == "silent"
    await run.platform.hear("you there", chat=GROUP, message_id="m3", mentions_us=True)
    assert (await run.fate("m3"))[0] == "answered"
    assert len(run.model.calls) == 1
    await run.check_ledger()


async def test_B51_a_forwarded_command_is_not_carried_out(run: Process) -> None:
    await run.platform.hear("hello", message_id="m1")
    await run.fate("m1")
    event = MessageEvent(
        dedup_id="f",
        kind=EventKind.MESSAGE,
        message_id="f",
        text="/new",
        address=run.platform.address("chat"),
        sender=Sender(id="ann", name="Ann"),
        received_at=run.store.clock.utc(),
        forwarded_from="Mallory",
    )
    await run.platform.accept(event)
    assert (await run.fate("f"))[0] == "answered"
    assert "Mallory" in users(run.model)[-1]
    assert len(await run.store.sessions.list_all()) == 1


async def test_every_command_of_help_answers(run: Process) -> None:
    await run.platform.hear("hello", message_id="m1")
    await run.fate("m1")
    for name, _ in run.core.commands.names():
        await run.platform.hear(f"/{name}", message_id=f"c-{name}")
        fate, _ = await run.fate(f"c-{name}")
        assert fate in ("command", "answered"), name
    await run.check_ledger()
    said = [text for text in run.texts() if text]
    assert len(said) == 1 + len(run.core.commands.names())


async def test_undo_takes_our_message_back_too(run: Process) -> None:
    await run.platform.hear("secret", message_id="m1")
    await run.says("echo 1: secret")
    await run.platform.hear("/undo", message_id="m2")
    await run.platform.room.until(lambda: not any("echo 1" in text for text in run.texts()))
    await run.platform.hear("what did I say?", message_id="m3")
    await run.fate("m3")
    assert not any("secret" in text for text in users(run.model))


async def test_why_explains_a_message(run: Process) -> None:
    await run.platform.hear("hello", message_id="m1")
    await run.says("echo 1")
    await run.platform.hear("/why m1", message_id="m2")
    await run.says("it was answered")
    await run.platform.hear("/why nothing", message_id="m3")
    await run.says("I know of no such message")


async def test_the_cap_of_a_chat_is_told(tmp_path: Path, model: ModelServer) -> None:
    async with process(tmp_path / "home", model, limits={"queue_per_chat": 2}) as run:
        model.script(Step(when="block", text="done", hold_after=0))
        await run.platform.hear("block", message_id="m0")
        await model.wait_calls(1)
        for number in range(1, 5):
            await run.platform.hear(f"q{number}", message_id=f"m{number}")
        assert [(await run.fate(f"m{n}"))[0] for n in (3, 4)] == ["refused", "refused"]
        await run.says("Too much is waiting")
        model.release()
        assert [(await run.fate(f"m{n}"))[0] for n in (0, 1, 2)] == ["answered"] * 3
        await run.check_ledger()


@pytest.mark.parametrize("seed", range(3))
async def test_any_mixture_of_events_ends_in_one_fate_each(run: Process, seed: int) -> None:
    rng = random.Random(seed)
    platform: MemoryAdapter = run.platform
    ids: list[str] = []
    for number in range(60):
        chat = f"c{rng.randrange(3)}"
        choice = rng.random()
        if choice < 0.6 or not ids:
            ids.append(f"m{number}")
            await platform.hear(f"text {number}", chat=chat, message_id=ids[-1])
        elif choice < 0.7:
            await platform.hear(f"edited {number}", chat=chat, message_id=rng.choice(ids), kind=EventKind.EDIT)
        elif choice < 0.8:
            await platform.hear(chat=chat, message_id=rng.choice(ids), kind=EventKind.DELETE)
        else:
            command = rng.choice(
                ["/stop", "/new", "/undo", "/retry", "/steer x", "/queue y", "/status", "/busy interrupt"]
            )
            await platform.hear(command, chat=chat, message_id=f"k{number}")
        if rng.random() < 0.3:
            await asyncio.sleep(rng.random() * 0.03)
    async with asyncio.timeout(30):
        while any(row.fate.is_open for row in await run.store.inbox.open_events()):
            await asyncio.sleep(0.05)
    await run.check_ledger()
