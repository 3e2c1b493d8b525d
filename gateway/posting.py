"""What the agent sends in the middle of a turn: rows of the outbox like every other word of it.

One copy a chat and turn of the same thing (B29): the same call again is told so, and a final answer that
only repeats what was sent here is not sent a second time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from adapters.events import Attachment, AttachmentKind, Block, ChatAddress, Delivery, DeliveryKind, Markdown, Media
from agent_core.tools.ports import OutFile, Posted
from gateway.convert import address_from_json, blocks_from_json, blocks_text
from gateway.delivery import Deliveries
from state.records import TurnLease
from state.store import Store

PREFIX = "post-"


class TurnPost:
    """The sending side of one turn. Implements `agent_core.tools.ports.Post`."""

    def __init__(
        self, store: Store, deliveries: Deliveries, lease: TurnLease, address: ChatAddress, reply_to: str | None
    ) -> None:
        self._store = store
        self._deliveries = deliveries
        self._lease = lease
        self._address = address
        self._reply_to = reply_to
        self._done: set[str] = set()
        self.said: list[str] = []
        """The texts that were sent to the turn's own chat."""

    async def recall(self) -> None:
        """Take up what an earlier try of the turn has sent here. Raises a `StateError`."""
        for delivery in await self._store.outbox.of_turn(self._lease.turn_id):
            if not delivery.id.startswith(PREFIX):
                continue
            address, blocks = address_from_json(delivery.address_json), blocks_from_json(delivery.blocks)
            self._done.add(_mark(address, blocks))
            if address == self._address and (text := blocks_text(blocks)):
                self.said.append(text)

    def repeats(self, text: str) -> bool:
        """Whether `text` is what was sent here already."""
        return " ".join(text.split()) in {" ".join(one.split()) for one in self.said}

    def may_become_repeat(self, text: str) -> bool:
        """Whether a text that is still being made may turn out as something that was sent here already."""
        begun = " ".join(text.split())
        return any(" ".join(one.split()).startswith(begun) for one in self.said)

    async def post(self, call_id: str, text: str, files: Sequence[OutFile], to: str | None) -> Posted:
        """See `Post.post`."""
        address = self._address if to is None else await self._find(to)
        if address is None:
            return Posted(ok=False, told=f"I know of no chat {to!r}: somebody must have written to me there.")
        here = address == self._address
        blocks: list[Block] = [Markdown(text=text)] if text else []
        blocks += [Media(attachment=_attachment(file)) for file in files]
        mark = _mark(address, blocks)
        if mark in self._done:
            return Posted(ok=False, told="That was sent already in this turn; it was not sent again.")
        name = hashlib.sha256(f"{self._lease.turn_id}\0{call_id}".encode()).hexdigest()[:24]
        delivery = Delivery(
            delivery_id=f"{PREFIX}{name}",
            address=address,
            kind=DeliveryKind.INTERIM,
            blocks=tuple(blocks),
            created_at=self._deliveries.clock.utc(),
            reply_to=self._reply_to if here else None,
        )
        await self._deliveries.say(delivery, session_id=self._lease.session_id, turn_id=self._lease.turn_id)
        self._done.add(mark)  # not before it is committed: what failed may be tried again
        if here and text:
            self.said.append(text)
        what = "The message" if text else "The file" if len(files) == 1 else "The files"
        are = "are" if what.endswith("s") else "is"
        return Posted(ok=True, told=f"{what} {are} handed over for delivery{'' if here else f' to {to}'}.")

    async def _find(self, to: str) -> ChatAddress | None:
        """The newest known address that is meant by "platform:chat" or "platform:chat:thread"."""
        for text in await self._store.sessions.addresses(limit=500):
            address = address_from_json(text)
            chat = f"{address.platform}:{address.chat_id}"
            if to == (chat if address.thread_id is None else f"{chat}:{address.thread_id}"):
                return address
        return None


def _mark(address: ChatAddress, blocks: Sequence[Block]) -> str:
    """What makes two messages the same: where they go, the words, and the files by name and size."""
    files = [(one.attachment.name, one.attachment.size) for one in blocks if isinstance(one, Media)]
    return repr((address, [one.text for one in blocks if isinstance(one, Markdown)], files))


def _attachment(file: OutFile) -> Attachment:
    kinds: dict[str, AttachmentKind] = {"image": "image", "audio": "audio", "video": "video"}
    kind: AttachmentKind = kinds.get(file.mime.partition("/")[0], "document")
    if file.mime == "image/svg+xml":
        kind = "document"
    if kind == "audio" and Path(file.name).suffix.lower() in (".ogg", ".oga", ".opus"):
        kind = "voice"
    return Attachment(kind=kind, name=file.name, mime=file.mime, size=file.size, path=file.path)
