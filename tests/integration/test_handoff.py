"""The hand-off (P7): the session moves whole, or stays where it was; one owner, never stuck, always a stated end."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from adapters.errors import AdapterError, Gone, NoRights, NotReady
from adapters.events import Action, ChatAddress, EventKind, MessageEvent, Sender
from adapters.memory.adapter import MemoryAdapter
from adapters.ports import CanOpenThreads
from gateway.convert import address_from_json, address_to_json
from gateway.handoff import Plan
from gateway.handoff_target import Target
from gateway.keys import line_key, session_key
from state.errors import Conflict
from state.ids import HandoffId, SessionId
from state.records import BindingState, Fate, HandoffState
from tests.counterparts.model_script import Step
from tests.counterparts.model_server import ModelServer
from tests.integration.process import Process, dead_owner, process

ANN = Sender(id="ann", name="Ann")
ROOM = ChatAddress(platform="memory", account="bot", chat_id="room", chat_kind="group")


class Threading(MemoryAdapter):
    """The memory platform with threads in its rooms."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[ChatAddress] = []
        self.closed: list[ChatAddress] = []
        self.refuse: AdapterError | None = None
        self.gate = asyncio.Event()
        self.gate.set()

    async def open_thread(self, chat: ChatAddress, title: str) -> ChatAddress | None:
        if chat.chat_kind == "private":
            return None
        await self.gate.wait()
        if self.refuse is not None:
            raise self.refuse
        thread = dataclasses.replace(chat, thread_id=f"t{len(self.opened) + 1}")
        self.opened.append(thread)
        return thread

    async def close_thread(self, thread: ChatAddress) -> None:
        self.closed.append(thread)


@pytest.fixture
def platform() -> Threading:
    adapter = Threading()
    assert isinstance(adapter, CanOpenThreads)
    return adapter


async def say(
    run: Process, text: str, message_id: str, *, chat: str | ChatAddress = "chat", sender: Sender = ANN
) -> None:
    address = run.platform.address(chat) if isinstance(chat, str) else chat
    kind = EventKind.COMMAND if text.startswith("/") else EventKind.MESSAGE
    await run.platform.accept(
        MessageEvent(
            dedup_id=message_id,
            kind=kind,
            message_id=message_id,
            address=address,
            sender=sender,
            received_at=run.store.clock.utc(),
            text=text,
            mentions_us=kind is EventKind.MESSAGE,
            chat_name=f"the {address.chat_id}",
        )
    )


async def talk(run: Process, model: ModelServer, text: str, message_id: str, **more: object) -> None:
    model.script(f"answer to {text}")
    await say(run, text, message_id, **more)  # type: ignore[arg-type]
    assert (await run.fate(message_id))[0] == "answered"


async def known(run: Process, model: ModelServer, chat: str | ChatAddress) -> None:
    """Somebody has spoken there, so that the place has a name."""
    name = chat if isinstance(chat, str) else chat.chat_id
    await talk(run, model, f"hello from {name}", f"hello-{name}", chat=chat)
    async with asyncio.timeout(5):
        while not any(n == f"the {name}" for n, _ in await run.store.directory.chats("memory")):
            await asyncio.sleep(0.005)


async def session_of(run: Process, address: ChatAddress | str) -> SessionId:
    where = run.platform.address(address) if isinstance(address, str) else address
    key = line_key(where, "ann", groups="person", threads="shared")
    binding = await run.store.sessions.binding(key)
    assert binding is not None
    assert binding.session_id is not None
    assert binding.state is BindingState.ACTIVE
    return binding.session_id


async def one_owner(run: Process, session: SessionId) -> None:
    active = [one for one in await run.store.sessions.bindings_of(session) if one.state is BindingState.ACTIVE]
    assert len(active) == 1


async def ended(run: Process, session: SessionId, state: HandoffState, nth: int = 1) -> str:
    """Wait for the end of the session's nth hand-off; its reason."""
    async with asyncio.timeout(10):
        while True:
            rows = await run.store.handoffs._select("session_id = ?", (session,), 100)
            if len(rows) >= nth:
                row = rows[nth - 1]
                if row.state is state:
                    return row.reason or ""
                assert row.state in (HandoffState.PENDING, HandoffState.RUNNING), row
            await asyncio.sleep(0.01)


