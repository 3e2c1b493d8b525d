"""The parts of discord.py that the adapter stands on: its gateway client, and nothing of its caches.

The gateway client (`DiscordWebSocket`) speaks the protocol: hello, heartbeats in a thread of their own, the
detection of dead connections, compression, identify and resume. What it receives is given to us as it came.
The HTTP client of discord.py is not used: it tries five times and sleeps on 429 by itself, where a send of
ours is one request whose outcome is known or told as unknown.
"""

from __future__ import annotations

import logging
import warnings

with warnings.catch_warnings():
    # discord.py imports it for voice, which is not used here
    warnings.filterwarnings("ignore", message="'audioop' is deprecated", category=DeprecationWarning)
    from discord import Intents
    from discord.errors import ConnectionClosed
    from discord.gateway import DiscordWebSocket, ReconnectWebSocket

logging.getLogger("discord").setLevel(logging.WARNING)
"""Below that discord.py logs whole events, and with them what people say."""

INTENTS = Intents(
    guilds=True,
    guild_messages=True,
    dm_messages=True,
    guild_reactions=True,
    dm_reactions=True,
    message_content=True,
)

__all__ = ["INTENTS", "ConnectionClosed", "DiscordWebSocket", "Intents", "ReconnectWebSocket"]
