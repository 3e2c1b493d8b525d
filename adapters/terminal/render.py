"""One chunk a delivery: a terminal has no limit, and the front end draws the markdown itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.limits import Limits
from adapters.render import PlainRenderer

if TYPE_CHECKING:
    from adapters.ports import Renderer


class TerminalRenderer(PlainRenderer):
    """Neutral markdown as it is. Implements `adapters.ports.Renderer`."""

    def __init__(self) -> None:
        super().__init__(Limits(text=None, edit_every=0.0))


if TYPE_CHECKING:
    _: Renderer = TerminalRenderer()
