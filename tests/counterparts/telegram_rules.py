"""What the Bot API refuses, and how a request is checked against two independent descriptions of the API.

`Refused` carries Telegram's code, description and parameters. `Checker` holds a request against aiogram's pydantic
models and, where the folder of specifications is there, against the published list of methods.
"""

from __future__ import annotations

import json
import re
import types
import typing
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Union

import aiogram.methods
from aiogram.client.default import Default
from aiogram.types import BufferedInputFile, InputFile
from pydantic import BaseModel, ValidationError

from tests.counterparts.telegram_text import BadText, Entity, is_blank, parse_html, trimmed, units, with_detected

JsonDict = dict[str, Any]

SPECIFICATION = Path(__file__).parents[2].parent / "shared/specs/telegram/bot_api_10.1.json"

LONGEST_TEXT = 4096
LONGEST_CAPTION = 1024
MOST_BUTTONS = 100


class Refused(Exception):
    """The answer `{"ok": false, ...}`."""

    def __init__(self, description: str, code: int = 400, **parameters: int) -> None:
        prefix = {400: "Bad Request: ", 403: "Forbidden: ", 409: "Conflict: "}.get(code, "")
        super().__init__(prefix + description)
        self.code = code
        self.description = prefix + description
        self.parameters = parameters


# texts


def formatted(params: JsonDict, field: str = "text") -> tuple[str, list[Entity]]:
    """The text of `field` and its entities, by parse mode or as given; raises `Refused`."""
    source = params.get(field) or ""
    mode = str(params.get("parse_mode") or "").lower()
    given = params.get("entities" if field == "text" else "caption_entities") or []
    if mode == "html":
        try:
            text, entities = parse_html(source)
        except BadText as error:
            raise Refused(f"can't parse entities: {error}") from error
    elif mode:
        raise Refused(f"unsupported parse_mode; the counterpart does not know {mode!r}")
    else:
        text, entities = source, list(given)
        for one in entities:
            if one["offset"] < 0 or one["length"] < 0 or one["offset"] + one["length"] > units(text):
                raise Refused("ENTITY_BOUNDS_INVALID")
    text, entities = trimmed(text, entities)
    return text, with_detected(text, entities)


def message_text(params: JsonDict) -> tuple[str, list[Entity]]:
    """The text of a message. The limit is held in UTF-16 code units, the strictest reading of "characters"."""
    if not params.get("text"):
        raise Refused("message text is empty")
    text, entities = formatted(params)
    if is_blank(text):
        raise Refused("text must be non-empty")
    if units(text) > LONGEST_TEXT:
        raise Refused("message is too long")
    return text, entities


def message_caption(params: JsonDict) -> tuple[str, list[Entity]]:
    """The caption of a message; it may be empty."""
    text, entities = formatted(params, "caption")
    if units(text) > LONGEST_CAPTION:
        raise Refused("message caption is too long")
    return text, entities


_ACTIONS = (
    *("url", "callback_data", "web_app", "login_url", "switch_inline_query", "switch_inline_query_current_chat"),
    *("switch_inline_query_chosen_chat", "copy_text", "callback_game", "pay"),
)


def check_keyboard(markup: JsonDict | None) -> None:
    """Refuse an inline keyboard Telegram refuses. Other markups are not looked at."""
    if not markup or "inline_keyboard" not in markup:
        return
    buttons = [button for row in markup["inline_keyboard"] for button in row]
    if len(buttons) > MOST_BUTTONS:
        raise Refused("reply markup is too long")
    for button in buttons:
        if not button.get("text"):
            raise Refused("can't parse inline keyboard button: Button text must be non-empty")
        if not any(action in button for action in _ACTIONS):
            raise Refused("can't parse inline keyboard button: Text buttons are unallowed in the inline keyboard")
        if "callback_data" in button and not 1 <= len(button["callback_data"].encode()) <= 64:
            raise Refused("BUTTON_DATA_INVALID")
        if "url" in button and not re.match(r"(?i)(https?|tg)://\S|[\w-]+\.\w", button["url"]):
            raise Refused("BUTTON_URL_INVALID")


