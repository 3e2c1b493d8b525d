"""What goes out: one call a chunk, never tried again here."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

import structlog

from adapters.errors import Gone, OutcomeUnknown, Rejected
from adapters.events import ChatAddress, Receipt, RenderedChunk
from adapters.slack.api import Api
from adapters.slack.errors import code_of
from adapters.slack.inbound import time_of
from adapters.slack.progress import before
from adapters.slack.render import Post, read_post
from adapters.slack.threads import Threads
from adapters.slack.uploads import FILE, Uploads

log = structlog.get_logger("adapters.slack")

EVENT_TYPE = "tidings_delivery"
"""Metadata of every post. https://docs.slack.dev/messaging/message-metadata"""
TRIED = 10_000
LOOK_PAGE = 200
LOOK = 1_000
"""Messages that are looked through for a key."""
SKEW = 300
"""Seconds by which Slack's clock may differ from ours."""
STATUS = "is thinking…"
GONE = frozenset({"message_not_found", "file_not_found", "file_deleted"})


class Outbound:
    """The calls behind `send`, `edit`, `delete`, `typing` and `look_up` of the adapter."""

    def __init__(
        self,
        api: Api,
        threads: Threads,
        uploads: Uploads,
        *,
        previews: bool,
        is_own: Callable[[dict[str, Any]], bool],
        tried: OrderedDict[str, str],
        now: Callable[[], datetime],
    ) -> None:
        """`tried` has when each key was tried first; it outlives the connection."""
        self._api = api
        self._threads = threads
        self._uploads = uploads
        self._previews = previews
        self._is_own = is_own
        self._tried = tried
        self._now = now

    async def send(self, address: ChatAddress, chunk: RenderedChunk, key: str) -> Receipt:
        """Post it, into the thread of the address where it has one."""
        post = read_post(chunk)
        self._tried.setdefault(key, f"{self._now().timestamp():.6f}")
        while len(self._tried) > TRIED:
            self._tried.popitem(last=False)
        if post.media is not None:
            receipt = await self._uploads.send(address, post.media, key)
        else:
            receipt = await self._post(address, post, key)
        ts = receipt.message_ids[0]
        if not ts.startswith(FILE):
            self._threads.sent(address.chat_id, ts, address.thread_id)
        elif address.thread_id is not None:
            self._threads.note(address.chat_id, address.thread_id, ours=True)
        return receipt

    async def _post(self, address: ChatAddress, post: Post, key: str) -> Receipt:
        body: dict[str, Any] = {
            "channel": address.chat_id,
            **_words(post),
            "mrkdwn": post.markup,
            "unfurl_links": self._previews,
            "unfurl_media": self._previews,
            "metadata": {"event_type": EVENT_TYPE, "event_payload": {"key": key}},
        }
        if address.thread_id is not None:
            body |= {"thread_ts": address.thread_id, "reply_broadcast": False}
        data = await self._api.write("chat.postMessage", **body)
        ts = data.get("ts")
        if not isinstance(ts, str) or not ts:
            raise OutcomeUnknown("Slack's answer does not name the message")
        return Receipt(message_ids=(ts,), sent_at=time_of(ts) or datetime.now(UTC))

    async def edit(self, address: ChatAddress, message_id: str, chunk: RenderedChunk) -> None:
        """Replace the words and the buttons. What Slack keeps of the message (thread, metadata) stays."""
        post = read_post(chunk)
        if message_id.startswith(FILE) or post.media is not None:
            raise Rejected("a file cannot be edited")
        body = {"channel": address.chat_id, "ts": message_id, **_words(post)}
        body.setdefault("blocks", [])
        await self._api.write("chat.update", **body)

    async def delete(self, address: ChatAddress, message_id: str) -> None:
        """Take it back; what is gone already is fine."""
        try:
            if message_id.startswith(FILE):
                await self._api.submit("files.delete", file=message_id.removeprefix(FILE))
            else:
                await self._api.write("chat.delete", channel=address.chat_id, ts=message_id)
        except Rejected as error:
            if code_of(error) not in GONE:
                raise

    async def typing(self, address: ChatAddress) -> None:
        """Show a status in the thread. Slack has none outside of threads: nothing is done there.

        It goes by itself with our next message, and after two minutes without one.
        https://docs.slack.dev/reference/methods/assistant.threads.setStatus
        """
        if address.thread_id is not None:
            await self._api.write(
                "assistant.threads.setStatus", channel_id=address.chat_id, thread_ts=address.thread_id, status=STATUS
            )

    async def look_up(self, address: ChatAddress, key: str) -> Receipt | None:
        """The message with the key in its metadata. None only where all since the try was looked through."""
        sent = await self._uploads.look_up(address, key)
        if sent is not None:
            return sent
        method, query = "conversations.history", dict[str, Any]()
        if address.thread_id is not None:
            method, query = "conversations.replies", {"ts": address.thread_id}
        since = self._tried.get(key)
        if since is not None:
            query["oldest"] = before(since, SKEW)
        count, doubtful = 0, False
        try:
            async with aclosing(
                self._api.pages(
                    method, "messages", LOOK_PAGE, channel=address.chat_id, include_all_metadata=True, **query
                )
            ) as pages:
                async for item in pages:
                    if _key_of(item) == key and self._is_own(item):
                        ts = str(item.get("ts"))
                        return Receipt(message_ids=(ts,), sent_at=time_of(ts) or datetime.now(UTC))
                    doubtful = doubtful or (bool(item.get("files")) and self._is_own(item)
                                            and not self._uploads.knows(item["files"]))  # fmt: skip
                    count += 1
                    if count >= LOOK:
                        raise OutcomeUnknown(f"{LOOK} messages were looked through without finding it")
        except Gone:
            return None
        if doubtful:
            raise OutcomeUnknown("a file of ours stands there, and files carry no key")
        return None


def _words(post: Post) -> dict[str, Any]:
    """The words, such that nothing in them is taken for a name of a person or a channel."""
    body: dict[str, Any] = {"text": post.text, "link_names": False, "parse": "none"}
    if post.blocks:
        body["blocks"] = list(post.blocks)
    return body


def _key_of(item: dict[str, Any]) -> str | None:
    metadata = item.get("metadata")
    if not isinstance(metadata, dict) or metadata.get("event_type") != EVENT_TYPE:
        return None
    payload = metadata.get("event_payload")
    key = payload.get("key") if isinstance(payload, dict) else None
    return key if isinstance(key, str) else None
