"""Sending, editing, deleting, typing, looking up: one request each, with a known outcome or an unknown one."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog

from adapters.discord.attempts import WINDOW, Attempts, nonce_of
from adapters.discord.directory import Directory
from adapters.discord.errors import NO_HISTORY_RIGHT, UNKNOWN_MESSAGE, code_of
from adapters.discord.inbound import author_of
from adapters.discord.readable import snowflake_at
from adapters.discord.recent import Recent
from adapters.discord.render import read_chunk
from adapters.discord.rest import Rest
from adapters.discord.threads import Threads
from adapters.discord.uploads import read_upload, upload_form
from adapters.errors import AdapterError, Gone, NoRights, NotReady, OutcomeUnknown, Rejected, RetryAfter
from adapters.events import ChatAddress, Receipt, RenderedChunk

log = structlog.get_logger("adapters.discord")

NO_PREVIEWS = 1 << 2
"""The flag SUPPRESS_EMBEDS."""
NOBODY: dict[str, Any] = {"parse": [], "replied_user": False}
"""Model text calls nobody, whatever it says."""
PAGE = 100
SKEW = timedelta(seconds=60)
"""How far our clock may be ahead of Discord's where the newest message of a channel is not known."""


class Outbound:
    """What the adapter says, over the REST connection of the present run."""

    def __init__(
        self,
        rest: Rest,
        threads: Threads,
        attempts: Attempts,
        directory: Directory,
        recent: Recent,
        *,
        link_previews: bool,
    ) -> None:
        self._rest = rest
        self._threads = threads
        self._attempts = attempts
        self._directory = directory
        self._recent = recent
        self._flags = 0 if link_previews else NO_PREVIEWS

    async def send(self, address: ChatAddress, chunk: RenderedChunk, key: str, reply_to: str | None) -> Receipt:
        """See `PlatformAdapter.send`. The nonce goes along from the first try, so that a further one in the next
        minutes makes no second message."""
        content, components, media = read_chunk(chunk)
        data = None if media is None else await read_upload(media)

        async def post(channel: str, inline: bool) -> Any:
            body = self._body(content, components) | {"nonce": nonce_of(key), "enforce_nonce": True}
            target = reply_to or (address.thread_id if inline else None)
            if target is not None and target.isdigit() and (inline or target != address.thread_id):
                body["message_reference"] = {"message_id": target, "fail_if_not_exists": False}
            self._begin(key, content, channel)
            try:
                return await self._post(channel, body, None if media is None or data is None else (media, data))
            except NoRights as error:
                if code_of(error) != NO_HISTORY_RIGHT or body.pop("message_reference", None) is None:
                    raise
            return await self._post(channel, body, None if media is None or data is None else (media, data))

        try:
            made = await self._threads.at(self._rest, address.chat_id, address.thread_id, post)
        except (NotReady, RetryAfter, Rejected, Gone) as error:
            if not isinstance(error, NotReady | RetryAfter):
                self._attempts.drop(key)
            if code_of(error) == UNKNOWN_MESSAGE:
                raise Rejected("the message was sent before, and has been deleted since") from error
            raise
        message_id = made.get("id") if isinstance(made, dict) else None
        if not isinstance(message_id, str):
            raise OutcomeUnknown("Discord does not tell which message it has made")
        self._attempts.arrived(nonce_of(key), message_id)
        self._recent.ours(message_id, address, chunk.plain)
        if str(made.get("content", "")).strip() != content.strip():
            # an earlier try with this key had come through, with less text (a draft): it becomes this one
            await self.edit(address, message_id, chunk)
        return Receipt(message_ids=(message_id,), sent_at=datetime.now(UTC))

    def _body(self, content: str, components: list[dict[str, Any]]) -> dict[str, Any]:
        body: dict[str, Any] = {"content": content, "allowed_mentions": NOBODY, "flags": self._flags}
        return body | {"components": components} if components else body

    async def _post(self, channel: str, body: dict[str, Any], upload: Any) -> Any:
        path = f"/channels/{channel}/messages"
        if upload is None:
            return await self._rest.send("POST", path, body)
        media, data = upload
        return await self._rest.send("POST", path, form=upload_form(body, media, data))

    def _begin(self, key: str, content: str, channel: str) -> None:
        place = self._directory.place(channel)
        after = int(place.last_message_id) if place is not None and place.last_message_id else None
        self._attempts.begin(key, content, channel, after=after, monotonic=asyncio.get_running_loop().time())

    async def edit(self, address: ChatAddress, message_id: str, chunk: RenderedChunk) -> None:
        """See `CanEdit.edit`."""
        content, components, media = read_chunk(chunk)
        body = self._body(content or (chunk.plain if media is not None else ""), components)
        body["components"] = components

        async def patch(channel: str) -> Any:
            return await self._rest.send("PATCH", f"/channels/{channel}/messages/{message_id}", body)

        await self._threads.find(self._rest, address.chat_id, address.thread_id, patch)

    async def delete(self, address: ChatAddress, message_id: str) -> None:
        """See `CanDelete.delete`."""

        async def remove(channel: str) -> Any:
            return await self._rest.send("DELETE", f"/channels/{channel}/messages/{message_id}")

        try:
            await self._threads.find(self._rest, address.chat_id, address.thread_id, remove)
        except Gone:
            log.debug("message.gone_already", message=message_id)

    async def typing(self, address: ChatAddress) -> None:
        """See `CanType.typing`. Discord shows it for ten seconds."""

        async def show(channel: str, _inline: bool) -> Any:
            return await self._rest.send("POST", f"/channels/{channel}/typing")

        await self._threads.at(self._rest, address.chat_id, address.thread_id, show)

    # what has become of a try ------------------------------------------------------------------------

    async def look_up(self, address: ChatAddress, key: str) -> Receipt | None:
        """See `CanLookUp.look_up`. None also where a further try is sure to be recognised by its nonce."""
        attempt = self._attempts.get(key)
        if attempt is not None and attempt.message_id is not None:
            return Receipt(message_ids=(attempt.message_id,), sent_at=datetime.now(UTC))
        if attempt is not None and asyncio.get_running_loop().time() - attempt.began < WINDOW:
            return None
        after = None
        if attempt is not None:
            after = attempt.after if attempt.after is not None else snowflake_at(attempt.at - SKEW)
        page = await self._history(address, after)
        mine = [one for one in page if author_of(one).get("id") == self._directory.us]
        for one in mine:
            message_id = str(one.get("id"))
            by_nonce = one.get("nonce") == nonce_of(key)  # Discord itself does not tell it; others may
            same = attempt is not None and str(one.get("content", "")).strip() == attempt.content.strip()
            if by_nonce or (same and not self._attempts.accounts_for(message_id)):
                self._attempts.arrived(nonce_of(key), message_id)
                return Receipt(message_ids=(message_id,), sent_at=datetime.now(UTC))
        open_ones = [one for one in mine if not self._attempts.accounts_for(str(one.get("id")))]
        if len(page) >= PAGE or (attempt is None and open_ones):
            raise OutcomeUnknown("the history does not tell whether the message has arrived")
        return None

    async def _history(self, address: ChatAddress, after: int | None) -> list[dict[str, Any]]:
        query: dict[str, str | int] = {"limit": PAGE} | ({} if after is None else {"after": str(after)})

        async def read(channel: str) -> Any:
            return await self._rest.get(f"/channels/{channel}/messages", **query)

        try:
            page = await self._threads.find(self._rest, address.chat_id, address.thread_id, read)
        except (NotReady, RetryAfter):
            raise
        except AdapterError as error:
            raise OutcomeUnknown("the history cannot be read") from error
        return [one for one in page if isinstance(one, dict)] if isinstance(page, list) else []