def messages(model: ModelServer) -> list[str]:
    return [str(row.get("content")) for row in json.loads(model.calls[-1].body)["messages"]]


async def test_a_session_moves_whole_and_a_human_reply_lands_in_it(
    tmp_path: Path, model: ModelServer, platform: Threading
) -> None:
    async with process(tmp_path / "home", model, platform=platform) as run:
        await known(run, model, ROOM)
        await talk(run, model, "my colour is blue", "m1")
        moving = await session_of(run, "chat")
        model.script(Step(text="Here we go on.", when="moved here just now"))
        await say(run, "/handoff memory the room", "h0")
        await run.says("/handoff memory the room confirm")  # a room has other readers
        await say(run, "/handoff memory the room confirm", "h1")
        await ended(run, moving, HandoffState.DONE)
        (thread,) = platform.opened
        await run.platform.room.until(lambda: "Here we go on." in platform.room.texts(thread))
        assert await session_of(run, thread) == moving
        await one_owner(run, moving)
        await run.says("goes on at memory: the room")
        # the first human reply in the thread, built as inbound events are, has the whole conversation
        await talk(run, model, "what is my colour?", "m2", chat=thread, sender=Sender(id="ben", name="Ben"))
        assert any("my colour is blue" in one for one in messages(model))
        assert any("moved here just now" in one for one in messages(model))
        await run.check_ledger()


async def test_the_giver_chooses_between_taking_back_and_a_new_one(
    tmp_path: Path, model: ModelServer, platform: Threading
) -> None:
    async with process(tmp_path / "home", model, platform=platform) as run:
        await known(run, model, "other")
        for number, choice in enumerate(("back", "new")):
            await talk(run, model, f"fact {number}", f"f{number}")
            moving = await session_of(run, "chat")
            await say(run, "/handoff memory other", f"h{number}")
            await ended(run, moving, HandoffState.DONE, number + 1)
            await run.quiet()
            await say(run, "are you there?", f"q{number}")
            assert (await run.fate(f"q{number}"))[0] == "silent"
            event = await run.row(f"q{number}")
            model.script(Step(text=f"chosen {choice}", when="are you there"))
            await run.platform.press(f"moved-{event.id}", choice, message_id=f"q{number}")
            await run.says(f"chosen {choice}")
            assert messages(model)[-1].endswith("are you there?")
            now = await session_of(run, "chat")
            assert (now == moving) is (choice == "back")
            assert any(f"fact {number}" in one for one in messages(model)) is (choice == "back")
            await one_owner(run, moving)
            # the other choice comes too late, and somebody else has none
            await run.platform.press(f"moved-{event.id}", choice, message_id=f"q{number}")
            await run.platform.room.until(
                lambda times=number + 1: sum("settled already" in one for one in run.texts()) == times
            )
        await run.check_ledger()


async def test_a_turn_of_the_giver_ends_first(tmp_path: Path, model: ModelServer, platform: Threading) -> None:
    async with process(tmp_path / "home", model, platform=platform) as run:
        await known(run, model, "other")
        await talk(run, model, "one", "m1")
        moving = await session_of(run, "chat")
        model.script(Step(text="a long answer", hold_after=1, when="two"))
        await say(run, "two", "m2")
        await model.wait_calls(3)
        await say(run, "/handoff memory other", "h1")
        await run.says("as soon as this turn has ended")
        await asyncio.sleep(0.2)
        assert await session_of(run, "chat") == moving
        model.release()
        assert (await run.fate("m2"))[0] == "answered"
        await ended(run, moving, HandoffState.DONE)
        await run.says("a long answer")
        rows = await run.store.transcript.load(moving)
        assert [row.content for row in rows if row.role == "assistant"][:2] == ["answer to one", "a long answer"]
        await run.quiet()


FAILURES: dict[str, tuple[Callable[[Threading], None], str]] = {
    "no rights": (lambda one: setattr(one, "refuse", NoRights("x", told="I may make no threads there.")), "no threads"),
    "the chat is gone": (lambda one: setattr(one, "refuse", Gone()), "does not exist"),
    "unreachable": (lambda one: setattr(one, "refuse", NotReady()), "cannot be reached"),
}


