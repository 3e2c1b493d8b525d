"""How the external memory stands, for `tidings doctor`."""

from __future__ import annotations

import asyncio
from typing import Literal

from gateway.config_types import Config

Told = tuple[Literal["ok", "warning", "fault"], str, str]
BOUND = 30.0


async def look_at_memory(settings: Config) -> list[Told]:
    """What the provider says to our key, and what is still to be told to it; nothing where none is active. Grade, what
    was found, remedy."""
    active = settings.memory.active()
    if active is None:
        return []
    from agent_core.memory.providers.factory import make_provider  # noqa: PLC0415 - needed only here
    from agent_core.memory.providers.ports import ProviderError  # noqa: PLC0415
    from state.errors import StateError  # noqa: PLC0415
    from state.owners import this_process  # noqa: PLC0415
    from state.store import Store  # noqa: PLC0415

    path, name = settings.home / "tidings.db", active.name
    if not path.exists():
        return [("ok", f"memory {name}: there is no database yet", "tidings run")]
    found: list[Told] = []
    try:
        async with Store.open(path, owner=this_process("doctor"), readers=1) as store:
            provider = make_provider(active, store=store, home=settings.home)
            try:
                async with asyncio.timeout(BOUND):
                    found.append(("ok", f"memory {name} ({active.mode}): {await provider.is_available()}", ""))
            except (ProviderError, TimeoutError) as error:
                told = str(error) or f"no answer within {BOUND:g} s"
                found.append(("warning", f"memory {name}: {told}", f"see memory.{name} and docs/memory.md"))
            finally:
                await provider.shutdown()
            waiting, refused = await store.memory_outbox.counts(name)
    except StateError as error:
        return [*found, ("warning", f"memory {name}: {error}", "tidings db check")]
    if waiting:
        found.append(("ok", f"memory {name}: {waiting} writes wait", ""))
    if refused:
        found.append(("warning", f"memory {name}: {refused} writes were refused", "see memory.refused in the log"))
    return found
