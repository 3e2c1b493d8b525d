"""The id and the choice of a button in the 100 characters that Discord gives a component."""

from __future__ import annotations

LONGEST = 100
_MARK = "t1"
"""Ours, and the version of the form: presses of messages of other programs with this token are left alone."""


def custom_id(button_id: str, value: str) -> str | None:
    """The `custom_id` for a button, or None where it would be too long. Its reverse is `read_custom_id`."""
    found = f"{_MARK}:{len(button_id)}:{button_id}{value}"
    return found if len(found) <= LONGEST else None


def read_custom_id(text: str) -> tuple[str, str] | None:
    """Button id and value; None where the button is not ours."""
    mark, _, rest = text.partition(":")
    length, _, both = rest.partition(":")
    if mark != _MARK or not length.isascii() or not length.isdigit() or int(length) > len(both):
        return None
    return both[: int(length)], both[int(length) :]
