"""Keeps what people call their chats, for the directory that hand-offs look places up in."""

from __future__ import annotations

import dataclasses

from adapters.events import ChatAddress, MessageEvent
from gateway.convert import address_to_json
from gateway.inputs import one_line
from gateway.work import TurnParts

LONGEST = 100
REMEMBERED = 2000
"""Chats whose names are remembered, so that they are written only when they change."""


def chat_of(address: ChatAddress) -> ChatAddress:
    """The chat that a place is in: without its thread."""
    return dataclasses.replace(address, thread_id=None)


class ChatNames:
    """Notes names beside the work of an event; losing one is harmless."""

    def __init__(self, parts: TurnParts) -> None:
        self._p = parts
        self._names: dict[ChatAddress, str] = {}

    def note(self, event: MessageEvent) -> None:
        """Keep the name of the chat, where somebody speaks who is let in. Never blocks and never fails."""
        address, name = chat_of(event.address), one_line(event.chat_name or "", LONGEST)
        if self._names.get(address) == name or self._p.access.role(address.platform, event.sender.id) is None:
            return
        if len(self._names) >= REMEMBERED:
            self._names.clear()
        self._names[address] = name
        self._p.spawn(self._write(address, name), "directory")

    async def _write(self, address: ChatAddress, name: str) -> None:
        await self._p.store.directory.seen(
            address.platform, address.account, address.chat_id, address.thread_id, name, address_to_json(address)
        )
