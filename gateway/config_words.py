"""Says in plain words what a value should have been."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gateway.config_faults import dotted

_WORDS = {
    "missing": "is missing",
    "string_type": "must be text",
    "string_too_short": "must not be empty",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "model_type": "must be a group of keys",
    "dict_type": "must be a group of keys",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
}


def words(error: Mapping[str, Any]) -> str:
    """One pydantic error as a clause that continues "this value …". Never contains the value."""
    context = error.get("ctx") or {}
    match error["type"]:
        case "literal_error" | "enum":
            return f"must be one of {str(context.get('expected', '')).replace(chr(39), '')}"
        case "string_pattern_mismatch":
            return f"must have the form {context['pattern']}"
        case "value_error":
            return str(context.get("error") or error["msg"])
        case "greater_than_equal":
            return f"must be at least {context['ge']:g}"
        case "greater_than":
            return f"must be more than {context['gt']:g}"
        case "less_than_equal":
            return f"must be at most {context['le']:g}"
        case "less_than":
            return f"must be less than {context['lt']:g}"
        case kind:
            return _WORDS.get(kind) or str(error["msg"])


def unknown_key(key: str, at: Sequence[str | int], schema: Mapping[str, Any]) -> str:
    """Why `key` is refused below `at`, with the key that was probably meant."""
    elsewhere = [dotted(path) for path in _paths(schema, ()) if path[-1] == key and path[:-1] != tuple(at)]
    if elsewhere:
        return f"unknown key; it belongs to {' or '.join(elsewhere[:3])}"
    here: Any = schema
    for part in at:
        here = here.get(part) if isinstance(here, Mapping) else None
    close = difflib.get_close_matches(key, list(here), n=1, cutoff=0.6) if isinstance(here, Mapping) else []
    return f"unknown key; did you mean {close[0]}?" if close else "unknown key"


def _paths(schema: Mapping[str, Any], at: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for key, inner in schema.items():
        yield (*at, key)
        if isinstance(inner, Mapping):
            yield from _paths(inner, (*at, key))
