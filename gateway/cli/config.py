"""`tidings config`: check the configuration, or make one."""

from __future__ import annotations

import json
import os
import secrets
import socket
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.common import ConfigOption, JsonOption, family, load_config, out, out_json, stop
from gateway.config_paths import default_path

app = family("Check or make the configuration.")

EXAMPLE = "config.example.yaml"
FIRST_PORT = 8787
QUICK = """\
# Made by `tidings config init --quick`. Every key with its default: config.example.yaml.
home: {home}
model: {{provider: embedded}}
platforms:
  http: {{enabled: true, host: 127.0.0.1, port: {port}, key: {key}}}
"""


@app.command()
def check(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Read the configuration as the daemon would, and show every value in force and where it comes from."""
    settings = load_config(config)
    if as_json:
        values = [{"key": value.where, "value": value.shown, "origin": value.origin} for value in settings.values]
        out_json({"file": str(settings.file), "warnings": list(settings.warnings), "values": values})
        return
    for value in settings.values:
        out(f"{value.where} = {value.shown}  ({value.origin})")
    for warning in settings.warnings:
        out(f"warning: {warning}")
    out(f"{settings.file} is in order")


@app.command()
def init(
    config: ConfigOption = None,
    quick: Annotated[bool, typer.Option("--quick", help="Embedded model and local HTTP: needs no key.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write a configuration to begin with. Never overwrites one."""
    path = (config or default_path(os.environ)).expanduser().absolute()
    if path.exists():
        raise stop(f"{path} exists already")
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    _write(path, quick_text(path.parent) if quick else _example())
    if as_json:
        out_json({"path": str(path)})
    else:
        out(f"{path} is written")


def _write(path: Path, text: str) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def quick_text(home: Path) -> str:
    """A configuration to begin with: the embedded model, HTTP on this machine. Makes the key's file."""
    key = home / "http.key"
    if not key.exists():
        _write(key, secrets.token_urlsafe(32) + "\n")
    return QUICK.format(home=_quoted(str(home)), port=free_port(), key=_quoted(f"file:{key}"))


def _quoted(text: str) -> str:
    """As YAML wants it, whatever stands in the path: a JSON text is a YAML text."""
    return json.dumps(text, ensure_ascii=False)


def _example() -> str:
    """The example of this version: from the package, or from the checkout that runs."""
    packaged = resources.files("gateway") / EXAMPLE
    if packaged.is_file():
        return packaged.read_text(encoding="utf-8")
    return (Path(__file__).parents[2] / EXAMPLE).read_text(encoding="utf-8")


def free_port() -> int:
    """The usual port, or another that is free now where somebody has it."""
    for port in (FIRST_PORT, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise stop("no free port was found on 127.0.0.1")
