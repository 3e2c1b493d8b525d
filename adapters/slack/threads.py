"""Which threads we take part in, and where our own messages stand. Bounded, in memory.

What must outlive a restart is in the cursors: a thread of ours has one (see `progress`), and `Threads` is filled from
them at the start. Slack says in a reply who has begun the thread (`parent_user_id`), but not whether its root
mentions us; of a thread that is older than our memory Slack is asked once, for `ASK` seconds at most, before the
event is committed: Slack waits three seconds for the acknowledgement. Where that fails, the reply is not addressed.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict

import structlog

from adapters.errors import AdapterError
from adapters.slack.api import Api
from adapters.slack.mrkdwn import mentions

log = structlog.get_logger("adapters.slack")

THREADS = 5_000
PLACES = 5_000
ASK = 2.0


class Threads:
    """Threads by (channel, root)."""

    def __init__(self, bot_user: str) -> None:
        self._bot_user = bot_user
        self._ours: OrderedDict[tuple[str, str], bool] = OrderedDict()
        self._places: OrderedDict[tuple[str, str], str | None] = OrderedDict()

    def ours(self, channel: str, thread: str) -> bool:
        """Whether we are known to take part in it."""
        return self._ours.get((channel, thread), False)

    def known(self, channel: str, thread: str) -> bool:
        """Whether it is known if we take part."""
        return (channel, thread) in self._ours

    def note(self, channel: str, thread: str, *, ours: bool) -> None:
        """What is known of a thread. Once ours, it stays ours."""
        key = channel, thread
        self._ours[key] = self._ours.get(key, False) or ours
        self._ours.move_to_end(key)
        while len(self._ours) > THREADS:
            self._ours.popitem(last=False)

    def sent(self, channel: str, ts: str, thread: str | None) -> None:
        """We have a message there."""
        self.note(channel, thread or ts, ours=True)
        self._places[channel, ts] = thread
        while len(self._places) > PLACES:
            self._places.popitem(last=False)

    def place(self, channel: str, ts: str) -> str | None:
        """The thread of one of our messages, where that is remembered."""
        return self._places.get((channel, ts))

    async def ask(self, api: Api, channel: str, thread: str) -> None:
        """Find out of a thread that is not known. Bounded; where it fails, nothing is remembered."""
        try:
            async with asyncio.timeout(ASK):
                data = await api.read("conversations.replies", channel=channel, ts=thread, limit=1)
        except (AdapterError, TimeoutError) as error:
            log.info("thread.unknown", channel=channel, thread=thread, error=type(error).__name__)
            return
        messages = data.get("messages")
        root = messages[0] if isinstance(messages, list) and messages and isinstance(messages[0], dict) else {}
        people = [root.get("user"), *(root.get("reply_users") or ())]
        said = str(root.get("text") or "")
        self.note(channel, thread, ours=self._bot_user in people or mentions(said, self._bot_user))
