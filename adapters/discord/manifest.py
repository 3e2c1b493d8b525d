"""What is known of Discord without importing its SDK."""

from __future__ import annotations

from adapters.registry import Manifest

MANIFEST = Manifest(
    name="discord",
    title="Discord",
    settings="adapters.discord.settings:DiscordSettings",
    adapter="adapters.discord.adapter:make",
    renderer="adapters.discord.render:DiscordRenderer",
    extra="discord",
    sdk="discord",
    setup="adapters.discord.setup:SETUP",
    stated_limits=(
        "Discord: the first direct message of an unknown person is not seen where it comes while we are down.",
        "Discord: presses, commands, reactions, edits and deletions that come while we are down are not seen, "
        "unless the connection is resumed within the minutes that Discord keeps it.",
        "Discord: after a gap at most `backfill_messages` messages of a channel are fetched, and none older than "
        "`backfill_hours`; what is beyond is logged as gap_not_filled.",
        "Discord: a message whose sending broke off is recognised for 90 s, and by the process that sent it also "
        "in the history; after that it may be sent once more.",
    ),
)
