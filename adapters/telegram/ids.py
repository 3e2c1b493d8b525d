"""Addresses and message ids: how Telegram's numbers are written here, and back.

A group that becomes a supergroup gets another id and counts its messages anew. Here it keeps the id that it had
first (`services.moves`); a message of the time after is written `number@chat`, so that no two are alike.
"""

from __future__ import annotations

from dataclasses import dataclass

from adapters.errors import Gone
from adapters.events import ChatAddress, ChatKind
from adapters.ports import Moves

PLATFORM = "telegram"
GENERAL = "1"
"""The thread id of a forum's general topic (core.telegram.org/api/forum). `sendChatAction` takes it, sends do not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a call goes. `thread` is None where none is to be told."""

    chat: int
    thread: int | None


def address_of(moves: Moves, account: str, chat_id: int, kind: ChatKind, thread: str | None) -> ChatAddress:
    """The address of a chat, under the id by which it is known here."""
    return ChatAddress(
        platform=PLATFORM,
        account=account,
        chat_id=moves.first(PLATFORM, str(chat_id)),
        thread_id=thread,
        chat_kind=kind,
    )


def message_id_of(moves: Moves, chat_id: int, number: int) -> str:
    """The id of a message of the chat with the real id `chat_id`."""
    real = str(chat_id)
    return str(number) if moves.first(PLATFORM, real) == real else f"{number}@{real}"


def place_of(moves: Moves, address: ChatAddress, *, typing: bool = False) -> Place:
    """Where to call for `address` now. Raises `Gone` for an address that is none of Telegram's."""
    try:
        chat = int(moves.now(PLATFORM, address.chat_id))
        thread = None if address.thread_id is None else int(address.thread_id)
    except ValueError:
        raise Gone(f"{address.chat_id!r} is no chat of Telegram") from None
    if address.thread_id == GENERAL and not typing:
        thread = None
    return Place(chat=chat, thread=thread)


def number_in(message_id: str, address: ChatAddress, chat: int) -> int | None:
    """The number of a message of ours in the chat with the real id `chat`; None where it lies in another one
    (in the group before it became a supergroup), where nothing can be done with it."""
    number, _, real = message_id.partition("@")
    if (real or address.chat_id) != str(chat) or not number.isascii() or not number.isdigit():
        return None
    return int(number)
