"""Where the tests find the weights of the embedded model: `deploy/test` puts them there."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

from agent_core.models.embedded.install import installed
from agent_core.models.embedded.manifest import SMOLLM2

WEIGHTS_HOME = Path(os.environ.get("TIDINGS_TEST_WEIGHTS") or Path.home() / ".cache" / "tidings")


def home_with_weights(folder: Path) -> Path:
    """A fresh home in `folder` that shares the installed weights; skips the test where there are none."""
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("the package xllamacpp is not installed")
    if not installed(WEIGHTS_HOME):
        pytest.skip(f"no weights in {WEIGHTS_HOME}: run deploy/test, or set TIDINGS_TEST_WEIGHTS to a home with them")
    home = folder / "home"
    (home / "models").mkdir(parents=True, mode=0o700)
    SMOLLM2.path(home).symlink_to(SMOLLM2.path(WEIGHTS_HOME))
    return home
