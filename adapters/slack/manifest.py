"""What is known of Slack without importing its SDK."""

from __future__ import annotations

from adapters.registry import Manifest

MANIFEST = Manifest(
    name="slack",
    title="Slack",
    settings="adapters.slack.settings:SlackSettings",
    adapter=None,
    stated_limits=("Slack: presses and deletions that come while we are down are not seen.",),
)
