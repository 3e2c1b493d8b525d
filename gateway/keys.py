"""Session keys: one pure, injective function that inbound events, hand-offs and look-ups all use.

Each part is percent-encoded on its own, so that the separator never occurs inside a part; an absent
part is `~`, which no encoded text can be. Distinct tuples therefore give distinct keys, for any text.
The format is persisted: changing it needs a migration.
"""

from __future__ import annotations

from typing import Literal
from urllib.parse import quote

from adapters.events import ChatAddress
from state.ids import SessionKey

Share = Literal["person", "shared"]

ABSENT = "~"


def encode_part(part: str | None) -> str:
    """One part. `None` and the empty text differ; every text has exactly one form."""
    if part is None:
        return ABSENT
    # quote() leaves the tilde alone, which we need for "absent"
    return quote(part, safe="@+=", errors="surrogatepass").replace("~", "%7E")


def join_parts(*parts: str | None) -> str:
    """The parts as one text, injectively for a fixed number of parts."""
    return ":".join(encode_part(part) for part in parts)


def session_key(address: ChatAddress, person: str | None = None) -> SessionKey:
    """The name of a conversation line. `person` only where each person has a line of their own.

    `chat_kind` is no part of it: a platform may turn a group into a channel.
    """
    return SessionKey(
        join_parts(address.platform, address.account, address.scope, address.chat_id, address.thread_id, person)
    )


def room_of(address: ChatAddress) -> str:
    """What the keys of all lines of one room (a chat, or a thread of it) begin with, up to the last colon."""
    return join_parts(address.platform, address.account, address.scope, address.chat_id, address.thread_id) + ":"


def line_key(address: ChatAddress, sender_id: str, *, groups: Share, threads: Share) -> SessionKey:
    """The key of the line that a message of `sender_id` at `address` belongs to, by the chat's settings."""
    if address.chat_kind == "private":
        return session_key(address)
    share = threads if address.thread_id is not None else groups
    return session_key(address, sender_id if share == "person" else None)


def chat_queue(address: ChatAddress) -> str:
    """The arbiter's queue: one a chat, all its threads together, since platforms limit by chat."""
    return join_parts(address.platform, address.account, address.chat_id)


def account_queue(platform: str, account: str) -> str:
    """The arbiter's name for a whole account."""
    return join_parts(platform, account)


def person_of(platform: str, sender_id: str) -> str:
    """A person as the configuration writes it: `platform:id`. Platform names hold no colon."""
    return f"{platform}:{sender_id}"
