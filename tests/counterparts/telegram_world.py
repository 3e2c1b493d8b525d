"""The world a Telegram bot lives in: people, chats, topics, messages, files. No sockets here."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.counterparts.telegram_rules import Refused

JsonDict = dict[str, Any]

ANONYMOUS: JsonDict = {"id": 1087968824, "is_bot": True, "first_name": "Group", "username": "GroupAnonymousBot"}
MOST_BYTES = 20 * 2**20
"""What a bot can fetch."""
MEMBERS = frozenset({"creator", "administrator", "member", "restricted"})


@dataclass(slots=True)
class Person:
    """Somebody with an account."""

    id: int
    first_name: str
    username: str | None = None
    last_name: str | None = None
    language_code: str | None = "en"
    is_bot: bool = False

    def raw(self) -> JsonDict:
        """As a `User`."""
        found = {"id": self.id, "is_bot": self.is_bot, "first_name": self.first_name, "last_name": self.last_name,
                 "username": self.username, "language_code": self.language_code}  # fmt: skip
        return {name: value for name, value in found.items() if value is not None}


@dataclass(slots=True)
class Topic:
    """A topic of a forum; its id is the id of the message that opened it, 1 for General."""

    id: int
    name: str
    closed: bool = False


@dataclass(slots=True)
class Chat:
    """A chat. `bot` is the bot's status in it (`kicked` in a private chat: it is blocked)."""

    id: int
    type: str
    title: str | None = None
    username: str | None = None
    person: Person | None = None
    is_forum: bool = False
    bot: str = "member"
    can_send: bool = True
    """May the bot send text?"""
    can_send_media: bool = True
    migrated_to: int | None = None
    topics: dict[int, Topic] = field(default_factory=dict)
    members: dict[int, str] = field(default_factory=dict)
    messages: dict[int, JsonDict] = field(default_factory=dict)
    history: dict[int, list[str]] = field(default_factory=dict)
    """The texts each message had before its edits."""
    reactions: dict[tuple[int, int], list[JsonDict]] = field(default_factory=dict)
    """What each user (the second number) put on a message."""
    mine: set[int] = field(default_factory=set)
    """The messages the bot sent."""
    actions: list[tuple[str, int | None]] = field(default_factory=list)
    """The actions the bot showed (typing...) and their thread."""
    last_message_id: int = 0

    def raw(self) -> JsonDict:
        """As a `Chat`."""
        found: JsonDict = {"id": self.id, "type": self.type}
        if self.person is not None:
            found |= {key: value for key, value in self.person.raw().items() if key in _NAMES}
        else:
            found |= {"title": self.title, "username": self.username, "is_forum": self.is_forum or None}
        return {name: value for name, value in found.items() if value is not None}

    @property
    def is_private(self) -> bool:
        return self.type == "private"


_NAMES = frozenset({"first_name", "last_name", "username"})


@dataclass(slots=True)
class StoredFile:
    """A file on Telegram's side. `size` is what is told; `cut` breaks its download in the middle."""

    id: str
    unique_id: str
    path: str
    data: bytes
    size: int
    name: str = ""
    mime: str = ""
    cut: bool = False
    gone: bool = False
    """Its link answers 404 until `getFile` is called again."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A message of the bot as the people in the chat see it now."""

    message_id: int
    text: str
    """The text or the caption."""
    entities: list[JsonDict]
    markup: JsonDict | None
    thread: int | None
    reply: int | None
    edits: list[str]
    """The texts it had before."""
    kind: str
    """`text`, `photo`, `document`..."""
    raw: JsonDict

    @property
    def buttons(self) -> list[tuple[str, str]]:
        """The label and the data (or URL) of each button."""
        rows = (self.markup or {}).get("inline_keyboard", [])
        return [(one["text"], one.get("callback_data", one.get("url", ""))) for row in rows for one in row]


KINDS = ("animation", "photo", "document", "audio", "voice", "video", "video_note", "sticker", "location", "contact")


def kind_of(message: JsonDict) -> str:
    """What a message is: `text`, one of `KINDS`, or `service`."""
    if "text" in message:
        return "text"
    return next((kind for kind in KINDS if kind in message), "service")


