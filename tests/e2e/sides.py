"""The other side of each chat platform, as the end-to-end tests see it: people, what they say, what they see.

One class a platform over its counterpart server. The daemon is a real process that knows nothing of it but
the addresses in its configuration.
"""

from __future__ import annotations

import asyncio
import html
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.counterparts.discord_server import DiscordServer
from tests.counterparts.small_slack_server import SlackServer
from tests.counterparts.telegram_server import TelegramServer


@dataclass(frozen=True, slots=True)
class Place:
    """Somewhere to talk: the platform's own handle, and a thread of it."""

    chat: Any
    thread: Any = None


class Side(ABC):
    """One platform with an owner (ann), a member (ben) and a group of theirs."""

    name: str
    server: Any
    fills_back = True
    """Whether what was missed is fetched from the history (else the platform keeps it for us)."""
    private: Place
    """Ann's private chat with the bot."""
    room: Place
    """The group of Ann and Ben."""

    @asynccontextmanager
    @abstractmethod
    async def open(self) -> AsyncIterator[None]:
        """Run the counterpart."""
        yield

    @abstractmethod
    def section(self) -> dict[str, Any]:
        """The platform's section of the configuration; secrets as references."""

    @abstractmethod
    def env(self) -> dict[str, str]:
        """The secrets."""

    @abstractmethod
    def owner(self) -> str:
        """Ann as `platform:id`."""

    @abstractmethod
    def say(self, place: Place, text: str, *, who: str = "ann", mention: bool = False, live: bool = True) -> Any:
        """Somebody says it; `live` false: while no daemon is connected. Gives the message."""

    @abstractmethod
    def send_file(self, place: Place, name: str, data: bytes, caption: str) -> Any:
        """Ann sends a document."""

    @abstractmethod
    def edit(self, place: Place, message: Any, text: str) -> None:
        """Ann changes her message."""

    @abstractmethod
    def press(self, place: Place, label: str) -> None:
        """Ann presses the button with that label below one of the bot's messages."""

    @abstractmethod
    def seen(self, place: Place) -> list[str]:
        """The bot's visible messages there, in order."""

    @abstractmethod
    def edits(self, place: Place) -> list[int]:
        """How often each of the bot's messages there was changed."""

    @abstractmethod
    def signs(self) -> int:
        """How often the bot has shown so far that it is at work."""

    @abstractmethod
    def files(self, place: Place) -> list[tuple[str, bytes]]:
        """Name and content of the files that the bot has sent there."""

    def answers_to(self, place: Place, message: Any) -> Place:
        """Where the answer to a mention in the room is expected."""
        return place

    @property
    def forum(self) -> Place:
        """A room in which the bot can make threads."""
        return self.room

    @abstractmethod
    def chat_id(self, place: Place) -> str:
        """The id of the chat, as people write it behind `platform:`."""

    @abstractmethod
    def threads(self, place: Place) -> list[Place]:
        """The threads that were made there, the newest last."""

    async def until(self, holds: Any, seconds: float = 20.0) -> None:
        """Wait for something to be seen (there, or in the database)."""
        async with asyncio.timeout(seconds):
            while not holds():
                await asyncio.sleep(0.03)

    def check(self) -> None:
        """Nothing was sent that the platform's documentation does not allow."""
        assert self.server.violations == []


