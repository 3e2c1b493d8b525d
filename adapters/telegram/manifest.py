"""What is known of Telegram without importing its SDK."""

from __future__ import annotations

from adapters.registry import Manifest

MANIFEST = Manifest(
    name="telegram",
    title="Telegram",
    settings="adapters.telegram.settings:TelegramSettings",
    adapter=None,
    stated_limits=("Telegram: what was said while we were down for more than 24 hours is not kept for us there.",),
)
