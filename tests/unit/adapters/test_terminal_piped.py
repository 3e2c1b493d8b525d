"""The terminal behind pipes, as real processes: only the answers on standard output, in order."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PROGRAM = [sys.executable, "-m", "tests.unit.adapters.terminal_program"]


def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *arguments], input=stdin, capture_output=True, text=True, cwd=ROOT, timeout=30, check=False
    )


def test_each_line_is_answered_in_order_and_nothing_else_is_written() -> None:
    done = run(stdin="one\n\n  \ntwo\nthree")
    assert done.stdout == "**echo** one\n**echo** two\n**echo** three\n"
    assert done.stderr == ""
    assert done.returncode == 0


def test_a_line_is_read_only_after_the_answer_before() -> None:
    with subprocess.Popen(PROGRAM, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for word in ("one", "two"):
            process.stdin.write(f"{word}\n")
            process.stdin.flush()
            assert process.stdout.readline() == f"**echo** {word}\n"
        process.stdin.close()
        assert process.wait(10) == 0


@pytest.mark.parametrize(
    ("line", "told"), [("fail", "The model cannot be reached."), ("silent", "silent: not addressed")]
)
def test_a_message_that_failed_is_told_aside_and_the_next_is_answered(line: str, told: str) -> None:
    done = run(stdin=f"{line}\nnext\n")
    assert done.stdout == "**echo** next\n"
    assert told in done.stderr
    assert done.returncode == 1


def test_a_command_is_answered_too() -> None:
    done = run(stdin="/stop\n")
    assert (done.stdout, done.returncode) == ("Stopped it.\n", 0)


def test_control_characters_lose_their_power() -> None:
    done = run(stdin="evil\n")
    assert done.stdout == "one\u241b]0;title\u2407two\ufffd2Jthree\n"


def test_bytes_that_are_no_text_are_taken() -> None:
    done = subprocess.run(
        PROGRAM, input=b"caf\xe9 \xf0\x9f\x98\x80\r\n", capture_output=True, cwd=ROOT, timeout=30, check=False
    )
    assert done.stdout.decode() == "**echo** caf\ufffd 😀\n"


def test_a_reader_that_is_gone_ends_it_quietly() -> None:
    read, write = os.pipe()
    os.close(read)
    with subprocess.Popen(
        PROGRAM, stdin=subprocess.PIPE, stdout=write, stderr=subprocess.PIPE, cwd=ROOT, text=True
    ) as process:
        os.close(write)
        _, err = process.communicate("one\ntwo\n", timeout=30)
    assert process.returncode == 1
    assert "Traceback" not in err


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_a_closed_stream_is_no_fault(closed: str) -> None:
    command = f"echo one | {' '.join(PROGRAM)} {closed}" if closed != "<&-" else f"{' '.join(PROGRAM)} {closed}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, cwd=ROOT, timeout=30, check=False)
    assert "Traceback" not in done.stderr
    assert done.stdout == ("**echo** one\n" if closed == "2>&-" else "")


def test_one_question_gives_one_answer() -> None:
    done = run("-p", "hello")
    assert (done.stdout, done.returncode) == ("**echo** hello\n", 0)


def test_one_question_gives_one_object() -> None:
    done = run("-p", "hello", "--json")
    assert json.loads(done.stdout) == {
        "ok": True,
        "text": "**echo** hello",
        "fate": "answered",
        "detail": "",
        "message_id": json.loads(done.stdout)["message_id"],
        "session_id": "s_1",
        "turn_id": "t_1",
        "finish_reason": "stop",
        "usage": {"input_tokens": 7, "output_tokens": 3},
        "files": [],
    }
    failed = run("-p", "fail", "--json")
    assert failed.returncode == 1
    assert json.loads(failed.stdout)["ok"] is False
    assert json.loads(failed.stdout)["text"] == "The model cannot be reached."
    evil = run("-p", "evil", "--json").stdout
    assert "\x9b" not in evil
    assert json.loads(evil)["text"] == "one\x1b]0;title\x07two\x9b2J\u202ethree"
