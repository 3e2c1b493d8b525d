"""Topics of our own, for conversations that are handed off to a forum or to a private chat with topics."""

from __future__ import annotations

from dataclasses import replace

from adapters.events import ChatAddress
from adapters.ports import Moves
from adapters.telegram.errors import Refusal, translate
from adapters.telegram.ids import GENERAL, place_of
from adapters.telegram.outbound import GetLink

TITLE = 128
"""Characters of a topic's name (core.telegram.org/bots/api#createforumtopic)."""


async def open_topic(link: GetLink, moves: Moves, chat: ChatAddress, title: str) -> ChatAddress | None:
    """Make a topic and return its address; None where the chat can have none."""
    place = place_of(moves, replace(chat, thread_id=None))
    is_private = place.chat > 0  # the kind may not be known where an address comes from the configuration
    if is_private:
        if not (await link().me()).has_topics_enabled:
            return None
    elif not (await link().ask(lambda bot: bot.get_chat(place.chat))).is_forum:
        return None
    name = " ".join(title.split())[:TITLE] or "Conversation"
    try:
        topic = await link().call(lambda bot: bot.create_forum_topic(place.chat, name))
    except Refusal as error:
        if error.says("not a forum"):
            return None
        raise translate(error) from error
    return replace(chat, thread_id=str(topic.message_thread_id), chat_kind="private" if is_private else "group")


async def close_topic(link: GetLink, moves: Moves, thread: ChatAddress) -> None:
    """Close a topic. Already closed or gone is a success; topics of private chats cannot be closed."""
    place = place_of(moves, thread)
    number = place.thread
    if number is None or thread.thread_id == GENERAL or place.chat > 0:
        return
    try:
        await link().call(lambda bot: bot.close_forum_topic(place.chat, number))
    except Refusal as error:
        if error.says("not_modified", "thread not found", "topic_deleted", "topic_id_invalid"):
            return
        raise translate(error) from error
