"""An in-memory gateway for the HTTP tests: a whole implementation of the two ports, without a store.

One queue a line. What the "agent" does follows from the text, so that tests can ask for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from adapters.errors import NotReady
from adapters.events import Block, Button, Buttons, ChatAddress, EventKind, Markdown, MessageEvent
from adapters.http.adapter import HttpAdapter
from adapters.ports import Accepted, Answer, LivePart, SessionInfo, SpokenMessage

OPEN = ("waiting", "running")


@dataclass
class Row:
    """An accepted event."""

    id: int
    event: MessageEvent
    fate: str = "waiting"
    detail: str = ""
    text: str = ""
    turn: int | None = None
    finish: str | None = None
    chunk: int = 0


@dataclass
class Line:
    """A session: (person, role, text), the number of turns, and its worker."""

    id: str
    person: str
    spoken: list[tuple[str, str]] = field(default_factory=list)
    upto: dict[str, int] = field(default_factory=dict)
    queue: asyncio.Queue[Row] = field(default_factory=asyncio.Queue)
    worker: asyncio.Task[None] | None = None


class Gateway:
    """Implements `Inbox` and `Conversations`."""

    def __init__(self) -> None:
        self.adapter: HttpAdapter | None = None
        self.rows: list[Row] = []
        self.seen: dict[str, Row] = {}
        self.lines: dict[str, Line] = {}
        self.gate = asyncio.Event()
        """Turns that `wait` go on once this is set."""
        self.runs: list[str] = []
        """The texts of the turns that ran, in order."""
        self.full = False

    async def accept(self, event: MessageEvent) -> Accepted:
        if self.full:
            raise NotReady("the disk is full")
        await asyncio.sleep(0)
        known = self.seen.get(event.dedup_id)
        if known is not None:
            return Accepted(event_id=known.id, is_new=False)
        row = Row(len(self.rows) + 1, event)
        self.rows.append(row)
        self.seen[event.dedup_id] = row
        if event.kind is EventKind.DELETE:
            self._delete(row)
        elif event.kind is EventKind.ACTION:
            assert event.action is not None
            self._end(row, "command", text=f"pressed {event.action.button_id}={event.action.value}")
        else:
            line = self._line(event.address, f"http:{event.sender.id}")
            line.queue.put_nowait(row)
            if line.worker is None:
                line.worker = asyncio.create_task(self._work(line), name=f"line {line.id}")
        return Accepted(event_id=row.id, is_new=True)

    def _line(self, address: ChatAddress, person: str) -> Line:
        line = self.lines.get(address.chat_id)
        if line is None:
            line = self.lines[address.chat_id] = Line(f"s_{len(self.lines) + 1}", person)
        return line

    async def _work(self, line: Line) -> None:
        while not line.queue.empty():
            row = line.queue.get_nowait()
            if row.fate in OPEN:
                row.fate = "running"
                await self._turn(line, row)
        line.worker = None

    async def _turn(self, line: Line, row: Row) -> None:
        event, text = row.event, row.event.text
        self.runs.append(text)
        row.turn = row.id
        row.chunk = 0
        if event.kind is EventKind.COMMAND:
            row.turn = None
            self._end(row, "command")
            await self._say(row, Markdown(text=f"done: {text}"))
            return
        words = text.split()
        for word in words:
            match word:
                case "wait":
                    await self.gate.wait()
                case "reset":
                    self._live(row, "text", "half a wo")
                    self._live(row, "reset", "")
                case "tool":
                    self._live(row, "tool", "reads a file")
                case "notice":
                    await self._say(row, Markdown(text="please wait"))
                case "approve":
                    buttons = Buttons(buttons=(Button(id="b1", label="Yes", value="yes"),))
                    await self._say(row, Markdown(text="rm -rf x"), buttons)
                case "fail":
                    self._end(row, "failed", "The model gave no usable answer.")
                    return
                case "refuse":
                    self._end(row, "refused", "not on the list")
                    return
                case "length":
                    row.finish = "length"
            if row.fate not in OPEN:
                return
        said = [f"{item.role}={item.text}" for item in event.history]
        memory = len(line.spoken) // 2
        answer = f"echo[{memory}] {text}"
        if said or event.instructions or event.attachments:
            answer += f" | {'; '.join(said)} | {event.instructions} | {[a.size for a in event.attachments]}"
        for start in range(0, len(answer), 7):
            self._live(row, "text", answer[start : start + 7])
            await asyncio.sleep(0)
        line.spoken += [("user", text), ("assistant", answer)]
        line.upto[event.message_id] = len(line.spoken)
        row.finish = row.finish or "stop"
        if "merge" in words:
            while not line.queue.empty():
                other = line.queue.get_nowait()
                if other.fate not in OPEN:
                    continue  # it was steered into this turn
                other.turn = row.turn
                other.text = answer
                self._end(other, "merged")
        self._end(row, "answered", text=answer)
        await self._say(row, Markdown(text=answer))

    def _live(self, row: Row, kind: str, text: str) -> None:
        if self.adapter is not None:
            self.adapter.live(row.event.address, row.event.message_id, LivePart(kind=kind, text=text))

    def _end(self, row: Row, fate: str, detail: str = "", text: str = "") -> None:
        row.fate, row.detail, row.text = fate, detail, text or row.text
        if self.adapter is not None:
            self.adapter.settled(row.event.address, row.event.message_id, fate, detail)

    def steer(self, message_id: str, into: str) -> None:
        """Have a waiting message join a running turn."""
        row = next(r for r in self.rows if r.event.message_id == message_id)
        row.turn = next(r for r in self.rows if r.event.message_id == into).turn
        self._end(row, "steered")

    def _delete(self, row: Row) -> None:
        for other in self.rows:
            same = other.event.message_id == row.event.message_id and other.event.address == row.event.address
            if same and other is not row and other.fate in OPEN:
                self._end(other, "cancelled", "deleted by its author")
        row.fate = "command"

    async def _say(self, row: Row, *blocks: Block) -> None:
        if self.adapter is None:
            return
        for chunk in self.adapter.renderer.render(blocks):
            row.chunk += 1
            key = f"k{row.id}.{row.chunk}"
            receipt = await self.adapter.send(row.event.address, chunk, key=key, reply_to=row.event.message_id)
            assert receipt.message_ids == (key,)

    def _answer(self, row: Row) -> Answer:
        text = row.text
        if row.fate in ("merged", "steered") and row.turn is not None:
            text = next(r.text for r in self.rows if r.id == row.turn)
        line = self.lines.get(row.event.address.chat_id)
        return Answer(
            event_id=row.id,
            message_id=row.event.message_id,
            address=row.event.address,
            fate=row.fate,
            detail=row.detail,
            text=text,
            session_id=None if line is None else line.id,
            turn_id=None if row.turn is None else f"t_{row.turn}",
            received_at=row.event.received_at,
            finish_reason=row.finish,
            input_tokens=len(row.event.text),
            output_tokens=len(text),
            platform_data=row.event.platform_data,
        )

    async def answer(self, address: ChatAddress, message_id: str) -> Answer | None:
        await asyncio.sleep(0)
        for row in self.rows:
            if row.event.message_id == message_id and row.event.address == address:
                return self._answer(row)
        return None

    async def find_answer(self, platform: str, account: str, person: str, message_id: str) -> Answer | None:
        await asyncio.sleep(0)
        for row in self.rows:
            if row.event.message_id == message_id and f"{platform}:{row.event.sender.id}" == person:
                return self._answer(row)
        return None

    async def sessions(self, person: str, limit: int = 50) -> Sequence[SessionInfo]:
        return [
            SessionInfo(
                session_id=line.id,
                title=None,
                created_at=self.rows[0].event.received_at,
                address=ChatAddress(platform="http", account="local", chat_id=chat),
            )
            for chat, line in reversed(self.lines.items())
            if line.person == person
        ]

    async def messages(self, person: str, session_id: str) -> Sequence[SpokenMessage] | None:
        for line in self.lines.values():
            if line.id == session_id and line.person == person:
                at = self.rows[0].event.received_at
                return [SpokenMessage(role=role, text=text, created_at=at) for role, text in line.spoken]
        return None

    async def fork(self, source: ChatAddress, message_id: str, target: ChatAddress) -> bool:
        line = self.lines.get(source.chat_id)
        if line is None or message_id not in line.upto:
            return False
        child = self._line(target, line.person)
        child.spoken = line.spoken[: line.upto[message_id]]
        return True
