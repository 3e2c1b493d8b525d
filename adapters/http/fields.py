"""Reading JSON bodies: wrong types are told with the name of the field, unknown fields are left alone."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from aiohttp import web

from adapters.http.errors import HttpProblem, bad

BODY_SECONDS = 30.0
"""How long a client may take to send a body."""
_PARSE_INLINE = 64 * 1024
"""Larger bodies, in bytes, are parsed in a thread."""


async def read_object(request: web.Request) -> dict[str, Any]:
    """The body as a JSON object. Raises `HttpProblem` where it is none, too large or too slow."""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            raw = await request.read()
    except TimeoutError:
        raise HttpProblem(408, f"The body did not arrive within {BODY_SECONDS:g} seconds.") from None
    data = _parse(raw) if len(raw) <= _PARSE_INLINE else await asyncio.to_thread(_parse, raw)
    if not isinstance(data, dict):
        raise HttpProblem(400, "The body must be a JSON object.", code="invalid_json")
    return data


def _parse(raw: bytes) -> object:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as exc:
        # the parser's own message holds the place and no content
        told = str(exc) if isinstance(exc, json.JSONDecodeError) else "not valid UTF-8, or nested too deeply"
        raise HttpProblem(400, f"The body is no valid JSON: {told}.", code="invalid_json") from None


def text_of(data: dict[str, Any], name: str, *, path: str = "") -> str | None:
    """A text, or None where it is absent or null."""
    value = data.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise bad(path + name, f"{path + name} must be a string, not {_kind(value)}.")
    return clean(value)


def needed_text(data: dict[str, Any], name: str, *, path: str = "") -> str:
    """A text that must be there and not be blank."""
    value = text_of(data, name, path=path)
    if value is None:
        raise bad(path + name, f"{path + name} is missing.")
    if not value.strip():
        raise bad(path + name, f"{path + name} must not be empty.")
    return value


def flag_of(data: dict[str, Any], name: str, default: bool = False) -> bool:
    """A boolean."""
    value = data.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise bad(name, f"{name} must be true or false, not {_kind(value)}.")
    return value


def name_of(data: dict[str, Any], name: str, *, path: str = "") -> str | None:
    """A short text that names something of the client's: at most 200 characters, no control characters."""
    value = text_of(data, name, path=path)
    return None if value is None else checked_name(value, path + name)


def checked_name(value: str, where: str) -> str:
    """`value` as a name, or a problem that names `where`."""
    if not value or len(value) > 200 or not value.isprintable() or value.isspace():
        raise bad(where, f"{where} must have 1 to 200 printable characters.")
    if value in (".", ".."):  # clients take these out of a path
        raise bad(where, f"{where} must not be {value!r}.")
    return value


def object_of(data: dict[str, Any], name: str) -> dict[str, Any]:
    """An object; an empty one where it is absent or null."""
    value = data.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise bad(name, f"{name} must be an object, not {_kind(value)}.")
    return value


def list_of(data: dict[str, Any], name: str, *, path: str = "") -> list[Any]:
    """A list; an empty one where it is absent or null."""
    value = data.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise bad(path + name, f"{path + name} must be a list, not {_kind(value)}.")
    return value


def as_object(value: object, where: str) -> dict[str, Any]:
    """`value` as an object, or a problem that names `where`."""
    if not isinstance(value, dict):
        raise bad(where, f"{where} must be an object, not {_kind(value)}.")
    return value


def clean(text: str) -> str:
    """JSON may hold halves of surrogate pairs, which no store takes: they become the replacement sign."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _kind(value: object) -> str:
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list", dict: "an object"}
    return names.get(type(value), "null")
