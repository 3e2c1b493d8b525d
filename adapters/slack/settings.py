"""The settings of Slack."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, SecretStr, ValidationInfo, field_validator, model_validator

from adapters.settings import PlatformSettings, id_list, needed


def _person_fault(person: str) -> str | None:
    return None if re.fullmatch(r"[UW][A-Z0-9]+", person) else "a person's id on Slack begins with U or W, as in U01"


class SlackSettings(PlatformSettings):
    """Slack: one app in one workspace."""

    bot_token: SecretStr | None = Field(default=None, validate_default=True, description="The bot token (xoxb-).")
    app_token: SecretStr | None = Field(default=None, description="The app token (xapp-), for the mode `socket`.")
    signing_secret: SecretStr | None = Field(default=None, description="The signing secret, for the mode `http`.")
    api_base: str | None = Field(
        default=None,
        pattern=r"^https?://[^/\s]+/?$",
        description="Another API server (its origin, without a path); null is Slack's own.",
    )
    allow: Annotated[tuple[str, ...], BeforeValidator(lambda value: id_list(value, _person_fault))] = Field(
        default=(), description='Who may talk to the bot, by member id; ["*"] is everybody, as a guest.'
    )
    mode: Literal["socket", "http"] = Field(default="socket", description="Socket Mode, or events over HTTP.")
    path: str = Field(default="/slack/events", pattern=r"^/\S*$", description="The path on the webhook listener.")
    dm_threads: bool = Field(
        default=False, description="Whether a direct message is answered in a thread of its own, with its own session."
    )
    link_previews: bool = Field(default=False, description="Whether links in answers get a preview.")
    backfill_messages: int = Field(
        default=200, ge=0, le=10_000, description="Messages of a channel that are fetched after a gap, at most."
    )

    def exclusive(self) -> tuple[str, ...]:
        """Slack deals events out to the sockets of an app: a second daemon would take its share of them."""
        token = self.app_token if self.mode == "socket" else self.bot_token
        return () if token is None else (token.get_secret_value(),)

    @classmethod
    def person_fault(cls, person: str) -> str | None:
        """Ids of people begin with U or W."""
        return _person_fault(person)

    @field_validator("bot_token")
    @classmethod
    def _bot_token(cls, value: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        return needed(value, info.data.get("enabled"), "the bot token of the app (xoxb-)")

    @model_validator(mode="after")
    def _mode(self) -> Self:
        if self.enabled and self.mode == "socket" and self.app_token is None:
            raise ValueError("the mode socket needs app_token")
        if (
            self.enabled
            and self.mode == "http"
            and (self.signing_secret is None or not self.signing_secret.get_secret_value().strip())
        ):
            raise ValueError("the mode http needs signing_secret")
        return self
