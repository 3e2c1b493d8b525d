"""What is known of Telegram without importing its SDK."""

from __future__ import annotations

from adapters.registry import Manifest

MANIFEST = Manifest(
    name="telegram",
    title="Telegram",
    settings="adapters.telegram.settings:TelegramSettings",
    adapter="adapters.telegram.adapter:make",
    renderer="adapters.telegram.render:TelegramRenderer",
    extra="telegram",
    sdk="telegram",
    setup="adapters.telegram.setup:SETUP",
    stated_limits=(
        "Telegram: what was said while we were down for more than 24 hours is not kept for us there.",
        "Telegram: a bot is never told of deletions.",
        "Telegram: a message whose sending broke off cannot be looked up; it is sent once more at most.",
        "Telegram: reactions come only from groups in which the bot is an administrator, and without their topic.",
        "Telegram: files above 20 MB are not served to bots, except by a Bot API server of one's own.",
    ),
)
