"""What is known of Slack without importing its SDK."""

from __future__ import annotations

from adapters.registry import Manifest

MANIFEST = Manifest(
    name="slack",
    title="Slack",
    settings="adapters.slack.settings:SlackSettings",
    adapter="adapters.slack.adapter:make",
    renderer="adapters.slack.render:SlackRenderer",
    extra="slack",
    sdk="slack_bolt",
    setup="adapters.slack.setup:SETUP",
    stated_limits=(
        "Slack: presses, reactions, slash commands and deletions that come while we are down are not seen.",
        "Slack: of a channel that the app joins while it is down, only what comes from then on is read; after a gap "
        "at most `backfill_messages` messages of a channel, and at most 50 of its threads.",
        "Slack: a file whose outcome is unknown when the daemon dies cannot be looked up: it is sent once more.",
    ),
)
