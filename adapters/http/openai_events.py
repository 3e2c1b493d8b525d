"""The events of a streamed response, in the documented order.

created, in_progress, then for each output message: output_item.added, content_part.added, any number of
output_text.delta, output_text.done, content_part.done, output_item.done; last completed, incomplete or
failed. A reset closes the message that had begun as incomplete and opens another for what follows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from adapters.http.errors import HttpProblem
from adapters.http.openai_shapes import item_id, message_json, response_json, text_json
from adapters.http.sse import frame
from adapters.http.waits import Part
from adapters.ports import Answer


class ResponseEvents:
    """Makes the bytes of one stream. Pure: what it returns is to be written in that order."""

    def __init__(self, accepted: Answer) -> None:
        self._accepted = accepted
        self._id = accepted.message_id
        self._number = 0
        self._sequence = 0
        self._streamed: list[str] | None = None
        """The text of the message that is open; None where none is."""

    def begin(self) -> bytes:
        """The response is accepted."""
        response = response_json(replace(self._accepted, fate="running"))
        return self._event("created", response=response) + self._event("in_progress", response=response)

    def part(self, part: Part) -> bytes:
        """A live part. What this protocol has no event for is left out."""
        if part.kind == "text" and part.text:
            return self._delta(part.text)
        if part.kind == "reset" and self._streamed is not None:
            return self._close_item("".join(self._streamed), "incomplete")
        return b""

    def end(self, answer: Answer, *, failed: bool) -> bytes:
        """The response has ended."""
        response = response_json(answer)
        if failed:
            out = b"" if self._streamed is None else self._close_item("".join(self._streamed), "incomplete")
            return out + self._event("failed", response=response)
        out = b""
        sent = "".join(self._streamed or ())
        if not answer.text.startswith(sent):
            out += self._close_item(sent, "incomplete")
            sent = ""
        if self._streamed is None or answer.text != sent:
            out += self._delta(answer.text[len(sent) :])
        status = response["status"]
        response["output"] = [message_json(self._id, self._number, answer.text, status)]
        out += self._close_item(answer.text, status)
        return out + self._event(status, response=response)

    def broken(self, problem: HttpProblem) -> bytes:
        """The stream ends without the response having ended."""
        return self._event("error", prefix="", code=problem.code, message=problem.message, param=None)

    def _delta(self, text: str) -> bytes:
        out = b""
        if self._streamed is None:
            self._streamed = []
            item = message_json(self._id, self._number, "", "in_progress")
            out = self._event("output_item.added", output_index=self._number, item=item)
            out += self._event("content_part.added", **self._place(), part=text_json(""))
        if text:
            self._streamed.append(text)
            out += self._event("output_text.delta", **self._place(), delta=text, logprobs=[])
        return out

    def _close_item(self, text: str, status: str) -> bytes:
        out = self._event("output_text.done", **self._place(), text=text, logprobs=[])
        out += self._event("content_part.done", **self._place(), part=text_json(text))
        item = message_json(self._id, self._number, text, status)
        out += self._event("output_item.done", output_index=self._number, item=item)
        self._streamed = None
        self._number += 1
        return out

    def _place(self) -> dict[str, Any]:
        return {"item_id": item_id(self._id, self._number), "output_index": self._number, "content_index": 0}

    def _event(self, name: str, *, prefix: str = "response.", **data: Any) -> bytes:
        kind = prefix + name
        content = {"type": kind, "sequence_number": self._sequence, **data}
        self._sequence += 1
        return frame(content, kind)
