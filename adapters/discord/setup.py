"""`tidings setup discord`: the steps in the developer portal, and the check of the token against Discord."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import aiohttp

from adapters.discord.errors import HAS_CONTENT
from adapters.discord.readable import plain_name
from adapters.discord.rest import Rest
from adapters.errors import NotReady
from adapters.setup import Checked, Question

if TYPE_CHECKING:
    from adapters.setup import Setup

RIGHTS = {
    "add reactions": 1 << 6,
    "view channels": 1 << 10,
    "send messages": 1 << 11,
    "embed links": 1 << 14,
    "attach files": 1 << 15,
    "read message history": 1 << 16,
    "create public threads": 1 << 35,
    "send messages in threads": 1 << 38,
}
"""The least that everything needs. Source: https://discord.com/developers/docs/topics/permissions."""
PERMISSIONS = sum(RIGHTS.values())

INTRO = """\
1. Open https://discord.com/developers/applications and make a new application.
2. Section Bot: switch on "Message Content Intent" (without it the bot reads nothing in servers but its mentions).
3. Section Bot: "Reset Token" shows the bot's token once. It is asked for now.
The invitation that brings the bot into a server is printed at the end."""


def _token_fault(text: str) -> str | None:
    return None if re.fullmatch(r"[\w-]+\.[\w-]+\.[\w-]+", text) else "a bot's token has three parts with dots between"


def _id_fault(text: str) -> str | None:
    return None if re.fullmatch(r"[0-9]{1,20}|\*", text) else "a person's id on Discord is a number"


class DiscordSetup:
    """Implements `adapters.setup.Setup`."""

    @property
    def intro(self) -> str:
        """The steps."""
        return INTRO

    @property
    def questions(self) -> Sequence[Question]:
        """The token, and who may talk to the bot."""
        return (
            Question(key="token", text="The bot's token", secret=True, fault=_token_fault,
                     where="developer portal, your application, section Bot, Reset Token"),
            Question(key="allow", text="Who may talk to the bot (ids)", many=True, optional=True,
                     where="Discord: Settings, Advanced, Developer Mode on; then right-click a name, Copy User ID. "
                           "Left empty, strangers get a code, and `tidings pair approve CODE` lets them in.",
                     fault=_id_fault),
        )  # fmt: skip

    async def check(self, answers: Mapping[str, Any]) -> Checked:
        """Ask who the bot is and whether it may read. One look each, bounded."""
        timeout = aiohttp.ClientTimeout(total=30)
        async with aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as session:
            rest = Rest(session, str(answers["token"]), answers.get("api_base"))
            us = await rest.get("/users/@me")
            application = await rest.get("/applications/@me")
        if not isinstance(us, dict) or not isinstance(application, dict):
            raise NotReady("Discord does not tell who the bot is")
        return _judged(us, application)


def _judged(us: Mapping[str, Any], application: Mapping[str, Any]) -> Checked:
    missing = []
    if not int(application.get("flags") or 0) & HAS_CONTENT:
        missing.append(
            "the message content intent is off: switch it on in the developer portal, section Bot, "
            "'Privileged Gateway Intents', or Discord refuses the connection"
        )
    found = [f"the bot is {plain_name(us.get('username'))} (id {us.get('id')})"]
    if application.get("bot_public"):
        found.append("anybody may invite the bot (section Bot, 'Public Bot'); who is not on your list gets no answer")
    return Checked(
        found=tuple(found), missing=tuple(missing), after=f"Invite the bot with\n  {invite(str(application.get('id')))}"
    )


def invite(application: str) -> str:
    """The address that brings the bot into a server, with the rights that it needs and no more."""
    return (
        f"https://discord.com/oauth2/authorize?client_id={application}"
        f"&scope=bot+applications.commands&permissions={PERMISSIONS}"
    )


SETUP = DiscordSetup()

if TYPE_CHECKING:
    _: Setup = SETUP