class World:
    """All chats of one bot. Message ids count per chat; dates are of the wall clock."""

    def __init__(self, username: str, *, first_name: str = "Hermes", bot_id: int = 7000000001) -> None:
        self.bot = Person(bot_id, first_name, username, language_code=None, is_bot=True)
        self.abilities: JsonDict = {
            "can_join_groups": True,
            "can_read_all_group_messages": True,
            "supports_inline_queries": False,
            "can_connect_to_business": False,
            "has_main_web_app": False,
            "has_topics_enabled": False,
            "allows_users_to_create_topics": False,
            "can_manage_bots": False,
        }
        """The bot's user, as `getMe` tells it. Without `can_read_all_group_messages` it is in privacy mode."""
        self.people: dict[int, Person] = {}
        self.chats: dict[int, Chat] = {}
        self.files: dict[str, StoredFile] = {}
        self.now: Callable[[], float] = time.time
        self._numbers = itertools.count(1)

    def number(self) -> int:
        """The next of one row of numbers."""
        return next(self._numbers)

    def person(self, first_name: str, **more: Any) -> Person:
        """Somebody new."""
        made = Person(more.pop("id", 100000 + self.number()), first_name, **more)
        self.people[made.id] = made
        return made

    def private(self, person: Person) -> Chat:
        """The private chat with `person`; always the same."""
        if person.id not in self.chats:
            self.chats[person.id] = Chat(person.id, "private", person=person, username=person.username)
        return self.chats[person.id]

    def group(self, title: str, *members: Person) -> Chat:
        """A basic group; its id is negative."""
        return self._room("group", title, members, -4000000 - self.number())

    def supergroup(self, title: str, *members: Person, username: str | None = None) -> Chat:
        """A supergroup; its id begins with -100."""
        return self._room("supergroup", title, members, -1001000000000 - self.number(), username=username)

    def forum(self, title: str, *members: Person) -> Chat:
        """A supergroup with topics; General is there (thread 1). The bot is an administrator."""
        chat = self._room("supergroup", title, members, -1002000000000 - self.number(), is_forum=True)
        chat.bot = "administrator"
        chat.topics[1] = Topic(1, "General")
        chat.last_message_id = 1
        return chat

    def channel(self, title: str, *, username: str | None = None) -> Chat:
        """A channel; the bot is an administrator."""
        chat = self._room("channel", title, (), -1003000000000 - self.number(), username=username)
        chat.bot = "administrator"
        return chat

    def _room(self, kind: str, title: str, members: tuple[Person, ...], chat_id: int, **more: Any) -> Chat:
        chat = Chat(chat_id, kind, title, **more)
        chat.members = {one.id: "member" for one in members}
        if members:
            chat.members[members[0].id] = "creator"
        self.chats[chat_id] = chat
        return chat

    def chat(self, which: Chat | int | str) -> Chat:
        """The chat with this id or @username; raises `Refused` as Telegram does."""
        if isinstance(which, Chat):
            return which
        if which in ("", None):
            raise Refused("chat_id is empty")
        if isinstance(which, str) and which.startswith("@"):
            name = which[1:].lower()
            for chat in self.chats.values():
                if (chat.username or "").lower() == name and not chat.is_private:
                    return chat
            raise Refused("chat not found")
        found = self.chats.get(int(which)) if str(which).lstrip("-").isdigit() else None
        if found is None:
            raise Refused("chat not found")
        return found

    def writable(self, which: Chat | int | str) -> Chat:
        """The chat where the bot is about to send; raises `Refused` where it must not."""
        chat = self.chat(which)
        if chat.migrated_to is not None:
            raise Refused("group chat was upgraded to a supergroup chat", migrate_to_chat_id=chat.migrated_to)
        if chat.is_private:
            if chat.bot == "kicked":
                raise Refused("bot was blocked by the user", 403)
            if chat.bot == "deactivated":
                raise Refused("user is deactivated", 403)
            if chat.bot == "unknown":
                raise Refused("bot can't initiate conversation with a user", 403)
            if chat.person is not None and chat.person.is_bot:
                raise Refused("bot can't send messages to bots", 403)
        elif chat.bot == "kicked":
            raise Refused(f"bot was kicked from the {chat.type} chat", 403)
        elif chat.bot not in MEMBERS:
            raise Refused(f"bot is not a member of the {chat.type} chat", 403)
        elif chat.type == "channel" and chat.bot != "administrator":
            raise Refused("need administrator rights in the channel chat")
        return chat

    def in_thread(self, chat: Chat, thread: int | None, *, sending: bool = True) -> int | None:
        """The thread a message goes to, checked; raises `Refused`."""
        if not thread:
            if sending and chat.is_forum and chat.topics[1].closed and chat.bot != "administrator":
                raise Refused("TOPIC_CLOSED")
            return None
        if chat.is_forum or (chat.is_private and self.abilities["has_topics_enabled"]):
            topic = chat.topics.get(thread)
            if topic is not None and not (sending and thread == 1):
                if sending and topic.closed and chat.bot != "administrator":
                    raise Refused("TOPIC_CLOSED")
                return thread
        raise Refused("message thread not found")

    def thread_of(self, chat: Chat, reply_to: int | None) -> int | None:
        """The topic an answer goes to without being told: that of the message it answers."""
        replied = chat.messages.get(reply_to or 0, {})
        return replied.get("message_thread_id") if replied.get("is_topic_message") else None

    def keep(self, chat: Chat, message: JsonDict, *, mine: bool = False) -> JsonDict:
        """Give the message its id and keep it."""
        chat.last_message_id += 1
        kept = {"message_id": chat.last_message_id, "date": int(self.now()), "chat": chat.raw(), **message}
        chat.messages[chat.last_message_id] = kept
        if mine:
            chat.mine.add(chat.last_message_id)
        return kept

    def place(self, chat: Chat, thread: int | None, reply_to: int | None) -> JsonDict:
        """The fields of a new message that tell its thread and what it answers.

        Outside of topics (and in General) an answer in a supergroup carries the id of the message the row of answers
        began with as its `message_thread_id`, without `is_topic_message`; nothing can be sent to such a thread.
        """
        found: JsonDict = {}
        replied = chat.messages.get(reply_to) if reply_to is not None else None
        if thread is None:
            thread = self.thread_of(chat, reply_to)
        if replied is not None:
            found["reply_to_message"] = {key: value for key, value in replied.items() if key != "reply_to_message"}
        if thread is not None and thread in chat.topics and thread != 1:
            found |= {"message_thread_id": thread, "is_topic_message": True}
            if replied is None and chat.is_forum and thread in chat.messages:
                found["reply_to_message"] = dict(chat.messages[thread])
        elif replied is not None and chat.type == "supergroup":
            found["message_thread_id"] = replied.get("message_thread_id", replied["message_id"])
        return found

    def store(self, kind: str, data: bytes, *, name: str = "", mime: str = "", size: int | None = None,
              cut: bool = False) -> StoredFile:  # fmt: skip
        """Keep a file; it gets an id, and a path as Telegram gives it."""
        number = self.number()
        folder, suffix = _PLACES.get(kind, ("documents", ""))
        suffix = suffix or (f".{name.rpartition('.')[2]}" if "." in name else "")
        kept = StoredFile(
            id=f"{kind[:3].upper()}file-id-{number:08}",
            unique_id=f"uniq{number:08}",
            path=f"{folder}/file_{number}{suffix}",
            data=data,
            size=len(data) if size is None else size,
            name=name,
            mime=mime,
            cut=cut,
        )
        self.files[kept.id] = kept
        if kind == "photo":
            small = f"{kept.id}-s"
            self.files[small] = StoredFile(small, f"{kept.unique_id}s", f"{folder}/file_{number}s.jpg", data, 900)
        return kept

    def shown(self, which: Chat | int) -> list[Shown]:
        """The messages of the bot that are there now, in order; none of the service messages it caused."""
        chat = self.chat(which)
        found = []
        for message in chat.messages.values():
            kind = kind_of(message)
            if message["message_id"] not in chat.mine or kind == "service":
                continue
            opened = message.get("reply_to_message", {})
            found.append(
                Shown(
                    message_id=message["message_id"],
                    text=message.get("text", message.get("caption", "")),
                    entities=message.get("entities", message.get("caption_entities", [])),
                    markup=message.get("reply_markup"),
                    thread=message.get("message_thread_id"),
                    reply=None if "forum_topic_created" in opened else opened.get("message_id"),
                    edits=list(chat.history.get(message["message_id"], [])),
                    kind=kind,
                    raw=message,
                )
            )
        return found


_PLACES = {
    "photo": ("photos", ".jpg"),
    "voice": ("voice", ".oga"),
    "audio": ("music", ".mp3"),
    "video": ("videos", ".mp4"),
    "video_note": ("video_notes", ".mp4"),
    "animation": ("animations", ".mp4"),
    "sticker": ("stickers", ".webp"),
}
