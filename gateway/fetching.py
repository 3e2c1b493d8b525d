"""Files of committed events are fetched before the turn that needs them, and only for people who are let in."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import structlog

from adapters.events import MessageEvent
from adapters.ports import CanFetch, PlatformAdapter
from gateway.convert import event_to_json
from gateway.workers import Item
from state.store import Store

log = structlog.get_logger("gateway.fetching")


def has_unfetched(event: MessageEvent) -> bool:
    """Whether a file of the event is neither here nor given up."""
    return any(one.ref is not None and one.path is None and one.note is None for one in event.attachments)


async def fetch_files(store: Store, adapters: Mapping[str, PlatformAdapter], items: Sequence[Item]) -> None:
    """Fetch what the items came with, and keep in the store where it lies, so that no later try fetches again.

    The items are changed in place. Files that cannot be fetched have a note then, which the model is told.
    Raises a `StateError` where that cannot be written.
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
        item.event = dataclasses.replace(item.event, attachments=files)
        await store.inbox.replace_payload(item.event_id, event_to_json(item.event))
        log.info(
            "files.fetched", event_id=item.event_id, files=len(files), missing=sum(one.path is None for one in files)
        )