class TelegramSide(Side):
    """Telegram by long polling."""

    name = "telegram"
    fills_back = False

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        async with TelegramServer(username="tidy_bot") as self.server:
            world = self.server.world
            self.people = {"ann": world.person("Ann"), "ben": world.person("Ben")}
            self.private = Place(world.private(self.people["ann"]))
            self.room = Place(world.supergroup("Kitchen", *self.people.values()))
            self._forum = Place(world.forum("Workshop", *self.people.values()))
            yield

    @property
    def forum(self) -> Place:
        return self._forum

    def chat_id(self, place: Place) -> str:
        return str(place.chat.id)

    def threads(self, place: Place) -> list[Place]:
        return [Place(place.chat, number) for number in sorted(place.chat.topics) if number != 1]

    def section(self) -> dict[str, Any]:
        return {
            "enabled": True,
            "token": "${TELEGRAM_BOT_TOKEN}",
            "api_base": self.server.url,
            "allow": [str(self.people["ben"].id)],
        }

    def env(self) -> dict[str, str]:
        return {"TELEGRAM_BOT_TOKEN": self.server.token}

    def owner(self) -> str:
        return f"telegram:{self.people['ann'].id}"

    def say(self, place: Place, text: str, *, who: str = "ann", mention: bool = False, live: bool = True) -> Any:
        text = f"@tidy_bot {text}" if mention else text
        return self.server.say(place.chat, self.people[who], text, thread=place.thread)

    def send_file(self, place: Place, name: str, data: bytes, caption: str) -> Any:
        return self.server.send_document(
            place.chat, self.people["ann"], data, caption=caption, name=name, mime="text/plain"
        )

    def edit(self, place: Place, message: Any, text: str) -> None:
        self.server.edit(place.chat, message["message_id"], text)

    def press(self, place: Place, label: str) -> None:
        self.server.press(place.chat, self.people["ann"], label)

    def seen(self, place: Place) -> list[str]:
        return [one.text for one in self.server.shown(place.chat) if place.thread in (None, one.thread)]

    def edits(self, place: Place) -> list[int]:
        return [len(one.edits) for one in self.server.shown(place.chat)]

    def signs(self) -> int:
        return sum(len(self.server.world.chat(one.chat.id).actions) for one in (self.private, self.room, self._forum))

    def files(self, place: Place) -> list[tuple[str, bytes]]:
        documents = [one.raw["document"] for one in self.server.shown(place.chat) if "document" in one.raw]
        return [(one["file_name"], self.server.world.files[one["file_id"]].data) for one in documents]


class DiscordSide(Side):
    """Discord."""

    name = "discord"

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        async with DiscordServer(heartbeat_interval=1.0) as self.server:
            self.people = {name: self.server.person(name) for name in ("ann", "ben")}
            self.private = Place(self.server.dm(self.people["ann"]))
            self.room = Place(self.server.channel)
            yield

    def section(self) -> dict[str, Any]:
        return {
            "enabled": True,
            "token": "${DISCORD_BOT_TOKEN}",
            "api_base": self.server.url,
            "gateway_url": f"{self.server.url.replace('http', 'ws', 1)}/gateway",
            "allow": [str(self.people["ben"])],
        }

    def chat_id(self, place: Place) -> str:
        return str(place.chat)

    def threads(self, place: Place) -> list[Place]:
        mine = [one for one in self.server.world.channels.values() if one.parent_id == place.chat]
        return [Place(place.chat, one.id) for one in sorted(mine, key=lambda one: one.id)]

    def env(self) -> dict[str, str]:
        return {"DISCORD_BOT_TOKEN": self.server.token}

    def owner(self) -> str:
        return f"discord:{self.people['ann']}"

    def say(self, place: Place, text: str, *, who: str = "ann", mention: bool = False, live: bool = True) -> Any:
        text = f"<@{self.server.bot}> {text}" if mention else text
        return self.server.say(place.thread or place.chat, self.people[who], text, live=live)

    def send_file(self, place: Place, name: str, data: bytes, caption: str) -> Any:
        return self.server.say(place.chat, self.people["ann"], caption, attachments=[(name, "text/plain", data)])

    def edit(self, place: Place, message: Any, text: str) -> None:
        self.server.edit(message, text)

    def press(self, place: Place, label: str) -> None:
        for one in reversed(self.server.shown(place.thread or place.chat)):
            for row in one.components:
                for button in row["components"]:
                    if button["label"] == label:
                        self.server.press(one.id, self.people["ann"], button["custom_id"])
                        return
        raise AssertionError(f"there is no button {label!r}")

    def seen(self, place: Place) -> list[str]:
        where = place.thread or place.chat
        if where not in self.server.world.messages:
            return []  # the thread is not made yet
        return [one.content for one in self.server.shown(where)]

    def edits(self, place: Place) -> list[int]:
        return [len(one.edits) for one in self.server.shown(place.chat)]

    def signs(self) -> int:
        return len(self.server.called("POST", "/typing"))

    def files(self, place: Place) -> list[tuple[str, bytes]]:
        calls = [one for one in self.server.calls if one.method == "POST" and one.files]
        return [(name, data) for call in calls for name, data in call.files]

    def answers_to(self, place: Place, message: Any) -> Place:
        return Place(place.chat, int(message["id"]))


