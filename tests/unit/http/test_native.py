"""The native API over real sockets."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from yarl import URL

from adapters.events import ChatAddress
from adapters.http import desk, native, sse, waits
from tests.unit.http.conftest import House, running


def events_of(body: str) -> list[tuple[str, Any]]:
    found = []
    for block in body.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.split("\n") if line and not line.startswith(":"))
        if lines:
            found.append((lines["event"], json.loads(lines["data"])))
    return found


async def post(house: House, **data: Any) -> tuple[int, Any]:
    async with house.client.post("/api/messages", json={"stream": False, **data}) as answer:
        return answer.status, await answer.json()


async def streamed(house: House, **data: Any) -> list[tuple[str, Any]]:
    async with house.client.post("/api/messages", json=data) as answer:
        assert answer.status == 200
        assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        return events_of(await answer.text())


async def until(condition: Any) -> None:
    for _ in range(400):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it did not happen")


async def test_a_message_is_streamed_to_its_end(house: House) -> None:
    events = await streamed(house, text="notice tool hello", id="one")
    kinds = [kind for kind, _ in events]
    assert kinds[0] == "accepted"
    assert kinds[-2:] == ["answer", "end"]
    assert {"status", "tool", "delta"} <= set(kinds)
    live = "".join(data["text"] for kind, data in events if kind == "delta")
    answer = dict(events)["answer"]
    assert live == answer["text"] == "echo[0] notice tool hello"
    assert answer["usage"] == {"input_tokens": 17, "output_tokens": 25}
    assert dict(events)["end"] == {"id": "one", "fate": "answered", "detail": ""}


async def test_a_message_without_streaming_and_its_session(house: House) -> None:
    status, first = await post(house, text="hello", session="work")
    assert status == 200
    assert first["text"] == "echo[0] hello"
    assert first["session"] == "work"
    assert (await post(house, text="again", session="work"))[1]["text"] == "echo[1] again"
    assert (await post(house, text="elsewhere"))[1]["text"] == "echo[0] elsewhere"
    async with house.client.get("/api/sessions") as answer:
        listed = (await answer.json())["sessions"]
    assert [item["session"] for item in listed] == ["main", "work"]
    async with house.client.get(f"/api/sessions/{listed[1]['id']}/messages") as answer:
        spoken = (await answer.json())["messages"]
    assert [item["text"] for item in spoken] == ["hello", "echo[0] hello", "again", "echo[1] again"]


async def test_accepted_only_and_asked_for_later(house: House) -> None:
    status, told = await post(house, text="wait hello", id="later", wait=False)
    assert (status, told["fate"], told["url"]) == (202, "waiting", "/api/messages/later")
    async with house.client.get("/api/messages/later") as answer:
        assert (await answer.json())["fate"] in ("waiting", "running")
    house.gateway.gate.set()
    await until(lambda: house.gateway.rows[0].fate == "answered")
    async with house.client.get(told["url"]) as answer:
        assert (await answer.json())["text"] == "echo[0] wait hello"


@pytest.mark.parametrize("name", ["a/b", "a b?c#d", "50%", "\u00e9\U0001f600", "...", "%2F"])
async def test_any_printable_id_can_be_asked_for(house: House, name: str) -> None:
    _, told = await post(house, text="x", id=name, wait=False)
    await until(lambda: house.gateway.rows[0].fate == "answered")
    async with house.client.get(URL(told["url"], encoded=True)) as answer:
        assert answer.status == 200
        assert (await answer.json())["id"] == name


async def test_P2_the_same_id_never_runs_twice(house: House) -> None:
    first = asyncio.create_task(post(house, text="wait hello", id="same"), name="first")
    await until(lambda: house.gateway.runs)
    second = asyncio.create_task(post(house, text="wait hello", id="same"), name="second")
    third = asyncio.create_task(streamed(house, text="wait hello", id="same"), name="third")
    await until(lambda: house.adapter.waiting == 3)
    house.gateway.gate.set()
    assert (await first)[1]["text"] == (await second)[1]["text"] == "echo[0] wait hello"
    assert dict(await third)["answer"]["text"] == "echo[0] wait hello"
    assert (await post(house, text="wait hello", id="same"))[1]["text"] == "echo[0] wait hello"
    assert (await post(house, text="wait hello", id="same", wait=False))[1]["text"] == "echo[0] wait hello"
    assert house.gateway.runs == ["wait hello"]
    status, told = await post(house, text="something else", id="same")
    assert (status, told["error"]["code"]) == (422, "id_in_use")
    assert house.adapter.waiting == 0


async def test_the_same_id_in_another_session_follows_the_first(house: House) -> None:
    first = asyncio.create_task(post(house, text="wait hello", id="same", session="one"), name="first")
    await until(lambda: house.gateway.runs)
    second = asyncio.create_task(post(house, text="wait hello", id="same", session="two"), name="second")
    await until(lambda: house.adapter.waiting == 2)
    house.gateway.gate.set()
    assert (await second)[1] == (await first)[1]
    assert (await second)[1]["session"] == "one"


async def test_the_idempotency_header_is_an_id(house: House) -> None:
    for _ in range(2):
        headers = {"Idempotency-Key": "abc"}
        async with house.client.post("/api/messages", json={"text": "x", "stream": False}, headers=headers) as answer:
            assert (await answer.json())["id"] == "abc"
    assert house.gateway.runs == ["x"]


async def test_ids_of_two_principals_do_not_meet(house: House) -> None:
    await post(house, text="mine", id="same")
    async with house.client.get("/api/messages/same", headers=house.as_other()) as answer:
        foreign = (answer.status, await answer.text())
    async with house.client.get("/api/messages/none", headers=house.as_other()) as answer:
        absent = (answer.status, await answer.text())
    assert foreign[0] == absent[0] == 404
    assert foreign[1].replace("same", "none") == absent[1]
    data = {"text": "theirs", "id": "same", "stream": False}
    async with house.client.post("/api/messages", json=data, headers=house.as_other()) as answer:
        assert (await answer.json())["text"] == "echo[0] theirs"
    assert len(house.gateway.lines) == 2


async def test_B83_sessions_of_another_principal_are_not_found(house: House) -> None:
    await post(house, text="secret", session="Budget")
    async with house.client.get("/api/sessions", headers=house.as_other()) as answer:
        assert await answer.json() == {"sessions": []}
    for name in ("s_1", "Budget", "1"):
        async with house.client.get(f"/api/sessions/{name}/messages", headers=house.as_other()) as answer:
            assert answer.status == 404
    async with house.client.delete("/api/messages/x", headers=house.as_other()) as answer:
        assert answer.status == 404


async def test_commands_answer(house: House) -> None:
    _, told = await post(house, text="/status now")
    assert (told["fate"], told["text"]) == ("command", "done: /status now")
    _, told = await post(house, text="/etc/hosts is a file")
    assert told["fate"] == "answered"


async def test_an_approval_is_shown_and_pressed_once(house: House) -> None:
    events = await streamed(house, text="approve", id="ask")
    asked = dict(events)["approval"]
    assert asked == {
        "message_id": "ask",
        "text": "rm -rf x",
        "buttons": [{"button_id": "b1", "label": "Yes", "value": "yes"}],
    }
    press = {"button_id": "b1", "value": "yes", "message_id": "ask"}
    for _ in range(2):
        async with house.client.post("/api/actions", json=press) as answer:
            assert (await answer.json())["text"] == "pressed b1=yes"
    presses = [row for row in house.gateway.rows if row.event.action is not None]
    assert len(presses) == 1
    assert presses[0].event.address.chat_id == "default/s/main"
    async with house.client.post("/api/actions", json={**press, "message_id": "none"}) as answer:
        assert answer.status == 404


async def test_merged_and_steered_messages_end_with_the_answer_of_the_turn(house: House) -> None:
    first = asyncio.create_task(post(house, text="wait merge", id="a"), name="a")
    await until(lambda: house.gateway.runs)
    second = asyncio.create_task(post(house, text="and this", id="b"), name="b")
    third = asyncio.create_task(post(house, text="no, that", id="c"), name="c")
    await until(lambda: len(house.gateway.rows) == 3)
    house.gateway.steer("c", into="a")
    await asyncio.sleep(0.01)
    assert not third.done(), "the turn that it joined still runs"
    house.gateway.gate.set()
    answers = [(await task)[1] for task in (first, second, third)]
    assert [answer["fate"] for answer in answers] == ["answered", "merged", "steered"]
    assert {answer["text"] for answer in answers} == {"echo[0] wait merge"}


async def test_failures_and_refusals_have_their_reason(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "GRACE", 0.01)
    assert (await post(house, text="fail"))[1]["detail"] == "The model gave no usable answer."
    assert (await post(house, text="refuse"))[1]["fate"] == "refused"


async def test_too_long_a_wait_is_told_and_the_answer_is_kept(tmp_path: Path) -> None:
    async with running(tmp_path, wait_seconds=0.03) as house:
        status, told = await post(house, text="wait x", id="slow")
        assert (status, told["fate"]) == (202, "running")
        events = await streamed(house, text="wait x", id="slow")
        assert dict(events)["end"]["fate"] == "running"
        assert "later" in dict(events)["end"]["detail"]
        house.gateway.gate.set()
        await until(lambda: house.gateway.rows[0].fate == "answered")
        async with house.client.get("/api/messages/slow") as answer:
            assert (await answer.json())["text"] == "echo[0] wait x"


async def test_too_many_waiting_is_told_before_anything_is_accepted(tmp_path: Path) -> None:
    async with running(tmp_path, max_waiting=1) as house:
        first = asyncio.create_task(post(house, text="wait a"), name="a")
        await until(lambda: house.adapter.waiting == 1)
        async with house.client.post("/api/messages", json={"text": "b"}) as answer:
            assert answer.status == 503
            assert answer.headers["Retry-After"] == "5"
        assert len(house.gateway.rows) == 1
        house.gateway.gate.set()
        await first


async def test_a_full_store_is_told_and_nothing_is_accepted(house: House) -> None:
    house.gateway.full = True
    status, told = await post(house, text="x")
    assert status == 503
    assert "nothing was done" in told["error"]["message"]
    assert house.adapter.waiting == 0


@pytest.mark.parametrize("detach", [False, True])
async def test_a_client_that_leaves_ends_its_turn_only_if_it_asked_to(
    house: House, monkeypatch: pytest.MonkeyPatch, detach: bool
) -> None:
    monkeypatch.setattr(native, "DETACH_BEAT", 0.01)
    monkeypatch.setattr(native, "HEARTBEAT", 0.01)
    data = {"text": "wait x", "id": "gone", "cancel_on_disconnect": detach}
    async with aiohttp.ClientSession(house.url, headers=house.client.headers) as leaver:
        answer = await leaver.post("/api/messages", json=data)
        assert b"accepted" in await answer.content.readuntil(b"\n\n")
        answer.close()
    await until(lambda: house.adapter.waiting == 0)
    house.gateway.gate.set()
    await until(lambda: house.gateway.rows[0].fate not in ("waiting", "running"))
    assert house.gateway.rows[0].fate == ("cancelled" if detach else "answered")


async def test_a_silent_stream_has_heartbeats(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "HEARTBEAT", 0.01)
    async with house.client.post("/api/messages", json={"text": "wait x"}) as answer:
        assert (await answer.content.readuntil(b"\n\n")).startswith(b"event: accepted")
        assert await answer.content.readuntil(b"\n\n") == b": still here\n\n"
        house.gateway.gate.set()
        await answer.read()


async def test_a_message_can_be_taken_back(house: House) -> None:
    pending = asyncio.create_task(post(house, text="wait x", id="oops"), name="oops")
    await until(lambda: house.gateway.runs)
    async with house.client.delete("/api/messages/oops") as answer:
        assert answer.status == 202
    assert (await pending)[1]["fate"] == "cancelled"


async def test_no_id_of_a_client_meets_an_event_of_another_kind(house: House) -> None:
    pending = asyncio.create_task(post(house, text="wait x", id="one"), name="one")
    await until(lambda: house.gateway.runs)
    for name in ("c/one", "cancel/one", "m/one", "a/one"):
        assert (await post(house, text="x", id=name, session=name))[1]["fate"] == "answered"
    async with house.client.delete("/api/messages/one") as answer:
        assert answer.status == 202
    assert (await pending)[1]["fate"] == "cancelled"


async def test_after_a_restart_answers_are_still_there(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        await post(house, text="before", id="old")
        gateway = house.gateway
    async with running(tmp_path, gateway) as house:
        async with house.client.get("/api/messages/old") as answer:
            assert (await answer.json())["text"] == "echo[0] before"
        assert (await post(house, text="before", id="old"))[1]["text"] == "echo[0] before"
        assert gateway.runs == ["before"]


async def test_a_stop_tells_those_who_wait(tmp_path: Path) -> None:
    async with running(tmp_path) as house, aiohttp.ClientSession(house.url, headers=house.client.headers) as patient:
        answer = await patient.post("/api/messages", json={"text": "wait x", "id": "w"})
        await until(lambda: house.gateway.runs)
        house.adapter.closing()
        end = dict(events_of(await answer.text()))["end"]
        assert end["fate"] == "running"
        assert "stopping" in end["detail"]


async def test_a_reader_that_is_too_slow_gets_no_text_with_a_gap() -> None:
    waiter = waits.Waits(1).open(ChatAddress(platform="http", account="local", chat_id="x"), "m")
    waiter.push(waits.Part("text", "a" * waits.LIVE_TEXT))
    waiter.push(waits.Part("text", "b"))
    assert [len(part.text) for part in waiter.take()] == [waits.LIVE_TEXT]
    waiter.push(waits.Part("text", "c"))
    assert waiter.take() == []
    assert sse.frame({"text": "a\nb"}, "x") == b'event: x\ndata: {"text":"a\\nb"}\n\n'
