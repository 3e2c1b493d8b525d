"""A message's text out of Telegram's text and entities, whose offsets count UTF-16 units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from telegram import Message, MessageEntity


@dataclass(frozen=True, slots=True)
class Words:
    """A text (or caption) with its entities, not yet put together."""

    raw: str
    entities: tuple[MessageEntity, ...] = ()

    def covered(self, entity: MessageEntity) -> str:
        """The part of the text that `entity` marks."""
        units = self.raw.encode("utf-16-le", "surrogatepass")
        part = units[entity.offset * 2 : (entity.offset + entity.length) * 2]
        return part.decode("utf-16-le", "replace")

    @property
    def text(self) -> str:
        """The text as people read it; the address behind a word stands after it, else nobody would see it."""
        links = sorted((one for one in self.entities if one.url), key=lambda one: one.offset)
        if not links:
            return self.raw
        units = self.raw.encode("utf-16-le", "surrogatepass")
        parts, at = [], 0
        for link in links:
            end = (link.offset + link.length) * 2
            parts.append(units[at:end].decode("utf-16-le", "replace"))
            at = max(at, end)
            if link.url and self.covered(link).strip().rstrip("/") != link.url.rstrip("/"):
                parts.append(f" ({link.url})")
        return "".join([*parts, units[at:].decode("utf-16-le", "replace")])


def words_of(message: Message) -> Words:
    """The text of a message, or the caption of its file."""
    if message.text is not None:
        return Words(message.text, tuple(message.entities))
    return Words(message.caption or "", tuple(message.caption_entities))


def mentions(words: Words, username: str, bot_id: int) -> bool:
    """Whether the text speaks to the bot: by an entity that says so, never by letters that look alike (B43)."""
    handle = f"@{username}".lower()
    for entity in words.entities:
        match entity.type:
            case MessageEntity.MENTION:
                if words.covered(entity).lower() == handle:
                    return True
            case MessageEntity.TEXT_MENTION:
                if entity.user is not None and entity.user.id == bot_id:
                    return True
            case MessageEntity.BOT_COMMAND:
                if words.covered(entity).lower().endswith(handle):
                    return True
            case _:
                pass
    return False


@dataclass(frozen=True, slots=True)
class Typed:
    """A command at the beginning of a message: its line without a handle, and whether another bot is meant."""

    line: str
    for_another: bool


def command_in(words: Words, username: str) -> Typed | None:
    """The command that the message is, or None. White space inside of its arguments is kept (B44)."""
    entity = _leading(words.entities)
    if entity is None:
        return None
    head = words.covered(entity)
    name, _, handle = head.partition("@")
    rest = words.raw[len(head) :]
    if rest and not rest[0].isspace():  # "/etc/hosts" begins like a command
        return None
    if handle and handle.lower() != username.lower():
        return Typed(name, for_another=True)
    links = Words(words.raw, words.entities).text  # with the addresses behind words
    return Typed(name + links[len(head) :], for_another=False)


def _leading(entities: Sequence[MessageEntity]) -> MessageEntity | None:
    for entity in entities:
        if entity.type == MessageEntity.BOT_COMMAND and entity.offset == 0:
            return entity
    return None
