"""`tidings setup slack`: the app's manifest to paste, what to ask, and whether all of it works."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from adapters.errors import AdapterError, AuthFailed
from adapters.setup import Checked, Question
from adapters.slack.api import Api, new_session
from adapters.slack.settings import SlackSettings

SCOPES: Mapping[str, str] = {
    "app_mentions:read": "to hear mentions",
    "channels:history": "to read public channels that it was invited to",
    "channels:read": "to list them, for what was said while it was down",
    "chat:write": "to write, and to show that it is at work",
    "commands": "for /tidings",
    "files:read": "to take files",
    "files:write": "to send files",
    "groups:history": "to read private channels that it was invited to",
    "groups:read": "to list them",
    "im:history": "to read direct messages",
    "im:read": "to list them",
    "im:write": "to open direct messages",
    "mpim:history": "to read group direct messages",
    "mpim:read": "to list them",
    "reactions:read": "to see reactions",
    "users:read": "to call people by their names",
}
EVENTS = (
    "app_mention",
    "app_uninstalled",
    "message.channels",
    "message.groups",
    "message.im",
    "message.mpim",
    "reaction_added",
    "reaction_removed",
    "tokens_revoked",
)


def app_manifest(*, mode: str = "socket", url: str = "https://YOUR-SERVER/slack/events") -> dict[str, Any]:
    """The manifest of the app with the least rights that everything here works with.

    Source: https://docs.slack.dev/reference/app-manifest.
    """
    socket = mode == "socket"
    place: dict[str, Any] = {} if socket else {"request_url": url}
    command = {
        "command": "/tidings",
        "description": "Commands of the agent",
        "usage_hint": "help | status | new | stop",
        "should_escape": True,
    }
    return {
        "display_information": {"name": "Tidings", "description": "One agent, in every chat"},
        "features": {
            "app_home": {"messages_tab_enabled": True, "messages_tab_read_only_enabled": False},
            "bot_user": {"display_name": "Tidings", "always_online": True},
            "slash_commands": [command if socket else {**command, "url": url}],
        },
        "oauth_config": {"scopes": {"bot": sorted(SCOPES)}},
        "settings": {
            "event_subscriptions": {**place, "bot_events": list(EVENTS)},
            "interactivity": {"is_enabled": True, **place},
            "org_deploy_enabled": False,
            "socket_mode_enabled": socket,
            "token_rotation_enabled": False,
        },
    }


_INTRO = """\
1. Open https://api.slack.com/apps?new_app=1, choose "From a manifest", your workspace, the tab JSON, and paste what
   stands between the lines.
2. "Install to Workspace"; then copy the bot token (xoxb-…) from "OAuth & Permissions".
3. For Socket Mode (no public address is needed): "Basic Information", "App-Level Tokens", "Generate", with the scope
   connections:write; copy it (xapp-…).
   For events over HTTP instead: switch Socket Mode off, put https://YOUR-SERVER/slack/events as Request URL under
   "Event Subscriptions", "Interactivity" and "Slash Commands", and copy the signing secret ("Basic Information").
4. Invite the bot where it is to be: /invite @Tidings
"""


def _starts(prefix: str, text: str) -> str | None:
    return None if text.startswith(prefix) and len(text) > len(prefix) + 5 else f"this token begins with {prefix}"


def _signing_fault(text: str) -> str | None:
    return None if len(text) >= 16 and not any(ch.isspace() for ch in text) else "a signing secret is 32 letters long"


class SlackSetup:
    """Implements `adapters.setup.Setup`."""

    @property
    def intro(self) -> str:
        """The steps, with the manifest."""
        line = "-" * 60
        return f"{_INTRO}\n{line}\n{json.dumps(app_manifest(), indent=2)}\n{line}"

    @property
    def questions(self) -> Sequence[Question]:
        """In order."""
        return (
            Question(
                key="bot_token",
                text="Bot token",
                where='"OAuth & Permissions", "Bot User OAuth Token".',
                secret=True,
                fault=lambda text: _starts("xoxb-", text),
            ),
            Question(
                key="app_token",
                text="App token, for Socket Mode",
                where='"Basic Information", "App-Level Tokens". Leave it empty for events over HTTP.',
                secret=True,
                optional=True,
                fault=lambda text: _starts("xapp-", text),
            ),
            Question(
                key="signing_secret",
                text="Signing secret, for events over HTTP",
                where='"Basic Information", "App Credentials". Not needed for Socket Mode.',
                secret=True,
                optional=True,
                fault=_signing_fault,
            ),
            Question(
                key="allow",
                text="Member ids of those who may talk to the bot",
                where='In a person\'s profile: the three dots, "Copy member ID" (U…). '
                "Left empty, strangers get a code, and `tidings pair approve CODE` lets them in.",
                many=True,
                optional=True,
                fault=SlackSettings.person_fault,
            ),
        )

    async def check(self, answers: Mapping[str, Any]) -> Checked:
        """Ask Slack who the bot is, what it may do, and whether a socket would be opened."""
        found: list[str] = []
        missing: list[str] = []
        app_token, secret = answers.get("app_token"), answers.get("signing_secret")
        mode = "socket" if app_token or not secret else "http"
        async with new_session() as session:
            api = Api(session, str(answers.get("bot_token") or ""), answers.get("api_base"))
            me, headers = await api.who()
            if not me.get("bot_id"):
                raise AuthFailed("this is no bot's token", told="That is no bot token (xoxb-).")
            found.append(f"the bot is @{me.get('user')} in the workspace {me.get('team')}")
            bot = await _bot(api, str(me["bot_id"]))
            if bot:
                found.append(f"the app is {bot}")
            missing += _missing(headers.get("x-oauth-scopes", ""), found)
            if app_token:
                found.append(await _socket(Api(session, str(app_token), answers.get("api_base"))))
            elif mode == "http":
                found.append("events come over HTTP, signed")
            else:
                missing.append("give an app token (Socket Mode) or a signing secret (HTTP): none was given")
        after = "Invite the bot to a channel with /invite, or write to it directly."
        if mode == "http":
            after += "\nThe webhook listener must be on: platforms.http.webhook_port, reached from outside by https."
        return Checked(found=tuple(found), missing=tuple(missing), settings={"mode": mode}, after=after)


async def _bot(api: Api, bot_id: str) -> str:
    """The app's name and id; "" where we may not ask."""
    try:
        bot = (await api.read("bots.info", bot=bot_id)).get("bot")
    except AuthFailed:
        raise
    except AdapterError:
        return ""
    return f"{bot.get('name')} ({bot.get('app_id')})" if isinstance(bot, dict) else ""


def _missing(scopes: str, found: list[str]) -> list[str]:
    have = {one.strip() for one in scopes.split(",") if one.strip()}
    if not have:
        return ["Slack does not tell the scopes of the token: compare them with the manifest by eye"]
    lines = [
        f"the scope {name} is missing ({why}): add it under OAuth & Permissions and reinstall the app"
        for name, why in SCOPES.items()
        if name not in have
    ]
    if not lines:
        found.append(f"it has all {len(SCOPES)} scopes")
    return lines


async def _socket(api: Api) -> str:
    try:
        await api.form("apps.connections.open")
    except AuthFailed as error:
        told = f"{error.told} The app token needs the scope connections:write."
        raise AuthFailed(str(error), told=told) from error
    return "Socket Mode works"


SETUP = SlackSetup()
