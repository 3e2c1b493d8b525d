"""Files that go out, by the three calls of https://docs.slack.dev/messaging/working-with-files.

Nothing is shown before the last call. A file carries no key: after an unknown outcome it is found by its id, as long
as this process remembers it.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections import OrderedDict
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, BinaryIO

import aiohttp
import structlog

from adapters.errors import AdapterError, NotReady, Rejected, RetryAfter
from adapters.events import Attachment, ChatAddress, Receipt
from adapters.slack.api import Api, may_get_token
from adapters.slack.errors import from_answer
from adapters.slack.inbound import time_of

log = structlog.get_logger("adapters.slack")

FILE = "file:"
"""Before the id of a file that stands for the message with it, where Slack has not told the message in time."""
LARGEST = 1_000_000_000
UPLOAD_SECONDS = 50.0
REMEMBERED = 5_000
LOOKS = 4
PAUSE = 0.25


class Uploads:
    """`made` has the id of the file of each key; it outlives the connection."""

    def __init__(self, api: Api, made: OrderedDict[str, str]) -> None:
        self._api = api
        self._made = made

    def knows(self, files: Sequence[Any]) -> bool:
        """Whether all of these files are of keys that we know."""
        ids = set(self._made.values())
        return all(isinstance(one, dict) and one.get("id") in ids for one in files)

    async def send(self, address: ChatAddress, media: Attachment, key: str) -> Receipt:
        """Upload it and have it shown. `NotReady` and `Rejected` as long as nothing can be shown."""
        file = await asyncio.to_thread(open_regular, media.path)
        try:
            size = os.fstat(file.fileno()).st_size
            if size > LARGEST:
                raise Rejected("the file is too large", told="That file is larger than Slack takes.")
            ticket = await self._api.form("files.getUploadURLExternal", filename=media.name, length=size)
            url, file_id = str(ticket.get("upload_url") or ""), str(ticket.get("file_id") or "")
            if not file_id or not may_get_token(url, self._api.origin):
                raise NotReady("Slack gave no place to upload the file to")
            await self._put(url, file)
        finally:
            await asyncio.to_thread(file.close)
        self._made[key] = file_id
        while len(self._made) > REMEMBERED:
            self._made.popitem(last=False)
        fields: dict[str, Any] = {
            "files": json.dumps([{"id": file_id, "title": media.name}]),
            "channel_id": address.chat_id,
        }
        if address.thread_id is not None:
            fields["thread_ts"] = address.thread_id
        try:
            done = await self._api.submit("files.completeUploadExternal", **fields)
        except (NotReady, Rejected, RetryAfter):
            del self._made[key]
            raise
        told = done.get("files")
        ts = _share(told[0], address.chat_id) if isinstance(told, list) and told else None
        ts = ts or await self._message_of(address, file_id)
        return _receipt(ts or f"{FILE}{file_id}")

    async def _put(self, url: str, file: BinaryIO) -> None:
        timeout = aiohttp.ClientTimeout(total=UPLOAD_SECONDS, sock_connect=10)
        headers = {"Content-Type": "application/octet-stream"}
        try:
            async with self._api.session.post(
                url, data=file, headers=headers, timeout=timeout, allow_redirects=False
            ) as answer:
                await answer.read()
                if answer.status != 200:
                    raise from_answer(answer.status, answer.headers, None, writes=False)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise NotReady(f"the upload broke off, nothing is shown: {type(error).__name__}") from None

    async def look_up(self, address: ChatAddress, key: str) -> Receipt | None:
        """The receipt of a file that was sent under `key`, or None where it is not known to be there."""
        file_id = self._made.get(key)
        ts = None if file_id is None else await self._message_of(address, file_id)
        return None if ts is None else _receipt(ts)

    async def _message_of(self, address: ChatAddress, file_id: str) -> str | None:
        """The message that shows the file; Slack makes it a moment after the upload."""
        for number in range(LOOKS):
            await asyncio.sleep(PAUSE * bool(number))
            try:
                found = (await self._api.read("files.info", file=file_id)).get("file")
            except AdapterError as error:
                log.info("file.not_found_yet", error=str(error))
                return None
            if (ts := _share(found, address.chat_id)) is not None:
                return ts
        return None


def _share(file: Any, channel: str) -> str | None:
    shares = file.get("shares") if isinstance(file, dict) else None
    for kind in ("public", "private"):
        places = shares.get(kind) if isinstance(shares, dict) else None
        for one in (places.get(channel) or ()) if isinstance(places, dict) else ():
            if isinstance(one, dict) and isinstance(one.get("ts"), str):
                return str(one["ts"])
    return None


def _receipt(message_id: str) -> Receipt:
    return Receipt(message_ids=(message_id,), sent_at=time_of(message_id) or datetime.now(UTC))


def open_regular(path: str | None) -> BinaryIO:
    """A regular file, opened without following a link and without waiting (a FIFO). Raises `Rejected`."""
    if path is None:
        raise Rejected("the file is not here", told="That file is not here any more.")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise Rejected(f"the file cannot be opened: {error.strerror}", told="That file cannot be read.") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Rejected("this is no regular file", told="That is no regular file.")
    return os.fdopen(descriptor, "rb")
