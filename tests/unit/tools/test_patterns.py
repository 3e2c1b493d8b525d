"""Patterns on commands: found in every form that is taken for the same, and honest about what they are not."""

from __future__ import annotations

import pytest

from agent_core.tools.patterns import fault, first_match

RM = r"\brm\s+-rf?\s+/"


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf /",
        "rm   -rf \t /home",
        "r'm' -rf /",
        'rm "-rf" "/"',
        "\\rm -rf /",
        "rm${IFS}-rf${IFS}/",
        "rm \\\n-rf /",
        "cd x && RM -r /",
    ],
)
def test_a_command_is_found_in_its_usual_dresses(command: str) -> None:
    assert first_match(["nothing", RM], command) == RM


@pytest.mark.parametrize("command", ["rm -rf ./build", "echo arm -r x", "ls /", "$(echo cm0gLXJmIC8= | base64 -d)"])
def test_what_does_not_match_is_let_through_intent_too(command: str) -> None:
    assert first_match([RM], command) is None


def test_a_text_that_is_no_pattern_is_told() -> None:
    assert fault(RM) is None
    assert "no regular expression" in (fault("(") or "")
