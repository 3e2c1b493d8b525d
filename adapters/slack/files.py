"""Files that came in, fetched after the event is committed. The token goes to Slack's own hosts only."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urljoin

import aiohttp
import structlog

from adapters.errors import AdapterError, NoRights
from adapters.events import Attachment
from adapters.fetch import FetchFault, fetch
from adapters.slack.api import Api, may_get_token

log = structlog.get_logger("adapters.slack")

PART = 64 * 1024
REDIRECTS = 3
TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=30)


class Files:
    """Fetches what `ref` names (see `content.file_list`) into `folder`."""

    def __init__(self, api: Api, folder: Path, limit: int) -> None:
        self._api = api
        self._folder = folder
        self._limit = limit

    async def fetch(self, wanted: tuple[Attachment, ...]) -> tuple[Attachment, ...]:
        """Each with a path or a note, in order."""
        return tuple([await self._one(one) for one in wanted])

    async def _one(self, one: Attachment) -> Attachment:
        if one.path is not None or one.note is not None:
            return one
        if one.ref is None:
            return dataclasses.replace(one, note="Slack does not tell where it is")
        return await fetch(one, self._stream(one), self._folder, limit=self._limit)

    async def _stream(self, one: Attachment) -> AsyncIterator[bytes]:
        url = await self._place(one)
        for _ in range(REDIRECTS):
            if not may_get_token(url, self._api.origin):
                raise FetchFault("it lies outside of Slack, and I do not fetch it there")
            try:
                async with self._api.session.get(
                    url,
                    headers={"Authorization": f"Bearer {self._api.token}"},
                    timeout=TIMEOUT,
                    allow_redirects=False,
                ) as answer:
                    if answer.status in (301, 302, 303, 307, 308):
                        url = urljoin(url, answer.headers.get("Location", ""))
                        continue
                    self._check(answer, one)
                    async for part in answer.content.iter_chunked(PART):
                        yield part
                    return
            except (aiohttp.ClientError, asyncio.IncompleteReadError) as error:
                raise FetchFault(f"the transfer broke off ({type(error).__name__})") from None
        raise FetchFault("Slack sends me from one place to the next")

    def _check(self, answer: aiohttp.ClientResponse, one: Attachment) -> None:
        if answer.status != 200:
            raise FetchFault(f"Slack refuses it ({answer.status})")
        if answer.content_type == "text/html" and not one.mime.startswith("text/html"):
            raise FetchFault("Slack shows a login page instead: the app lacks the scope files:read")

    async def _place(self, one: Attachment) -> str:
        """The address of the file; Slack is asked where the event did not tell it."""
        try:
            ref = json.loads(one.ref or "{}")
            url, file_id = str(ref.get("url") or ""), str(ref.get("id") or "")
        except (ValueError, AttributeError):
            raise FetchFault("its handle cannot be read") from None
        if url:
            return url
        try:
            file = (await self._api.read("files.info", file=file_id)).get("file")
        except NoRights as error:
            raise FetchFault(error.told) from None
        except AdapterError as error:
            log.info("file.unknown", error=str(error))
            raise FetchFault("Slack does not tell where it is") from None
        found = file if isinstance(file, dict) else {}
        size = found.get("size")
        if isinstance(size, int) and size > self._limit:
            raise FetchFault(f"it is larger than the {self._limit / 1_000_000:g} MB that I fetch")
        url = str(found.get("url_private_download") or found.get("url_private") or "")
        if not url:
            raise FetchFault("Slack does not tell where it is")
        return url
