"""What is packed comes out as it went in, byte for byte (P5)."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state.codec import clean, dump_calls, from_micros, load_calls, pack, to_micros, unpack
from state.errors import StoreCorrupt
from state.records import ToolCall

TEXT = st.text(st.characters(), max_size=400)
"""Any characters, lone surrogates and NUL among them."""


@settings(max_examples=200, deadline=None)
@given(text=TEXT, context=st.lists(st.none() | TEXT, max_size=3), times=st.integers(1, 40))
def test_a_packed_text_is_exact(text: str, context: list[str | None], times: int) -> None:
    stored = pack(text * times, *context)
    assert unpack(stored, *context) == text * times


@settings(max_examples=100, deadline=None)
@given(content=TEXT, ascii_only=st.booleans())
def test_a_wire_form_that_repeats_its_row_is_exact(content: str, ascii_only: bool) -> None:
    content = clean(content) * 5
    wire = json.dumps({"role": "user", "content": content}, ensure_ascii=ascii_only)
    stored = pack(wire, None, None, content)
    assert unpack(stored, None, None, content) == wire


@pytest.mark.parametrize("ascii_only", [True, False])
def test_a_wire_form_costs_little_beside_its_row(ascii_only: bool) -> None:
    content = 'Der Zug fährt später. 明天下午三点见面。พรุ่งนี้เราจะไปตลาด. And "some" more\nof it. ' + "".join(
        chr(0x4E00 + n * 37 % 20000) for n in range(300)
    )
    wire = json.dumps({"role": "user", "content": content}, ensure_ascii=ascii_only)
    stored = pack(wire, None, None, content)
    assert isinstance(stored, bytes)
    assert len(stored) < len(wire.encode()) / 10


def test_a_packed_text_does_not_open_with_another_row() -> None:
    wire = json.dumps({"role": "user", "content": "one " * 100})
    stored = pack(wire, "one " * 100)
    with pytest.raises(StoreCorrupt):
        unpack(stored, "two " * 100)


def test_a_text_beyond_the_window_is_exact() -> None:
    content = "".join(f"line {n}: {n * n}\n" for n in range(9000))
    wire = json.dumps({"role": "tool", "content": content})
    assert unpack(pack(wire, content), content) == wire


@given(st.timedeltas(timedelta(0), timedelta(days=80_000)))
def test_times_are_exact_to_the_microsecond(since: timedelta) -> None:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + since
    assert from_micros(to_micros(moment)) == moment
    assert from_micros(to_micros(moment) + 1) - moment == timedelta(microseconds=1)


def test_tool_calls_keep_the_models_own_text() -> None:
    odd = ToolCall(id="c1", name="x", arguments='{ "a" :  1e0,"ü":"\\u00fc" }')
    calls = (odd, ToolCall(id="", name="", arguments="{"))
    assert load_calls(dump_calls(calls)) == calls
    assert load_calls(dump_calls(())) == ()
