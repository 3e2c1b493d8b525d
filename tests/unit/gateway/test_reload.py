"""What a changed configuration changes, and that a fault at any step of taking it over changes nothing."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adapters.ports import PlatformAdapter, Route
from gateway.config import load
from gateway.config_types import Config
from gateway.httpd import HttpdError
from gateway.models import Models
from gateway.reload import Reloaded, Reloader, read_result
from gateway.reload_plan import plan
from tests.counterparts.model_server import ModelServer
from tests.integration.process import Process, process

ENVIRON = {"KEY": "k" * 20, "TOKEN": "123456789:" + "A" * 35, "OTHER": "123456789:" + "B" * 35}


def config(folder: Path, **sections: Any) -> Config:
    folder.mkdir(exist_ok=True)
    path = folder / "config.yaml"
    path.write_text(json.dumps({"home": str(folder / "home"), **sections}))
    return load(path, environ=ENVIRON)


def bot(**changes: Any) -> dict[str, Any]:
    return {"telegram": {"enabled": True, "token": "${TOKEN}", **changes}}


def test_nothing_changes_nothing(tmp_path: Path) -> None:
    way = plan(config(tmp_path, platforms=bot()), config(tmp_path, platforms=bot()))
    assert (way.changed, way.later, way.begin, way.end) == ((), (), (), ())


def test_what_is_read_live_restarts_no_platform(tmp_path: Path) -> None:
    new = config(tmp_path, platforms=bot(allow=["7"], home_chat=9), chat={"busy": "steer"})
    way = plan(config(tmp_path, platforms=bot()), new)
    assert way.changed == ("chat.busy", "platforms.telegram.allow", "platforms.telegram.home_chat")
    assert (way.begin, way.end) == ((), ())
    assert way.config.platforms["telegram"] == new.platforms["telegram"]


@pytest.mark.parametrize("change", [{"token": "${OTHER}"}, {"link_previews": True}, {"api_base": "http://127.0.0.1:9"}])
def test_a_platform_whose_own_settings_change_is_begun_anew(tmp_path: Path, change: dict[str, Any]) -> None:
    way = plan(config(tmp_path, platforms=bot()), config(tmp_path, platforms=bot(**change)))
    assert way.changed == (f"platforms.telegram.{next(iter(change))}",)
    assert way.begin == way.end == ("telegram",)
    assert ENVIRON["OTHER"] not in repr(way)


def test_on_and_off(tmp_path: Path) -> None:
    on, off = config(tmp_path, platforms=bot()), config(tmp_path, platforms=bot(enabled=False))
    assert (plan(off, on).begin, plan(off, on).end) == (("telegram",), ())
    assert (plan(on, off).begin, plan(on, off).end) == ((), ("telegram",))
    assert (plan(off, off).begin, plan(off, off).end) == ((), ())


def test_what_is_built_in_waits_for_a_restart_and_is_told_as_long_as_it_does(tmp_path: Path) -> None:
    http = {"http": {"enabled": True, "key": "${KEY}", "port": 1}}
    old = config(tmp_path, platforms=http, log={"file": "a.log"})
    new = config(
        tmp_path,
        home=str(tmp_path / "other"),
        platforms={"http": {"enabled": False, "port": 2}},
        tools={"root": "/elsewhere", "disabled": ["web"]},
        limits={"concurrent_turns": 1, "queue_per_chat": 3},
        log={"file": "a.log"},
    )
    way = plan(old, new)
    assert way.changed == ("limits.queue_per_chat", "tools.disabled")
    assert {"home", "tools.root", "limits.concurrent_turns", "platforms.http.port", "platforms.http.enabled"} <= set(
        way.later
    )
    assert (way.begin, way.end) == ((), ())
    kept = way.config
    assert (kept.home, kept.root, kept.platforms["http"]) == (old.home, old.root, old.platforms["http"])
    assert kept.limits.concurrent_turns == old.limits.concurrent_turns
    assert kept.limits.queue_per_chat == 3
    assert kept.log_path == old.home / "a.log"
    again = plan(kept, new)
    assert again.changed == ()
    assert again.later == way.later


async def test_models_are_kept_replaced_and_let_go(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text('["one"]')
    one = {"provider": "openai", "name": "one", "base_url": "http://127.0.0.1:9/v1", "api_key": "${KEY}"}
    two = {"provider": "scripted", "script": str(script)}
    old = config(tmp_path, model=one, models={"two": two})
    models = Models(old)
    first, second = models._get(None), models._get("two")
    new = config(tmp_path, model={**one, "total_seconds": 5}, models={"two": two, "three": two})
    made = models.prepare(new)
    assert set(made) == {"", "three"}
    assert models._get(None) is first, "nothing is taken over by preparing"
    assert models.take(new, made) == [first]
    assert models._get(None) is made[""]
    assert models._get("two") is second
    await models.release([first])
    script.unlink()
    with pytest.raises(OSError, match=r"script\.json"):
        models.prepare(config(tmp_path, model=two))
    await models.close()


class Parts:
    """A reloader over a real core, whose surroundings fail as the test wants."""

    def __init__(self, served: Process, new: Callable[[], Config]) -> None:
        self.served = served
        self.new = new
        self.fails: Exception | None = None
        self.listens: Exception | None = None
        self.ending = False
        self.applied: list[Config] = []
        self.published = 0
        self.reloader = Reloader(
            served.core,
            self,  # type: ignore[arg-type]
            self,  # type: ignore[arg-type]
            self.load,
            asyncio.Event(),
            self.applied.append,
            lambda: self.ending,
        )

    def load(self) -> Config:
        return self.new()

    async def make(self, config: Config, name: str) -> PlatformAdapter:
        if self.fails is not None:
            raise self.fails
        raise AssertionError(name)

    async def listen_for(self, public: list[Route]) -> None:
        if self.listens is not None:
            raise self.listens

    def publish(self, public: list[Route]) -> None:
        self.published += 1

    def wake(self) -> None:
        """Nobody waits."""

    async def refused(self) -> Reloaded:
        """A reload that must have changed nothing."""
        core = self.served.core
        before = (core.in_force.config, core.access.settings, core.intake.settings, core.models.names())
        outcome = await self.reloader.reload("a test")
        assert outcome.faults
        assert (core.in_force.config, core.access.settings, core.intake.settings, core.models.names()) == before
        assert self.applied == []
        assert self.published == 0
        assert await asyncio.to_thread(read_result, core.in_force.config.home) == outcome
        assert "Nothing was taken over" in outcome.lines()[0]
        return outcome


async def test_a_fault_at_any_step_changes_nothing(tmp_path: Path) -> None:
    async with ModelServer() as model, process(tmp_path / "home", model) as served:
        old = served.core.in_force.config
        new = dataclasses.replace(
            config(tmp_path / "new", platforms=bot(), chat={"busy": "steer"}, access={"owners": ["telegram:1"]}),
            home=old.home,
        )
        parts = Parts(served, lambda: new)
        parts.fails = ImportError("no such library")
        assert (await parts.refused()).faults == ("no such library",)
        parts.fails = ValueError("the token is no token")
        await parts.refused()
        parts.fails = RuntimeError("odd")
        assert "a defect of mine (RuntimeError)" in (await parts.refused()).faults[0]
        parts.new = lambda: dataclasses.replace(
            config(tmp_path / "new", chat={"busy": "steer"}), home=old.home, model=old.model
        )
        parts.listens = HttpdError("the port is taken")
        assert (await parts.refused()).faults == ("the port is taken",)
        parts.listens, parts.ending = None, True
        assert (await parts.refused()).faults == ("the daemon is ending",)
        parts.ending = False
        outcome = await parts.reloader.reload("a test")
        assert outcome.faults == ()
        assert "chat.busy" in outcome.changed
        assert served.core.intake.settings.busy == "steer"
        assert len(parts.applied) == parts.published == 1


def test_a_note_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    assert read_result(tmp_path) is None
    (tmp_path / "reload.json").write_text('{"pid": 1, "odd": 2}')
    assert read_result(tmp_path) is None
