"""What grows is cut back; what anybody still wants stays."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

from adapters.events import Attachment
from gateway.config_schema import LimitSettings
from gateway.upkeep import Upkeep
from tests.counterparts.model_script import Step
from tests.counterparts.model_server import ModelServer
from tests.integration.process import process


def kept(home: Path, whose: str, name: str, age_days: float, now: float) -> Path:
    """A file that came so long ago."""
    file = home / "files" / whose / name / "photo.png"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"x")
    for one in (file, file.parent):
        os.utime(one, (now - age_days * 86_400,) * 2)
    return file


async def test_old_files_go_and_those_that_are_waited_for_stay(tmp_path: Path, model: ModelServer) -> None:
    home = tmp_path / "home"
    async with process(home, model) as run:
        now = run.store.clock.utc().timestamp()
        old, young = kept(home, "memory", "aaaa", 31, now), kept(home, "memory", "bbbb", 29, now)
        wanted, out = kept(home, "memory", "cccc", 90, now), kept(home, "out", "dddd", 31, now)
        (home / "files" / "memory" / "link").symlink_to(tmp_path)
        model.script(Step(text="seen", hold_after=1))
        attachment = Attachment(kind="document", name="photo.png", mime="image/png", path=str(wanted), size=1)
        await run.platform.hear("look at this", message_id="m1", attachments=(attachment,))
        await model.wait_calls(1)
        upkeep = Upkeep(run.store, home, LimitSettings)
        assert await upkeep.look() == (2, 0)
        assert [one.exists() for one in (old, young, wanted, out)] == [False, True, True, False]
        model.release()
        assert (await run.fate("m1"))[0] == "answered"
        assert await upkeep.look() == (1, 0), "nobody waits for it any more"
        kept(home, "memory", "eeee", 400, now)
        assert await Upkeep(run.store, home, lambda: LimitSettings(files_days=0, events_days=0)).look() == (0, 0)
        assert tmp_path.is_dir(), "a link is not followed"


async def test_ended_events_go_and_open_ones_and_conversations_stay(tmp_path: Path, model: ModelServer) -> None:
    async with process(tmp_path / "home", model) as run:
        model.script("one", Step(text="two", hold_after=1))
        await run.platform.hear("first", message_id="m1")
        assert (await run.fate("m1"))[0] == "answered"
        await run.platform.hear("second", message_id="m2", chat="other")
        await model.wait_calls(2)
        later = run.store.clock.utc() + timedelta(days=91)

        class Later:
            def utc(self) -> object:
                return later

        clock, run.store.clock = run.store.clock, Later()  # type: ignore[assignment]
        try:
            _, rows = await Upkeep(run.store, tmp_path / "home", LimitSettings).look()
        finally:
            run.store.clock = clock
        assert rows == 2, "an event and its answer"
        assert await run.store.inbox.find("memory", "bot", "m1") == []
        assert (await run.store.inbox.find("memory", "bot", "m2"))[0].fate.is_open
        model.release()
        assert (await run.fate("m2"))[0] == "answered"
        found = await run.store.search.find("first", persons=None)
        assert [hit.snippet for hit in found], "what was said is still there"
