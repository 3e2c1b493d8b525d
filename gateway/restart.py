"""A restart that was asked for in a chat is answered there once the daemon is up again (B18, B57, B58).

The mark is a file, written before the command's own answer is committed and removed when the word is given: the
word has a delivery id of its own, so that a crash between gives it once all the same.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import structlog

from adapters.events import Delivery, DeliveryKind, Markdown
from gateway.commands.base import Call
from gateway.convert import address_from_dict, address_to_dict
from gateway.delivery import Deliveries

log = structlog.get_logger("gateway.restart")

MARK = "restart.json"


async def leave_mark(home: Path, call: Call) -> None:
    """Remember who has asked."""
    about = {
        "event": call.event_id,
        "address": address_to_dict(call.event.address),
        "message": call.event.message_id,
    }

    def write() -> None:
        draft = home / f".{MARK}"
        draft.write_text(json.dumps(about), encoding="utf-8")
        draft.replace(home / MARK)

    await asyncio.to_thread(write)


async def say_back(home: Path, deliveries: Deliveries) -> bool:
    """Tell whoever asked for the restart that it is over. False where nobody has."""
    path = home / MARK

    def read() -> dict[str, object] | None:
        try:
            return dict(json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            log.warning("restart.mark_unreadable", error=str(error))
            return None

    about = await asyncio.to_thread(read)
    if about is None:
        return False
    address = about["address"]
    assert isinstance(address, dict)
    await deliveries.say(
        Delivery(
            delivery_id=f"d-back-{about['event']}",
            address=address_from_dict(address),
            kind=DeliveryKind.NOTICE,
            blocks=(Markdown(text="I am back."),),
            created_at=deliveries.clock.utc(),
            reply_to=str(about["message"]),
        )
    )
    await asyncio.to_thread(path.unlink, missing_ok=True)
    return True
