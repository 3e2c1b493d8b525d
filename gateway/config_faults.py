"""What is wrong with a configuration: every fault with its path and line, all of them at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault. `where` is the path in the YAML (`platforms.http.port`, "" for the file itself),
    `line` counts from 1 (None: the file has no such line, for instance where a key is missing)."""

    where: str
    message: str
    line: int | None = None


class ConfigError(Exception):
    """The configuration cannot be used. The daemon ends with code 78 and is not to be restarted."""

    def __init__(self, faults: Sequence[Fault], file: Path | None = None) -> None:
        self.faults = tuple(sorted(faults, key=lambda fault: (fault.line or 0, fault.where)))
        self.file = file
        super().__init__("\n".join(self.lines()))

    def lines(self) -> list[str]:
        """One line a fault, as it is shown: `config.yaml:12: platforms.http.port: what is wrong`."""
        name = self.file.name if self.file else "configuration"
        shown = []
        for fault in self.faults:
            place = f"{name}:{fault.line}" if fault.line else name
            shown.append(": ".join(part for part in (place, fault.where, fault.message) if part))
        return shown


def dotted(path: Sequence[str | int]) -> str:
    """A path as people write it: `access.owners[1]`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text
