"""Updates of Telegram as events. Pure: no I/O; what is not for us gives no event, and never an exception by design.

Service messages (pins, titles, topics that open and close), our own messages, commands for other bots and
kinds of updates that we do not know need no row in the inbox: nobody waits for an answer to them, and the
offset moves past them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import structlog
from telegram import (
    CallbackQuery,
    Chat,
    ChatMember,
    ChatMemberRestricted,
    ChatMemberUpdated,
    Message,
    MessageReactionUpdated,
    ReactionType,
    ReactionTypeCustomEmoji,
    ReactionTypeEmoji,
    Update,
    User,
)

from adapters.events import ChatAddress, ChatKind, EventKind, MessageEvent, ReplyTo, Sender
from adapters.ports import Moves
from adapters.telegram.buttons import decode
from adapters.telegram.content import NAME, attachments_of, facts_of, name_of, origin_of
from adapters.telegram.ids import GENERAL, PLATFORM, address_of, message_id_of
from adapters.telegram.words import Words, command_in, mentions, words_of

log = structlog.get_logger("adapters.telegram")

LATE = timedelta(minutes=1)
"""What is older when it comes was kept by Telegram for us."""
ALLOWED = (
    *("message", "edited_message", "channel_post", "edited_channel_post", "callback_query"),
    *("message_reaction", "my_chat_member", "chat_member"),
)
"""The kinds of updates that we ask for. The last ones come only where the bot is an administrator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ears:
    """What has to be known to understand an update. `limit` is the size up to which files are fetched."""

    bot_id: int
    username: str
    moves: Moves
    limit: int

    @property
    def account(self) -> str:
        """The bot's own id."""
        return str(self.bot_id)


def move_in(update: Update) -> tuple[str, str] | None:
    """The old and the new id of a group that has become a supergroup, where the update tells of it (B42)."""
    message = update.message
    if message is None:
        return None
    if message.migrate_to_chat_id is not None:
        return str(message.chat.id), str(message.migrate_to_chat_id)
    if message.migrate_from_chat_id is not None:
        return str(message.migrate_from_chat_id), str(message.chat.id)
    return None


def events_of(update: Update, ears: Ears, received_at: datetime) -> tuple[MessageEvent, ...]:
    """The events of one update, in order; none where it is nothing for us."""
    found = tuple(_events(update, ears, received_at))
    if not found:
        log.debug("telegram.ignored", update=update.update_id)
    return tuple(_aged(event) for event in found)


def _events(update: Update, ears: Ears, now: datetime) -> Iterator[MessageEvent]:
    if (fresh := update.message or update.channel_post) is not None:
        if fresh.new_chat_members or fresh.left_chat_member is not None:
            yield from _service_members(fresh, ears, now)
        elif (event := _message(fresh, ears, now)) is not None:
            yield event
    elif (changed := update.edited_message or update.edited_channel_post) is not None:
        if (event := _edit(changed, ears, now)) is not None:
            yield event
    elif update.callback_query is not None:
        if (event := _press(update.callback_query, ears, now)) is not None:
            yield event
    elif update.message_reaction is not None:
        yield _reaction(update.message_reaction, update.update_id, ears, now)
    elif (member := update.my_chat_member or update.chat_member) is not None:
        yield from _member(member, ears, now)


def _aged(event: MessageEvent) -> MessageEvent:
    if event.sent_at is None or event.kind is EventKind.EDIT or event.received_at - event.sent_at <= LATE:
        return event
    minutes = (event.received_at - event.sent_at).total_seconds() / 60
    age = f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.0f} h"
    return replace(event, came=f"kept by the platform for {age} while I could not hear it")


# messages


def _message(message: Message, ears: Ears, now: datetime) -> MessageEvent | None:
    if _is_own(message, ears):
        return None
    words = words_of(message)
    origin = None if message.is_automatic_forward else origin_of(message)
    # what somebody forwards is another's words: never a command of theirs (B51)
    typed = command_in(words, ears.username) if origin is None else None
    if typed is not None and typed.for_another and message.chat.type != Chat.PRIVATE:
        return None
    is_command = typed is not None and not typed.for_another
    event = _heard(message, words, ears, now)
    if not (event.text.strip() or event.attachments or event.facts):
        return None
    if is_command and typed is not None:
        event = replace(event, kind=EventKind.COMMAND, text=_for_gateway(typed.line))
    return replace(event, forwarded_from=origin)


