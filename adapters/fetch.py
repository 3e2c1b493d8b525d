"""Fetching a file that came with an event: bounded by real bytes, streamed to disk, nothing half done stays.

A platform brings the stream; what is stored, under which name and what is said when it fails is the same
everywhere (B49).
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import os
import re
import unicodedata
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import BinaryIO, Protocol, runtime_checkable

import structlog

from adapters.events import Attachment

log = structlog.get_logger("adapters.fetch")

NAME = 100
"""Characters of a stored name; file systems take 255 bytes."""
SECONDS = 300.0


class FetchFault(Exception):
    """The file could not be fetched. The message is for people."""


def safe_name(name: str) -> str:
    """`name` as the last part of a path: no separators, no control characters, bounded, never empty."""
    kept = "".join(ch for ch in unicodedata.normalize("NFC", name) if unicodedata.category(ch)[0] not in "CZ")
    kept = re.sub(r"[^\w.\-+@()]", "_", kept).lstrip(".-")
    stem, dot, suffix = kept.rpartition(".")
    if not dot or len(suffix) > 12:
        stem, suffix = kept, ""
    stem = _bytes_within(stem or "file", NAME - len(suffix.encode()) - 1)
    return f"{stem}.{suffix}" if suffix else stem


def _bytes_within(text: str, bound: int) -> str:
    return text.encode()[:bound].decode("utf-8", "ignore")


async def fetch(wanted: Attachment, stream: AsyncIterator[bytes], folder: Path, *, limit: int) -> Attachment:
    """Store the stream below `folder` and return `wanted` with path, size and hash; or with a `note`.

    Never raises but for a cancel. More than `limit` bytes, an error of the stream (the adapter raises
    `FetchFault` with words for people, or an `OSError`), an empty file and a full disk end in a note, and
    nothing is left behind. The whole takes `SECONDS` at most.
    """
    if wanted.size is not None and wanted.size > limit:
        return dataclasses.replace(wanted, note=too_large(limit))
    target = folder / uuid.uuid4().hex[:16]
    try:
        async with asyncio.timeout(SECONDS):
            return await _store(wanted, stream, target, limit)
    except FetchFault as fault:
        note = str(fault)
    except TimeoutError:
        note = "it could not be fetched in time"
    except OSError as error:
        log.warning("fetch.failed", name=wanted.name, error=str(error))
        note = "it could not be stored" if error.errno is not None else "the transfer broke off"
    finally:
        if isinstance(stream, _Closable):
            with contextlib.suppress(RuntimeError):
                await stream.aclose()
    return dataclasses.replace(wanted, path=None, note=note)


def too_large(limit: int) -> str:
    """What is said about a file above the limit."""
    return f"it is larger than the {limit / 1_000_000:g} MB that I fetch"


async def _store(wanted: Attachment, stream: AsyncIterator[bytes], target: Path, limit: int) -> Attachment:
    digest, size = hashlib.sha256(), 0
    path = target / safe_name(wanted.name)
    file = await asyncio.to_thread(_open, path)
    try:
        async for part in stream:
            size += len(part)
            _check(size <= limit, too_large(limit))
            digest.update(part)
            await asyncio.to_thread(file.write, part)
        _check(size > 0, "it is empty")
        await asyncio.to_thread(_finish, file)
    except BaseException:  # also a cancel: nothing half done stays, and it is passed on
        await asyncio.shield(asyncio.to_thread(_remove, file, path))
        raise
    return dataclasses.replace(wanted, path=str(path), size=size, sha256=digest.hexdigest(), note=None)


def _check(holds: bool, fault: str) -> None:
    if not holds:
        raise FetchFault(fault)


def _open(path: Path) -> BinaryIO:
    path.parent.mkdir(parents=True, mode=0o700)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")


def _finish(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
    file.close()


def _remove(file: BinaryIO, path: Path) -> None:
    with contextlib.suppress(OSError):
        file.close()
    with contextlib.suppress(OSError):
        path.unlink()
        path.parent.rmdir()


@runtime_checkable
class _Closable(Protocol):
    """An asynchronous generator."""

    async def aclose(self) -> None:
        """End it."""
        ...
