"""The configuration of one daemon: read once, checked whole, handed around as a frozen value.

Precedence, and nothing else has a say:
  file   `--config FILE`, else `$TIDINGS_HOME/config.yaml`, else `~/.tidings/config.yaml`
  home   `$TIDINGS_HOME`, else `home:` in the file, else `~/.tidings`
  others the file, else the default. The environment counts only where the file refers to it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from gateway.config_build import build
from gateway.config_faults import ConfigError, Fault
from gateway.config_paths import default_home, default_path
from gateway.config_types import Config, Value
from gateway.config_yaml import parse

__all__ = ["Config", "ConfigError", "Fault", "Value", "default_home", "default_path", "load", "load_settled"]

SETTLE_SECONDS, SETTLE_TRIES = 0.1, 20
"""An editor truncates a file before it writes it: under a running daemon a file counts once it holds still."""


def load(path: Path | None, *, environ: Mapping[str, str]) -> Config:
    """Read and check the configuration. Blocking; called before the event loop runs.

    Raises `ConfigError` with every fault at once. `path` None means the default place.
    """
    file = default_path(environ) if path is None else path.expanduser().absolute()
    return _checked(_read(file), file, environ)


def load_settled(path: Path, *, environ: Mapping[str, str]) -> Config:
    """The same for a file that may be being written at this moment. Blocking, for two seconds at most.

    The file must read the same twice, 0.1 s apart, and must not be empty: half of a file is often a valid
    configuration, and its defaults would replace what is in force.
    """
    before = _read(path)
    for _ in range(SETTLE_TRIES):
        time.sleep(SETTLE_SECONDS)
        now = _read(path)
        if now == before and now.strip():
            return _checked(now, path, environ)
        before = now
    state = "is being written all the time" if before.strip() else "is empty"
    raise ConfigError([Fault(where="", message=f"{path} {state}")], path)


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        hint = "`tidings config init` writes one"
        raise ConfigError([Fault(where="", message=f"there is no file {file}; {hint}")], file) from None
    except OSError as exc:
        raise ConfigError([Fault(where="", message=f"{file} cannot be read: {exc.strerror or exc}")], file) from exc


def _checked(data: bytes, file: Path, environ: Mapping[str, str]) -> Config:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise ConfigError([Fault(where="", message=f"{file} is not UTF-8 text")], file) from exc
    document, faults = parse(text)
    if not document.tree and faults:
        raise ConfigError(faults, file)
    return build(document, faults, file=file, environ=environ)