# requests


@cache
def method_models() -> Mapping[str, type[BaseModel]]:
    """aiogram's model of each method, by its name in lower case."""
    found: dict[str, type[BaseModel]] = {}
    for name in aiogram.methods.__all__:
        model = getattr(aiogram.methods, name)
        api_name = model.__dict__.get("__api_method__")
        if isinstance(api_name, str):
            found[api_name.lower()] = model
    return found


@cache
def specified_fields() -> Mapping[str, frozenset[str]]:
    """The names of the parameters of each method, by its name in lower case; empty without the specification."""
    if not SPECIFICATION.is_file():
        return {}
    methods = json.loads(SPECIFICATION.read_text("utf-8"))["methods"]
    return {
        name.lower(): frozenset(field["name"] for field in method.get("fields", [])) for name, method in methods.items()
    }


def _leaves(annotation: Any) -> Iterator[Any]:
    origin = typing.get_origin(annotation)
    if origin in (Union, types.UnionType):
        for part in typing.get_args(annotation):
            yield from _leaves(part)
    elif origin is typing.Annotated:
        yield from _leaves(typing.get_args(annotation)[0])
    elif origin is not None:
        yield origin
    else:
        yield annotation


def _is_structure(leaf: Any) -> bool:
    return leaf in (list, dict) or (isinstance(leaf, type) and issubclass(leaf, BaseModel))


def decode(method: str, raw: Mapping[str, Any]) -> JsonDict:
    """The parameters as values: what a form carries as text becomes a number, a truth or a structure."""
    model = method_models()[method.lower()]
    found: JsonDict = {}
    for name, value in raw.items():
        field = model.model_fields.get(name)
        if not isinstance(value, str) or field is None:
            found[name] = value
            continue
        leaves = set(_leaves(field.annotation)) - {type(None), Default, InputFile}
        if any(_is_structure(leaf) for leaf in leaves):
            try:
                found[name] = json.loads(value)
            except ValueError:
                found[name] = value
        elif bool in leaves and value in ("true", "false", "True", "False"):
            found[name] = value.lower() == "true"
        elif int in leaves and re.fullmatch(r"-?\d+", value):
            found[name] = int(value)
        else:
            found[name] = value
    return found


def violations(method: str, params: Mapping[str, Any], uploads: Mapping[str, Any]) -> list[str]:
    """What is wrong with a request by the two descriptions; `uploads` are the parts that are files."""
    model = method_models()[method.lower()]
    wrong = [f"{method}: unknown parameter {name!r}" for name in params if name not in model.model_fields]
    if specified := specified_fields().get(method.lower()):
        wrong += [f"{method}: {name!r} is not in the specification" for name in params if name not in specified]
    stand_in = BufferedInputFile(b"x", "x")
    files = {name: stand_in for name in uploads if name in model.model_fields}
    try:
        built = model.model_validate({**params, **files})
    except ValidationError as error:
        return [*wrong, *(f"{method}: {'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())]
    wrong += [f"{method}: unknown field {path}" for path in _extras(built)]
    used = set(_attached(params))
    wrong += [f"{method}: attach://{name} has no part" for name in used - set(uploads)]
    wrong += [f"{method}: the file {name!r} is not used" for name in set(uploads) - used - set(files)]
    return wrong


def _extras(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, BaseModel):
        if path:
            yield from (f"{path}.{name}" for name in value.model_extra or ())
        for name in type(value).model_fields:
            yield from _extras(getattr(value, name), f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for at, part in enumerate(value):
            yield from _extras(part, f"{path}[{at}]")


def _attached(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if value.startswith("attach://"):
            yield value.removeprefix("attach://")
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _attached(part)
    elif isinstance(value, list):
        for part in value:
            yield from _attached(part)