class SlackSide(Side):
    """Slack by Socket Mode."""

    name = "slack"

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        async with SlackServer() as self.server:
            self.people = {name: self.server.person(name.title()) for name in ("ann", "ben")}
            self.private = Place(self.server.dm(self.people["ann"]))
            self.room = Place(self.server.channel("kitchen", *self.people.values()))
            yield

    def section(self) -> dict[str, Any]:
        return {
            "enabled": True,
            "bot_token": "${SLACK_BOT_TOKEN}",
            "app_token": "${SLACK_APP_TOKEN}",
            "api_base": self.server.url,
            "allow": [self.people["ben"]],
        }

    def chat_id(self, place: Place) -> str:
        return str(place.chat.id)

    def threads(self, place: Place) -> list[Place]:
        roots = [one["ts"] for one in self.server.shown(place.chat) if one.get("thread_ts", one["ts"]) == one["ts"]]
        return [Place(place.chat, ts) for ts in roots]

    def env(self) -> dict[str, str]:
        return {"SLACK_BOT_TOKEN": self.server.bot_token, "SLACK_APP_TOKEN": self.server.app_token}

    def owner(self) -> str:
        return f"slack:{self.people['ann']}"

    def say(self, place: Place, text: str, *, who: str = "ann", mention: bool = False, live: bool = True) -> Any:
        if text.startswith("/"):  # Slack keeps that for itself: the app's own command
            return self.server.people.slash(place.chat, self.people[who], text.removeprefix("/"))
        text = f"<@{self.server.bot}> {text}" if mention else text
        return self.server.people.say(place.chat, self.people[who], text, thread_ts=place.thread, live=live)

    def send_file(self, place: Place, name: str, data: bytes, caption: str) -> Any:
        return self.server.people.say(place.chat, self.people["ann"], caption, files=[(name, "text/plain", data)])

    def edit(self, place: Place, message: Any, text: str) -> None:
        self.server.people.edit(place.chat, message, text)

    def press(self, place: Place, label: str) -> None:
        asked = next(one for one in reversed(self.server.shown(place.chat)) if one.get("blocks"))
        self.server.people.press(place.chat, self.people["ann"], asked, label)

    def seen(self, place: Place) -> list[str]:
        return [html.unescape(one["text"]) for one in self.server.shown(place.chat, place.thread)]

    def edits(self, place: Place) -> list[int]:
        return [int(one.get("edits", 0)) for one in self.server.shown(place.chat)]

    def signs(self) -> int:
        return len([one for one in self.server.called("assistant.threads.setStatus") if one.fields.get("status")])

    def files(self, place: Place) -> list[tuple[str, bytes]]:
        sent = [file["id"] for one in self.server.shown(place.chat) for file in one.get("files", ())]
        return [(self.server.world.files[one].name, self.server.world.files[one].data) for one in sent]

    def answers_to(self, place: Place, message: Any) -> Place:
        return Place(place.chat, message["ts"])


SIDES: tuple[type[Side], ...] = (TelegramSide, DiscordSide, SlackSide)
