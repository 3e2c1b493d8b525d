"""The section `memory` of the settings: one external memory, or none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, SecretStr

from agent_core.memory.providers.settings import Mode, ProviderName, ProviderSettings
from gateway.config_schema import Section

URL = r"^https?://\S+$"


class ServiceMemory(Section):
    """A memory service that is reached with a key."""

    base_url: str | None = Field(default=None, pattern=URL, description="Another server; null is the provider's own.")
    api_key: SecretStr | None = Field(default=None, description="The key, as a reference.")


class HonchoMemorySettings(ServiceMemory):
    """Honcho."""

    workspace: str | None = Field(
        default=None, pattern=r"^[A-Za-z0-9_-]{1,100}$", description="The workspace; null is the namespace."
    )


class OwnMemory(Section):
    """A memory server of one's own."""

    base_url: str | None = Field(
        default=None, pattern=URL, description="The server; null is the usual port of this machine."
    )
    api_key: SecretStr | None = Field(default=None, description="The key, as a reference, where it wants one.")


class OpenVikingMemorySettings(OwnMemory):
    """OpenViking."""

    account: str | None = Field(default=None, min_length=1, description="The account; null is that of the key.")


class MemorySettings(Section):
    """An external memory beside the built-in one. It sees what is said, unless it is `none`."""

    provider: Literal["none"] | ProviderName = Field(default="none", description="Which one is active.")
    mode: Mode = Field(
        default="hybrid",
        description="`context`: what is known is put before the model with each message; `tools`: the model asks; "
        "`hybrid`: both.",
    )
    namespace: str = Field(
        default="tidings",
        pattern=r"^[a-z0-9]{1,20}$",
        description="What the names of its places begin with; keeps two daemons with one account apart.",
    )
    recall_seconds: float = Field(
        default=8.0, gt=0, le=8, description="The longest that a message waits for what is known."
    )
    honcho: HonchoMemorySettings = Field(
        default_factory=HonchoMemorySettings, description="Honcho, a picture of each person."
    )
    mem0: ServiceMemory = Field(default_factory=ServiceMemory, description="Mem0, facts of each person.")
    hindsight: OwnMemory = Field(default_factory=OwnMemory, description="Hindsight, a bank of facts for each place.")
    supermemory: ServiceMemory = Field(default_factory=ServiceMemory, description="Supermemory, documents and facts.")
    openviking: OpenVikingMemorySettings = Field(
        default_factory=OpenVikingMemorySettings, description="OpenViking, a file system of memories."
    )

    def active(self) -> ProviderSettings | None:
        """The same as `agent_core` wants it; None for no provider."""
        if self.provider == "none":
            return None
        parts: dict[str, ServiceMemory | OwnMemory] = {
            "honcho": self.honcho,
            "mem0": self.mem0,
            "hindsight": self.hindsight,
            "supermemory": self.supermemory,
            "openviking": self.openviking,
        }
        part = parts.get(self.provider, OwnMemory())
        key = part.api_key.get_secret_value() if part.api_key else ""
        account = ""
        if isinstance(part, HonchoMemorySettings):
            account = part.workspace or ""
        elif isinstance(part, OpenVikingMemorySettings):
            account = part.account or ""
        return ProviderSettings(
            name=self.provider,
            mode=self.mode,
            base_url=part.base_url or "",
            api_key=key,
            namespace=self.namespace,
            account=account,
            recall_seconds=self.recall_seconds,
        )

    def lacks(self) -> str:
        """Which key of the active provider's section must be set, "" for none."""
        settings = self.active()
        if settings is None or settings.api_key:
            return ""
        needed = self.provider in ("mem0", "supermemory") or (self.provider == "honcho" and not settings.base_url)
        return "api_key" if needed else ""


PARTS: Mapping[str, type[Section]] = {
    "honcho": HonchoMemorySettings,
    "mem0": ServiceMemory,
    "hindsight": OwnMemory,
    "supermemory": ServiceMemory,
    "openviking": OpenVikingMemorySettings,
}
"""The section of each provider."""
