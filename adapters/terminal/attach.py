"""`/attach FILE…`: files of the person's own that go with the next message."""

from __future__ import annotations

import hashlib
import mimetypes
import os
import shlex
import stat
from collections.abc import Sequence
from pathlib import Path

from adapters.events import Attachment, AttachmentKind

COMMAND = ("attach", "FILE …: send files with the next message; without a file: none")
LARGEST = 20_000_000
MOST = 20
_KINDS: dict[str, AttachmentKind] = {"image": "image", "audio": "audio", "video": "video"}


def is_attach(text: str) -> bool:
    """Whether a line is this command, which no other process ever sees."""
    return text.split(maxsplit=1)[:1] == ["/attach"]


def files_of(line: str) -> tuple[list[Attachment], list[str]]:
    """The files that the line names, and what is wrong with the others, a sentence each. Blocking."""
    try:
        names = shlex.split(line.partition("/attach")[2])
    except ValueError as error:
        return [], [f"that cannot be read as names of files: {error}"]
    found: list[Attachment] = []
    faults: list[str] = []
    for name in names[:MOST]:
        try:
            found.append(_file(Path(name).expanduser()))
        except OSError as error:
            faults.append(f"{name}: {error.strerror or error}")
    if len(names) > MOST:
        faults.append(f"{MOST} files at a time; the others were left out")
    return found, faults


def _file(path: Path) -> Attachment:
    path = path.absolute()
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise OSError("it is no file")
        if about.st_size > LARGEST:
            raise OSError(f"it is larger than {LARGEST // 1_000_000} MB")
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    mime = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    kind = _KINDS.get(mime.partition("/")[0], "document")
    if mime == "image/svg+xml":
        kind = "document"
    return Attachment(kind=kind, name=path.name, mime=mime, size=about.st_size, path=str(path), sha256=digest)


def told(waiting: Sequence[Attachment], faults: Sequence[str]) -> list[str]:
    """What the person is told after the command."""
    lines = list(faults)
    if waiting:
        names = ", ".join(f"{one.name} ({one.size} bytes)" for one in waiting)
        lines.append(f"with the next message: {names}")
    elif not faults:
        lines.append("nothing is attached")
    return lines
