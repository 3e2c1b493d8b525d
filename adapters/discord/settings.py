"""The settings of Discord."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, Field, SecretStr, ValidationInfo, field_validator

from adapters.settings import PlatformSettings, id_list, needed


def _person_fault(person: str) -> str | None:
    return None if re.fullmatch(r"[0-9]+", person) else "a person's id on Discord is a number, for instance 2001"


class DiscordSettings(PlatformSettings):
    """Discord: one bot account."""

    token: SecretStr | None = Field(default=None, validate_default=True, description="The bot's token.")
    api_base: str | None = Field(
        default=None,
        pattern=r"^https?://[^/\s]+/?$",
        description="Another API server (its origin, without a path); null is Discord's own.",
    )
    gateway_url: str | None = Field(
        default=None, pattern=r"^wss?://\S+$", description="Another gateway; null asks the API for it."
    )
    allow: Annotated[tuple[str, ...], BeforeValidator(lambda value: id_list(value, _person_fault))] = Field(
        default=(), description='Who may talk to the bot, by numeric id; ["*"] is everybody, as a guest.'
    )
    auto_thread: bool = Field(
        default=True, description="Whether a mention in a channel is answered in a thread of its own."
    )
    link_previews: bool = Field(default=False, description="Whether links in answers get a preview.")
    backfill_messages: int = Field(
        default=200, ge=0, le=10_000, description="Messages of a channel that are fetched after a gap, at most."
    )
    backfill_hours: float = Field(
        default=72.0, gt=0, description="How far back messages are fetched after a gap, in hours."
    )

    def exclusive(self) -> tuple[str, ...]:
        """Two sessions with one token would both answer."""
        return () if self.token is None else (self.token.get_secret_value(),)

    @classmethod
    def person_fault(cls, person: str) -> str | None:
        """Ids of people are numbers."""
        return _person_fault(person)

    @field_validator("token")
    @classmethod
    def _token(cls, value: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        return needed(value, info.data.get("enabled"), "the bot's token from the developer portal")
