"""What this process has tried to send, and what of it is known to have arrived.

Discord knows a nonce for "the past few minutes" and returns the message that was made with it instead of making a
second one; the nonce is in the answer of a send and in the event of the message, but never in the history
(https://discord.com/developers/docs/resources/message#create-message, Rapptz/discord.py#2451).
"""

from __future__ import annotations

import base64
import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

WINDOW = 90.0
"""Seconds from the first try in which a further one with the same nonce is surely recognised."""
KEPT = 1000


def nonce_of(key: str) -> str:
    """The nonce for an idempotency key: 20 characters, of 25 that are allowed."""
    return base64.urlsafe_b64encode(
        hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=15).digest()
    ).decode()


@dataclass(slots=True, kw_only=True)
class Attempt:
    """The tries with one key. `began` is the loop's time of the first, `at` the same in UTC; `after` is the newest
    message that was known of the channel then (None: not known)."""

    content: str
    channel: str
    began: float
    at: datetime
    after: int | None = None
    message_id: str | None = None


class Attempts:
    """Remembers the newest `KEPT` keys."""

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._by_nonce: OrderedDict[str, Attempt] = OrderedDict()
        self._messages: set[str] = set()
        self._now = now

    def begin(self, key: str, content: str, channel: str, *, after: int | None, monotonic: float) -> None:
        """A try begins. Only the first one of a key sets its time."""
        nonce = nonce_of(key)
        known = self._by_nonce.get(nonce)
        if known is not None:
            known.content = content
            return
        self._by_nonce[nonce] = Attempt(content=content, channel=channel, began=monotonic, at=self._now(), after=after)
        while len(self._by_nonce) > KEPT:
            _, gone = self._by_nonce.popitem(last=False)
            self._messages.discard(gone.message_id or "")

    def get(self, key: str) -> Attempt | None:
        """The tries with a key."""
        return self._by_nonce.get(nonce_of(key))

    def drop(self, key: str) -> None:
        """The try was refused for sure: nothing of it is open."""
        attempt = self._by_nonce.get(nonce_of(key))
        if attempt is not None and attempt.message_id is None:
            del self._by_nonce[nonce_of(key)]

    def arrived(self, nonce: str, message_id: str) -> None:
        """A message with that nonce exists. A nonce of another process is not of interest."""
        attempt = self._by_nonce.get(nonce)
        if attempt is not None:
            attempt.message_id = message_id
            self._messages.add(message_id)

    def accounts_for(self, message_id: str) -> bool:
        """Whether a message of ours is known to belong to a key."""
        return message_id in self._messages
