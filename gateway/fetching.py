"""Files of committed events are fetched before the turn that needs them, and only for people who are let in."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import structlog

from adapters.events import Attachment, MessageEvent
from adapters.ports import CanFetch, PlatformAdapter
from gateway.convert import event_to_json
from gateway.workers import Item
from state.store import Store

log = structlog.get_logger("gateway.fetching")

INCOMING = "incoming"
"""The folder below the working folder that gets copies of what owners send."""


def has_unfetched(event: MessageEvent) -> bool:
    """Whether a file of the event is neither here nor given up."""
    return any(one.ref is not None and one.path is None and one.note is None for one in event.attachments)


async def fetch_files(
    store: Store,
    adapters: Mapping[str, PlatformAdapter],
    items: Sequence[Item],
    shelf: Callable[[MessageEvent], Path | None],
) -> None:
    """Fetch what the items came with, and keep in the store where it lies, so that no later try fetches again.

    `shelf` is the working folder where the sender may use files there, else None: then a copy is put into
    its folder `incoming`, for the tools. The items are changed in place. Files that cannot be fetched have
    a note then, which the model is told. Raises a `StateError` where that cannot be written.
    """
    for item in items:
        if not has_unfetched(item.event):
            continue
        adapter = adapters.get(item.event.address.platform)
        if isinstance(adapter, CanFetch):
            files = await adapter.fetch(item.event)
        else:
            files = tuple(
                dataclasses.replace(one, note=one.note or "it was not fetched") for one in item.event.attachments
            )
        if (root := shelf(item.event)) is not None:
            files = tuple([await asyncio.to_thread(_shelve, one, root) for one in files])
        item.event = dataclasses.replace(item.event, attachments=files)
        await store.inbox.replace_payload(item.event_id, event_to_json(item.event))
        log.info(
            "files.fetched", event_id=item.event_id, files=len(files), missing=sum(one.path is None for one in files)
        )


def _shelve(one: Attachment, root: Path) -> Attachment:
    """A copy below the working folder, under a name that is free. Blocking; a failure is only logged."""
    if one.path is None:
        return one
    stored = Path(one.path)
    try:
        (root / INCOMING).mkdir(mode=0o700, exist_ok=True)
        # a link in its place could lead anywhere; by its descriptor the folder cannot be exchanged any more
        folder = os.open(root / INCOMING, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if (name := _copy(stored, folder)) is not None:
                return dataclasses.replace(one, shelf=f"{INCOMING}/{name}")
        finally:
            os.close(folder)
    except OSError as error:
        log.warning("file.not_shelved", name=one.name, error=str(error))
    return one


def _copy(stored: Path, folder: int) -> str | None:
    """The name of the copy in the open `folder`, whole; None where no name is free. Raises OSError, leaves nothing."""
    for number in range(1, 1000):
        name = stored.name if number == 1 else f"{stored.stem}-{number}{stored.suffix}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(name, flags, 0o600, dir_fd=folder)
        except FileExistsError:
            continue
        try:
            with os.fdopen(descriptor, "wb") as out, stored.open("rb") as source:
                shutil.copyfileobj(source, out)
        except OSError:
            os.unlink(name, dir_fd=folder)
            raise
        return name
    return None
