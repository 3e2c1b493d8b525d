"""The OpenAI fronts, spoken to by the genuine SDK over real sockets."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from adapters.http import desk
from tests.unit.http.conftest import KEY, OTHER, House, running
from tests.unit.http.test_native import until

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 24


def picture(content: bytes = PNG, mime: str = "image/png") -> str:
    return f"data:{mime};base64,{base64.b64encode(content).decode()}"


def user(content: Any) -> list[Any]:
    return [{"role": "user", "content": content}]


@pytest.fixture
async def sdk(house: House) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{house.url}/v1", api_key=KEY) as client:
        yield client


@pytest.fixture
async def other(house: House) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{house.url}/v1", api_key=OTHER) as client:
        yield client


async def test_models(sdk: AsyncOpenAI) -> None:
    assert [model.id async for model in sdk.models.list()] == ["default", "small", "large"]
    assert (await sdk.models.retrieve("small")).owned_by == "tidings"
    with pytest.raises(openai.NotFoundError) as caught:
        await sdk.models.retrieve("none")
    assert caught.value.code == "model_not_found"


async def test_a_completion(sdk: AsyncOpenAI, house: House) -> None:
    done = await sdk.chat.completions.create(model="small", messages=user("hello"))
    assert done.choices[0].message.content == "echo[0] hello"
    assert done.choices[0].finish_reason == "stop"
    assert done.usage is not None
    assert (done.usage.prompt_tokens, done.usage.total_tokens) == (5, 18)
    assert done.model == "small"
    assert house.gateway.rows[0].event.model == "small"
    cut = await sdk.chat.completions.create(model="default", messages=user("length"))
    assert cut.choices[0].finish_reason == "length"


async def test_a_streamed_completion(sdk: AsyncOpenAI) -> None:
    stream = await sdk.chat.completions.create(
        model="default", messages=user("hello tool"), stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == "echo[0] hello tool"
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 18
    assert len({c.id for c in chunks}) == 1


async def test_a_reset_never_mixes_two_tries(sdk: AsyncOpenAI) -> None:
    stream = await sdk.chat.completions.create(model="default", messages=user("reset"), stream=True)
    text = "".join([c.choices[0].delta.content or "" async for c in stream])
    assert text == "half a wo\n\necho[0] reset"


async def test_without_a_session_each_request_stands_alone(sdk: AsyncOpenAI, house: House) -> None:
    messages = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "two"},
        {"role": "developer", "content": "be kind"},
        {"role": "user", "content": "/status three"},
    ]
    done = await sdk.chat.completions.create(model="default", messages=messages)  # type: ignore[arg-type]
    assert done.choices[0].message.content == (
        "echo[0] /status three | user=one; assistant=two | be brief\n\nbe kind | []"
    )
    await sdk.chat.completions.create(model="default", messages=user("x"))
    assert len(house.gateway.lines) == 2


@pytest.mark.parametrize("named", [{"extra_headers": {"X-Tidings-Session": "work"}}, {"metadata": {"session": "work"}}])
async def test_with_a_session_the_server_remembers(sdk: AsyncOpenAI, named: dict[str, Any]) -> None:
    messages = [{"role": "user", "content": "old"}, {"role": "user", "content": "first"}]
    one = await sdk.chat.completions.create(model="default", messages=messages, **named)
    two = await sdk.chat.completions.create(model="default", messages=user("second"), **named)
    command = await sdk.chat.completions.create(model="default", messages=user("/status"), **named)
    texts = [done.choices[0].message.content for done in (one, two, command)]
    assert texts == ["echo[0] first", "echo[1] second", "done: /status"]


async def test_a_picture_becomes_a_file(sdk: AsyncOpenAI, house: House) -> None:
    content = [{"type": "text", "text": "what is it"}, {"type": "image_url", "image_url": {"url": picture()}}]
    await sdk.chat.completions.create(model="default", messages=[*user(content), *user(content)])
    event = house.gateway.rows[0].event
    path = Path(event.attachments[0].path or "")
    assert path.is_relative_to(house.files)
    assert path.read_bytes() == PNG
    assert path.stat().st_mode & 0o777 == 0o600
    assert event.history[0].text == "what is it\n[an image was here]"


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("https://example.org/a.png", "fetches nothing from the web"),
        (picture(b"no picture"), "no image/png image"),
        (picture(mime="image/svg+xml"), "only PNG"),
        ("data:image/png;base64,%%%", "damaged"),
    ],
)
async def test_other_pictures_are_refused(sdk: AsyncOpenAI, house: House, url: str, told: str) -> None:
    content = [{"type": "image_url", "image_url": {"url": url}}]
    with pytest.raises(openai.BadRequestError, match=told) as caught:
        await sdk.chat.completions.create(model="default", messages=user(content))
    assert caught.value.param == "messages[0].content[0].image_url"
    assert house.gateway.rows == []


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"messages": "hello"}, "messages"),
        ({}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": ["x"]}, "messages[0]"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": ""}]}, "messages"),
        ({"messages": [{"role": "tool", "content": "x", "tool_call_id": "1"}]}, "messages[0]"),
        ({"messages": user("x"), "stream": "yes"}, "stream"),
        ({"messages": user("x"), "tools": [{"type": "function"}]}, "tools"),
        ({"messages": user("x"), "n": 2}, "n"),
        ({"messages": user("x"), "response_format": {"type": "json_object"}}, "response_format"),
        ({"messages": user("x"), "metadata": {"session": 5}}, "metadata.session"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "messages"),
    ],
)
async def test_wrong_requests_name_the_field(house: House, body: dict[str, Any], param: str) -> None:
    async with house.client.post("/v1/chat/completions", json=body) as answer:
        assert answer.status == 400
        assert (await answer.json())["error"]["param"] == param
    assert house.gateway.rows == []


async def test_unknown_fields_are_tolerated(sdk: AsyncOpenAI) -> None:
    done = await sdk.chat.completions.create(
        model="default", messages=user("x"), temperature=0.3, tools=[], extra_body={"made_up": {"a": 1}}, user="u"
    )
    assert done.choices[0].message.content == "echo[0] x"


async def test_errors_have_openais_shape(sdk: AsyncOpenAI, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "GRACE", 0.01)
    async with AsyncOpenAI(base_url=f"{house.url}/v1", api_key="wrong-key-wrong-key") as stranger:
        with pytest.raises(openai.AuthenticationError) as refused:
            await stranger.chat.completions.create(model="default", messages=user("x"))
        assert refused.value.code == "invalid_api_key"
        assert "wrong-key" not in str(refused.value)
    with pytest.raises(openai.NotFoundError) as unknown:
        await sdk.chat.completions.create(model="gpt", messages=user("x"))
    assert unknown.value.param == "model"
    with pytest.raises(openai.PermissionDeniedError, match="not on the list"):
        await sdk.chat.completions.create(model="default", messages=user("refuse"))
    with pytest.raises(openai.InternalServerError, match="no usable answer"):
        await sdk.chat.completions.create(model="default", messages=user("fail"))
    stream = await sdk.chat.completions.create(model="default", messages=user("fail"), stream=True)
    with pytest.raises(openai.APIError, match="no usable answer"):
        _ = [chunk async for chunk in stream]
    assert house.gateway.runs == ["refuse", "fail", "fail"], "the SDK did not repeat what was accepted"


async def test_a_repeated_request_is_not_run_again(sdk: AsyncOpenAI, house: House) -> None:
    same = {"extra_headers": {"Idempotency-Key": "once"}}
    one = await sdk.chat.completions.create(model="default", messages=user("x"), **same)
    two = await sdk.chat.completions.create(model="default", messages=user("x"), **same)
    assert one == two
    assert house.gateway.runs == ["x"]


async def test_a_long_answer_is_told_and_not_repeated(tmp_path: Path) -> None:
    async with (
        running(tmp_path, wait_seconds=0.03) as house,
        AsyncOpenAI(base_url=f"{house.url}/v1", api_key=KEY) as sdk,
    ):
        with pytest.raises(openai.InternalServerError, match="it will be at /api/messages/chatcmpl-"):
            await sdk.chat.completions.create(model="default", messages=user("wait"))
        assert house.gateway.runs == ["wait"]


async def test_a_response_and_its_chain(sdk: AsyncOpenAI, other: AsyncOpenAI, house: House) -> None:
    one = await sdk.responses.create(model="small", input="hello", instructions="be brief", metadata={"a": "b"})
    assert one.output_text == "echo[0] hello |  | be brief | []"
    assert (one.status, one.model, one.metadata, one.instructions) == ("completed", "small", {"a": "b"}, "be brief")
    assert one.usage is not None
    assert one.usage.total_tokens == 5 + len(one.output_text)
    two = await sdk.responses.create(model="small", input="and", previous_response_id=one.id)
    assert two.output_text == "echo[1] and"
    assert two.previous_response_id == one.id
    assert len(house.gateway.lines) == 1, "the newest response is continued in its own line"
    branch = await sdk.responses.create(model="small", input="or", previous_response_id=one.id)
    assert branch.output_text == "echo[1] or"
    assert len(house.gateway.lines) == 2, "an older one is forked"
    further = await sdk.responses.create(model="small", input="then", previous_response_id=two.id)
    assert further.output_text == "echo[2] then"
    assert await sdk.responses.retrieve(two.id) == two
    for client, name in ((other, two.id), (sdk, "resp_none")):
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(name)
        with pytest.raises(openai.NotFoundError):
            await client.responses.create(model="small", input="x", previous_response_id=name)


async def test_a_streamed_response_has_the_documented_events(sdk: AsyncOpenAI) -> None:
    stream = await sdk.responses.create(model="default", input="hello", stream=True)
    events = [event async for event in stream]
    kinds = [event.type for event in events]
    deltas = kinds.count("response.output_text.delta")
    assert kinds == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        *["response.output_text.delta"] * deltas,
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[-1].response.output_text == "echo[0] hello"  # type: ignore[union-attr]
    async with sdk.responses.stream(model="default", input="hello") as helper:
        final = await helper.get_final_response()
    assert final.output_text == "echo[0] hello"


async def test_a_reset_opens_another_output_message(sdk: AsyncOpenAI) -> None:
    stream = await sdk.responses.create(model="default", input="reset", stream=True)
    events = [event async for event in stream]
    items = [event.item for event in events if event.type == "response.output_item.done"]
    assert [(item.status, item.content[0].text) for item in items] == [  # type: ignore[union-attr]
        ("incomplete", "half a wo"),
        ("completed", "echo[0] reset"),
    ]
    assert events[-1].response.output_text == "echo[0] reset"  # type: ignore[union-attr]


async def test_failed_and_cut_responses(sdk: AsyncOpenAI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "GRACE", 0.01)
    stream = await sdk.responses.create(model="default", input="fail", stream=True)
    last = [event async for event in stream][-1]
    assert last.type == "response.failed"
    assert last.response.error is not None
    assert last.response.error.message == "The model gave no usable answer."
    kept = await sdk.responses.retrieve(last.response.id)
    assert kept.status == "failed"
    with pytest.raises(openai.BadRequestError, match="cannot be continued"):
        await sdk.responses.create(
            model="default", input="x", previous_response_id=(await _forgotten(sdk, last.response.id))
        )
    cut = await sdk.responses.create(model="default", input="length")
    assert cut.status == "incomplete"
    assert cut.incomplete_details is not None
    assert cut.incomplete_details.reason == "max_output_tokens"


async def _forgotten(sdk: AsyncOpenAI, response_id: str) -> str:
    """The id, once another response is the newest of its line."""
    await sdk.responses.create(model="default", input="next", previous_response_id=response_id)
    return response_id


async def test_a_response_in_the_background(sdk: AsyncOpenAI, house: House) -> None:
    begun = await sdk.responses.create(model="default", input="wait hello", background=True)
    assert begun.status == "queued"
    await until(lambda: house.gateway.runs)
    assert (await sdk.responses.retrieve(begun.id)).status == "in_progress"
    await sdk.responses.cancel(begun.id)
    house.gateway.gate.set()
    await until(lambda: house.gateway.rows[0].fate == "cancelled")
    assert (await sdk.responses.retrieve(begun.id)).status == "cancelled"


async def test_a_response_that_is_not_stored_cannot_be_found(sdk: AsyncOpenAI) -> None:
    done = await sdk.responses.create(model="default", input="x", store=False)
    assert done.output_text == "echo[0] x"
    with pytest.raises(openai.NotFoundError):
        await sdk.responses.retrieve(done.id)
    with pytest.raises(openai.NotFoundError):
        await sdk.responses.create(model="default", input="x", previous_response_id=done.id)


async def test_a_chain_goes_on_after_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path) as house, AsyncOpenAI(base_url=f"{house.url}/v1", api_key=KEY) as sdk:
        one = await sdk.responses.create(model="default", input="hello")
        gateway = house.gateway
    async with running(tmp_path, gateway) as house, AsyncOpenAI(base_url=f"{house.url}/v1", api_key=KEY) as sdk:
        assert (await sdk.responses.retrieve(one.id)).output_text == one.output_text
        two = await sdk.responses.create(model="default", input="again", previous_response_id=one.id)
        assert two.output_text == "echo[1] again"


async def test_a_repeated_continuation_stays_in_its_line(sdk: AsyncOpenAI, house: House) -> None:
    one = await sdk.responses.create(model="default", input="hello")
    same = {"extra_headers": {"Idempotency-Key": "once"}, "previous_response_id": one.id}
    answers = [await sdk.responses.create(model="default", input="and", **same) for _ in range(2)]
    assert answers[0] == answers[1]
    assert house.gateway.runs == ["hello", "and"]
    assert len(house.gateway.lines) == 1


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "input"),
        ({"input": ""}, "input"),
        ({"input": 5}, "input"),
        ({"input": [{"type": "function_call_output", "call_id": "1", "output": "x"}]}, "input[0]"),
        ({"input": "x", "tools": [{"type": "web_search"}]}, "tools"),
        ({"input": "x", "instructions": 5}, "instructions"),
        ({"input": "x", "text": {"format": {"type": "json_schema"}}}, "text.format"),
        ({"input": "x", "stream": True, "background": True}, "background"),
    ],
)
async def test_wrong_response_requests_name_the_field(house: House, body: dict[str, Any], param: str) -> None:
    async with house.client.post("/v1/responses", json=body) as answer:
        assert answer.status == 400
        assert (await answer.json())["error"]["param"] == param


async def test_input_items_with_parts_and_a_picture(sdk: AsyncOpenAI, house: House) -> None:
    items: Any = [
        {"role": "user", "content": "one"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "two"}]},
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "three"},
                {"type": "input_image", "image_url": picture(), "detail": "auto"},
            ],
        },
    ]
    done = await sdk.responses.create(model="default", input=items)
    assert done.output_text == "echo[0] three | user=one; assistant=two | None | [32]"


async def test_two_hundred_at_once(sdk: AsyncOpenAI, house: House) -> None:
    many = [sdk.chat.completions.create(model="default", messages=user(f"n{n}")) for n in range(200)]
    answers = await asyncio.gather(*many)
    assert [a.choices[0].message.content for a in answers] == [f"echo[0] n{n}" for n in range(200)]
    assert house.adapter.waiting == 0


async def test_half_a_surrogate_pair_does_no_harm(house: House) -> None:
    body = json.dumps({"messages": user("a\ud83d b")})
    async with house.client.post("/v1/chat/completions", data=body) as answer:
        assert (await answer.json())["choices"][0]["message"]["content"] == "echo[0] a\ufffd b"
