"""Slash commands and buttons: presses as events, their quiet acknowledgement, and the registration of commands.

Discord shows a failure where an interaction is not answered within 3 s. It is answered after the commit: a press
changes nothing by itself (type 6), a command gets a note that only its author sees, and that is taken away at once,
because the answer comes as a message of ours.
Source: https://discord.com/developers/docs/interactions/receiving-and-responding.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import structlog

from adapters.discord.custom import read_custom_id
from adapters.discord.directory import dicts
from adapters.discord.readable import moment_of, user_name
from adapters.discord.rest import Rest
from adapters.errors import AdapterError
from adapters.events import Action, ChatAddress, EventKind, MessageEvent, Sender

log = structlog.get_logger("adapters.discord")

COMMAND, COMPONENT = 2, 3
EPHEMERAL = 1 << 6
NAME = re.compile(r"[a-z0-9_-]{1,32}")
HELP = 100
COMMANDS = 100
"""Global commands that an application may have."""
OPTION = "text"


def person_of(data: Mapping[str, Any]) -> Sender | None:
    """Who pressed."""
    given = data.get("member")
    member = given if isinstance(given, dict) else None
    user = member.get("user") if member is not None else data.get("user")
    if not isinstance(user, dict) or not isinstance(user.get("id"), str):
        return None
    return Sender(id=user["id"], name=user_name(user, member), is_bot=bool(user.get("bot")))


def message_of(data: Mapping[str, Any]) -> str | None:
    """The message whose button was pressed."""
    message = data.get("message")
    found = message.get("id") if isinstance(message, dict) else None
    return found if isinstance(found, str) else None


def interaction_event(data: Mapping[str, Any], address: ChatAddress, now: datetime) -> MessageEvent | None:
    """The event of a command or a press; None for what is neither, or not ours."""
    sender, identity, inner = person_of(data), data.get("id"), data.get("data")
    if sender is None or not isinstance(identity, str) or not isinstance(inner, dict):
        return None
    kind, message_id, text, action = EventKind.COMMAND, f"i:{identity}", "", None
    if data.get("type") == COMMAND and isinstance(inner.get("name"), str) and inner.get("type", 1) == 1:
        text = f"/{inner['name']} {_option(inner)}".strip()
    elif data.get("type") == COMPONENT:
        pressed = read_custom_id(str(inner.get("custom_id", "")))
        found = message_of(data)
        if pressed is None or found is None:
            return None
        kind, message_id, action = EventKind.ACTION, found, Action(button_id=pressed[0], value=pressed[1])
    else:
        return None
    return MessageEvent(
        dedup_id=f"i:{identity}",
        kind=kind,
        message_id=message_id,
        address=address,
        sender=sender,
        received_at=now,
        sent_at=moment_of(identity),
        text=text,
        action=action,
        mentions_us=True,
    )


def _option(inner: Mapping[str, Any]) -> str:
    for option in dicts(inner.get("options")):
        if option.get("name") == OPTION:
            return str(option.get("value", "")).strip()
    return ""


async def acknowledge(rest: Rest, data: Mapping[str, Any]) -> None:
    """End the platform's waiting. Best effort: what fails is logged, and the answer comes all the same."""
    identity, token = data.get("id"), data.get("token")
    command = data.get("type") == COMMAND
    answer: dict[str, Any] = {"type": 5, "data": {"flags": EPHEMERAL}} if command else {"type": 6}
    try:
        await rest.bare("POST", f"/interactions/{identity}/{token}/callback", answer)
        if command:
            await rest.bare("DELETE", f"/webhooks/{data.get('application_id')}/{token}/messages/@original")
    except AdapterError as error:
        log.info("interaction.not_acknowledged", interaction=identity, error=str(error))


def wanted_commands(commands: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """The commands as Discord takes them: with one optional text. Names that it does not take are left out."""
    found: dict[str, dict[str, Any]] = {}
    for given, told in commands:
        name = given.removeprefix("/").lower()
        if not NAME.fullmatch(name) or name in found or len(found) >= COMMANDS:
            continue
        described = " ".join(told.split()) or name
        if len(described) > HELP:
            described = f"{described[: HELP - 1]}…"
        option = {"type": 3, "name": OPTION, "description": "What goes with it", "required": False}
        found[name] = {"name": name, "description": described, "type": 1, "options": [option]}
    return list(found.values())


async def register(rest: Rest, application: str, commands: Sequence[tuple[str, str]]) -> bool:
    """Make Discord's list of our commands the present one. True where it had to be changed.

    Raises an `AdapterError`. Nothing is written where the list is right: there is a limit for each day.
    """
    wanted = wanted_commands(commands)
    path = f"/applications/{application}/commands"
    present = await rest.get(path)
    if isinstance(present, list) and _same(present, wanted):
        return False
    await rest.send("PUT", path, wanted)
    return True


def _same(present: Sequence[Any], wanted: Sequence[Mapping[str, Any]]) -> bool:
    return sorted(map(_essence, present)) == sorted(map(_essence, wanted))


def _essence(command: Any) -> tuple[str, str, int, tuple[tuple[str, str, int, bool], ...]]:
    if not isinstance(command, dict):
        return "", "", 0, ()
    options = tuple(
        (str(one.get("name")), str(one.get("description")), int(one.get("type", 0)), bool(one.get("required")))
        for one in dicts(command.get("options"))
    )
    return str(command.get("name")), str(command.get("description")), int(command.get("type", 1)), options
