"""The settings of Telegram."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, ValidationInfo, field_validator

from adapters.settings import PlatformSettings, id_list, needed


def _person_fault(person: str) -> str | None:
    """A negative id is a chat: whoever speaks in its name (its anonymous administrators, the posts of a channel)."""
    return (
        None if re.fullmatch(r"-?[1-9][0-9]*", person) else "a person's id on Telegram is a number, for instance 1001"
    )


_SECRET = re.compile(r"[A-Za-z0-9_-]{1,256}")
"""What Telegram takes (core.telegram.org/bots/api#setwebhook)."""


class WebhookSettings(BaseModel):
    """Where Telegram sends updates in the mode `webhook`."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)

    url: str | None = Field(default=None, description="The public https address that reaches this daemon.")
    path: str = Field(default="/telegram", pattern=r"^/\S*$", description="The path on the webhook listener.")
    secret: SecretStr | None = Field(default=None, description="The secret token that Telegram sends along.")


class TelegramSettings(PlatformSettings):
    """Telegram: one bot account."""

    LIVE: ClassVar[frozenset[str]] = PlatformSettings.LIVE | {"home_chat"}

    token: SecretStr | None = Field(default=None, validate_default=True, description="The bot's token.")
    api_base: str | None = Field(default=None, description="Another Bot API server; null is Telegram's own.")
    allow: Annotated[tuple[str, ...], BeforeValidator(lambda value: id_list(value, _person_fault))] = Field(
        default=(),
        description="Who may talk to the bot, by numeric id (of a chat: whoever speaks in its name); "
        '["*"] is everybody, as a guest.',
    )
    link_previews: bool = Field(default=False, description="Whether links in answers get a preview.")
    mode: Literal["polling", "webhook"] = Field(default="polling", description="How updates come in.")
    webhook: WebhookSettings = Field(default_factory=WebhookSettings, description="For the mode `webhook`.")
    home_chat: str | None = Field(
        default=None, coerce_numbers_to_str=True, description="The chat id that notices for the operator go to."
    )

    def home(self) -> str | None:
        """The chat for the operator's notices."""
        return self.home_chat

    def exclusive(self) -> tuple[str, ...]:
        """Two pollers of one token would take each other's updates."""
        return () if self.token is None else (self.token.get_secret_value(),)

    @classmethod
    def person_fault(cls, person: str) -> str | None:
        """Ids of people are positive numbers, those of groups and channels negative ones."""
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
        if wanted and value.secret is not None and not _SECRET.fullmatch(value.secret.get_secret_value()):
            raise ValueError("the secret of the webhook must be 1 to 256 letters, digits, _ or -")
        return value

    @field_validator("home_chat", mode="before")
    @classmethod
    def _home_chat(cls, value: Any) -> Any:
        if value is not None and not re.fullmatch(r"-?[1-9][0-9]*", str(value).strip()):
            raise ValueError("must be a chat's numeric id")
        return value
