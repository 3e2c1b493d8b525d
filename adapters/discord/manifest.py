"""What is known of Discord without importing its SDK."""

from __future__ import annotations

from adapters.registry import Manifest

MANIFEST = Manifest(
    name="discord",
    title="Discord",
    settings="adapters.discord.settings:DiscordSettings",
    adapter=None,
    stated_limits=(
        "Discord: the first direct message of an unknown person, presses and deletions that come while we are down "
        "are not seen.",
    ),
)
