"""What a provider is told by the configuration."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

ProviderName = Literal["local", "honcho", "mem0", "hindsight", "supermemory", "openviking"]
Mode = Literal["context", "hybrid", "tools"]
"""`context`: what is known is put before the model at the start of a turn; `tools`: the model asks for it; `hybrid`:
both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSettings:
    """One active provider. `base_url` "" is the provider's own address. `account` is its workspace, account or
    organisation, where it has such. Seconds where nothing else is said."""

    name: ProviderName
    mode: Mode = "hybrid"
    base_url: str = ""
    api_key: str = field(default="", repr=False)
    namespace: str = "tidings"
    account: str = ""
    recall_seconds: float = 8.0
