"""Retells messages that were stored in one model's dialect to another: only at a declared boundary.

The rows of people exist only as wire text (their words, the notes and pictures beside them), so that text
is read back here. Both dialects keep text parts and pictures in recognisable shapes; what is not
recognised is left out, never an error.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from agent_core.models.ports import Image, Model
from state.records import ToolCall

_PROBE = ToolCall(id="probe", name="probe", arguments="{}")
_MARKS = (";base64,", '"type":"base64"')

NO_PICTURES = "[a picture, not shown: this model takes none]"


def dialect_of(model: Model) -> str:
    """A short name for the model's dialect: two models of one dialect write every message alike."""
    samples = (
        model.wire_system("probe"),
        model.wire_user("probe", (Image(mime="image/png", data="AAAA"),)),
        model.wire_assistant("probe", (_PROBE,)),
        model.wire_tool_result(_PROBE, "probe"),
    )
    return hashlib.sha256("\n".join(samples).encode()).hexdigest()[:12]


def pictures(wire: str) -> int:
    """How many pictures a user message holds. An estimate from above: words can look like one."""
    return sum(wire.count(mark) for mark in _MARKS)


def retell(wire: str, model: Model, *, images: bool) -> str:
    """A user message of any dialect in the dialect of `model`, with or without its pictures."""
    text, found = read_user(wire)
    if images:
        return model.wire_user(text, found)
    notes = [NO_PICTURES] * len(found)
    return model.wire_user("\n".join([*notes, text] if text else notes) or "(empty message)")


def read_user(wire: str) -> tuple[str, Sequence[Image]]:
    """The text and the pictures of a user message."""
    try:
        content = json.loads(wire).get("content")
    except (ValueError, AttributeError):
        return "", ()
    if isinstance(content, str):
        return content, ()
    texts: list[str] = []
    images: list[Image] = []
    for part in content if isinstance(content, list) else ():
        if not isinstance(part, dict):
            continue
        if isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif (image := _image(part)) is not None:
            images.append(image)
    return "\n".join(texts), images


def _image(part: dict[str, Any]) -> Image | None:
    source = part.get("source")
    if isinstance(source, dict) and source.get("type") == "base64":
        return Image(mime=str(source.get("media_type", "")), data=str(source.get("data", "")))
    address = part.get("image_url")
    url = address.get("url") if isinstance(address, dict) else None
    if isinstance(url, str) and url.startswith("data:") and ";base64," in url:
        mime, data = url.removeprefix("data:").split(";base64,", 1)
        return Image(mime=mime, data=data)
    return None
