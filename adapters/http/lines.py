"""Names of conversation lines and messages: built here and read here.

A line is a chat of the platform: `NAME/KIND/REST`, where NAME is the principal's (it holds no slash, so
that distinct principals and kinds never meet, whatever the rest is).
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from typing import Literal

from adapters.events import ChatAddress
from adapters.http.auth import PLATFORM

ACCOUNT = "local"
MAIN = "main"
"""The session of a client that names none."""

LineKind = Literal["s", "m", "r", "u"]
"""s: a session that the client names; m: one stateless request; r: a chain of stored responses;
u: a response that the client did not want to be stored."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line as its parts."""

    name: str
    kind: str
    rest: str


def address_of(name: str, kind: LineKind, rest: str) -> ChatAddress:
    """The address of a line of the principal `name`."""
    return ChatAddress(platform=PLATFORM, account=ACCOUNT, chat_id=f"{name}/{kind}/{rest}")


def line_of(address: ChatAddress) -> Line:
    """The reverse of `address_of`; parts are empty for an address that is none of ours."""
    name, _, tail = address.chat_id.partition("/")
    kind, _, rest = tail.partition("/")
    return Line(name, kind, rest)


def person_of(name: str) -> str:
    """The person that a principal is."""
    return f"{PLATFORM}:{name}"


def fresh_id(prefix: str) -> str:
    """A new message id."""
    return prefix + secrets.token_hex(12)


def stable_id(prefix: str, *parts: str) -> str:
    """The same id for the same parts: what a client repeats is recognised by it."""
    joined = "\0".join(part.replace("\\", "\\\\").replace("\0", "\\0") for part in parts)
    return prefix + hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()[:24]
