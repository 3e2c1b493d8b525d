"""The menu of commands that Telegram's clients show."""

from __future__ import annotations

import re
from collections.abc import Sequence

import structlog

from adapters.errors import AdapterError
from adapters.telegram.link import Link

log = structlog.get_logger("adapters.telegram")

MOST = 100
NAME = re.compile(r"[a-z0-9_]{1,32}")
HELP = 256
SECONDS = 30.0


def menu_of(commands: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """What of the commands can stand in the menu (core.telegram.org/bots/api#botcommand); the others can be typed."""
    found = []
    for name, words in commands:
        text = " ".join(words.split())[:HELP]
        if NAME.fullmatch(name) and text:
            found.append((name, text))
    return found[:MOST]


async def register(link: Link, commands: Sequence[tuple[str, str]]) -> None:
    """Set the menu where it is not as it should be. Cosmetic: a failure is logged."""
    wanted = menu_of(commands)
    if not wanted:
        return
    try:
        there = await link.ask(lambda bot: bot.get_my_commands())
        if [(one.command, one.description) for one in there] == wanted:
            return
        await link.ask(lambda bot: bot.set_my_commands(wanted))
        log.info("telegram.menu_set", commands=len(wanted))
    except AdapterError as error:
        log.warning("telegram.menu_not_set", error=str(error))
