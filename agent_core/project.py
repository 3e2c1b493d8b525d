"""The file with which a folder tells agents about itself: the first of the usual names, looked at before it is used."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import structlog

from agent_core.memory.scan import scan

log = structlog.get_logger("agent_core.project")

NAMES = (".tidings.md", "AGENTS.md", "CLAUDE.md", ".cursorrules")
CHARS = 20_000
BYTES = 200_000


def read_project(root: Path) -> tuple[str, str]:
    """The block for the prompt, "" for none, and what could not be used of it in words. Blocking; never raises.

    The file belongs to the folder, not to the person: it is told as what the folder says, and a text in it that wants
    more than that keeps the whole file out.
    """
    for name in NAMES:
        try:
            descriptor = os.open(root / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            continue
        except OSError as error:
            return "", f"{name} could not be read ({error.strerror or type(error).__name__})."
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return "", f"{name} is no file."
            data = file.read(BYTES)
        text = data.decode("utf-8", "replace").replace("\x00", "").strip()
        if not text:
            continue
        if (why := scan(text)) is not None:
            log.warning("project.blocked", file=name, reason=why)
            return f"# The working folder\n[BLOCKED: {name}: {why}]", f"{name} is left out: {why}."
        kept = text[:CHARS]
        left = f"\n[{len(text) - CHARS:,} characters are left out]" if len(text) > CHARS else ""
        return f"# The working folder\nIts file {name} says:\n{kept}{left}\n# End of {name}", ""
    return "", ""
