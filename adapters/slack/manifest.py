"""What is known of Slack without importing its SDK."""

from __future__ import annotations

from adapters.registry import Manifest

MANIFEST = Manifest(name="slack", settings="adapters.slack.settings:SlackSettings", adapter=None)
