"""Which front end fits the streams of this process."""

from __future__ import annotations

import sys
from io import BytesIO
from pathlib import Path

from adapters.terminal.front import FrontEnd


def choose_front(
    *, question: str | None = None, as_json: bool = False, history: Path | None = None
) -> FrontEnd:  # fmt: skip
    """`question` is asked alone; else a person at a terminal gets the interactive front end, a pipe the other."""
    out, err = _descriptor(sys.stdout), _descriptor(sys.stderr)
    if question is not None:
        from adapters.terminal.once import OnceFront  # noqa: PLC0415 - one of the three is needed

        return OnceFront(question, out, err, as_json=as_json)
    if sys.stdin is not None and sys.stdin.isatty() and sys.stdout is not None and sys.stdout.isatty():
        from adapters.terminal.interactive import InteractiveFront  # noqa: PLC0415 - as above

        return InteractiveFront(history=history)
    from adapters.terminal.piped import PipedFront  # noqa: PLC0415 - as above

    return PipedFront(BytesIO() if sys.stdin is None else sys.stdin.buffer, out, err)


def _descriptor(stream: object) -> int | None:
    """The descriptor of a standard stream, None where it is closed."""
    if stream is None:
        return None
    try:
        return int(stream.fileno())  # type: ignore[attr-defined] # whatever stands in for a stream in tests
    except (OSError, ValueError, AttributeError):
        return None
