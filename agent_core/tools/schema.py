"""Checks the arguments of a call against the tool's JSON schema.

Only the part of JSON Schema that our tools use: `type` (one name or several), `properties`, `required`,
`additionalProperties: false`, `items`, `enum`, and the bounds of strings, numbers and arrays. Two things
are stricter than the standard: a whole number is written without a fraction, and a string must be
writable as UTF-8. Keywords outside of this are not looked at (`unsupported` names them).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

_TYPES = {
    "object": "an object",
    "array": "a list",
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}
_BOUNDS = {"minLength", "maxLength", "minItems", "maxItems", "minimum", "maximum"}
_KNOWN = _BOUNDS | {"type", "properties", "required", "additionalProperties", "items", "enum", "description", "default"}


def check(arguments: object, parameters: str) -> str | None:
    """None if `arguments` (parsed JSON) fit the schema `parameters` (JSON text), else one sentence that
    names the first fault by its place. The sentence never holds a value, so that no secret gets out."""
    return _fault(arguments, _parse(parameters), "")


def unsupported(parameters: str) -> frozenset[str]:
    """The keywords of a schema that `check` does not look at."""
    found: set[str] = set()
    waiting = [_parse(parameters)]
    while waiting:
        schema = waiting.pop()
        found |= schema.keys() - _KNOWN
        waiting.extend(schema.get("properties", {}).values())
        if "items" in schema:
            waiting.append(schema["items"])
    return frozenset(found)


@lru_cache(maxsize=256)
def _parse(parameters: str) -> Mapping[str, Any]:
    schema = json.loads(parameters)
    if not isinstance(schema, dict):
        raise TypeError("a schema must be a JSON object")
    return schema


def _fault(value: object, schema: Mapping[str, Any], place: str) -> str | None:
    wanted = schema.get("type")
    names = [wanted] if isinstance(wanted, str) else list(wanted or ())
    where = place or "the arguments"
    if names and not any(_is(value, name) for name in names):
        return f"{where} must be {' or '.join(_TYPES.get(name, name) for name in names)}"
    if "enum" in schema and not any(value == one and type(value) is type(one) for one in schema["enum"]):
        return f"{where} must be one of {', '.join(json.dumps(one) for one in schema['enum'])}"
    if isinstance(value, str):
        return _text_fault(value, schema, where)
    if isinstance(value, dict):
        return _object_fault(value, schema, place)
    if isinstance(value, list):
        return _list_fault(value, schema, place)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return _number_fault(value, schema, where)
    return None


def _is(value: object, name: str) -> bool:
    if name == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if name == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    python = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}.get(name)
    return python is not None and isinstance(value, python)


def _text_fault(value: str, schema: Mapping[str, Any], where: str) -> str | None:
    if any("\ud800" <= one <= "\udfff" for one in value):
        return f"{where} holds half of a surrogate pair, which is no text"
    if len(value) < schema.get("minLength", 0):
        return f"{where} must not be empty" if not value else f"{where} is too short"
    if "maxLength" in schema and len(value) > schema["maxLength"]:
        return f"{where} is longer than {schema['maxLength']} characters"
    return None


def _number_fault(value: float, schema: Mapping[str, Any], where: str) -> str | None:
    if "minimum" in schema and value < schema["minimum"]:
        return f"{where} must be at least {schema['minimum']}"
    if "maximum" in schema and value > schema["maximum"]:
        return f"{where} must be at most {schema['maximum']}"
    return None


def _list_fault(value: list[object], schema: Mapping[str, Any], place: str) -> str | None:
    where = place or "the arguments"
    if len(value) < schema.get("minItems", 0):
        return f"{where} must hold at least {schema['minItems']} entries"
    if "maxItems" in schema and len(value) > schema["maxItems"]:
        return f"{where} must hold at most {schema['maxItems']} entries"
    if "items" in schema:
        for number, one in enumerate(value):
            if fault := _fault(one, schema["items"], f"{place}[{number}]"):
                return fault
    return None


def _object_fault(value: dict[str, object], schema: Mapping[str, Any], place: str) -> str | None:
    where = place or "the arguments"
    for name in schema.get("required", ()):
        if name not in value:
            return f"{where} must have {name!r}"
    properties = schema.get("properties", {})
    for name, one in value.items():
        if name not in properties:
            if schema.get("additionalProperties") is False:
                known = ", ".join(sorted(properties)) or "nothing"
                return f"{where} must not have {name[:40]!r} (known: {known})"
            continue
        if fault := _fault(one, properties[name], f"{place}.{name}" if place else name):
            return fault
    return None
