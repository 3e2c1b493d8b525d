"""Against a peer that nobody here wrote: llmock's faults, over real sockets."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from llmock.scenarios import Fail, Reply, StreamFault, ToolFault
from llmock.scenarios import ToolCall as MockCall
from llmock.testing import LLMockServer

from agent_core.errors import ContextFull, ModelError, ModelKeyBad, ModelRefused, ModelUnavailable
from agent_core.models.factory import make_model
from agent_core.models.ports import Completion, Model, Request, ToolSpec
from agent_core.models.settings import ModelSettings, Timeouts

SPEC = ToolSpec(
    name="search", description="Search.", parameters='{"type":"object","properties":{"q":{"type":"string"}}}'
)


@pytest.fixture(scope="module")
def running() -> Iterator[LLMockServer]:
    with LLMockServer() as server:
        yield server


@pytest.fixture(params=["openai", "openai-whole", "anthropic", "anthropic-whole"])
async def model(request: pytest.FixtureRequest, running: LLMockServer, tmp_path: Path) -> AsyncIterator[Model]:
    running.state.reset()
    provider, _, how = request.param.partition("-")
    settings = ModelSettings(
        provider=provider,
        name="gpt-4o" if provider == "openai" else "claude-3-5-sonnet",
        base_url=running.base_url(provider),
        api_key="k",
        stream=not how,
        timeouts=Timeouts(silence=1.5, total=10.0),
    )
    made = make_model(settings, home=tmp_path)
    yield made
    await made.close()


def streams(model: Model, request: pytest.FixtureRequest) -> bool:
    return "whole" not in request.node.callspec.params["model"]


async def ask(model: Model, *, tools: bool = False) -> Completion:
    asked = Request(
        system=model.wire_system("Answer."),
        messages=[model.wire_user("Tell me about the weather in Paris, at length.")],
        tools=[model.wire_tool(SPEC)] if tools else (),
    )
    pieces = [piece async for piece in model.stream(asked)]
    last = pieces[-1]
    assert isinstance(last, Completion)
    return last


async def test_a_plain_answer_and_a_tool_call(model: Model, running: LLMockServer) -> None:
    assert (await ask(model)).text
    running.state.scenarios.add(Reply(tool_calls=(MockCall("search", {"q": "Paris"}),)))
    done = await ask(model, tools=True)
    assert done.finish_reason == "tool_calls"
    assert [call.name for call in done.tool_calls] == ["search"]


@pytest.mark.parametrize(
    ("fail", "error"),
    [
        (Fail(429, retry_after=1.5), ModelUnavailable),
        (Fail(500), ModelUnavailable),
        (Fail(503), ModelUnavailable),
        (Fail(529), ModelUnavailable),
        (Fail(400), ModelRefused),
        (Fail(404), ModelRefused),
        (Fail(422), ModelRefused),
        (Fail(401), ModelKeyBad),
        (Fail(403), ModelKeyBad),
        (Fail(400, code="context_length_exceeded", message="maximum context length exceeded"), ContextFull),
    ],
    ids=lambda value: str(value.status) if isinstance(value, Fail) else value.__name__,
)
async def test_errors_by_remedy_and_one_try(
    model: Model, running: LLMockServer, fail: Fail, error: type[ModelError]
) -> None:
    running.state.scenarios.add(fail)
    with pytest.raises(error) as caught:
        await ask(model)
    if fail.retry_after is not None:
        assert isinstance(caught.value, ModelUnavailable)
        # The header has whole seconds or more: never less than what was meant.
        assert caught.value.retry_after is not None
        assert fail.retry_after <= caught.value.retry_after <= fail.retry_after + 1
    assert (await ask(model)).text, "the fault was for one request, and the SDK must not have used it up"


@pytest.mark.parametrize("kind", ["disconnect", "truncate", "malformed", "stall"])
async def test_broken_streams_are_failures_and_never_answers(
    model: Model, running: LLMockServer, kind: str, request: pytest.FixtureRequest
) -> None:
    if not streams(model, request):
        pytest.skip("only streams break in the middle")
    running.state.scenarios.add(StreamFault(kind, after_chunks=2, stall_seconds=2.0))  # type: ignore[arg-type]
    begun = time.monotonic()
    with pytest.raises(ModelUnavailable):
        await ask(model)
    assert time.monotonic() - begun < 6.0
    assert (await ask(model)).text


@pytest.mark.parametrize("kind", ["malformed_arguments", "unknown_tool"])
async def test_broken_tool_calls_are_handed_on_for_the_loop_to_answer(
    model: Model, running: LLMockServer, kind: str, request: pytest.FixtureRequest
) -> None:
    running.state.scenarios.add(Reply(tool_calls=(MockCall("search", {"q": "Paris"}),)))
    running.state.scenarios.add(ToolFault(kind))  # type: ignore[arg-type]
    done = await ask(model, tools=True)
    assert done.finish_reason == "tool_calls"
    assert len(done.tool_calls) == 1
