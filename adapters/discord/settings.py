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
    api_base: str | None = Field(default=None, description="Another API server; null is Discord's own.")
    gateway_url: str | None = Field(default=None, description="Another gateway; null asks the API for it.")
    allow: Annotated[tuple[str, ...], BeforeValidator(lambda value: id_list(value, _person_fault))] = Field(
        default=(), description='Who may talk to the bot, by numeric id; ["*"] is everybody, as a guest.'
    )

    @classmethod
    def person_fault(cls, person: str) -> str | None:
        """Ids of people are numbers."""
        return _person_fault(person)

    @field_validator("token")
    @classmethod
    def _token(cls, value: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        return needed(value, info.data.get("enabled"), "the bot's token from the developer portal")
