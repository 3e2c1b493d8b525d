"""Cuts neutral markdown into parts that fit into messages. One splitter for every path and platform."""

from adapters.split.fitting import Fitted, split_rendered
from adapters.split.splitter import Piece, split

__all__ = ["Fitted", "Piece", "split", "split_rendered"]
