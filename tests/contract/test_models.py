"""What every model promises, whoever it is: one suite over all of them."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from agent_core.errors import ContextFull, ModelKeyBad, ModelRefused, ModelUnavailable
from agent_core.models.factory import make_model
from agent_core.models.ports import Completion, Delta, Image, Model, Request, ToolSpec, Warmable
from agent_core.models.scripted import ScriptedModel, ScriptedStep
from agent_core.models.settings import ModelSettings, Timeouts
from agent_core.models.wire import canon
from state.records import ToolCall
from tests.counterparts.model_script import Step
from tests.counterparts.model_server import ModelServer
from tests.weights import home_with_weights

MARK = b',"cache_control":{"type":"ephemeral"}'
TIMES = Timeouts(connect=5.0, silence=5.0, total=10.0)
SPEC = ToolSpec(
    name="look", description="Look «up».", parameters='{"type":"object","properties":{"q":{"type":"string"}}}'
)


@dataclass
class Peer:
    """A model and a way to say what it shall answer; `script` is None where nobody can."""

    model: Model
    script: Callable[[Step], None] | None
    server: ModelServer | None = None


def _scripted_step(step: Step) -> ScriptedStep:
    return ScriptedStep(
        text=step.text, chunks=step.chunks, reasoning=step.reasoning, tool_calls=step.tool_calls, finish=step.finish
    )


async def _peer(kind: str, folder: Path) -> AsyncIterator[Peer]:
    provider, _, how = kind.partition("-")
    settings = ModelSettings(
        provider=provider,  # type: ignore[arg-type]
        name="scripted",
        api_key="key-of-the-test",
        stream=how != "whole",
        timeouts=TIMES,
        max_tokens=24 if provider == "embedded" else None,
    )
    if provider == "embedded":
        model = make_model(replace(settings, timeouts=Timeouts()), home=home_with_weights(folder))
        yield Peer(model, None)
        await model.close()
    elif provider == "scripted":
        scripted = make_model(settings, home=folder)
        assert isinstance(scripted, ScriptedModel)
        yield Peer(scripted, lambda step: scripted.add(_scripted_step(step)))
        await scripted.close()
    else:
        async with ModelServer() as server:
            url = server.url if provider == "openai" else server.root
            model = make_model(replace(settings, base_url=url), home=folder)
            yield Peer(model, server.script, server)
            await model.close()


SCRIPTABLE = ["openai", "openai-whole", "anthropic", "anthropic-whole", "scripted"]
EVERY = [*SCRIPTABLE, pytest.param("embedded", marks=[pytest.mark.embedded, pytest.mark.slow])]


@pytest.fixture(params=EVERY)
async def peer(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Peer]:
    async for made in _peer(request.param, tmp_path):
        yield made


@pytest.fixture(params=SCRIPTABLE)
async def scriptable(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Peer]:
    async for made in _peer(request.param, tmp_path):
        yield made


async def ask(model: Model, request: Request) -> tuple[list[Delta], Completion]:
    """All of a call, with the order of its pieces checked."""
    pieces = [piece async for piece in model.stream(request)]
    assert isinstance(pieces[-1], Completion)
    deltas = [piece for piece in pieces[:-1] if isinstance(piece, Delta)]
    assert len(deltas) == len(pieces) - 1
    return deltas, pieces[-1]


def say(model: Model, *texts: str, tools: bool = False) -> Request:
    return Request(
        system=model.wire_system("You answer."),
        messages=[model.wire_user(text) for text in texts],
        tools=[model.wire_tool(SPEC)] if tools else (),
        max_tokens=24,
    )


def sent_texts(body: bytes, request: Request) -> None:
    """Every stored text stands unchanged in the body, in the order tools, system, messages."""
    body, at = body.replace(MARK, b""), 0
    for text in (*request.tools, request.system, *request.messages):
        # Neighbours of one role may share a message: then their content blocks stand in the body.
        blocks = re.sub(r'^\{"role":"user","content":\[(.*)\]\}$', r"\1", text, flags=re.DOTALL)
        found = body.find(blocks.encode(), at)
        assert found >= 0, f"{text!r} is not in the body behind position {at}"
        at = found + len(blocks.encode())


def cut(body: bytes) -> bytes:
    """Canon, cut out of the raw body: from the first tool (or the system prompt) to the last message."""
    body = body.replace(MARK, b"")
    start = min(at for at in (body.find(b'"tools":'), body.find(b'"system":'), body.find(b'"messages":')) if at >= 0)
    return body[start : body.rindex(b"]")].rstrip(b"]}")


async def test_deltas_then_exactly_one_completion(peer: Peer) -> None:
    deltas, done = await ask(peer.model, say(peer.model, "Say a short sentence about the sea."))
    assert done.finish_reason in ("stop", "length")
    assert "".join(delta.text for delta in deltas) == done.text
    assert done.text.strip()
    assert done.tool_calls == ()
    assert done.usage.input_tokens > 0
    assert done.usage.output_tokens > 0


async def test_what_was_sent_is_what_was_given(peer: Peer) -> None:
    model = peer.model
    request = replace(
        say(model, 'Grüße, 東京 👋🏽 \u2028 "quoted" \\ \x00 end'), messages=[model.wire_user("ä\n\t\x07 👩‍👩‍👧")]
    )
    _, done = await ask(model, request)
    sent_texts(done.request_body, request)
    json.loads(done.request_body)
    if peer.server is not None:
        assert peer.server.calls[-1].body == done.request_body


async def test_a_longer_request_has_the_shorter_one_as_its_prefix(peer: Peer) -> None:
    model = peer.model
    first = say(model, "one")
    _, answer = await ask(model, first)
    second = replace(first, messages=[*first.messages, answer.wire, model.wire_user("two"), model.wire_user("steered")])
    _, again = await ask(model, second)
    third = replace(second, messages=[*second.messages, again.wire, model.wire_user("three")], max_tokens=20)
    _, last = await ask(model, third)
    bodies = [answer.request_body, again.request_body, last.request_body]
    for shorter, longer in pairwise(bodies):
        assert cut(longer).startswith(cut(shorter))
    assert canon(second).startswith(canon(first))
    assert canon(third).startswith(canon(second))


async def test_wire_texts_are_pure_and_valid(peer: Peer) -> None:
    model = peer.model
    call = ToolCall(id="toolu:1/x", name="look", arguments='{"q": "x"}')
    broken = ToolCall(id="b", name="look", arguments='{"q": ')
    makers: list[Callable[[], str]] = [
        lambda: model.wire_system("a\ud800b\U0001f600"),
        lambda: model.wire_user(""),
        lambda: model.wire_user("see", [Image(mime="image/png", data="AAAA")]),
        lambda: model.wire_assistant("text", [call, broken]),
        lambda: model.wire_assistant("", [call]),
        lambda: model.wire_assistant("text"),
        lambda: model.wire_tool_result(call, "42 °C"),
        lambda: model.wire_tool(SPEC),
    ]
    for make in makers:
        text = make()
        assert text == make()
        assert isinstance(json.loads(text), dict)
        text.encode("utf-8")
    assert SPEC.parameters in model.wire_tool(SPEC)
    assert json.dumps(broken.arguments)[1:-1] in model.wire_assistant("", [broken])


async def test_calls_run_concurrently_and_do_not_mix(peer: Peer) -> None:
    model = peer.model
    count = 2 if peer.script is None else 12
    answers = await asyncio.gather(*(ask(model, say(model, f"number <{n}>")) for n in range(count)))
    for n, (_, done) in enumerate(answers):
        assert f"number <{n}>".encode() in done.request_body
        if peer.script is not None:
            assert done.text.endswith(f"number <{n}>")


async def test_leaving_early_ends_the_call_and_the_next_one_works(peer: Peer) -> None:
    model = peer.model
    async with aclosing(model.stream(say(model, "Count from one to twenty."))) as pieces:  # type: ignore[type-var]
        async for _ in pieces:
            break
    _, done = await ask(model, say(model, "And now a word."))
    assert done.text.strip()


async def test_capabilities_warm_turn_end_and_close(peer: Peer) -> None:
    model = peer.model
    able = await model.capabilities()
    assert able.context_tokens >= 512
    if isinstance(model, Warmable):
        await asyncio.gather(model.warm(), model.warm())
    await model.turn_ended()
    await model.close()
    await model.close()


async def test_tool_calls_come_whole_and_are_replayed(scriptable: Peer) -> None:
    model = scriptable.model
    calls: tuple[dict[str, Any], ...] = (
        {"name": "look", "arguments": {"q": "Zürich"}},
        {"name": "look", "arguments": '{"q":"b"}', "id": None},
    )
    assert scriptable.script is not None
    scriptable.script(Step(text="Looking.", tool_calls=calls))
    request = say(model, "look it up", tools=True)
    _, done = await ask(model, request)
    assert done.finish_reason == "tool_calls"
    assert done.text == "Looking."
    assert [json.loads(call.arguments) for call in done.tool_calls] == [{"q": "Zürich"}, {"q": "b"}]
    assert len({call.id for call in done.tool_calls}) == 2
    assert all(call.id for call in done.tool_calls)
    results = [model.wire_tool_result(call, f"found {n}") for n, call in enumerate(done.tool_calls)]
    longer = replace(request, messages=[*request.messages, done.wire, *results])
    _, after = await ask(model, longer)
    sent_texts(after.request_body, longer)
    assert cut(after.request_body).startswith(cut(done.request_body))


async def test_ids_that_the_server_left_out_are_the_same_for_the_same_request(scriptable: Peer) -> None:
    model, script = scriptable.model, scriptable.script
    assert script is not None
    seen = []
    for text in ("same", "same", "other"):
        script(Step(tool_calls=({"name": "look", "arguments": "{}", "id": None},)))
        _, done = await ask(model, say(model, text, tools=True))
        seen.append(done.tool_calls[0].id)
    assert seen[0] == seen[1] != seen[2]


async def test_an_answer_without_an_end_is_a_failure(scriptable: Peer) -> None:
    assert scriptable.script is not None
    scriptable.script(Step(text="half an ans", finish=None))
    with pytest.raises(ModelUnavailable):
        await ask(scriptable.model, say(scriptable.model, "x"))


async def test_reasoning_is_kept_apart(scriptable: Peer) -> None:
    assert scriptable.script is not None
    scriptable.script(Step(text="four", reasoning="two and two"))
    deltas, done = await ask(scriptable.model, say(scriptable.model, "x"))
    assert done.text == "four"
    assert done.reasoning == "two and two"
    assert "".join(delta.reasoning for delta in deltas) == "two and two"
    assert "".join(delta.text for delta in deltas) == "four"


async def test_a_cut_off_answer_says_length(scriptable: Peer) -> None:
    assert scriptable.script is not None
    scriptable.script(Step(text="and so on and", finish="length"))
    _, done = await ask(scriptable.model, say(scriptable.model, "x"))
    assert done.finish_reason == "length"


REMOTE = ["openai", "openai-whole", "anthropic", "anthropic-whole"]
Fault = tuple[str, Step, type[Exception]]
FAULTS: list[Fault] = [
    ("429", Step(status=429, headers={"Retry-After": "7"}, error={"message": "slow down"}), ModelUnavailable),
    ("500", Step(status=500), ModelUnavailable),
    ("502-html", Step(status=502, error="<html>bad gateway</html>"), ModelUnavailable),
    ("529", Step(status=529, error={"type": "overloaded_error", "message": "Overloaded"}), ModelUnavailable),
    ("408", Step(status=408), ModelUnavailable),
    ("400", Step(status=400, error={"message": "no such field"}), ModelRefused),
    ("404", Step(status=404, error={"type": "not_found_error", "message": "no such model"}), ModelRefused),
    ("422", Step(status=422, error="nonsense"), ModelRefused),
    ("307", Step(status=307, headers={"Location": "http://127.0.0.1:9/elsewhere"}), ModelRefused),
    ("401", Step(status=401, error={"message": "Incorrect API key: key-of-the-test"}), ModelKeyBad),
    ("402", Step(status=402), ModelKeyBad),
    ("403", Step(status=403), ModelKeyBad),
    ("quota", Step(status=429, error={"message": "x", "code": "insufficient_quota"}), ModelKeyBad),
    ("413", Step(status=413, error={"type": "request_too_large", "message": "too large"}), ContextFull),
    ("context", Step(status=400, error={"message": "prompt is too long: 201000 tokens > 200000 maximum"}), ContextFull),
    ("filter", Step(text="half", finish="content_filter"), ModelRefused),
    ("malformed", Step(text="abc", malformed_after=2), ModelUnavailable),
    ("cut", Step(text="abcdef", cut_after=3), ModelUnavailable),
    ("hung up", Step(text="abcdef", cut_after=0), ModelUnavailable),
]


@pytest.mark.parametrize("kind", REMOTE)
@pytest.mark.parametrize(("step", "error"), [fault[1:] for fault in FAULTS], ids=[fault[0] for fault in FAULTS])
async def test_every_fault_has_its_remedy(kind: str, step: Step, error: type[Exception], tmp_path: Path) -> None:
    async for peer in _peer(kind, tmp_path):
        assert peer.server is not None
        peer.server.script(step)
        with pytest.raises(error) as caught:
            await ask(peer.model, say(peer.model, "x"))
        assert "key-of-the-test" not in f"{caught.value} {getattr(caught.value, 'told', '')}"
        if isinstance(caught.value, ModelUnavailable):
            assert caught.value.retry_after == (7.0 if step.headers else None)
        assert len(peer.server.calls) == 1, "the SDK has tried again by itself"
        _, done = await ask(peer.model, say(peer.model, "the next call"))
        assert done.text.endswith("the next call")


@pytest.mark.parametrize("kind", REMOTE)
async def test_silence_is_bounded(kind: str, tmp_path: Path) -> None:
    async for peer in _peer(kind, tmp_path):
        assert peer.server is not None
        settings = ModelSettings(
            provider=kind.partition("-")[0],  # type: ignore[arg-type]
            name="scripted",
            base_url=peer.server.root if kind.startswith("anthropic") else peer.server.url,
            stream=not kind.endswith("whole"),
            timeouts=Timeouts(connect=1.0, silence=0.05, total=0.08),
        )
        model = make_model(settings, home=tmp_path)
        peer.server.script(Step(silent=True), Step(text="abcdef", hold_after=2))
        for _ in range(2 if settings.stream else 1):
            with pytest.raises(ModelUnavailable, match="in time"):
                await ask(model, say(model, "x"))
        await model.close()


async def test_an_endless_trickle_is_bounded_in_all(tmp_path: Path) -> None:
    async with ModelServer() as server:
        server.script(Step(text="x" * 400, chunks=400, delay=0.01))
        settings = ModelSettings(
            provider="openai", name="m", base_url=server.url, timeouts=Timeouts(silence=0.5, total=0.1)
        )
        model = make_model(settings, home=tmp_path)
        with pytest.raises(ModelUnavailable, match="in time"):
            await ask(model, say(model, "x"))
        await model.close()


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
@pytest.mark.parametrize("how", ["cancel", "close"])
async def test_ending_a_call_ends_it_at_the_provider(kind: str, how: str, tmp_path: Path) -> None:
    async for peer in _peer(kind, tmp_path):
        server, model = peer.server, peer.model
        assert server is not None
        server.script(Step(text="abcdef", chunks=6, hold_after=4))
        begun = asyncio.Event()

        async def listen(model: Model = model, begun: asyncio.Event = begun) -> None:
            async with aclosing(model.stream(say(model, "x"))) as pieces:  # type: ignore[type-var]
                async for _ in pieces:
                    begun.set()
                    if how == "close":
                        return

        task = asyncio.create_task(listen(), name="listener")
        await asyncio.wait_for(begun.wait(), 5)
        if how == "cancel":
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            await task
        await _until(lambda server=server: _is(server.aborted == 1))


async def _is(value: bool) -> bool:
    return value


async def _until(check: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(5):
        while not await check():
            await asyncio.sleep(0.01)


async def test_an_unreachable_server_is_told_as_such(tmp_path: Path) -> None:
    async with ModelServer() as server:
        url = server.url
    model = make_model(ModelSettings(provider="openai", name="m", base_url=url, timeouts=TIMES), home=tmp_path)
    with pytest.raises(ModelUnavailable, match="no connection"):
        await ask(model, say(model, "x"))
    await model.close()
