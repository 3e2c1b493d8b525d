"""The terminal for a person, behind a pty."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

from adapters.events import Button
from adapters.terminal.interactive import pick

ROOT = Path(__file__).parents[3]


@pytest.fixture
def person(tmp_path: Path) -> Iterator[pexpect.spawn]:
    child = pexpect.spawn(
        sys.executable,
        ["-m", "tests.unit.adapters.terminal_program", "--history", str(tmp_path / "history")],
        cwd=str(ROOT),
        env={"PATH": "/usr/bin:/bin", "TERM": "xterm", "LANG": "C.UTF-8", "PROMPT_TOOLKIT_NO_CPR": "1"},
        encoding="utf-8",
        timeout=20,
        dimensions=(24, 80),
    )
    child.delaybeforesend = 0.02
    child.expect("Ctrl-D to leave")
    prompt(child)
    yield child
    child.close(force=True)


def prompt(child: pexpect.spawn) -> None:
    child.expect(r"\x1b\[J\x1b\[0m>")


def test_an_answer_is_drawn_once_as_markdown(person: pexpect.spawn) -> None:
    person.send("hello\r")
    person.expect(r"\*\*echo\*\* hello")  # as it is made
    person.expect("working")
    person.expect(r"\x1b\[1mecho\x1b\[0m hello")  # and in the end, drawn
    prompt(person)
    assert not re.search("echo.*hello", person.before or "")
    person.sendeof()
    person.expect(pexpect.EOF)
    person.wait()
    assert person.exitstatus == 0


def test_ctrl_c_stops_the_answer_and_a_second_at_the_prompt_leaves(person: pexpect.spawn) -> None:
    person.send("slow\r")
    person.expect("The beginning of a long answer")
    person.sendintr()
    person.expect("Stopped it")
    person.expect("cancelled: by /stop")
    prompt(person)
    person.sendintr()
    person.expect("again")
    prompt(person)
    person.sendintr()
    person.expect(pexpect.EOF)
    person.wait()
    assert person.exitstatus == 0


@pytest.mark.parametrize(("typed", "said"), [("1", "yes"), ("b", "no"), ("no", "no"), ("yes", "yes")])
def test_a_choice_is_made_by_number_letter_or_word(person: pexpect.spawn, typed: str, said: str) -> None:
    person.send("approve\r")
    person.expect("rm -r x")
    person.expect("1. Yes, run it")
    person.expect("2. No")
    person.expect("choice:")
    person.send("what?\r")
    person.expect("choice:")
    person.send(f"{typed}\r")
    person.expect(f"You said {said}")
    prompt(person)


def test_choices_of_an_answer_are_put_after_it(person: pexpect.spawn) -> None:
    for typed, then in (("2", ""), ("7", "there is no such choice"), ("", ""), ("\x03", "")):
        person.send("moved\r")
        person.expect("It went away")
        person.expect("choice")
        person.send(typed if typed == "\x03" else f"{typed}\r")
        if then:
            person.expect(then)
        prompt(person)


def test_ctrl_c_at_a_choice_stops_the_turn(person: pexpect.spawn) -> None:
    person.send("approve\r")
    person.expect("choice:")
    person.sendintr()
    person.expect("Stopped it")
    prompt(person)


def test_several_lines_are_one_message(person: pexpect.spawn) -> None:
    person.send("one\x1b\rtwo\r")
    person.expect(r"echo\x1b\[0m one two")  # markdown joins the lines
    prompt(person)
    person.send("\x1b[200~three\nfour\x1b[201~\r")
    person.expect(r"echo\x1b\[0m three four")


def test_commands_are_completed_and_history_is_private(person: pexpect.spawn, tmp_path: Path) -> None:
    person.send("/sto")
    person.expect("stop it")  # its help, below
    person.send("\t\r")
    person.expect("Stopped it")
    prompt(person)
    person.send("\x1b[A\x1b[A\r")
    person.expect("Stopped it")
    person.sendeof()
    person.expect(pexpect.EOF)
    history = tmp_path / "history"
    assert "/stop" in history.read_text()
    assert history.stat().st_mode & 0o077 == 0


def test_what_was_typed_during_an_answer_is_kept_for_the_prompt(person: pexpect.spawn) -> None:
    person.send("first\r")
    person.expect("working")
    person.send("second\r")
    person.expect(r"echo\x1b\[0m first")
    person.expect(r"echo\x1b\[0m second")


def test_a_failure_and_a_silence_are_told(person: pexpect.spawn) -> None:
    person.send("fail\r")
    person.expect("The model cannot be reached")
    prompt(person)
    person.send("silent\r")
    person.expect("silent: not addressed")


def test_control_characters_lose_their_power(person: pexpect.spawn) -> None:
    person.send("evil\r")
    person.expect("one\u241b]0;title\u2407two\ufffd2Jthree")
    assert "\x1b]0;title" not in (person.before or "")


def test_pick() -> None:
    yes, no, never = (Button(id=n, label=n.title(), value=n) for n in ("yes", "no", "never"))
    assert pick((yes, no, never), "2") is no
    assert pick((yes, no, never), " 3. ") is never
    assert pick((yes, no, never), "a") is yes
    assert pick((yes, no, never), "NO") is no
    assert pick((yes, no, never), "n") is None
    assert pick((yes, no, never), "nev") is never
    for nothing in ("", "0", "4", "x", "maybe"):
        assert pick((yes, no, never), nothing) is None
