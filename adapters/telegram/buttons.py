"""Buttons as Telegram carries them: a press brings back at most 64 bytes, and nothing else is kept.

A button whose id and value are longer becomes a line of text: a table of short names would have to
outlive every restart for as long as the message can be pressed.
"""

from __future__ import annotations

from adapters.events import Action, Button

DATA_BYTES = 64
"""core.telegram.org/bots/api#inlinekeyboardbutton"""
LABEL = 60
MARK = "1"
"""The form of the data. It is kept in messages for ever: another form needs another mark."""


def encode(button: Button) -> str | None:
    """Id and value as callback data: `1<length of the id>:<id><value>`. None where it is too long."""
    data = f"{MARK}{len(button.id)}:{button.id}{button.value}"
    try:
        return data if len(data.encode()) <= DATA_BYTES else None
    except UnicodeEncodeError:
        return None


def decode(data: str) -> Action | None:
    """The reverse. None for data that is not ours."""
    size, colon, rest = data.removeprefix(MARK).partition(":")
    if not data.startswith(MARK) or not colon or not (size.isascii() and size.isdigit()) or int(size) > len(rest):
        return None
    return Action(button_id=rest[: int(size)], value=rest[int(size) :])


def rows(buttons: list[tuple[str, str]]) -> list[list[tuple[str, str]]]:
    """Short labels beside each other, three in a row at most; a long one has a row of its own."""
    found: list[list[tuple[str, str]]] = []
    for label, data in buttons:
        fits = found and len(found[-1]) < 3 and sum(len(one[0]) for one in found[-1]) + len(label) <= 30
        if fits:
            found[-1].append((label, data))
        else:
            found.append([(label, data)])
    return found
