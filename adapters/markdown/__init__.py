"""One parse of the neutral markdown into a tree that every platform's renderer reads."""

from adapters.markdown.parse import parse
from adapters.markdown.plain import plain_text

__all__ = ["parse", "plain_text"]
