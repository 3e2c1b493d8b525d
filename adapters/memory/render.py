"""The renderer of the memory platform: neutral markdown, split at a limit that tests choose."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.limits import Limits
from adapters.render import PlainRenderer

if TYPE_CHECKING:
    from adapters.ports import Renderer


class MemoryRenderer(PlainRenderer):
    """4,000 characters unless told otherwise. Implements `adapters.ports.Renderer`."""

    def __init__(self, limits: Limits | None = None) -> None:
        super().__init__(limits or Limits(text=4000, edit_every=0.05))


if TYPE_CHECKING:
    _: Renderer = MemoryRenderer()