def _for_gateway(line: str) -> str:
    """Telegram's own button sends /start, perhaps with a word of a link: it asks what this bot is."""
    return "/help" if line.split(maxsplit=1)[0].lower() == "/start" else line


def _edit(message: Message, ears: Ears, now: datetime) -> MessageEvent | None:
    if _is_own(message, ears) or message.location is not None:  # a live location changes every few seconds
        return None
    words = words_of(message)
    event = _heard(message, words, ears, now)
    content = repr((event.text, [one.ref for one in event.attachments], event.facts))
    mark = hashlib.sha256(content.encode("utf-8", "replace")).hexdigest()[:12]  # two edits in one second
    when = int(message.edit_date.timestamp()) if message.edit_date is not None else 0
    return replace(
        event,
        kind=EventKind.EDIT,
        dedup_id=f"e:{message.chat.id}:{message.message_id}:{when}:{mark}",
        sent_at=message.edit_date or event.sent_at,
        forwarded_from=None if message.is_automatic_forward else origin_of(message),
    )


def _heard(message: Message, words: Words, ears: Ears, now: datetime) -> MessageEvent:
    chat = message.chat
    return MessageEvent(
        dedup_id=f"m:{chat.id}:{message.message_id}",
        kind=EventKind.MESSAGE,
        message_id=message_id_of(ears.moves, chat.id, message.message_id),
        address=_address(chat, _thread(message), ears),
        sender=_sender(message, ears),
        received_at=now,
        sent_at=message.date,
        text=words.text,
        attachments=attachments_of(message, ears.limit),
        facts=facts_of(message),
        reply_to=_reply(message, ears),
        mentions_us=mentions(words, ears.username, ears.bot_id),
        group_id=None if message.media_group_id is None else f"{chat.id}:{message.media_group_id}",
        chat_name=_chat_name(message),
    )


def _is_own(message: Message, ears: Ears) -> bool:
    return message.from_user is not None and message.from_user.id == ears.bot_id


def _sender(message: Message, ears: Ears) -> Sender:
    """Who speaks: for an anonymous administrator, a channel and its forwards the chat in whose name it is said."""
    if (chat := message.sender_chat) is not None:
        return _sender_chat(chat, ears)
    if message.from_user is None:  # a post of a channel
        return _sender_chat(message.chat, ears)
    return _person(message.from_user)


def _sender_chat(chat: Chat, ears: Ears) -> Sender:
    name = chat.title or chat.full_name or chat.username or str(chat.id)
    return Sender(id=ears.moves.first(PLATFORM, str(chat.id)), name=name[:NAME])


def _person(user: User) -> Sender:
    return Sender(id=str(user.id), name=name_of(user), is_bot=user.is_bot)


def _address(chat: Chat, thread: str | None, ears: Ears) -> ChatAddress:
    kinds: dict[str, ChatKind] = {Chat.PRIVATE: "private", Chat.CHANNEL: "channel"}
    return address_of(ears.moves, ears.account, chat.id, kinds.get(chat.type, "group"), thread)


def _thread(message: Message) -> str | None:
    """The topic. A `message_thread_id` alone may be a mere chain of replies in a group (B40)."""
    if message.is_topic_message and message.message_thread_id is not None:
        return str(message.message_thread_id)
    return GENERAL if message.chat.is_forum else None


def _chat_name(message: Message) -> str | None:
    title = message.chat.title
    first = message.reply_to_message
    if title is None or first is None or first.forum_topic_created is None:
        return title if title is None else title[:NAME]
    return f"{title[:NAME]}, {first.forum_topic_created.name[:NAME]}"


def _reply(message: Message, ears: Ears) -> ReplyTo | None:
    """What is answered: the selected part where there is one (B52)."""
    quote = message.quote.text if message.quote is not None else None
    if (other := message.external_reply) is not None:  # of another chat
        chat = other.chat
        number = f"{other.message_id}@{chat.id}" if chat is not None and other.message_id else ""
        return ReplyTo(message_id=number, text=quote or "")
    replied = message.reply_to_message
    if replied is None:
        return None
    if replied.forum_topic_created is not None or (
        message.is_topic_message and replied.message_id == message.message_thread_id
    ):
        return None  # every message of a topic "replies" to the one that opened it
    return ReplyTo(
        message_id=message_id_of(ears.moves, replied.chat.id, replied.message_id),
        text=quote if quote is not None else _shown(replied),
        is_ours=_is_own(replied, ears),
        author=_author(replied),
    )


