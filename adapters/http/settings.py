"""The settings of the HTTP server and of the adapter behind it."""

from __future__ import annotations

from pydantic import Field, SecretStr, ValidationInfo, field_validator

from adapters.http.auth import DEFAULT_NAME, KeyRing, is_loopback, key_fault, name_fault
from adapters.settings import PlatformSettings, needed


class HttpSettings(PlatformSettings):
    """The HTTP listener (health and metrics are there even when the adapter is off)."""

    host: str = Field(default="127.0.0.1", min_length=1, description="The address that the server is bound to.")
    port: int = Field(default=8787, ge=0, le=65535, description="Its port; 0 takes any free one.")
    key: SecretStr | None = Field(
        default=None, validate_default=True, description="The bearer key of the principal http:default."
    )
    keys: dict[str, SecretStr] = Field(
        default_factory=dict, description="Further keys by name; each is a principal http:NAME of its own."
    )
    webhook_host: str = Field(default="127.0.0.1", min_length=1, description="The webhook listener's address.")
    webhook_port: int | None = Field(
        default=None, ge=0, le=65535, description="Its port; null where no platform uses webhooks."
    )
    allowed_hosts: tuple[str, ...] = Field(
        default=(), description="Further names that clients may call the server by (the Host header)."
    )
    allowed_origins: tuple[str, ...] = Field(
        default=(), description="Web pages that may call it (the Origin header), as https://name:port."
    )
    max_body: int = Field(default=1024 * 1024, ge=1024, le=64 * 1024 * 1024, description="The largest body, in bytes.")
    max_connections: int = Field(default=1024, ge=8, le=65536, description="Connections at a time.")
    max_waiting: int = Field(default=1000, ge=1, le=65536, description="Requests that wait for an answer at a time.")
    wait_seconds: float = Field(default=600.0, gt=0, le=86400, description="How long a request waits for its answer.")

    @classmethod
    def person_fault(cls, person: str) -> str | None:
        """The id of a person is the name of a key."""
        return name_fault(person)

    @field_validator("key")
    @classmethod
    def _key(cls, value: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        if info.data.get("enabled") and value is None and not is_loopback(str(info.data.get("host", ""))):
            raise ValueError("a public address needs a key")
        needed(value, info.data.get("enabled"), "clients have to show it")
        return _fit(value)

    @field_validator("keys")
    @classmethod
    def _keys(cls, value: dict[str, SecretStr]) -> dict[str, SecretStr]:
        for name, key in value.items():
            problem = name_fault(name)
            if problem is not None:
                raise ValueError(f"{name!r}: {problem}")
            if name == DEFAULT_NAME:
                raise ValueError(f"{name!r} is the name of the setting `key`")
            problem = key_fault(key.get_secret_value())
            if problem is not None:
                raise ValueError(f"{name!r}: {problem}")
        return value

    def ring(self) -> KeyRing:
        """The keys as the server checks them. Raises ValueError where two names have one key."""
        named = {} if self.key is None else {DEFAULT_NAME: self.key.get_secret_value()}
        return KeyRing(named | {name: key.get_secret_value() for name, key in self.keys.items()})


def _fit(value: SecretStr | None) -> SecretStr | None:
    problem = None if value is None else key_fault(value.get_secret_value())
    if problem is not None:
        raise ValueError(problem)
    return value