@pytest.mark.parametrize("name", FAILURES)
async def test_B91_a_target_that_fails_moves_nothing(
    tmp_path: Path, model: ModelServer, platform: Threading, name: str
) -> None:
    spoil, told = FAILURES[name]
    async with process(tmp_path / "home", model, platform=platform) as run:
        await known(run, model, ROOM)
        await talk(run, model, "one", "m1")
        moving = await session_of(run, "chat")
        sent = len(platform.room.texts(ROOM))
        spoil(platform)
        await say(run, "/handoff memory the room confirm", "h1")
        reason = await ended(run, moving, HandoffState.FAILED)
        assert told in reason
        await run.says("Nothing has moved.")
        assert await session_of(run, "chat") == moving
        assert len(platform.room.texts(ROOM)) == sent
        await talk(run, model, "and on", "m2")
        assert await session_of(run, "chat") == moving
        platform.refuse = None  # after the cause is mended the retry works
        await say(run, "/handoff memory the room confirm", "h2")
        await ended(run, moving, HandoffState.DONE, 2)
        await one_owner(run, moving)
        await run.quiet()


async def test_B91_places_that_are_not_there_are_refused_before_anything_is_done(
    tmp_path: Path, model: ModelServer, platform: Threading
) -> None:
    async with process(tmp_path / "home", model, platform=platform) as run:
        await talk(run, model, "one", "m1")
        for number, (text, told) in enumerate(
            [
                ("/handoff memory", "no home chat"),
                ("/handoff", "where to?"),
                ("/handoff nowhere", "I know no platform"),
                ("/handoff telegram", "telegram is not switched on"),
            ]
        ):
            await say(run, text, f"h{number}")
            await run.says(told)
        assert await run.store.handoffs.pending() == []


async def test_B90_a_hand_off_of_a_session_that_is_handed_off_is_refused(
    tmp_path: Path, model: ModelServer, platform: Threading
) -> None:
    async with process(tmp_path / "home", model, platform=platform) as run:
        await known(run, model, ROOM)
        await talk(run, model, "one", "m1")
        moving = await session_of(run, "chat")
        platform.gate.clear()
        await say(run, "/handoff memory the room confirm", "h1")
        await say(run, "/handoff memory the room confirm", "h2")
        await run.says("being handed off already")
        with pytest.raises(Conflict):
            await run.store.sessions.move(
                moving, session_key(platform.address("x")), address_to_json(platform.address("x")), moved_to="x"
            )
        platform.gate.set()
        await ended(run, moving, HandoffState.DONE)
        assert len(platform.opened) == 1
        await run.quiet()


async def asked(run: Process, moving: SessionId, target: ChatAddress) -> HandoffId:
    plan = Plan(target=Target(address=target, name="the room"))
    key = session_key(run.platform.address("chat"))
    return (await run.store.handoffs.request(moving, key, plan.to_json(), "memory:ann")).id


async def test_B87_a_claim_of_a_dead_process_is_swept_and_the_session_is_usable(
    tmp_path: Path, model: ModelServer, platform: Threading
) -> None:
    """kill -9 between the claim and the move: the next process says so, closes the thread, and moves nothing."""
    async with process(tmp_path / "home", model, platform=platform) as run:
        await known(run, model, ROOM)
        await talk(run, model, "one", "m1")
        moving = await session_of(run, "chat")
        thread = dataclasses.replace(ROOM, thread_id="made-by-the-dead")
        platform.gate.clear()
        made = await asked(run, moving, ROOM)
        token = await run.store.handoffs.claim(made, dead_owner())
        await run.store.handoffs.set_thread(made, token, address_to_json(thread))
        assert "claim expired" in await ended(run, moving, HandoffState.FAILED)
        await run.says("Nothing has moved.")
        await run.platform.room.until(lambda: thread in platform.closed)
        assert await session_of(run, "chat") == moving
        with pytest.raises(Conflict):  # the dead one's token is worth nothing, whoever comes late with it
            await run.store.handoffs.rebind_done(
                made, token, session_key(thread), address_to_json(thread), moved_to="x"
            )
        # a closed thread takes no messages (Slack's is deleted): a retry makes its own
        platform.gate.set()
        await say(run, "/handoff memory the room confirm", "h1")
        await ended(run, moving, HandoffState.DONE, 2)
        assert await session_of(run, platform.opened[0]) == moving
        await run.quiet()


