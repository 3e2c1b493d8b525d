"""Server-sent events, cut anywhere."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from agent_core.errors import ModelUnavailable
from agent_core.models import sse

STREAM = (
    ': comment\r\n\r\nevent: a\r\ndata: {"n": 1, "t": "x\u2028y\x85z"}\r\n\r\n'
    'data:{"n":\ndata: 2}\n\nid: 7\nretry: 3\n\ndata: [DONE]\n\ndata: {"n": 3}'
).encode()


async def _cut(data: bytes, size: int) -> AsyncIterator[bytes]:
    for at in range(0, len(data), size):
        yield data[at : at + size]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
async def test_the_same_events_however_the_bytes_are_cut(size: int) -> None:
    found = [event async for event in sse.events(_cut(STREAM, size))]
    assert found == [{"n": 1, "t": "x\u2028y\x85z"}, {"n": 2}, {"n": 3}]


@pytest.mark.parametrize(
    "bad", [b'data: {"n"\n\n', b"data: 3\n\n", b"data: [1]\n\n", b"data: \xff\xfe\n\n", b'data: {"n']
)
async def test_garbage_is_never_skipped(bad: bytes) -> None:
    with pytest.raises(ModelUnavailable):
        [event async for event in sse.events(_cut(b'data: {"n": 1}\n\n' + bad, 1000))]


async def test_an_event_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "LONGEST_EVENT", 1000)
    with pytest.raises(ModelUnavailable, match="without end"):
        [event async for event in sse.events(_cut(b"data: " + b"x" * 5000, 100))]


async def test_nothing_at_all() -> None:
    assert [event async for event in sse.events(_cut(b"", 1))] == []
