"""A rehearsal before a take-over: what people have written lately goes through this version, and nothing comes of it.

No adapter, no model and no tool is there to be called; the database is opened for reading only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import partial

from adapters import registry
from adapters.events import EventKind
from agent_core.prompt import Frozen
from gateway.access import Access
from gateway.commands.base import parse
from gateway.config_types import Config
from gateway.convert import blocks_from_json, event_from_row
from gateway.in_force import access_settings
from gateway.keys import session_key
from state.errors import StateError
from state.records import InboxEvent
from state.rehearse import migration_faults, recorded

UNREADABLE = "unreadable"


def rehearse(config: Config) -> list[str]:
    """What this version cannot do with what is recorded; empty where all is well. Blocking. Never raises.

    Tried: the migrations only add; each event is read, judged, and a private one belongs to the conversation that it
    belonged to; each answer can be rendered; each frozen prompt and sent message can be read; every adapter that is
    switched on can be imported.
    """
    path = config.home / "tidings.db"
    faults: list[str] = []
    for name in config.enabled():
        manifest = registry.manifests()[name]
        if manifest.adapter is not None:
            _try(faults, f"the platform {name}", partial(registry.load, manifest.adapter))
    if not path.exists() or not os.path.getsize(path):
        return faults
    try:
        faults += migration_faults(path)
        found = recorded(path)
    except StateError as error:
        return [*faults, str(error)]
    access = Access(access_settings(config))
    for row in found.events:
        if row.kind != UNREADABLE:
            _try(faults, f"event {row.id}", partial(_event, access, row))
    for platform, blocks in found.answers:
        _try(faults, f"an answer for {platform}", partial(_render, platform, blocks))
    for prompt in found.prompts:
        _try(faults, "a frozen prompt", partial(_prompt, prompt))
    for wire in found.wires:
        _try(faults, "a message of a transcript", partial(json.loads, wire))
    return list(dict.fromkeys(faults))


class _Unlike(Exception):
    """It is read, and means something else now."""


def _event(access: Access, row: InboxEvent) -> None:
    event = event_from_row(row)
    access.judge(event)
    parse(event.text)
    private = event.address.chat_kind == "private" and event.kind in (EventKind.MESSAGE, EventKind.COMMAND)
    if private and event.sender.id and session_key(event.address) != row.key:
        raise _Unlike(f"it would belong to another conversation ({session_key(event.address)})")


def _render(platform: str, blocks: str) -> None:
    try:
        renderer = registry.renderer_for(platform)
    except LookupError:
        return  # a platform without a renderer of its own (tests)
    renderer.render(blocks_from_json(blocks))


def _prompt(text: str) -> None:
    if Frozen.parse(text) is None:
        raise _Unlike("it cannot be read")


def _try(faults: list[str], what: str, work: Callable[[], object]) -> None:
    try:
        work()
    except Exception as error:  # noqa: BLE001 - whatever it is, it would happen in service, too
        faults.append(f"{what}: {type(error).__name__}: {str(error)[:200]}")
