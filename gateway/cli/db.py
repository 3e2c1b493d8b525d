"""`tidings db`: check and back up the database, also while the daemon runs."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.common import ConfigOption, JsonOption, fail, family, load_config, out, out_json, with_store

app = family("Check or back up the database.")


@app.command()
def check(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Look through the whole file for damage."""
    findings = with_store(load_config(config), lambda store: store.check())
    if as_json:
        out_json({"ok": not findings, "findings": findings})
    for finding in [] if as_json else findings:
        fail(finding)
    if findings:
        raise typer.Exit(1)
    if not as_json:
        out("the database is sound")


@app.command()
def backup(
    target: Annotated[Path | None, typer.Argument(help="The file to be made (default: in backups/).")] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy the database, consistent although others write meanwhile. Never overwrites a file."""
    settings = load_config(config)
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    path = target or settings.home / "backups" / f"tidings-{stamp}.db"
    if path.exists():
        raise typer.Exit(fail(f"{path} exists; name another file"))
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with_store(settings, lambda store: store.backup(path))
    size = path.stat().st_size
    if as_json:
        out_json({"path": str(path), "bytes": size})
    else:
        out(f"{path} ({size} bytes)")