def _author(message: Message) -> str:
    """Who is shown as the one who wrote it."""
    if message.sender_chat is not None:
        return (message.sender_chat.title or "")[:NAME]
    return message.from_user.full_name[:NAME] if message.from_user is not None else ""


def _shown(message: Message) -> str:
    """A message in words, for one that is replied to."""
    text = words_of(message).text
    if text.strip():
        return text
    files = [f"{one.kind}: {one.name}" for one in attachments_of(message, 1 << 62)]
    return "; ".join([*files, *facts_of(message)])


# presses, reactions


def _press(query: CallbackQuery, ears: Ears, now: datetime) -> MessageEvent | None:
    action = decode(query.data or "")
    message = query.message
    if action is None or message is None:
        return None
    thread = _thread(message) if isinstance(message, Message) else GENERAL if message.chat.is_forum else None
    return MessageEvent(
        dedup_id=f"c:{query.id}",
        kind=EventKind.ACTION,
        message_id=message_id_of(ears.moves, message.chat.id, message.message_id),
        address=_address(message.chat, thread, ears),
        sender=_person(query.from_user),
        received_at=now,
        action=action,
    )


def _reaction(reaction: MessageReactionUpdated, number: int, ears: Ears, now: datetime) -> MessageEvent:
    chat = reaction.chat
    message_id = message_id_of(ears.moves, chat.id, reaction.message_id)
    sender = _person(reaction.user) if reaction.user is not None else _sender_chat(reaction.actor_chat or chat, ears)
    old, new = ([_emoji(one) for one in many] for many in (reaction.old_reaction, reaction.new_reaction))
    added, gone = ([one for one in many if one not in rest] for many, rest in ((new, old), (old, new)))
    facts = [f"reacted with {' '.join(added)}"] if added else []
    facts += [f"took the reaction {' '.join(gone)} back"] if gone else []
    return MessageEvent(
        dedup_id=f"r:{number}",
        kind=EventKind.REACTION,
        message_id=message_id,
        address=_address(chat, None, ears),
        sender=sender,
        received_at=now,
        sent_at=reaction.date,
        facts=tuple(facts),
        reply_to=ReplyTo(message_id=message_id),
    )


def _emoji(reaction: ReactionType) -> str:
    match reaction:
        case ReactionTypeEmoji(emoji=emoji):
            return str(emoji)
        case ReactionTypeCustomEmoji():
            return "an emoji of their own"
        case _:
            return "a star"


# members


def _service_members(message: Message, ears: Ears, now: datetime) -> Iterator[MessageEvent]:
    """A service message about members. An administrator is told the same by an update of its own: the dedup id
    is one for both."""
    by = message.from_user
    for user in message.new_chat_members:
        yield _membership(message.chat, by, user, "in", message.date, _sender(message, ears), ears, now)
    if (left := message.left_chat_member) is not None:
        yield _membership(message.chat, by, left, "out", message.date, _sender(message, ears), ears, now)


def _member(change: ChatMemberUpdated, ears: Ears, now: datetime) -> Iterator[MessageEvent]:
    if change.chat.type == Chat.PRIVATE:
        return  # somebody has blocked us or lets us in again: the next send, or the next message, tells it too
    was, is_ = (_present(one) for one in (change.old_chat_member, change.new_chat_member))
    what = ("in" if is_ else "out") if was != is_ else change.new_chat_member.status
    if was == is_ and not is_:
        return
    user = change.new_chat_member.user
    yield _membership(change.chat, change.from_user, user, what, change.date, _person(change.from_user), ears, now)


def _present(member: ChatMember) -> bool:
    if isinstance(member, ChatMemberRestricted):
        return member.is_member
    return member.status not in (ChatMember.LEFT, ChatMember.BANNED)


def _membership(
    chat: Chat,
    by: User | None,
    user: User,
    what: str,
    date: datetime,
    sender: Sender,
    ears: Ears,
    now: datetime,
) -> MessageEvent:
    who = "the bot" if user.id == ears.bot_id else name_of(user)
    alone = by is None or by.id == user.id
    told = {"in": "joined" if alone else "was added", "out": "left" if alone else "was removed"}
    fact = f"{who} {told.get(what, f'is now {what}')}" + ("" if alone or by is None else f" by {name_of(by)}")
    return MessageEvent(
        dedup_id=f"j:{chat.id}:{user.id}:{what}:{int(date.timestamp())}",
        kind=EventKind.MEMBERSHIP,
        message_id=f"j{user.id}",
        address=_address(chat, None, ears),
        sender=sender,
        received_at=now,
        sent_at=date,
        facts=(fact,),
    )
