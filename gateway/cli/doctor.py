"""`tidings doctor`: look for what is wrong; every finding comes with its remedy."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

import typer
from pydantic import BaseModel, SecretStr

from adapters import registry
from adapters.errors import AdapterError, AuthFailed
from adapters.setup import Setup
from agent_core.models.settings import ModelSettings
from gateway import locks
from gateway.cli.common import ConfigOption, JsonOption, family, load_config, out, out_json
from gateway.cli.memory import look_at_memory
from gateway.cli.status import ask
from gateway.config_types import Config

app = family("Look for what is wrong.", single=True)

ROOM = 500_000_000
LIMITS = (
    "A side effect that had begun when the process died is unknown: it is told, and never repeated by itself.",
    "A process that is frozen longer than its lease may end an effect that it had begun; that ends as unknown too.",
    "A message whose arrival is unknown, where the platform offers no look-up, is sent once more, marked, never twice.",
)
"""What cannot be promised anywhere (P2 to P4); each platform's manifest adds its own (P1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at. `remedy` is "" where nothing is to be done."""

    grade: Literal["ok", "warning", "fault"]
    what: str
    remedy: str = ""


@app.command()
def doctor(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Look at configuration, folders, database, disk, clock, model, memory and daemon. Exit code 1 for a fault."""
    settings = load_config(config)
    limits = (*LIMITS, *(limit for one in registry.manifests().values() for limit in one.stated_limits))
    findings = [*_look(settings), *asyncio.run(_look_async(settings))]
    if as_json:
        out_json({"findings": [asdict(one) for one in findings], "stated_limits": limits})
    else:
        for one in findings:
            out(f"[{one.grade}] {one.what}{f' -> {one.remedy}' if one.remedy else ''}")
        out("\nStated limits:")
        for limit in limits:
            out(f"- {limit}")
    if any(one.grade == "fault" for one in findings):
        raise typer.Exit(1)


def _look(settings: Config) -> Iterator[Finding]:
    yield Finding(grade="ok", what=f"configuration {settings.file}")
    for warning in settings.warnings:
        yield Finding(grade="warning", what=warning)
    for name, why in settings.unusable_models.items():
        yield Finding(grade="warning", what=f"models.{name}: {why}", remedy="set its key, or take it out")
    home = settings.home
    if not home.is_dir():
        yield Finding(grade="warning", what=f"{home} does not exist", remedy="it is made at the first start")
        return
    mode = stat.S_IMODE(home.stat().st_mode)
    if mode & 0o077:
        yield Finding(grade="warning", what=f"others can look into {home}", remedy=f"chmod 700 {home}")
    yield from _rights(settings)
    if not os.access(home, os.W_OK):
        yield Finding(
            grade="fault", what=f"{home} cannot be written to", remedy="run as its owner, or change its owner"
        )
    free = shutil.disk_usage(home).free
    grade: Literal["ok", "warning"] = "ok" if free >= ROOM else "warning"
    yield Finding(
        grade=grade,
        what=f"{free // 1_000_000} MB free on the disk of {home}",
        remedy="" if free >= ROOM else "make room",
    )
    holder = locks.holder(locks.daemon_lock_path(home))
    if holder is None:
        yield Finding(grade="ok", what="no daemon runs on this state folder", remedy="tidings run")
    else:
        ready = ask(settings, "/readyz")
        missing = ["it does not answer"] if ready is None else list(ready["missing"])
        yield Finding(
            grade="warning" if missing else "ok",
            what=f"{holder}{': ' + '; '.join(missing) if missing else ', ready'}",
            remedy="see its log" if missing else "",
        )


def _rights(settings: Config) -> Iterator[Finding]:
    """Files with what was said, or with secrets, that others can read."""
    home = settings.home
    for path in (home / "tidings.db", home / "tidings.db-wal", home / "http.key", home / "history"):
        if path.exists() and stat.S_IMODE(path.stat().st_mode) & 0o077:
            yield Finding(grade="warning", what=f"others can read {path}", remedy=f"chmod 600 {path}")


async def _look_async(settings: Config) -> list[Finding]:
    models = [settings.model, *(settings.models[name] for name in settings.fallbacks)]
    platforms = [one for name in settings.enabled() for one in await _platform(settings, name)]
    memory = await look_at_memory(settings)
    told = [Finding(grade=grade, what=what, remedy=remedy) for grade, what, remedy in memory]
    return [*await _database(settings), *[await _model(settings, one) for one in models], *told, *platforms]


async def _platform(settings: Config, name: str) -> list[Finding]:
    """Ask the platform about our credentials and rights, as its set-up does."""
    manifest = registry.manifests()[name]
    if manifest.setup is None:
        return []
    check: Setup = registry.load(manifest.setup)
    try:
        async with asyncio.timeout(60):
            checked = await check.check(_answers(settings.platforms[name]))
    except AuthFailed as error:
        return [Finding(grade="fault", what=f"{manifest.title}: {error.told}", remedy=f"tidings setup {name}")]
    except (AdapterError, TimeoutError) as error:
        told = error.told if isinstance(error, AdapterError) else "no answer within a minute"
        return [Finding(grade="warning", what=f"{manifest.title}: {told}", remedy="look at the network and try again")]
    found = [Finding(grade="ok", what=f"{manifest.title}: {line}") for line in checked.found]
    remedy = f"tidings setup {name}"
    return [*found, *(Finding(grade="fault", what=f"{manifest.title}: {m}", remedy=remedy) for m in checked.missing)]


def _answers(settings: BaseModel, prefix: str = "") -> dict[str, Any]:
    """The settings of a platform as its set-up would have asked for them."""
    answers: dict[str, Any] = {}
    for key, value in settings:
        if isinstance(value, BaseModel):
            answers |= _answers(value, f"{prefix}{key}.")
        elif value is not None:
            answers[prefix + key] = value.get_secret_value() if isinstance(value, SecretStr) else value
    return answers


async def _database(settings: Config) -> list[Finding]:
    from state.errors import StateError  # noqa: PLC0415 - the store is needed only here
    from state.owners import this_process  # noqa: PLC0415
    from state.store import Store  # noqa: PLC0415

    path = settings.home / "tidings.db"
    if not path.exists():
        return [Finding(grade="ok", what="no database yet")]
    try:
        async with Store.open(path, owner=this_process("doctor"), readers=1) as store:
            found = [Finding(grade="ok", what=f"database {path}, journal {store.journal_mode}")]
            if store.journal_mode != "wal":
                found.append(
                    Finding(
                        grade="warning",
                        what="the file system cannot do a write-ahead log: reads wait for writes",
                        remedy="put the state folder on a local disk",
                    )
                )
            if orphans := await store.inbox.orphans():
                found.append(
                    Finding(
                        grade="fault",
                        what=f"{len(orphans)} events without a turn",
                        remedy="the daemon mends them; report it",
                    )
                )
            future = [s for s in await store.sessions.list_all(5) if s.updated_at > store.clock.utc()]
            if future:
                found.append(
                    Finding(grade="warning", what="the clock is behind the newest session", remedy="set the clock")
                )
            return found
    except StateError as error:
        return [
            Finding(grade="fault", what=str(error), remedy=f"{type(error).__name__}: tidings db check, or a backup")
        ]


async def _model(settings: Config, wanted: ModelSettings) -> Finding:
    from agent_core.errors import ModelError  # noqa: PLC0415 - as above
    from agent_core.models.factory import make_model  # noqa: PLC0415

    try:
        model = make_model(wanted, home=settings.home)
    except (OSError, ValueError) as error:
        return Finding(grade="fault", what=f"model {wanted.name}: {error}", remedy="mend its script")
    remedy = "tidings model check" if wanted.provider == "embedded" else "see its base_url and api_key"
    try:
        async with asyncio.timeout(60):
            if wanted.base_url is not None:
                await _reach(wanted.base_url)
            window = (await model.capabilities()).context_tokens
        return Finding(grade="ok", what=f"model {model.name} ({wanted.provider}), window {window} tokens")
    except (ModelError, TimeoutError, OSError) as error:
        told = error.told if isinstance(error, ModelError) else str(error) or "no answer within a minute"
        return Finding(grade="fault", what=f"model {model.name}: {told}", remedy=remedy)
    finally:
        await model.close()


async def _reach(url: str) -> None:
    """Connect to the endpoint, and say nothing to it. Raises OSError or TimeoutError."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    async with asyncio.timeout(10):
        _, writer = await asyncio.open_connection(parts.hostname, port)
        writer.close()
        await writer.wait_closed()
