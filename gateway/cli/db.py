"""`tidings db`: check and back up the database, also while the daemon runs, and restore a backup."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.common import ConfigOption, JsonOption, fail, family, load_config, out, out_json, with_store

app = family("Check, back up or restore the database.")


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


@app.command()
def restore(
    source: Annotated[Path, typer.Argument(help="The backup.")],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put a backup in the place of the database; what was there is kept in backups/. The daemon must not run.

    What was open when the backup was made is ended, not answered, and nothing that was said since is fetched again.
    """
    settings = load_config(config)
    from gateway import locks  # noqa: PLC0415 - what only this command needs
    from state.errors import StateError  # noqa: PLC0415
    from state.restore import restore as put_back  # noqa: PLC0415

    database = settings.home / "tidings.db"
    kept: Path | None = None
    try:
        with locks.held(locks.daemon_lock(settings.home)):
            if database.exists():
                (settings.home / "backups").mkdir(parents=True, exist_ok=True, mode=0o700)
                stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
                kept = settings.home / "backups" / f"before-restore-{stamp}.db"
            found = put_back(source, database, kept=kept)
    except locks.LockHeld as held:
        raise typer.Exit(fail(f"{held}: stop it first (`tidings stop`)")) from None
    except (locks.LockUnusable, StateError) as error:
        raise typer.Exit(fail(f"nothing was restored: {error}")) from None
    if as_json:
        out_json({**asdict(found), "kept": None if kept is None else str(kept)})
        return
    out(f"restored: {found.sessions} sessions with {found.messages} messages")
    if found.ended:
        out(f"{found.ended} messages that were open then are ended, not answered")
    if kept is not None:
        out(f"the database that was there is {kept}")
