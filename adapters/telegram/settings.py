"""The settings of Telegram."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, ValidationInfo, field_validator

from adapters.settings import PlatformSettings, id_list, needed


def _person_fault(person: str) -> str | None:
    return None if re.fullmatch(r"[1-9][0-9]*", person) else "a person's id on Telegram is a number, for instance 1001"


class WebhookSettings(BaseModel):
    """Where Telegram sends updates in the mode `webhook`."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)

    url: str | None = Field(default=None, description="The public https address that reaches this daemon.")
    path: str = Field(default="/telegram", pattern=r"^/\S*$", description="The path on the webhook listener.")
    secret: SecretStr | None = Field(default=None, description="The secret token that Telegram sends along.")


class TelegramSettings(PlatformSettings):
    """Telegram: one bot account."""

    token: SecretStr | None = Field(default=None, validate_default=True, description="The bot's token.")
    api_base: str | None = Field(default=None, description="Another Bot API server; null is Telegram's own.")
    allow: Annotated[tuple[str, ...], BeforeValidator(lambda value: id_list(value, _person_fault))] = Field(
        default=(), description='Who may talk to the bot, by numeric id; ["*"] is everybody, as a guest.'
    )
    mode: Literal["polling", "webhook"] = Field(default="polling", description="How updates come in.")
    webhook: WebhookSettings = Field(default_factory=WebhookSettings, description="For the mode `webhook`.")
    home_chat: str | None = Field(
        default=None, coerce_numbers_to_str=True, description="The chat id that notices for the operator go to."
    )

    @classmethod
    def person_fault(cls, person: str) -> str | None:
        """Ids of people are positive numbers."""
        return _person_fault(person)

    @field_validator("token")
    @classmethod
    def _token(cls, value: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        return needed(value, info.data.get("enabled"), "the token that BotFather gave")

    @field_validator("webhook")
    @classmethod
    def _webhook(cls, value: WebhookSettings, info: ValidationInfo) -> WebhookSettings:
        wanted = info.data.get("enabled") and info.data.get("mode") == "webhook"
        if wanted and (value.url is None or value.secret is None):
            raise ValueError("the mode webhook needs url and secret")
        return value

    @field_validator("home_chat", mode="before")
    @classmethod
    def _home_chat(cls, value: Any) -> Any:
        if value is not None and not re.fullmatch(r"-?[1-9][0-9]*", str(value).strip()):
            raise ValueError("must be a chat's numeric id")
        return value
