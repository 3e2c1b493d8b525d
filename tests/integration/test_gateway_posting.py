"""What the agent sends itself: one copy of it, only regular files of the working folder, in the right chat."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from adapters.events import EventKind
from state.errors import StoreBusy
from tests.counterparts.model_script import Step
from tests.counterparts.model_server import ModelServer
from tests.integration.process import Process, process


def send(call_id: str, **arguments: Any) -> dict[str, Any]:
    return {"name": "send_message", "id": call_id, "arguments": json.dumps(arguments)}


def results(model: ModelServer) -> list[str]:
    """The tool results in the last request."""
    rows = json.loads(model.calls[-1].body)["messages"]
    return [row["content"] for row in rows if row["role"] == "tool"]


async def hello(run: Process, model: ModelServer, chat: str) -> None:
    model.script("hello yourself")
    await run.platform.hear("hello", chat=chat, message_id=f"hello-{chat}")
    await run.fate(f"hello-{chat}")


async def test_B29_what_was_sent_with_the_tool_is_not_said_again(tmp_path: Path, model: ModelServer) -> None:
    async with process(tmp_path / "home", model) as run:
        model.script(Step(tool_calls=(send("c1", text="It is done."),)), Step(text="It is  done.", chunks=4))
        await run.platform.hear("do it", message_id="m1")
        assert (await run.fate("m1"))[0] == "answered"
        await run.quiet()
        assert run.texts() == ["It is done."]
        model.script("something new")
        await run.platform.hear("and?", message_id="m2")
        await run.says("something new")
        await run.check_ledger()


async def test_B29_identical_calls_send_once_and_are_told_so(tmp_path: Path, model: ModelServer) -> None:
    async with process(tmp_path / "home", model) as run:
        same = [send(f"c{n}", text="Once.") for n in range(3)]
        model.script(Step(tool_calls=tuple(same)), "I have told you.")
        await run.platform.hear("tell me", message_id="m1")
        await run.fate("m1")
        await run.quiet()
        assert run.texts() == ["Once.", "I have told you."]
        told = results(model)
        assert sum("handed over" in one for one in told) == 1
        assert sum("already" in one for one in told) == 2


async def test_B29_what_could_not_be_handed_over_may_be_sent_again(
    tmp_path: Path, model: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with process(tmp_path / "home", model) as run:
        say, tries = run.core.deliveries.say, 0

        async def broken(*args: Any, **more: Any) -> None:
            nonlocal tries
            tries += 1
            if tries == 1:
                raise StoreBusy("the database is locked")
            await say(*args, **more)

        monkeypatch.setattr(run.core.deliveries, "say", broken)
        model.script(
            Step(tool_calls=(send("c1", text="Once."),)),
            Step(tool_calls=(send("c2", text="Once."),)),
            "I have told you.",
        )
        await run.platform.hear("tell me", message_id="m1")
        await run.fate("m1")
        await run.quiet()
        assert run.texts() == ["Once.", "I have told you."]
        assert not any("already" in one for one in results(model))


async def test_B29_a_copy_for_another_chat_is_sent_there(tmp_path: Path, model: ModelServer) -> None:
    async with process(tmp_path / "home", model) as run:
        await hello(run, model, "other")
        calls = (send("c1", text="News.", to="memory:other"), send("c2", text="x", to="memory:nowhere"))
        model.script(Step(tool_calls=calls), "News.")
        await run.platform.hear("tell them and me", message_id="m1")
        await run.fate("m1")
        await run.quiet()
        assert run.texts("other") == ["hello yourself", "News."]
        assert run.texts() == ["News."]
        assert any("I know of no chat" in one for one in results(model))


async def test_B81_only_regular_files_of_the_working_folder_are_sent(tmp_path: Path, model: ModelServer) -> None:
    async with process(tmp_path / "home", model) as run:
        work = tmp_path / "work"
        (work / "report.pdf").write_bytes(b"%PDF good")
        (work / "link").symlink_to("/etc/passwd")
        (work / "folder").mkdir()
        (work / "empty").touch()
        os.mkfifo(work / "pipe")
        with (work / "huge").open("wb") as huge:
            huge.truncate(60_000_000)
        home = tmp_path / "home"
        bad = ["/etc/passwd", "../../etc/passwd", "/proc/self/environ", "link", "folder", "empty", "pipe", "huge",
               str(home / "config.yaml"), "~/.ssh/id_rsa"]  # fmt: skip
        calls = [send(f"b{n}", files=[path]) for n, path in enumerate(bad)] + [send("ok", files=["report.pdf"])]
        model.script(Step(tool_calls=tuple(calls)), "Sent.")
        await run.platform.hear("send me everything", message_id="m1")
        await run.fate("m1")
        await run.quiet()
        told = results(model)
        assert len(told) == len(bad) + 1
        assert all("Cannot send" in one for one in told[:-1]), told
        first, last = (message.chunk for message in run.platform.room.messages.values())
        assert "report.pdf" in first.payload
        assert last.plain == "Sent."
        kept = [path for path in (home / "files" / "out").rglob("*") if path.is_file()]
        assert [path.name for path in kept] == ["report.pdf"]
        # what changes afterwards is not what was sent
        (work / "report.pdf").write_bytes(b"changed")
        assert kept[0].read_bytes() == b"%PDF good"


async def test_B81_a_path_in_the_answer_is_only_text(tmp_path: Path, model: ModelServer) -> None:
    async with process(tmp_path / "home", model) as run:
        model.script("Look: MEDIA:/etc/passwd")
        await run.platform.hear("show me", message_id="m1", kind=EventKind.MESSAGE)
        await run.says("MEDIA:/etc/passwd")
        assert all('"media"' not in message.chunk.payload for message in run.platform.room.messages.values())
