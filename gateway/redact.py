"""Takes secrets out of texts that leave the process: logs, errors, health pages.

Two nets: the configured secrets themselves, with their secret halves and the forms they take in URLs
and JSON; and the shapes of well-known tokens, for those that people paste. Never used on what the
agent or a person is told in a conversation: that text is not ours to mangle.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, MutableMapping
from typing import Any
from urllib.parse import quote, quote_plus

MASK = "[redacted]"
_MIN_SECRET = 6
"""Shorter texts are no secrets that could be masked without masking half of every line."""
_MAX_DEPTH = 8

_HINT = re.compile(
    r"(?i)xox|xapp|:aa|bot[0-9]|syt_|gocspx|-----begin|eyj|hooks\.|/webhooks/|sk-|bearer|basic |token|secret|passw|"
    r"api[_-]?key|authorization|AKIA|gh[pousr]_|github_pat|AIza|[\w-]{23,28}\.[\w-]{6,7}\.|://[^/\s]*@|mfa\."
)
"""One cheap look whether any shape can match at all: most lines end here."""

_SHAPES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----(?:[^-]|-(?!----)){0,20000}(?:-----END[^-]{0,60}-----)?", MASK),
        (r"https://hooks\.[\w-]{1,40}\.com/[^\s\"'<>]+", "https://hooks.[redacted]"),
        (r"(https://[\w.-]{0,40}\.?\w{3,12}(?:app)?\.com/api/(?:v\d+/)?webhooks/\d+/)[\w-]{20,}", r"\1" + MASK),
        (r"\b\d{6,12}:[A-Za-z0-9_-]{30,}", MASK),  # id:secret, alone and in /bot<token>/
        (r"\bbot\d{6,12}(?::|%3[Aa])[A-Za-z0-9_-]{20,}", "bot" + MASK),
        (r"\b\d{6,12}%3[Aa][A-Za-z0-9_-]{30,}", MASK),
        (r"\bmfa\.[\w-]{20,}", MASK),
        (r"(?<![\w-])[\w-]{23,28}\.[\w-]{6,7}\.[\w-]{27,45}(?![\w-])", MASK),  # id.time.signature
        (r"\bxox[a-z](?:\.xox[a-z])?-[A-Za-z0-9-]{6,}", MASK),
        (r"\bxapp-[A-Za-z0-9-]{6,}", MASK),
        (r"\bsy[tr]_[A-Za-z0-9_=-]{8,}", MASK),
        (r"\bGOCSPX-[A-Za-z0-9_-]{10,}", MASK),
        (r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?", MASK),
        (r"\bsk-[A-Za-z0-9_-]{12,}", MASK),
        (r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b", MASK),
        (r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,})", MASK),
        (r"\bAIza[A-Za-z0-9_-]{30,}", MASK),
        (r"(?i)\b(bearer|basic)(\s+|%20)[A-Za-z0-9._~+/=-]{8,}", r"\1 " + MASK),
        (r"(://[^/\s:@]{0,200}:)[^/\s@]{1,200}@", r"\1" + MASK + "@"),
        (
            r"(?i)([\"']?\b[\w-]{0,40}(?:api[_-]?key|token|secret|passwd|password|authorization)[\"']?\s*[:=]\s*[\"']?)"
            r"(?!\[redacted)[^\s\"',;&<>{}\[\]()]{8,}",
            r"\1" + MASK,
        ),
    )
)

_SECRET_FIELD = re.compile(r"(?i)(^|_)(token|secret|password|passwd|api_?key|authorization|cookie|credentials)$")
"""A field whose whole value is masked because of its name."""


class Redactor:
    """Masks secrets in texts and in nested fields. Not thread-bound: `text` only reads."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._known: frozenset[str] = frozenset()
        self._pattern: re.Pattern[str] | None = None
        self.add(secrets)

    def add(self, secrets: Iterable[str]) -> None:
        """Further secrets. Texts under six characters are left alone."""
        known = set(self._known)
        for secret in secrets:
            known.update(_forms(secret))
        if known != self._known:
            self._known = frozenset(known)
            longest_first = sorted(known, key=len, reverse=True)
            self._pattern = re.compile("|".join(re.escape(form) for form in longest_first))

    def text(self, text: str) -> str:
        """`text` without secrets. Linear in its length; the text itself where nothing matches."""
        if self._pattern is not None:
            text = self._pattern.sub(MASK, text)
        if _HINT.search(text) is None:
            return text
        for pattern, replacement in _SHAPES:
            text = pattern.sub(replacement, text)
        return text

    def value(self, value: Any, depth: int = 0) -> Any:
        """A field's value without secrets; containers are gone through, other objects become text."""
        if isinstance(value, str):
            return self.text(value)
        if value is None or isinstance(value, bool | int | float):
            return value
        if depth >= _MAX_DEPTH:
            return "…"
        if isinstance(value, dict):
            return {self.text(str(key)): self._named(str(key), inner, depth + 1) for key, inner in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self.value(inner, depth + 1) for inner in value]
        if isinstance(value, bytes | bytearray):
            return f"<{len(value)} bytes>"
        try:
            return self.text(str(value))
        except Exception:  # noqa: BLE001 - an object's broken __str__ must not end what logs it
            return f"<{type(value).__name__}>"

    def fields(self, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        """The fields of one log line, changed in place."""
        for key, value in event.items():
            event[key] = self._named(key, value, 0)
        return event

    def _named(self, key: str, value: Any, depth: int) -> Any:
        if isinstance(value, str) and value and _SECRET_FIELD.search(key):
            return MASK
        return self.value(value, depth)


def _forms(secret: str) -> set[str]:
    """A secret as it may be met: whole, its secret half, in a URL, in JSON, in a basic-auth header."""
    secret = secret.strip()
    bases = {secret, *secret.splitlines()}
    if re.fullmatch(r"\d+:[A-Za-z0-9_-]{10,}", secret):  # id:secret: the id is public, the rest is not
        bases.add(secret.partition(":")[2])
    if secret.count(".") == 2:  # id.time.signature and JWT: the first part is an id, the last is the signature
        bases.add(secret.rpartition(".")[2])
    forms: set[str] = set()
    for base in bases:
        if len(base) < _MIN_SECRET or base.startswith("-----"):
            continue
        forms.update((base, quote(base, safe=""), quote_plus(base), json.dumps(base)[1:-1]))
        forms.add(base64.b64encode(base.encode()).decode().rstrip("="))
        forms.add(repr(base)[1:-1])
    return {form for form in forms if len(form) >= _MIN_SECRET}
