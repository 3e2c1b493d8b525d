"""The settings of one model, and the bounds of its waits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Provider = Literal["openai", "anthropic", "embedded", "scripted"]

DEFAULT_CONTEXT_TOKENS = 128_000
"""Assumed for a remote model whose window is not configured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Seconds. `silence` is the longest wait for the first or the next piece of an answer, `total` for
    a whole call."""

    connect: float = 10.0
    silence: float = 120.0
    total: float = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """One model. `name` is what the endpoint calls it, and what `/status` shows.

    `base_url` None means the SDK's own endpoint. `context_tokens`, `tools` and `images` None mean what
    the provider's class assumes; `max_tokens` None leaves the length of answers to the endpoint
    (Anthropic demands a figure: 8,192 then). `script` is a file of steps for `scripted`.
    """

    provider: Provider
    name: str
    base_url: str | None = None
    api_key: str = field(default="", repr=False)
    context_tokens: int | None = None
    stream: bool = True
    max_tokens: int | None = None
    timeouts: Timeouts = field(default_factory=Timeouts)
    tools: Literal["native", "none"] | None = None
    images: bool | None = None
    script: str | None = None