async def test_B88_a_hello_that_a_crash_has_cut_off_is_said_after_the_start_once(
    tmp_path: Path, model: ModelServer, platform: Threading
) -> None:
    """kill -9 between the move and the hello."""
    thread = dataclasses.replace(ROOM, thread_id="t9")
    async with process(tmp_path / "home", model, platform=platform) as run:
        await talk(run, model, "one", "m1")
        moving = await session_of(run, "chat")
        run.core.handoffs._poll = 1000.0  # this process does not claim it
        made = await asked(run, moving, ROOM)
        token = await run.store.handoffs.claim(made, run.store.owner)
        await run.store.handoffs.set_thread(made, token, address_to_json(thread))
        await run.store.handoffs.rebind_done(made, token, session_key(thread), address_to_json(thread), moved_to="x")
    for start in range(2):
        again = Threading()
        if start == 0:
            model.script(Step(text="Hello again.", when="moved here just now"))
        async with process(tmp_path / "home", model, platform=again) as run:
            if start == 0:
                await run.platform.room.until(lambda one=again: "Hello again." in one.room.texts(thread))
            await run.quiet()
            counts = await run.store.inbox.counts()
            assert counts[Fate.ANSWERED] == 2
            await one_owner(run, moving)


async def test_B89_hand_offs_do_not_wait_for_each_other(
    tmp_path: Path, model: ModelServer, platform: Threading
) -> None:
    async with process(tmp_path / "home", model, platform=platform) as run:
        await known(run, model, ROOM)
        await known(run, model, "other")
        await talk(run, model, "slow", "m1", chat="one")
        await talk(run, model, "quick", "m2", chat="two")
        slow, quick = await session_of(run, "one"), await session_of(run, "two")
        platform.gate.clear()
        await say(run, "/handoff memory the room confirm", "h1", chat="one")
        await say(run, "/handoff memory other", "h2", chat="two")
        await ended(run, quick, HandoffState.DONE)
        assert await session_of(run, "one") == slow
        platform.gate.set()
        await ended(run, slow, HandoffState.DONE)
        await run.quiet()


async def test_two_daemons_claim_at_once_and_one_of_them_moves_it(
    tmp_path: Path, model: ModelServer, platform: Threading
) -> None:
    async with process(tmp_path / "home", model, platform=platform) as run:
        await talk(run, model, "one", "m1")
        moving = await session_of(run, "chat")
        made = await asked(run, moving, ROOM)
        claims = await asyncio.gather(
            *(run.store.handoffs.claim(made, run.store.owner) for _ in range(8)), return_exceptions=True
        )
        assert sum(isinstance(one, str) for one in claims) <= 1
        await one_owner(run, moving)
        await run.quiet()


async def test_home_is_set_by_an_owner_and_used_by_default(
    tmp_path: Path, model: ModelServer, platform: Threading
) -> None:
    async with process(tmp_path / "home", model, platform=platform) as run:
        await known(run, model, "den")
        await say(run, "/sethome", "s0", chat="den", sender=Sender(id="ben", name="Ben"))
        assert (await run.fate("s0"))[0] == "refused"
        await say(run, "/sethome", "s1", chat="den")
        await run.fate("s1")
        home = await run.store.directory.home("memory")
        assert home is not None
        assert address_from_json(home) == platform.address("den")


async def test_to_the_terminal_and_back(tmp_path: Path, model: ModelServer, platform: Threading) -> None:
    async with process(tmp_path / "home", model, platform=platform) as run:
        await talk(run, model, "one", "m1")
        moving = await session_of(run, "chat")
        await say(run, "/handoff terminal", "h1")
        await run.says("tidings chat --continue")
        last = await run.store.sessions.last_on("terminal")
        assert last is not None
        assert last.session_id == moving
        assert last.state is BindingState.ACTIVE
        await one_owner(run, moving)


async def test_an_adapter_cannot_make_internal_events(tmp_path: Path, model: ModelServer, platform: Threading) -> None:
    async with process(tmp_path / "home", model, platform=platform) as run:
        event = MessageEvent(
            dedup_id="x", kind=EventKind.INTERNAL, message_id="", address=platform.address("chat"), sender=ANN,
            received_at=run.store.clock.utc(), text="obey", action=Action(button_id="b", value="v"),
        )  # fmt: skip
        with pytest.raises(ValueError, match="internal"):
            await run.platform.accept(event)
