"""`tidings model`: the weights of the embedded model."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from agent_core.models.embedded import install as weights
from gateway.cli.common import ConfigOption, JsonOption, fail, family, load_config, out, out_json, stop
from gateway.config_paths import default_home, default_path

app = family("Install, list or check the embedded model.")

LINE_EVERY = 5.0
"""Seconds between two lines of progress where nobody sees a bar."""

HomeOption = Annotated[Path | None, typer.Option("--home", help="The state folder (default: the configured one).")]


def _home(config: Path | None, home: Path | None) -> Path:
    """The state folder. There may be no configuration yet."""
    if home is not None:
        return home.expanduser().absolute()
    if config is None and not default_path(os.environ).exists():
        return default_home(os.environ)
    return load_config(config).home


@app.command()
def install(config: ConfigOption = None, home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Fetch the weights into the state folder. Does nothing where they are there and whole."""
    place = _home(config, home)
    try:
        with _progress("fetching the embedded model") as tell:
            path = weights.install(place, tell)
    except weights.WeightsError as error:
        raise stop(str(error)) from None
    if as_json:
        out_json({"path": str(path)})
    else:
        out(f"the embedded model is installed: {path}")


@contextmanager
def _progress(title: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on standard error where somebody looks, else a line every few seconds. Nothing where it is quick."""
    if not sys.stderr.isatty():
        yield _lines(title)
        return
    from rich.console import Console  # noqa: PLC0415 - slow to import
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)

        def tell(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield tell


def _lines(title: str) -> Callable[[int, int], None]:
    last = time.monotonic()

    def tell(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= LINE_EVERY:
            last = time.monotonic()
            print(f"{title}: {done >> 20} of {total >> 20} MB", file=sys.stderr)  # noqa: T201 - its own output

    return tell


@app.command(name="list")
def list_(config: ConfigOption = None, home: HomeOption = None, as_json: JsonOption = False) -> None:
    """The weights that this version knows, and whether they are there."""
    found = weights.catalogue(_home(config, home))
    if as_json:
        out_json([asdict(one) for one in found])
        return
    for one in found:
        out(f"{one.weights.name}  {'installed' if one.installed else 'not installed'}  {one.path}")


@app.command()
def check(config: ConfigOption = None, home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Whether the embedded model can run here; every finding has its remedy."""
    findings = weights.check(_home(config, home))
    if as_json:
        out_json({"ok": not findings, "findings": findings})
    for finding in [] if as_json else findings:
        fail(finding)
    if findings:
        raise typer.Exit(1)
    if not as_json:
        out("the embedded model can run")
