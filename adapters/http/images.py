"""Pictures that come inside a request as `data:` URLs: checked, and written below the files folder."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from adapters.events import Attachment
from adapters.http.errors import HttpProblem, bad

IMAGES = 8
"""How many pictures one message may have."""

_KINDS: dict[str, tuple[str, tuple[bytes, ...]]] = {
    "image/png": ("png", (b"\x89PNG\r\n\x1a\n",)),
    "image/jpeg": ("jpg", (b"\xff\xd8\xff",)),
    "image/gif": ("gif", (b"GIF87a", b"GIF89a")),
    "image/webp": ("webp", (b"RIFF",)),
}


async def save_images(urls: Sequence[tuple[str, str]], folder: Path) -> tuple[Attachment, ...]:
    """The pictures as attachments, in order. `urls` are (field, URL). Raises `HttpProblem` by field.

    Files are named by their content and complete and synced before this returns: the event that names
    them may be committed.
    """
    if len(urls) > IMAGES:
        raise bad(urls[IMAGES][0], f"A message may have at most {IMAGES} images.")
    for where, url in urls:
        if url[:5].lower() != "data:":
            raise bad(where, f"{where}: images are taken as data: URLs only; this server fetches nothing from the web.")
    if not urls:
        return ()
    return await asyncio.to_thread(lambda: tuple(_save(where, url, folder) for where, url in urls))


def _save(where: str, url: str, folder: Path) -> Attachment:
    head, comma, payload = url[5:].partition(",")
    mime, *options = head.lower().split(";")
    mime = "image/jpeg" if mime == "image/jpg" else mime
    if not comma or "base64" not in options:
        raise bad(where, f"{where}: the data: URL must be base64.")
    if mime not in _KINDS:
        raise bad(where, f"{where}: only PNG, JPEG, GIF and WebP images are taken.")
    try:
        content = base64.b64decode(payload, validate=True)
    except (binascii.Error, ValueError):
        raise bad(where, f"{where}: the base64 of the image is damaged.") from None
    ending, marks = _KINDS[mime]
    if not content.startswith(marks):
        raise bad(where, f"{where}: the content is no {mime} image.")
    digest = hashlib.sha256(content).hexdigest()
    path = folder / digest[:2] / f"{digest}.{ending}"
    try:
        _write(path, content)
    except OSError as exc:
        told = "The image could not be stored; nothing was done with the message."
        raise HttpProblem(503, told, code="not_ready", headers={"Retry-After": "5"}) from exc
    return Attachment(kind="image", name=f"image.{ending}", mime=mime, size=len(content), path=str(path), sha256=digest)


def _write(path: Path, content: bytes) -> None:
    if path.exists():
        return  # named by its content and put there whole
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
    finally:
        draft.unlink(missing_ok=True)
