"""What `tidings setup PLATFORM` needs of a platform: what to ask, and how to check it against the platform."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One thing to be asked. `key` is its path below `platforms.<name>` ("token", "webhook.url").

    `where` tells how to get it; `fault` says what is wrong with an answer, or None; an empty answer is
    taken where it is `optional`. A secret is read without echo and never written into the configuration.
    `many` takes several answers with commas between them.
    """

    key: str
    text: str
    where: str = ""
    secret: bool = False
    optional: bool = False
    many: bool = False
    fault: Callable[[str], str | None] = lambda _text: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What the platform said. `found` are lines for the person ("the bot is @tidings_bot"), `missing` are
    lines about what is not as it should be, with the remedy; `settings` is written beside the answers;
    `after` is printed at the end (an invite link, a manifest)."""

    found: tuple[str, ...]
    missing: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    after: str = ""


class Setup(Protocol):
    """The set-up of one platform."""

    @property
    def intro(self) -> str:
        """Printed first: the steps on the platform's own pages. May hold what is to be pasted there."""
        ...

    @property
    def questions(self) -> Sequence[Question]:
        """In order."""
        ...

    async def check(self, answers: Mapping[str, Any]) -> Checked:
        """Ask the platform. `answers` by key, secrets as they are; `api_base` may be among them.

        Bounded in time. Raises an `AdapterError` (`AuthFailed` where the credentials are refused).
        """
        ...
