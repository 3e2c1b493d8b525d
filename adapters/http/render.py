"""One platform message a delivery: HTTP has no limit, and its clients render the markdown themselves."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from adapters.events import Block, Button, Buttons, Markdown, Media, RenderedChunk
from adapters.limits import Limits
from adapters.render import storable, to_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A chunk as the adapter's `send` reads it."""

    text: str
    buttons: tuple[Button, ...] = ()
    files: tuple[dict[str, Any], ...] = ()


class HttpRenderer:
    """Implements `adapters.ports.Renderer`."""

    @property
    def limits(self) -> Limits:
        """No limit."""
        return Limits(text=None)

    def render(self, blocks: Sequence[Block]) -> list[RenderedChunk]:
        """All of it in one chunk; nothing for no blocks."""
        if not blocks:
            return []
        texts: list[str] = []
        buttons: list[list[str]] = []
        files: list[dict[str, Any]] = []
        plain: list[str] = []
        for block in blocks:
            match block:
                case Markdown(text=text):
                    texts.append(text)
                    plain.append(text)
                case Buttons(buttons=row):
                    buttons.extend([b.id, b.label, b.value] for b in row)
                    plain.extend(f"[{b.label}]" for b in row)
                case Media(attachment=item):
                    files.append({"name": item.name, "mime": item.mime, "size": item.size})
                    plain.append(f"[file: {item.name}]")
        data: dict[str, Any] = {"text": "\n\n".join(texts)}
        if buttons:
            data["buttons"] = buttons
        if files:
            data["files"] = files
        return [RenderedChunk(payload=to_json(data), plain=storable("\n\n".join(plain)))]


def read_chunk(chunk: RenderedChunk) -> Said:
    """What `render` wrote."""
    if not chunk.payload:
        return Said(text=chunk.plain)
    data = json.loads(chunk.payload)
    return Said(
        text=data.get("text", ""),
        buttons=tuple(Button(id=b[0], label=b[1], value=b[2]) for b in data.get("buttons", ())),
        files=tuple(data.get("files", ())),
    )
