"""What is known of Telegram without importing its SDK."""

from __future__ import annotations

from adapters.registry import Manifest

MANIFEST = Manifest(name="telegram", settings="adapters.telegram.settings:TelegramSettings", adapter=None)
