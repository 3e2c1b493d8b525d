"""A terminal over a scripted gateway, as a process of its own: what the tests start behind pipes and a pty."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from adapters.events import Button, Buttons, Markdown, Sender
from adapters.terminal.adapter import TerminalAdapter
from adapters.terminal.choose import choose_front
from tests.counterparts.small_gateway import Row, SmallGateway

YES_NO = Buttons(buttons=(Button(id="b1", label="Yes, run it", value="yes"), Button(id="b2", label="No", value="no")))


async def script(gateway: SmallGateway, row: Row) -> None:
    text = row.event.text
    if row.event.action is not None:
        await gateway.end(row, "command", "", f"a press on {row.event.action.button_id}")
    elif text.startswith("/stop"):
        await gateway.end(row, "command", "Stopped it.")
        for other in gateway.rows:
            if other.fate == "waiting":
                await gateway.end(other, "cancelled", "", "by /stop")
    elif text == "slow":
        gateway.live(row, "text", "The beginning of a long answer")
        gateway.live(row, "tool", "reading a file")
        await gateway.until(lambda: row.fate != "waiting")
    elif text == "approve":
        gateway.live(row, "status", "waiting for you")
        await gateway.say(row, Markdown(text="Shall I run `rm -r x`?"), YES_NO, key="ask")
        await gateway.until(lambda: any(other.event.action for other in gateway.rows))
        (value,) = [other.event.action.value for other in gateway.rows if other.event.action]
        await gateway.end(row, text=f"You said {value}.")
    elif text == "moved":
        row.fate, row.text = "answered", "It went away."
        await gateway.say(row, Markdown(text=row.text), YES_NO)
        await gateway.end(row, text=row.text, deliver=False)
    elif text == "fail":
        await gateway.end(row, "failed", "The model cannot be reached.", "unreachable")
    elif text == "silent":
        await gateway.end(row, "silent", "", "not addressed")
    elif text == "evil":
        await gateway.end(row, text="one\x1b]0;title\x07two\x9b2J\u202ethree")
    else:
        gateway.live(row, "text", "**ec")
        gateway.live(row, "reset", "again")
        gateway.live(row, "text", f"**echo** {text}")
        await asyncio.sleep(0.1)
        await gateway.end(row, text=f"**echo** {text}")


async def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("-p", dest="question")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--history", type=Path)
    given = parser.parse_args()
    gateway = SmallGateway(script)
    front = choose_front(question=given.question, as_json=given.json, history=given.history)
    gateway.adapter = adapter = TerminalAdapter(
        front,
        chat_id="line-1",
        sender=Sender(id="ann", name="Ann"),
        conversations=gateway,
        title="Test",
        commands=(("status", "how it stands"), ("stop", "stop it")),
    )
    await adapter.run(gateway, lambda: None)
    await gateway.close()
    return adapter.exit_code


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
