"""The port of an embedding model. Vectors are bytes: little-endian float32, of length one, as the store keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class EmbeddingError(Exception):
    """The model cannot be used. The text says why."""


class Embeddings(Protocol):
    """A model that turns texts into vectors. Nothing blocks the event loop."""

    @property
    def space(self) -> str:
        """The name of the model and its version: only vectors of the same space can be compared."""
        ...

    async def query(self, text: str) -> bytes:
        """The vector of a question. Raises EmbeddingError."""
        ...

    async def passages(self, texts: Sequence[str]) -> list[bytes]:
        """The vectors of texts that are to be found, in their order. Raises EmbeddingError."""
        ...
