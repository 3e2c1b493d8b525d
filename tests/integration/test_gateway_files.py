"""Files are fetched after the event is committed, for people who are let in, once; what fails is said (B49)."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import BinaryIO

import pytest

from adapters.events import Attachment, MessageEvent
from adapters.fetch import SECONDS, FetchFault, fetch, safe_name
from adapters.memory.adapter import MemoryAdapter
from tests.counterparts.model_server import ModelServer
from tests.integration.process import process

LIMIT = 1000


class FetchingAdapter(MemoryAdapter):
    """The memory platform with files behind it."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.bodies: dict[str, bytes | Exception] = {}
        self.asked: list[str] = []

    async def fetch(self, event: MessageEvent) -> tuple[Attachment, ...]:
        found = []
        for one in event.attachments:
            assert one.ref is not None
            self.asked.append(one.ref)
            found.append(await fetch(one, self._stream(one.ref), self.folder, limit=LIMIT))
        return tuple(found)

    async def _stream(self, ref: str) -> AsyncIterator[bytes]:
        body = self.bodies[ref]
        for start in range(0, 10_000 if isinstance(body, Exception) else len(body), 100):
            if isinstance(body, Exception):
                if start >= 300:
                    raise body
                yield b"x" * 100
            else:
                yield body[start : start + 100]


def document(ref: str, name: str = "a.txt", mime: str = "text/plain", size: int | None = None) -> Attachment:
    return Attachment(kind="document", name=name, mime=mime, ref=ref, size=size)


def shown(model: ModelServer) -> str:
    rows = [row for row in json.loads(model.calls[-1].body)["messages"] if row["role"] == "user"]
    return str(rows[-1]["content"])


async def test_an_owners_file_is_read_and_copied_for_the_tools(tmp_path: Path, model: ModelServer) -> None:
    adapter = FetchingAdapter(tmp_path / "fetched")
    adapter.bodies["f1"] = b"the words of it"
    async with process(tmp_path / "home", model, platform=adapter) as run:
        for number in (1, 2):
            await run.platform.hear("read this", message_id=f"m{number}", attachments=(document("f1"),))
            assert (await run.fate(f"m{number}"))[0] == "answered"
        assert "| the words of it" in shown(model)
        assert "a copy is incoming/a-2.txt in the working folder" in shown(model)
        assert (tmp_path / "work" / "incoming" / "a.txt").read_text() == "the words of it"
        assert (await run.row("m1")).payload.count('"path":"') == 1
        assert adapter.asked == ["f1", "f1"]


async def test_a_link_in_the_place_of_the_folder_is_not_followed(tmp_path: Path, model: ModelServer) -> None:
    adapter = FetchingAdapter(tmp_path / "fetched")
    adapter.bodies["f1"] = b"the words of it"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    async with process(tmp_path / "home", model, platform=adapter) as run:
        (tmp_path / "work" / "incoming").symlink_to(elsewhere)
        await run.platform.hear("read this", message_id="m1", attachments=(document("f1"),))
        assert (await run.fate("m1"))[0] == "answered"
        assert "| the words of it" in shown(model)
        assert list(elsewhere.iterdir()) == []


async def test_half_a_copy_is_taken_away(tmp_path: Path, model: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: BinaryIO, out: BinaryIO) -> None:
        out.write(source.read(3))
        raise OSError(errno.ENOSPC, "No space left on device")

    adapter = FetchingAdapter(tmp_path / "fetched")
    adapter.bodies["f1"] = b"the words of it"
    async with process(tmp_path / "home", model, platform=adapter) as run:
        monkeypatch.setattr("gateway.fetching.shutil.copyfileobj", full)
        await run.platform.hear("read this", message_id="m1", attachments=(document("f1"),))
        assert (await run.fate("m1"))[0] == "answered"
        assert list((tmp_path / "work" / "incoming").iterdir()) == []


async def test_a_members_file_is_not_put_into_the_working_folder(tmp_path: Path, model: ModelServer) -> None:
    adapter = FetchingAdapter(tmp_path / "fetched")
    adapter.bodies["f1"] = b"words"
    async with process(tmp_path / "home", model, platform=adapter) as run:
        await run.platform.hear("read this", message_id="m1", sender="ben", attachments=(document("f1"),))
        await run.fate("m1")
        assert "| words" in shown(model)
        assert not (tmp_path / "work" / "incoming").exists()


async def test_a_strangers_file_is_never_fetched(tmp_path: Path, model: ModelServer) -> None:
    adapter = FetchingAdapter(tmp_path / "fetched")
    async with process(tmp_path / "home", model, platform=adapter) as run:
        await run.platform.hear("take this", message_id="m1", sender="mallory", attachments=(document("f1"),))
        assert (await run.fate("m1"))[0] == "refused"
        assert adapter.asked == []


async def test_B49_what_cannot_be_fetched_is_said_and_the_words_count(tmp_path: Path, model: ModelServer) -> None:
    adapter = FetchingAdapter(tmp_path / "fetched")
    adapter.bodies = {
        "lies": b"x" * 5000,
        "empty": b"",
        "cut": FetchFault("the transfer broke off in the middle"),
        "broken": ConnectionResetError(),
    }
    async with process(tmp_path / "home", model, platform=adapter) as run:
        files = (document("told", size=60_000_000), *(document(ref, name=f"{ref}.txt") for ref in adapter.bodies))
        await run.platform.hear("what is in these?", message_id="m1", attachments=files)
        assert (await run.fate("m1"))[0] == "answered"
        said = shown(model)
        assert "what is in these?" in said
        assert said.count("larger than the 0.001 MB that I fetch") == 2
        assert "it is empty" in said
        assert "broke off in the middle" in said
        assert list((tmp_path / "fetched").rglob("*")) == []


async def test_files_of_a_steering_message_wait_for_a_turn_of_their_own(tmp_path: Path, model: ModelServer) -> None:
    adapter = FetchingAdapter(tmp_path / "fetched")
    adapter.bodies["f1"] = b"words"
    async with process(tmp_path / "home", model, platform=adapter, chat={"busy": "steer"}) as run:
        model.script(*["one", "two"])
        await run.platform.hear("first", message_id="m1")
        await run.platform.hear("see", message_id="m2", attachments=(document("f1"),))
        for one in ("m1", "m2"):
            assert (await run.fate(one))[0] == "answered"
        await run.check_ledger()


async def test_a_cancelled_fetch_leaves_nothing(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        yield b"x"
        begun.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(fetch(document("f"), endless(), tmp_path, limit=LIMIT))
    await begun.wait()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert list(tmp_path.rglob("*")) == []
    assert SECONDS <= 600


def test_names_are_safe() -> None:
    for name in (
        "../../etc/passwd",
        "/",
        "",
        "...",
        "a/b\\c.txt",
        "x" * 300 + ".pdf",
        "\u202egpj.exe",
        "a\nb",
        "é" * 200,
        "-rf",
    ):
        safe = safe_name(name)
        assert safe
        assert "/" not in safe
        assert not safe.startswith((".", "-"))
        assert len(safe.encode()) <= 100
        assert safe.isprintable()
    assert safe_name("x" * 300 + ".pdf").endswith(".pdf")
    assert dataclasses.replace(document("r"), name="q").name == "q"
