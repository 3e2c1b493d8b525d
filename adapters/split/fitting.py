"""Splits a text so that each part fits after it was rendered, whatever the rendering adds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from adapters.limits import Limits
from adapters.split.splitter import Piece, Splitter, split

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted(Generic[T]):
    """A piece of the text and what became of it."""

    piece: Piece
    rendered: T


def split_rendered(
    text: str, limits: Limits, render: Callable[[str], T], length: Callable[[T], int], *, reserve: int = 0
) -> list[Fitted[T]]:
    """`text` in parts whose rendering has at most the `length` of `limits.text - reserve`.

    `length` measures in the platform's unit. The markdown of each part keeps the limit too, so that its
    plain text does. A part that is too long once rendered (escapes, tags) is cut again, smaller, in a
    few steps. Only where the rendering of a single code point is too long can the limit not be kept.
    """
    if limits.text is None:
        return [Fitted(piece=piece, rendered=render(piece.text)) for piece in split(text, limits)]
    if not text.strip():
        return []
    room = limits.text - reserve
    splitter = Splitter(text, limits)
    found: list[Fitted[T]] = []
    blank = ""
    while splitter.position < len(text):
        fitted = _fit(splitter, room, render, length)
        if isinstance(fitted, Piece):
            blank += fitted.source
            continue
        if blank:
            fitted, blank = replace(fitted, piece=replace(fitted.piece, source=blank + fitted.piece.source)), ""
        found.append(fitted)
    if blank and found:
        last = found[-1]
        found[-1] = replace(last, piece=replace(last.piece, source=last.piece.source + blank))
    return found


def _fit(
    splitter: Splitter, room: int, render: Callable[[str], T], length: Callable[[T], int]
) -> Fitted[T] | Piece:  # fmt: skip
    """The next part, or a piece that shows nothing."""
    allowed = room
    while True:
        piece = splitter.take(allowed)
        if not piece.text:
            return piece
        rendered = render(piece.text)
        size = length(rendered)
        if size <= room or allowed <= splitter.least:
            return Fitted(piece=piece, rendered=rendered)
        splitter.back()
        by_ratio = allowed * room // size
        allowed = max(splitter.least, min(by_ratio, allowed - 1 - allowed // 8))
