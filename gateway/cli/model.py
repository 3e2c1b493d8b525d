"""`tidings model`: the weights of the embedded model."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from gateway.cli.common import ConfigOption, JsonOption, fail, out, out_json, stop
from gateway.config_paths import default_home

if TYPE_CHECKING:
    from collections.abc import Iterator

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Install, list or check the embedded model.")


def _home(config: Path | None) -> Path:
    """The state folder; the configuration is read only where it is named, since there may be none yet."""
    if config is None:
        return default_home(os.environ)
    from gateway.cli.common import load_config  # noqa: PLC0415 - pydantic is not needed without a file

    return load_config(config).home


@app.command()
def install(config: ConfigOption = None) -> None:
    """Fetch the weights into the state folder. Does nothing where they are there and whole."""
    from agent_core.models.embedded.install import WeightsError, installed  # noqa: PLC0415
    from agent_core.models.embedded.install import install as fetch  # noqa: PLC0415

    home = _home(config)
    if installed(home):
        out("the embedded model is installed")
        return
    try:
        for progress in _bar("fetching the embedded model"):
            fetch(home, progress)
    except WeightsError as error:
        raise stop(str(error)) from None
    out("the embedded model is installed")


def _bar(title: str) -> Iterator:  # type: ignore[type-arg]
    """A progress bar on standard error where somebody looks; else a line every few seconds."""
    if not sys.stderr.isatty():
        print(f"{title} …", file=sys.stderr)  # noqa: T201 - the command's own output
        yield None
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (TextColumn(title), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@app.command(name="list")
def list_(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """The weights that this version knows, and whether they are there."""
    from dataclasses import asdict  # noqa: PLC0415

    from agent_core.models.embedded.install import catalogue  # noqa: PLC0415

    found = catalogue(_home(config))
    if as_json:
        out_json([asdict(one) for one in found])
        return
    for one in found:
        out(f"{one.weights.name}  {'installed' if one.installed else 'not installed'}  {one.path}")


@app.command()
def check(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Whether the embedded model can run here; every finding has its remedy."""
    from agent_core.models.embedded.install import check as look  # noqa: PLC0415

    findings = look(_home(config))
    if as_json:
        out_json({"ok": not findings, "findings": findings})
    for finding in [] if as_json else findings:
        fail(finding)
    if findings:
        raise typer.Exit(1)
    if not as_json:
        out("the embedded model can run")
