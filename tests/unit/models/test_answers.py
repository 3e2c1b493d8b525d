"""Chunks as servers really send them, put together."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent_core.errors import ModelRefused, ModelUnavailable
from agent_core.models import anthropic_answer
from agent_core.models.openai_answer import LONGEST_ANSWER, Answer
from agent_core.models.ports import Completion


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def call(index: int | None, *, id: str | None = None, name: str | None = None, arguments: Any = None) -> dict[str, Any]:  # noqa: A002 - the API's word
    raw: dict[str, Any] = {"function": {"name": name, "arguments": arguments}}
    if index is not None:
        raw["index"] = index
    if id is not None:
        raw["id"] = id
    return raw


def done(*chunks: dict[str, Any]) -> Completion:
    answer = Answer()
    for one in chunks:
        answer.add(one)
    return answer.completion(b"{}")


def calls(*chunks: dict[str, Any]) -> list[tuple[str, str, str]]:
    finished = done(*chunks, chunk("tool_calls"))
    return [(one.id, one.name, one.arguments) for one in finished.tool_calls]


def test_parallel_calls_by_index_and_interleaved() -> None:
    assert calls(
        chunk(tool_calls=[call(0, id="a", name="x", arguments="")]),
        chunk(tool_calls=[call(1, id="b", name="y", arguments='{"q"')]),
        chunk(tool_calls=[call(0, arguments="{}")]),
        chunk(tool_calls=[call(1, arguments=":1}")]),
    ) == [("a", "x", "{}"), ("b", "y", '{"q":1}')]


def test_parallel_calls_that_all_have_index_zero() -> None:
    assert calls(
        chunk(tool_calls=[call(0, id="a", name="x", arguments="{}")]),
        chunk(tool_calls=[call(0, id="b", name="y", arguments="{}")]),
    ) == [("a", "x", "{}"), ("b", "y", "{}")]


def test_calls_without_index_in_one_chunk() -> None:
    assert calls(chunk(tool_calls=[call(None, id="a", name="x", arguments="1"), call(None, id="b", name="y")])) == [
        ("a", "x", "1"),
        ("b", "y", ""),
    ]


def test_the_name_repeated_in_every_piece_counts_once() -> None:
    assert calls(
        chunk(tool_calls=[call(0, id="a", name="x", arguments="{")]),
        chunk(tool_calls=[call(0, id="a", name="x", arguments="}")]),
    ) == [("a", "x", "{}")]


def test_two_calls_with_one_id_get_two() -> None:
    ids = [one[0] for one in calls(chunk(tool_calls=[call(0, id="a", name="x"), call(1, id="a", name="y")]))]
    assert len(set(ids)) == 2


def test_arguments_sent_as_an_object() -> None:
    assert calls(chunk(tool_calls=[call(0, id="a", name="x", arguments={"q": "ü"})])) == [("a", "x", '{"q":"ü"}')]


def test_malformed_arguments_are_kept_and_replayed() -> None:
    finished = done(chunk("stop", tool_calls=[call(0, id="a", name="x", arguments='{"q": ')]))
    assert finished.finish_reason == "tool_calls"
    assert finished.tool_calls[0].arguments == '{"q": '
    assert json.loads(finished.wire)["tool_calls"][0]["function"]["arguments"] == '{"q": '


@pytest.mark.parametrize(
    ("said", "means"), [("stop", "stop"), ("eos", "stop"), ("tool_calls", "stop"), ("length", "length")]
)
def test_finish_reasons_without_calls(said: str, means: str) -> None:
    assert done(chunk(content="x"), chunk(said)).finish_reason == means


def test_a_refusal_field_and_a_filter_are_refusals() -> None:
    with pytest.raises(ModelRefused, match="declined") as caught:
        done(chunk(refusal="I cannot "), chunk(refusal="do that."), chunk("stop"))
    assert "I cannot do that." in caught.value.told
    with pytest.raises(ModelRefused):
        done(chunk(content="half"), chunk("content_filter"))


@pytest.mark.parametrize("chunks", [[], [chunk(content="half")], [{"choices": []}], [{"usage": {"prompt_tokens": 3}}]])
def test_no_finish_reason_is_a_failure(chunks: list[dict[str, Any]]) -> None:
    with pytest.raises(ModelUnavailable, match="broke off"):
        done(*chunks)


def test_B55_empty_white_and_reasoning_only_answers_end_well() -> None:
    assert done(chunk("stop")).text == ""
    assert done(chunk(content=" \n"), chunk("stop")).text == " \n"
    only_thoughts = done(chunk(reasoning="hm"), chunk("stop"))
    assert (only_thoughts.text, only_thoughts.reasoning) == ("", "hm")


@pytest.mark.parametrize(
    "bad",
    [
        {"choices": "x"},
        {"choices": ["x"]},
        {"choices": [{"delta": "x"}]},
        {"choices": [{"delta": {"tool_calls": ["x"]}}]},
    ],
)
def test_chunks_of_a_wrong_shape_are_a_passing_fault(bad: dict[str, Any]) -> None:
    with pytest.raises(ModelUnavailable, match="malformed"):
        Answer().add(bad)


def test_an_answer_without_end_is_stopped() -> None:
    answer, half = Answer(), chunk(content="x" * (LONGEST_ANSWER // 2 + 1))
    answer.add(half)
    with pytest.raises(ModelUnavailable, match="no end"):
        answer.add(half)


@pytest.mark.parametrize(
    ("extra", "cached"),
    [
        ({"usage": {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4}}}, 4),
        ({"usage": {"prompt_tokens": 9, "prompt_tokens_details": None}}, 0),
        ({"usage": {"prompt_tokens": 9, "prompt_cache_hit_tokens": 5}}, 5),
        ({"usage": {"prompt_tokens": 9}, "timings": {"cache_n": 6}}, 6),
        ({"usage": {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 0}}, "timings": {"cache_n": 6}}, 0),
        ({"usage": None}, 0),
    ],
)
def test_cached_tokens_in_every_dialect(extra: dict[str, Any], cached: int) -> None:
    assert done(chunk("stop", content="x"), {"choices": [], **extra}).usage.cached_tokens == cached


def test_content_in_parts() -> None:
    assert done(chunk("stop", content=[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])).text == "ab"


def anthropic(*events: dict[str, Any]) -> Completion:
    answer = anthropic_answer.Answer()
    for event in events:
        answer.add(event)
    return answer.completion(b"{}")


END = {
    "type": "message_delta",
    "delta": {"stop_reason": "end_turn"},
    "usage": {"output_tokens": 5, "input_tokens": None},
}


def test_anthropic_counts_the_cached_part_of_the_prompt_as_input() -> None:
    start = {
        "type": "message_start",
        "message": {"usage": {"input_tokens": 3, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 7}},
    }
    usage = anthropic(start, END).usage
    assert (usage.input_tokens, usage.cached_tokens, usage.output_tokens) == (100, 90, 5)


def test_anthropic_replays_thoughts_with_their_signature_beside_calls() -> None:
    def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
        begun = {"type": "content_block_start", "index": index, "content_block": start}
        return [begun, *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)]

    finished = anthropic(
        *block(
            0,
            {"type": "thinking", "thinking": ""},
            {"type": "thinking_delta", "thinking": "hm"},
            {"type": "signature_delta", "signature": "s"},
        ),
        *block(1, {"type": "redacted_thinking", "data": "xyz"}),
        *block(
            2,
            {"type": "tool_use", "id": "t1", "name": "look", "input": {}},
            {"type": "input_json_delta", "partial_json": '{"q":'},
        ),
        END,
    )
    assert json.loads(finished.wire)["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "redacted_thinking", "data": "xyz"},
        {"type": "tool_use", "id": "t1", "name": "look", "input": {"malformed_arguments": '{"q":'}},
    ]
    assert finished.tool_calls[0].arguments == '{"q":'


@pytest.mark.parametrize(
    "bad",
    [
        {"type": "content_block_delta", "index": 4, "delta": {"type": "text_delta", "text": "x"}},
        {"type": "message_start"},
    ],
)
def test_anthropic_events_of_a_wrong_shape_are_a_passing_fault(bad: dict[str, Any]) -> None:
    with pytest.raises(ModelUnavailable, match="malformed"):
        anthropic(bad)


def test_anthropic_error_event() -> None:
    with pytest.raises(ModelUnavailable):
        anthropic({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
