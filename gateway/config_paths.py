"""Where the state and the configuration are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

DEFAULT_HOME = "~/.tidings"


def default_home(environ: Mapping[str, str]) -> Path:
    """The state folder where the file names none."""
    return absolute(environ.get("TIDINGS_HOME", "").strip() or DEFAULT_HOME, Path.cwd(), environ)


def default_path(environ: Mapping[str, str]) -> Path:
    """The configuration file where `--config` is not given."""
    return default_home(environ) / "config.yaml"


def absolute(text: str, folder: Path, environ: Mapping[str, str]) -> Path:
    """`~` is the caller's home; a relative path begins at `folder`. Links are left as they are."""
    if text == "~" or text.startswith("~/"):
        text = (environ.get("HOME") or str(Path("~").expanduser())) + text[1:]
    return Path(folder / text).absolute()
