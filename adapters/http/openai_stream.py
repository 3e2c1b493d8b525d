"""Streaming to clients that cannot take back what they have shown."""

from __future__ import annotations


class OneWay:
    """What has been streamed, against what turns out to be the answer.

    A reset (the model was asked again, or went on to tools) makes what was streamed void, which this
    protocol cannot say. From then on the live text is held back; at the end the rest of the answer follows
    where it begins with what was streamed, else the whole answer after an empty line.
    """

    def __init__(self) -> None:
        self._sent: list[str] = []
        self._holding = False

    def live(self, text: str) -> str:
        """The part of a live increment that may be streamed now."""
        if self._holding or not text:
            return ""
        self._sent.append(text)
        return text

    def reset(self) -> None:
        """What was streamed is void."""
        if self._sent:
            self._holding = True

    def rest(self, answer: str) -> str:
        """What is still to be streamed, once the answer is known."""
        sent = "".join(self._sent)
        if answer.startswith(sent):
            return answer[len(sent) :]
        return f"\n\n{answer}"
