"""Keys and principals: who a bearer key stands for. Light: no SDK and no pydantic is imported here."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from collections.abc import Mapping

from aiohttp import web

PLATFORM = "http"
DEFAULT_NAME = "default"
"""The name of the key that the setting `key` holds."""
KEY_LENGTH = 16
"""The least length of a key, in characters."""

PRINCIPAL: web.RequestKey[str] = web.RequestKey("principal", str)
"""Where the HTTP server leaves the name of the key that a request came with."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def name_fault(name: str) -> str | None:
    """Why `name` cannot name a key, or None where it can."""
    if _NAME.fullmatch(name):
        return None
    return "a key's name is made of letters, digits, '.', '_' and '-', at most 64"


def key_fault(key: str) -> str | None:
    """Why `key` cannot be a bearer key, or None where it can. The sentence never holds the key."""
    if len(key) < KEY_LENGTH:
        return f"a key has at least {KEY_LENGTH} characters (this one has {len(key)})"
    if not key.isascii() or not key.isprintable() or " " in key:
        return "a key is made of printable ASCII characters without blanks"
    return None


def is_loopback(host: str) -> bool:
    """True for an address or name that only this machine can reach."""
    bare = host.strip("[]").lower()
    if bare == "localhost":
        return True
    try:
        address = ipaddress.ip_address(bare)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return address.is_loopback or (mapped is not None and mapped.is_loopback)


class KeyRing:
    """The keys of this daemon, by the name of their principal. Only digests are kept."""

    def __init__(self, keys: Mapping[str, str]) -> None:
        """Raises ValueError for a key or a name that is not fit, and for one key under two names."""
        self._digests: list[tuple[str, bytes]] = []
        for name, key in keys.items():
            problem = name_fault(name) or key_fault(key)
            if problem is not None:
                raise ValueError(f"the key {name!r}: {problem}")
            digest = _digest(key)
            if any(hmac.compare_digest(digest, other) for _, other in self._digests):
                raise ValueError(f"the key {name!r} is also the key of another name")
            self._digests.append((name, digest))

    def __bool__(self) -> bool:
        return bool(self._digests)

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in the order of the configuration."""
        return tuple(name for name, _ in self._digests)

    def principal(self, authorization: str | None) -> str | None:
        """The name for an `Authorization` header, or None. Takes the same time for every wrong key."""
        scheme, _, key = (authorization or "").partition(" ")
        presented = _digest(key.strip())
        found = None
        for name, digest in self._digests:
            if hmac.compare_digest(presented, digest):
                found = name
        return found if scheme.lower() == "bearer" else None


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
