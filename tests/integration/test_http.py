"""The HTTP adapter with everything behind it: a real daemon, a scripted model, the genuine OpenAI SDK."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest
from openai import AsyncOpenAI

from tests.counterparts.model_script import Step
from tests.counterparts.model_server import ModelServer
from tests.crash.harness import KEY, DaemonProcess, write_config

OTHER = "another-key-for-this-test"


class House:
    """A daemon, its model, and clients."""

    def __init__(self, home: Path, model: ModelServer) -> None:
        self.model = model
        http = {
            "enabled": True,
            "host": "127.0.0.1",
            "port": 0,
            "key": "${TIDINGS_HTTP_KEY}",
            "keys": {"other": "${OTHER_KEY}"},
        }
        self.config = write_config(home, model.url, platforms={"http": http})
        self.daemon = self._spawn()

    def _spawn(self) -> DaemonProcess:
        return DaemonProcess(self.config, env={"OTHER_KEY": OTHER})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.daemon.port}"

    def sdk(self, key: str = KEY) -> AsyncOpenAI:
        return AsyncOpenAI(base_url=f"{self.url}/v1", api_key=key, timeout=20.0)

    def client(self, key: str = KEY) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(self.url, headers={"Authorization": f"Bearer {key}"})

    async def restart(self) -> None:
        assert await self.daemon.terminate() == 0
        self.daemon = self._spawn()
        await self.daemon.ready()


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with ModelServer() as model:
        made = House(tmp_path / "home", model)
        try:
            await made.daemon.ready()
            yield made
        finally:
            made.daemon.kill()


def user(text: str) -> list[Any]:
    return [{"role": "user", "content": text}]


async def test_completions_through_the_whole_daemon(house: House) -> None:
    house.model.script(
        Step(text="good day", when="hello"), Step(text="streamed words of it", when="stream", hold_after=2)
    )
    async with house.sdk() as sdk:
        done = await sdk.chat.completions.create(model="default", messages=user("hello"))
        assert done.choices[0].message.content == "good day"
        assert done.usage is not None
        assert done.usage.prompt_tokens > 0
        stream = await sdk.chat.completions.create(model="default", messages=user("stream"), stream=True)
        pieces = []
        async for chunk in stream:
            if chunk.choices and chunk.choices[0].delta.content:
                pieces.append(chunk.choices[0].delta.content)
                house.model.release()  # it goes on only once the beginning has arrived here
        assert "".join(pieces) == "streamed words of it"
        assert len(pieces) > 1


async def test_a_stateless_request_brings_its_own_history(house: House) -> None:
    house.model.script(Step(text="three", when="next"))
    messages = [
        {"role": "system", "content": "count with me"},
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "two"},
        {"role": "user", "content": "next"},
    ]
    async with house.sdk() as sdk:
        done = await sdk.chat.completions.create(model="default", messages=messages)  # type: ignore[arg-type]
    assert done.choices[0].message.content == "three"
    sent = house.model.calls[-1].messages()
    assert [m["role"] for m in sent] == ["system", "user", "assistant", "user"]
    assert "count with me" in str(sent[0]["content"])


async def test_a_chain_of_responses_with_a_branch_and_a_restart(house: House) -> None:
    house.model.script(Step(text="A1", when="a"), Step(text="B1", when="b"), Step(text="C1", when="c"))
    async with house.sdk() as sdk, house.sdk(OTHER) as stranger:
        one = await sdk.responses.create(model="default", input="a")
        two = await sdk.responses.create(model="default", input="b", previous_response_id=one.id)
        assert (one.output_text, two.output_text) == ("A1", "B1")
        for call in (
            stranger.responses.retrieve(one.id),
            stranger.responses.create(model="default", input="x", previous_response_id=one.id),
        ):
            with pytest.raises(openai.NotFoundError):
                await call
    await house.restart()
    async with house.sdk() as sdk:
        assert (await sdk.responses.retrieve(two.id)).output_text == "B1"
        branch = await sdk.responses.create(model="default", input="c", previous_response_id=one.id)
        assert branch.output_text == "C1"
    spoken = [m["content"] for m in house.model.calls[-1].messages() if m["role"] != "system"]
    assert [str(text) for text in spoken[:2]] == ["a", "A1"]
    assert "b" not in spoken


async def test_native_messages_commands_and_duplicates(house: House) -> None:
    house.model.script(Step(text="hi", when="hello"))
    async with house.client() as client:
        for _ in range(2):
            body = {"text": "hello", "id": "one", "stream": False}
            async with client.post("/api/messages", json=body) as answer:
                told = await answer.json()
            assert (told["fate"], told["text"]) == ("answered", "hi")
        assert len(house.model.calls) == 1
        async with client.post("/api/messages", json={"text": "/status", "stream": False}) as answer:
            told = await answer.json()
        assert told["fate"] == "command"
        assert told["text"]
        async with client.get("/api/sessions") as answer:
            sessions = (await answer.json())["sessions"]
        assert [s["session"] for s in sessions] == ["main"]
        async with client.get(f"/api/sessions/{sessions[0]['id']}/messages") as answer:
            assert [m["text"] for m in (await answer.json())["messages"]] == ["hello", "hi"]
    async with house.client(OTHER) as other:
        async with other.get("/api/messages/one") as answer:
            assert answer.status == 404
        async with other.get(f"/api/sessions/{sessions[0]['id']}/messages") as answer:
            assert answer.status == 404


async def test_a_failure_of_the_model_is_told(house: House) -> None:
    house.model.script(Step(status=400, error={"message": "no such luck", "type": "invalid_request_error"}))
    async with house.sdk() as sdk:
        with pytest.raises(openai.APIStatusError) as caught:
            await sdk.chat.completions.create(model="default", messages=user("x"))
    assert caught.value.code == "failed"
    assert caught.value.status_code == 502
    assert len(house.model.calls) == 1


async def test_fifty_at_once_and_health(house: House) -> None:
    async with house.sdk() as sdk, house.client() as client:
        many = [sdk.chat.completions.create(model="default", messages=user(f"n{n}")) for n in range(50)]
        answers = await asyncio.gather(*many)
        assert all(answer.choices[0].message.content for answer in answers)
        async with client.get("/readyz") as answer:
            assert answer.status == 200, await answer.text()
        async with client.get("/metrics") as answer:
            assert 'tidings_fates_total{fate="answered"} 50.0' in await answer.text()
