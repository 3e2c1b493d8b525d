"""Messages of the last hours by their id: whose they are and where they belong. Bounded; lost with the process.

Discord tells neither author nor words with a deletion, and not the author with most reactions.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from adapters.events import ChatAddress, MessageEvent, Sender

MESSAGES = 3000
TEXT = 200
"""Characters of a message that are kept, for the titles of threads and the notes about reactions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A message. `sender` is None where it is ours."""

    address: ChatAddress
    sender: Sender | None
    text: str = ""


class Recent:
    """What `put` and `ours` were told, the newest `MESSAGES` of it."""

    def __init__(self) -> None:
        self._messages: OrderedDict[str, Known] = OrderedDict()
        self._names: OrderedDict[str, str] = OrderedDict()

    def put(self, event: MessageEvent) -> None:
        """Somebody's message, as it was accepted."""
        self._keep(event.message_id, Known(address=event.address, sender=event.sender, text=event.text[:TEXT]))
        self._names[event.sender.id] = event.sender.name
        self._names.move_to_end(event.sender.id)
        while len(self._names) > MESSAGES:
            self._names.popitem(last=False)

    def ours(self, message_id: str, address: ChatAddress, text: str = "") -> None:
        """A message of ours."""
        if message_id not in self._messages:
            self._keep(message_id, Known(address=address, sender=None, text=text[:TEXT]))

    def get(self, message_id: str) -> Known | None:
        """What is known of a message."""
        return self._messages.get(message_id)

    def name(self, person: str) -> str | None:
        """The name that a person had last."""
        return self._names.get(person)

    def _keep(self, message_id: str, known: Known) -> None:
        self._messages[message_id] = known
        self._messages.move_to_end(message_id)
        while len(self._messages) > MESSAGES:
            self._messages.popitem(last=False)
