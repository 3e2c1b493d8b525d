"""How values are kept in columns: times, message ids, and long texts packed.

A packed text is exact: what comes out is what went in, byte for byte (P5). A wire form repeats the
row's own content, so that content, escaped as JSON does it, is the preset dictionary of zlib;
zlib refuses (by a checksum) to unpack with another dictionary than it was packed with.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from datetime import UTC, datetime, timedelta

from state.errors import StoreCorrupt
from state.records import ToolCall

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_PACK_FROM = 120
"""Bytes from which packing is worth its time."""
_WINDOW = 32_000
"""zlib looks back 32 KiB: more dictionary than that is of no use."""
_PRESET = (
    b'{"type":"tool_result","tool_use_id":"call_"}{"type":"text","text":"}]}{"type":"image_url","image_url":{"url":"data:'
    b'"tool_calls":[{"id":"call_","type":"function","function":{"name":"","arguments":"{\\"path\\":\\"\\",\\"command\\":\\"'
    b"<memory-context>\\n\\n</memory-context>\\n\\n"
    b'{"role":"tool","tool_call_id":"call_","content":"{"role":"assistant","content":"{"role":"user","content":"'
)
_UTF8, _ASCII = b"\x01", b"\x02"
"""The first byte of a packed text: which escaping of the context was the dictionary."""


def to_micros(moment: datetime) -> int:
    """A time as whole microseconds since 1970, UTC."""
    return (moment - _EPOCH) // _MICROSECOND


def from_micros(value: int) -> datetime:
    """The time, aware, in UTC."""
    return _EPOCH + timedelta(microseconds=value)


def maybe_micros(value: int | None) -> datetime | None:
    """As `from_micros`; None stays None."""
    return None if value is None else from_micros(value)


def clean(text: str) -> str:
    """The text without lone surrogates, which cannot be stored as UTF-8 and which no platform can show."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="surrogatepass").decode(errors="replace")
    return text


def pack(text: str | None, *context: str | None) -> str | bytes | None:
    """The text as it is stored: itself when short, else packed with `context` as the dictionary."""
    if text is None:
        return None
    try:
        raw = text.encode()
    except UnicodeEncodeError:
        raw = text.encode(errors="surrogatepass")
    else:
        if len(raw) < _PACK_FROM:
            return text
    form = _ASCII if text.isascii() else _UTF8
    packer = zlib.compressobj(6, zlib.DEFLATED, 15, 8, zlib.Z_DEFAULT_STRATEGY, _dictionary(form, context))
    return form + packer.compress(raw) + packer.flush()


def unpack(stored: str | bytes | None, *context: str | None) -> str | None:
    """The text that was packed with the same `context`. Raises StoreCorrupt where it does not fit."""
    if stored is None or isinstance(stored, str):
        return stored
    form = stored[:1]
    try:
        unpacker = zlib.decompressobj(15, _dictionary(form, context))
        raw = unpacker.decompress(stored[1:]) + unpacker.flush()
    except zlib.error as error:
        raise StoreCorrupt(f"a packed text of the database cannot be read: {error}") from error
    return raw.decode(errors="surrogatepass")


def _dictionary(form: bytes, context: tuple[str | None, ...]) -> bytes:
    parts = []
    for text in context:
        if text:
            # Twice the window is enough of a very long text; its end is what the window keeps.
            escaped = json.dumps(text[-_WINDOW:], ensure_ascii=form == _ASCII)
            parts.append(escaped[1:-1].encode(errors="surrogatepass"))
    parts.append(_PRESET)
    return b"".join(parts)[-_WINDOW:]


def dump_calls(calls: tuple[ToolCall, ...]) -> str | None:
    """Tool calls as JSON; None for none."""
    if not calls:
        return None
    return json.dumps(
        [[call.id, call.name, call.arguments] for call in calls], ensure_ascii=False, separators=(",", ":")
    )


def load_calls(text: str | None) -> tuple[ToolCall, ...]:
    """The tool calls of `dump_calls`."""
    if not text:
        return ()
    return tuple(ToolCall(id=one, name=two, arguments=three) for one, two, three in json.loads(text))


def matches(text: str | None, needle: str) -> bool:
    """True where `text` holds `needle` (which is folded already), case aside. For use in SQL."""
    return text is not None and needle in text.casefold()


def marks(count: int) -> str:
    """`count` placeholders for an IN list."""
    return ",".join("?" * count)


def flag(cursor: sqlite3.Cursor) -> bool:
    """True where the statement changed a row."""
    return cursor.rowcount > 0
