"""Fetching the files of an event. Their addresses are signed for about a day: an old one is asked for anew.

Source: https://discord.com/developers/docs/reference#signed-attachment-cdn-urls.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

from adapters.discord.directory import dicts
from adapters.discord.rest import Rest
from adapters.errors import AdapterError
from adapters.events import Attachment
from adapters.fetch import FetchFault, fetch

STALE = frozenset({403, 404, 410})
PART = 65_536


class Files:
    """Downloads over `session`, without our token: the addresses are of another host."""

    def __init__(self, session: aiohttp.ClientSession, rest: Rest, folder: Path, limit: int) -> None:
        self._session = session
        self._rest = rest
        self._folder = folder
        self._limit = limit

    async def fetch(self, attachments: tuple[Attachment, ...]) -> tuple[Attachment, ...]:
        """Each with a path or a note, in order. Never raises but for a cancel."""
        return tuple([await self._one(one) for one in attachments])

    async def _one(self, wanted: Attachment) -> Attachment:
        if wanted.ref is None or wanted.path is not None or wanted.note is not None:
            return wanted
        return await fetch(wanted, self._stream(wanted.ref), self._folder, limit=self._limit)

    async def _stream(self, ref: str) -> AsyncIterator[bytes]:
        """The bytes; with a fresh address where the old one is not good any more."""
        where = _read(ref)
        for url in (where["url"], None):
            address = url or await self._fresh(where)
            try:
                timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=30)
                async with self._session.get(address, timeout=timeout) as answer:
                    if answer.status in STALE and url is not None:
                        continue
                    if answer.status != 200:
                        raise FetchFault(f"Discord does not give it out ({answer.status})")
                    async for part in answer.content.iter_chunked(PART):
                        yield part
                    return
            except (aiohttp.ClientError, TimeoutError):
                raise FetchFault("the transfer broke off") from None  # the error may hold the signed address

    async def _fresh(self, where: dict[str, str]) -> str:
        """The file's present address, from its message."""
        try:
            data = await self._rest.get(f"/channels/{where['channel']}/messages/{where['message']}")
        except AdapterError as error:
            raise FetchFault("its message is not there any more") from error
        for one in _attachments(data):
            if one.get("id") == where["id"] and isinstance(one.get("url"), str):
                return str(one["url"])
        raise FetchFault("it is not in its message any more")


def _read(ref: str) -> dict[str, str]:
    try:
        data = json.loads(ref)
        return {name: str(data[name]) for name in ("url", "channel", "message", "id")}
    except (ValueError, KeyError, TypeError) as error:
        raise FetchFault("it is not known where it lies") from error


def _attachments(data: Any) -> list[dict[str, Any]]:
    if not isinstance(data, dict):
        return []
    found = dicts(data.get("attachments"))
    for shot in dicts(data.get("message_snapshots")):
        inner = shot.get("message")
        found += dicts(inner.get("attachments")) if isinstance(inner, dict) else []
    return found
