"""What is known of Discord without importing its SDK."""

from __future__ import annotations

from adapters.registry import Manifest

MANIFEST = Manifest(name="discord", settings="adapters.discord.settings:DiscordSettings", adapter=None)
