"""Reading a file that is to be sent: a regular file, within the limit, opened without a race."""

from __future__ import annotations

import asyncio
import os
import stat

import aiohttp

from adapters.errors import Rejected
from adapters.events import Attachment
from adapters.render import to_json

LIMIT = 10 * 2**20
"""Bytes. Discord's limit for a server without boosts: https://discord.com/developers/docs/reference#uploading-files."""


async def read_upload(media: Attachment) -> bytes:
    """The bytes of the file. Raises `Rejected`, with words for people, where it cannot be sent."""
    if media.path is None:
        raise Rejected("a file without a path", told=f"The file {media.name} is not here.")
    try:
        return await asyncio.to_thread(_read, media.path)
    except _TooLarge as error:
        raise Rejected(
            "the file is too large", told=f"The file {media.name} is larger than the 10 MB that Discord takes."
        ) from error
    except (OSError, ValueError) as error:
        raise Rejected(
            f"the file cannot be read: {type(error).__name__}", told=f"The file {media.name} cannot be read."
        ) from error


class _TooLarge(Exception):
    """More than `LIMIT`."""


def _read(path: str) -> bytes:
    """Neither a link nor a pipe nor a device, whatever stood there a moment ago."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("not a regular file")
        if found.st_size > LIMIT:
            raise _TooLarge
        data = file.read(LIMIT + 1)
    if len(data) > LIMIT:
        raise _TooLarge
    if not data:
        raise ValueError("an empty file")
    return data


def upload_form(body: dict[str, object], media: Attachment, data: bytes) -> aiohttp.FormData:
    """The request with one file. A form can be sent once."""
    form = aiohttp.FormData(quote_fields=False)
    name = "".join(ch for ch in media.name if ch.isprintable() and ch not in '"\\/') or "file"
    described = {**body, "attachments": [{"id": 0, "filename": name}]}
    form.add_field("payload_json", to_json(described), content_type="application/json")
    form.add_field("files[0]", data, filename=name, content_type=media.mime or "application/octet-stream")
    return form
