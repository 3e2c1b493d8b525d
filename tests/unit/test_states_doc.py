"""docs/states.md draws every state there is, and none that is not."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path

import pytest

from gateway.health import PlatformState
from state import records

PAGE = (Path(__file__).parents[2] / "docs" / "states.md").read_text(encoding="utf-8")
ENUMS: list[type[StrEnum]] = [
    *(e for e in vars(records).values() if isinstance(e, type) and issubclass(e, StrEnum) and e is not StrEnum),
    PlatformState,
]


@pytest.mark.parametrize("enum", ENUMS, ids=lambda e: e.__name__)
def test_the_drawing_has_exactly_the_states(enum: type[StrEnum]) -> None:
    section = re.search(rf"^## {enum.__name__}\b.*?```mermaid\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE)
    assert section is not None, f"docs/states.md has no drawing of {enum.__name__}"
    drawn = set(re.findall(r"\b([a-z]+)\b(?= -->)|--> ([a-z]+)", section[1]))
    names = {name for pair in drawn for name in pair if name}
    assert names == {member.value for member in enum}
