"""What people do: they speak, send files, edit, react, press buttons, come and go. The bot hears of it by updates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.counterparts.telegram_methods import Methods, Query, delete_topic, member, open_topic
from tests.counterparts.telegram_rules import Refused
from tests.counterparts.telegram_sending import file_content
from tests.counterparts.telegram_text import Entity, covered, detect
from tests.counterparts.telegram_updates import Updates
from tests.counterparts.telegram_world import ANONYMOUS, MEMBERS, Chat, Person, Topic, World

JsonDict = dict[str, Any]

Where = Chat | int


class Hearing:
    """What the sides of the people share: a world, a queue, and what the bot gets to hear."""

    world: World
    updates: Updates
    methods: Methods

    def _speak(self, where: Where, sender: JsonDict, content: JsonDict, *, thread: int | None = None,
               reply_to: int | None = None, more: JsonDict | None = None) -> JsonDict:  # fmt: skip
        """Keep a message of somebody and tell the bot; the message as the update carries it."""
        chat = self.world.chat(where)
        if chat.is_private and chat.bot == "unknown":
            chat.bot = "member"
        placed = self.world.place(chat, thread, reply_to)
        if more and "quote" in more and "reply_to_message" in placed:
            replied = placed["reply_to_message"]
            place = replied.get("text", replied.get("caption", "")).find(more["quote"]["text"])
            more["quote"]["position"] = max(place, 0)
        message = self.world.keep(chat, {**sender, **placed, **content, **(more or {})})
        self._tell(chat, "channel_post" if chat.type == "channel" else "message", message)
        return message

    def _tell(self, chat: Chat, kind: str, message: JsonDict) -> None:
        if chat.bot in MEMBERS and chat.migrated_to is None and self._hears(chat, message):
            self.updates.push(kind, dict(message))

    def _hears(self, chat: Chat, message: JsonDict) -> bool:
        """Privacy mode: commands, mentions, answers to the bot and service messages only."""
        if chat.is_private or chat.type == "channel" or chat.bot == "administrator":
            return True
        if self.world.abilities["can_read_all_group_messages"]:
            return True
        if message.get("reply_to_message", {}).get("message_id") in chat.mine:
            return True
        text = message.get("text", message.get("caption"))
        if text is None:
            return not any(kind in message for kind in ("photo", "document", "voice", "audio", "video", "sticker"))
        name = f"@{self.world.bot.username}".lower()
        for entity in message.get("entities", message.get("caption_entities", [])):
            part = covered(text, entity).lower()
            if entity["type"] == "bot_command" and ("@" not in part or part.endswith(name)):
                return True
            if entity["type"] == "mention" and part == name:
                return True
        return False


class Speaking(Hearing):
    """Messages of people, their edits and their files."""

    def say(self, chat: Where, person: Person, text: str, *, thread: int | None = None, reply_to: int | None = None,
            quote: str | None = None, entities: list[Entity] | None = None, forward_origin: JsonDict | None = None,
            media_group_id: str | None = None, **more: Any) -> JsonDict:  # fmt: skip
        """Somebody writes. `entities` are found where they are not given; `more` are further fields of the message."""
        return self._speak(
            chat,
            {"from": person.raw()},
            _text(text, entities),
            thread=thread,
            reply_to=reply_to,
            more={**_marks(quote, forward_origin, media_group_id), **more},
        )

    def say_anonymous(self, chat: Where, text: str, *, thread: int | None = None, reply_to: int | None = None,
                      **more: Any) -> JsonDict:  # fmt: skip
        """An anonymous administrator writes: from GroupAnonymousBot, in the name of the group."""
        sender = {"from": dict(ANONYMOUS), "sender_chat": self.world.chat(chat).raw()}
        return self._speak(chat, sender, _text(text, None), thread=thread, reply_to=reply_to, more=more)

    def post(self, channel: Where, text: str, *, reply_to: int | None = None, **more: Any) -> JsonDict:
        """A post in a channel: an update `channel_post` without `from`."""
        sender = {"sender_chat": self.world.chat(channel).raw()}
        return self._speak(channel, sender, _text(text, None), reply_to=reply_to, more=more)

    def send_file(self, chat: Where, person: Person, kind: str, data: bytes, *, name: str = "", mime: str = "",
                  size: int | None = None, cut: bool = False, caption: str | None = None, duration: int = 3,
                  emoji: str = "👍", thread: int | None = None, reply_to: int | None = None,
                  media_group_id: str | None = None, forward_origin: JsonDict | None = None,
                  **more: Any) -> JsonDict:  # fmt: skip
        """Somebody sends a file of `kind` (photo, document, voice, audio, video, video_note, animation, sticker).

        `size` is what Telegram tells instead of the true size; above 20 MB `getFile` refuses. `cut` breaks the
        download in the middle.
        """
        file = self.world.store(kind, data, name=name, mime=mime, size=size, cut=cut)
        content = file_content(kind, file, duration=duration, emoji=emoji)
        if caption is not None:
            content["caption"] = caption
            if found := detect(caption):
                content["caption_entities"] = found
        return self._speak(
            chat,
            {"from": person.raw()},
            content,
            thread=thread,
            reply_to=reply_to,
            more={**_marks(None, forward_origin, media_group_id), **more},
        )

    def send_photo(self, chat: Where, person: Person, data: bytes, **more: Any) -> JsonDict:
        """A photo, in two sizes; the last one is the whole."""
        return self.send_file(chat, person, "photo", data, **more)

    def send_document(self, chat: Where, person: Person, data: bytes, *, name: str = "file.txt",
                      mime: str = "text/plain", **more: Any) -> JsonDict:  # fmt: skip
        """A document."""
        return self.send_file(chat, person, "document", data, name=name, mime=mime, **more)

    def send_voice(self, chat: Where, person: Person, data: bytes, **more: Any) -> JsonDict:
        """A voice note."""
        return self.send_file(chat, person, "voice", data, **{"mime": "audio/ogg", **more})

    def send_audio(self, chat: Where, person: Person, data: bytes, **more: Any) -> JsonDict:
        """Music."""
        return self.send_file(chat, person, "audio", data, **{"mime": "audio/mpeg", "name": "song.mp3", **more})

    def send_video(self, chat: Where, person: Person, data: bytes, **more: Any) -> JsonDict:
        """A video."""
        return self.send_file(chat, person, "video", data, **{"mime": "video/mp4", "name": "film.mp4", **more})

    def send_sticker(self, chat: Where, person: Person, data: bytes = b"RIFF0000WEBP", **more: Any) -> JsonDict:
        """A sticker; `emoji` is what it stands for."""
        return self.send_file(chat, person, "sticker", data, **more)

    def send_location(self, chat: Where, person: Person, latitude: float, longitude: float, *,
                      thread: int | None = None, reply_to: int | None = None, **more: Any) -> JsonDict:  # fmt: skip
        """A place."""
        place = {"location": {"latitude": latitude, "longitude": longitude}}
        return self._speak(chat, {"from": person.raw()}, place, thread=thread, reply_to=reply_to, more=more)

    def send_contact(self, chat: Where, person: Person, phone: str, first_name: str, *, thread: int | None = None,
                     reply_to: int | None = None, **more: Any) -> JsonDict:  # fmt: skip
        """A contact."""
        contact = {"contact": {"phone_number": phone, "first_name": first_name}}
        return self._speak(chat, {"from": person.raw()}, contact, thread=thread, reply_to=reply_to, more=more)

    def edit(self, chat: Where, message_id: int, text: str) -> JsonDict:
        """The writer changes the text (the caption of a file): an update `edited_message`; the message."""
        where = self.world.chat(chat)
        message = where.messages[message_id]
        field, marks = ("text", "entities") if "text" in message else ("caption", "caption_entities")
        changed = {**message, field: text, "edit_date": int(self.world.now())}
        changed.pop(marks, None)
        if found := detect(text):
            changed[marks] = found
        where.messages[message_id] = changed
        self._tell(where, "edited_channel_post" if where.type == "channel" else "edited_message", changed)
        return changed

    def delete(self, chat: Where, message_id: int) -> None:
        """Somebody deletes a message; a bot does not hear of it."""
        del self.world.chat(chat).messages[message_id]


class Acting(Hearing):
    """What people do besides writing."""

    def react(self, chat: Where, person: Person, message_id: int, *emojis: str) -> JsonDict:
        """Put these reactions on a message, in place of those before (none: take them away); the update."""
        where = self.world.chat(chat)
        key = (message_id, person.id)
        old = where.reactions.get(key, [])
        where.reactions[key] = [{"type": "emoji", "emoji": one} for one in emojis]
        return self.updates.push(
            "message_reaction",
            {
                "chat": where.raw(),
                "message_id": message_id,
                "user": person.raw(),
                "date": int(self.world.now()),
                "old_reaction": old,
                "new_reaction": where.reactions[key],
            },
        )

    def press(self, chat: Where, person: Person, button: str, *, message_id: int | None = None) -> JsonDict:
        """Press the button with this label or data, of the bot's last message that has it; the update.

        `query_of(update)` tells how the bot answered. LookupError where there is no such button.
        """
        where = self.world.chat(chat)
        for shown in reversed(self.world.shown(where)):
            if message_id not in (None, shown.message_id):
                continue
            for label, data in shown.buttons:
                if button in (label, data):
                    return self.press_data(where, person, shown.message_id, data)
        raise LookupError(f"no button {button!r}")

    def press_data(self, chat: Where, person: Person, message_id: int, data: str) -> JsonDict:
        """A press of a button with `data`, whether it is there or not (a client that is behind); the update."""
        where = self.world.chat(chat)
        query = Query(str(4000000000000000000 + self.world.number()), where.id, message_id, data)
        self.methods.queries[query.id] = query
        gone = {"chat": where.raw(), "message_id": message_id, "date": 0}
        return self.updates.push(
            "callback_query",
            {
                "id": query.id,
                "from": person.raw(),
                "message": where.messages.get(message_id, gone),
                "chat_instance": str(-where.id),
                "data": data,
            },
        )

    def query_of(self, update: JsonDict) -> Query:
        """The press an update tells of: its answers, and `expired` to set."""
        return self.methods.queries[update["callback_query"]["id"]]

    def expire_queries(self) -> None:
        """Every press until now is too old to be answered."""
        for query in self.methods.queries.values():
            query.expired = True

    def join(self, chat: Where, *people: Person, by: Person | None = None) -> JsonDict:
        """People come in: `chat_member` for each and one message with `new_chat_members`; that message."""
        where = self.world.chat(chat)
        for one in people:
            self._member("chat_member", where, by or one, one.raw(), where.members.get(one.id, "left"), "member")
            where.members[one.id] = "member"
        sender = {"from": (by or people[0]).raw()}
        return self._speak(where, sender, {"new_chat_members": [one.raw() for one in people]})

    def leave(self, chat: Where, person: Person, *, by: Person | None = None) -> JsonDict:
        """Somebody goes or is removed (`by`): `chat_member` and a message with `left_chat_member`; that message."""
        where = self.world.chat(chat)
        status = "left" if by is None else "kicked"
        self._member("chat_member", where, by or person, person.raw(), where.members.get(person.id, "left"), status)
        where.members[person.id] = status
        return self._speak(where, {"from": (by or person).raw()}, {"left_chat_member": person.raw()})

    def set_bot(self, chat: Where, status: str, *, by: Person, message: bool = True) -> JsonDict:
        """The bot becomes `member`, `administrator`, `restricted`, `left` or `kicked`: `my_chat_member`; the update.

        In a private chat `kicked` is blocked. Adding and removing makes a service message besides.
        """
        where = self.world.chat(chat)
        old, where.bot = where.bot, status
        update = self._member("my_chat_member", where, by, self.world.bot.raw(), old, status)
        if message and not where.is_private:
            if status in MEMBERS and old not in MEMBERS:
                self._speak(where, {"from": by.raw()}, {"new_chat_members": [self.world.bot.raw()]})
            elif status not in MEMBERS and old in MEMBERS:
                self.world.keep(where, {"from": by.raw(), "left_chat_member": self.world.bot.raw()})
        return update

    def block(self, person: Person) -> JsonDict:
        """Block the bot: sends to the private chat are answered with 403."""
        return self.set_bot(self.world.private(person), "kicked", by=person)

    def unblock(self, person: Person) -> JsonDict:
        """Undo it."""
        return self.set_bot(self.world.private(person), "member", by=person)

    def add_bot(self, chat: Where, by: Person) -> JsonDict:
        """Put the bot into a group."""
        return self.set_bot(chat, "member", by=by)

    def kick(self, chat: Where, by: Person) -> JsonDict:
        """Remove the bot from a group: sends there are answered with 403."""
        return self.set_bot(chat, "kicked", by=by)

    def _member(self, kind: str, chat: Chat, by: Person, user: JsonDict, old: str, new: str) -> JsonDict:
        change = {
            "chat": chat.raw(),
            "from": by.raw(),
            "date": int(self.world.now()),
            "old_chat_member": member(user, old, chat),
            "new_chat_member": member(user, new, chat),
        }
        return self.updates.push(kind, change)

    def migrate(self, chat: Where, by: Person, *, order: str = "to-from", forum: bool = False) -> Chat:
        """A group becomes a supergroup with a new id; sends to the old id are refused with that id.

        `order` tells which service messages come, and how: `to-from`, `from-to`, `to`, `from` or `none`.
        """
        old = self.world.chat(chat)
        make = self.world.forum if forum else self.world.supergroup
        new = make(old.title or "", *(self.world.people[one] for one in old.members))
        new.members, new.bot = dict(old.members), old.bot
        sender = {"from": by.raw()}
        for half in order.split("-"):
            if half == "to":
                self._speak(old, sender, {"migrate_to_chat_id": new.id})
            elif half == "from":
                self._speak(new, {**sender, "sender_chat": new.raw()}, {"migrate_from_chat_id": old.id})
        old.migrated_to = new.id
        return new

    def open_topic(self, chat: Where, person: Person, name: str) -> Topic:
        """Somebody opens a topic; the service message tells the bot."""
        where = self.world.chat(chat)
        topic = open_topic(self.world, where, name, person.raw())
        self._tell(where, "message", where.messages[topic.id])
        return topic

    def close_topic(self, chat: Where, person: Person, thread: int, *, closed: bool = True) -> JsonDict:
        """Somebody closes a topic (or opens it again); the service message."""
        self.world.chat(chat).topics[thread].closed = closed
        name = "forum_topic_closed" if closed else "forum_topic_reopened"
        return self._speak(chat, {"from": person.raw()}, {name: {}}, thread=thread)

    def delete_topic(self, chat: Where, thread: int) -> None:
        """Somebody deletes a topic; a bot does not hear of it."""
        where = self.world.chat(chat)
        if thread not in where.topics:
            raise Refused("message thread not found")
        delete_topic(where, thread)

    def inject(self, raw: JsonDict) -> JsonDict:
        """An update exactly as given, malformed or not; it gets an `update_id` where it has none."""
        return self.updates.push_raw(raw)


def _text(text: str, entities: Sequence[Entity] | None) -> JsonDict:
    found = detect(text) if entities is None else list(entities)
    return {"text": text, "entities": found} if found else {"text": text}


def _marks(quote: str | None, forward_origin: JsonDict | None, album: str | None) -> JsonDict:
    found: JsonDict = {}
    if quote is not None:
        found["quote"] = {"text": quote, "position": 0, "is_manual": True}
    if forward_origin is not None:
        found["forward_origin"] = forward_origin
    if album is not None:
        found["media_group_id"] = album
    return found
