"""Files of Telegram: fetched late and streamed to disk (`CanFetch`); and files of ours, read for sending.

`getFile` serves up to 20 MB (core.telegram.org/bots/api#getfile); a server of one's own knows no such limit
and may tell a path of its own disk.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import BinaryIO

import httpx
import structlog

from adapters.errors import AdapterError, NotReady, Rejected, RetryAfter
from adapters.events import Attachment, MessageEvent
from adapters.fetch import FetchFault, fetch, too_large
from adapters.telegram.errors import Refusal, translate
from adapters.telegram.link import Link

log = structlog.get_logger("adapters.telegram")

FETCHED = 20 * 2**20
SENT = 50 * 2**20
"""Bytes of a file that a bot may send (core.telegram.org/bots/api#sending-files)."""
PART = 64 * 1024
PAUSES = (1.0, 4.0)
"""Seconds between the tries to get a file's path."""
LONGEST_PAUSE = 20.0

GetLink = Callable[[], Awaitable[Link]]
"""The connection, waited for a little; raises `NotReady`."""


class Fetcher:
    """Fetches the files of events into `folder`. Never raises but for a cancel."""

    def __init__(self, link: GetLink, folder: Path, *, limit: int) -> None:
        self._link = link
        self._folder = folder
        self._limit = limit

    async def fetch(self, event: MessageEvent) -> tuple[Attachment, ...]:
        """The attachments of `event`, in order, each with a path or a note."""
        return tuple([await self._one(attachment) for attachment in event.attachments])

    async def _one(self, wanted: Attachment) -> Attachment:
        if wanted.path is not None or wanted.note is not None:
            return wanted
        if wanted.ref is None:
            return dataclasses.replace(wanted, note="it has no handle to fetch it by")
        return await fetch(wanted, self._stream(wanted.ref), self._folder, limit=self._limit)

    async def _stream(self, ref: str) -> AsyncIterator[bytes]:
        try:
            link = await self._link()
            path = await self._path(link, ref)
        except RetryAfter as error:
            raise FetchFault("the platform asks me to wait too long for it") from error
        except AdapterError as error:
            raise FetchFault("the platform could not be asked for it") from error
        if link.is_local and path.startswith("/") and (file := await asyncio.to_thread(_open_local, path)):
            async for part in _read(file):
                yield part
            return
        try:
            async with link.download(path) as response:
                if response.status_code != 200:
                    raise FetchFault(f"the platform does not give it out (status {response.status_code})")
                async for part in response.aiter_bytes(PART):
                    yield part
        except httpx.HTTPError as error:
            log.info("telegram.download_failed", error=type(error).__name__)
            raise FetchFault("the transfer broke off") from error

    async def _path(self, link: Link, ref: str) -> str:
        """Where the file lies. Raises `FetchFault` and `AdapterError`."""
        for pause in (*PAUSES, None):
            try:
                found = await link.call(lambda bot: bot.raw_file(ref))
            except Refusal as error:
                if error.says("file is too big"):
                    raise FetchFault(too_large(min(self._limit, FETCHED))) from error
                if error.code == 400:
                    raise FetchFault("the platform does not have it any more") from error
                fault = translate(error)
            except AdapterError as error:
                fault = error
            else:
                path = found.get("file_path") if isinstance(found, dict) else None
                if isinstance(path, str) and path:
                    return path
                raise FetchFault("the platform does not give it out")
            wait = fault.seconds if isinstance(fault, RetryAfter) else pause
            if pause is None or wait is None or wait > LONGEST_PAUSE:
                raise fault
            await asyncio.sleep(wait)
        raise NotReady  # pragma: no cover - the last round returns or raises


def _open_regular(path: str, flags: int = 0) -> BinaryIO | None:
    """The file at `path`, or None where it is no regular file. Raises `OSError` where it cannot be opened."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return None
    return os.fdopen(descriptor, "rb")


def _open_local(path: str) -> BinaryIO | None:
    try:
        return _open_regular(path)
    except OSError:
        return None


async def _read(file: BinaryIO) -> AsyncIterator[bytes]:
    try:
        while part := await asyncio.to_thread(file.read, PART):
            yield part
    finally:
        file.close()


async def read_for_sending(attachment: Attachment, most: int = SENT) -> bytes:
    """The bytes of a file that the gateway has put into a chunk. Raises `Rejected` with a sentence for people.

    What is opened is what is checked: no link is followed, no pipe is waited for, and no more than `most`
    bytes are read, whatever the file's size was said to be (B81).
    """
    if attachment.path is None:
        raise Rejected(f"no path: {attachment.name}", told="The file could not be sent: it is not there.")
    return await asyncio.to_thread(_read_whole, attachment.path, attachment.name, most)


def _read_whole(path: str, name: str, most: int) -> bytes:
    try:
        file = _open_regular(path, os.O_NOFOLLOW)
        if file is None:
            raise Rejected(f"{name} is no regular file", told=f"{name} could not be sent: it is no file.")
        with file:
            data = file.read(most + 1)
    except OSError as error:
        told = f"The file {name} could not be sent: it cannot be read."
        raise Rejected(f"{name} cannot be read: {error.strerror}", told=told) from error
    if len(data) > most:
        told = f"The file {name} could not be sent: it is larger than the {most >> 20} MB that Telegram takes."
        raise Rejected(f"{name} is larger than {most} bytes", told=told)
    if not data:
        raise Rejected(f"{name} is empty", told=f"The file {name} could not be sent: it is empty.")
    return data
