"""Parts that the settings of platforms are made of. A field of type `SecretStr` is a secret: the
configuration gives it as a `${VARIABLE}` or `file:` reference, and the gateway puts the value in."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, SecretStr

EVERYBODY = "*"
"""In an allow-list: everybody may talk to the bot, as a guest."""


class PlatformSettings(BaseModel):
    """The settings of one platform. Secrets of a platform that is off are None and not asked for."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)

    LIVE: ClassVar[frozenset[str]] = frozenset({"allow"})
    """Settings that the gateway reads at each use: a change of another one needs a new adapter."""

    enabled: bool = Field(default=False, description="Whether the daemon connects to this platform.")

    def home(self) -> str | None:
        """The chat id that is the platform's home by configuration; None: by /sethome only."""
        return None

    def exclusive(self) -> tuple[str, ...]:
        """The secrets that only one daemon of this machine may use at a time; locks are made of them."""
        return ()

    @classmethod
    def person_fault(cls, person: str) -> str | None:
        """Why `person` cannot be the id of a person on this platform, or None where it can."""
        return None if person else "an id must not be empty"


def id_list(value: Any, fault: Callable[[str], str | None]) -> tuple[str, ...]:
    """An allow-list as ids in text. Numbers become text, blanks around are removed.

    Raises ValueError for anything that is no list, and for an entry that cannot be an id: a list that
    is not understood must not be taken for an empty or an open one. (pydantic wants ValueError.)
    """
    if value is None:
        raise ValueError("must be a list of ids; write [] for nobody")
    if isinstance(value, str):
        raise ValueError(f'must be a list of ids: write ["{value}"], not {value}')  # noqa: TRY004 - pydantic's
    if not isinstance(value, list | tuple):
        raise ValueError("must be a list of ids")  # noqa: TRY004 - pydantic's
    ids = []
    for number, entry in enumerate(value, start=1):
        if isinstance(entry, bool) or not isinstance(entry, str | int):
            raise ValueError(f"entry {number} must be an id in quotes")  # noqa: TRY004 - pydantic's
        text = str(entry).strip()
        problem = None if text == EVERYBODY else _shape_fault(text) or fault(text)
        if problem:
            raise ValueError(f"entry {number} ({text!r}): {problem}")
        ids.append(text)
    return tuple(dict.fromkeys(ids))


def _shape_fault(text: str) -> str | None:
    if not text:
        return "an id must not be empty"
    if text.startswith("@"):
        return "this is a display name, which anybody can take; the stable id is needed"
    if re.search(r"\s", text):
        return "an id has no blanks inside"
    return None


def needed(value: SecretStr | None, enabled: object, what: str) -> SecretStr | None:
    """`value`, or a ValueError where the platform is on and the secret is not given."""
    if enabled and value is None:
        raise ValueError(f"is needed while the platform is on: {what}")
    return value
