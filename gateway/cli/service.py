"""`tidings service`: run the daemon under systemd, as a unit of the person's own manager or of the machine's."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Annotated

import typer

from gateway import systemctl
from gateway.cli.common import ConfigOption, JsonOption, fail, family, out, out_json, stop
from gateway.config_faults import ConfigError
from gateway.lifecycle import ExitCode
from gateway.service import Place, ServiceFault, install_unit, plan, uninstall_unit, unit_text
from gateway.service_status import NOT_INSTALLED, look, sentences
from gateway.units import Scope, UnitFault

app = family("Run the daemon under systemd.")

SystemOption = Annotated[
    bool, typer.Option("--system", help="The machine's service (needs root), not the one of your user.")
]
NameOption = Annotated[str, typer.Option("--name", help="The name of the unit, where there is more than one.")]
FAULTS = (ServiceFault, UnitFault, systemctl.SystemdFault)


@app.command()
def install(
    config: ConfigOption = None,
    system: SystemOption = False,
    name: NameOption = "tidings",
    account: Annotated[str, typer.Option("--account", help="With --system: the account that it runs as.")] = "tidings",
    environment: Annotated[
        Path | None, typer.Option("--environment", help="The file with the variables of the service (KEY=value lines).")
    ] = None,
    now: Annotated[bool, typer.Option("--now", help="Start it at once, and wait until it is ready.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Also over a unit that is not ours, or was edited.")] = False,
    show: Annotated[bool, typer.Option("--print", help="Print the unit, and change nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write the unit, and enable it. Done again, it brings the unit up to date.

    The configuration is checked as the service will read it: with the variables of its own environment only.
    """
    try:
        place = _place(name, system=system)
        if not show:
            _needs_rights(place)
        planned = plan(place, config, environment=environment, account=account, environ=os.environ)
        if show:
            out(unit_text(planned), end="")
            return
        done = install_unit(planned, now=now, force=force)
    except ConfigError as error:
        notes = "".join(f"\n{note}" for note in getattr(error, "__notes__", ()))
        raise stop(f"{error}{notes}", ExitCode.CONFIG) from None
    except FAULTS as fault:
        raise stop(str(fault)) from None
    if as_json:
        out_json(done.as_json())
        return
    for line in done.done:
        out(line)
    for line in done.to_do:
        out(f"-> {line}")


@app.command()
def uninstall(
    system: SystemOption = False,
    name: NameOption = "tidings",
    force: Annotated[bool, typer.Option("--force", help="Also a unit that was edited since.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Stop the service, and remove its unit. The state folder stays as it is."""
    try:
        place = _place(name, system=system)
        if place.file.exists():
            _needs_rights(place)
        done = uninstall_unit(place, force=force)
    except FAULTS as fault:
        raise stop(str(fault)) from None
    if as_json:
        out_json(done.as_json())
        return
    for line in (*done.done, *done.to_do):
        out(line)


@app.command()
def status(system: SystemOption = False, name: NameOption = "tidings", as_json: JsonOption = False) -> None:
    """How systemd sees the service. Exit code 0: it runs; 3: it does not; 4: it is not installed."""
    try:
        facts = look(_place(name, system=system))
    except FAULTS as fault:
        raise stop(str(fault)) from None
    if as_json:
        out_json(facts)
    else:
        for line in sentences(facts):
            out(line)
    if not facts["installed"]:
        raise typer.Exit(NOT_INSTALLED)
    if facts["active"] != "active":
        raise typer.Exit(3)


@app.command()
def logs(
    system: SystemOption = False,
    name: NameOption = "tidings",
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="So many of the last lines.")] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")] = False,
    since: Annotated[str | None, typer.Option("--since", help="From then on, as journalctl takes it.")] = None,
    as_json: JsonOption = False,
) -> None:
    """What the service has logged, from the journal. With --json: one object of the journal a line."""
    try:
        place = _place(name, system=system)
    except FAULTS as fault:
        raise stop(str(fault)) from None
    # --user-unit also finds the lines in the machine's journal, where the user has none of their own
    which = f"--unit={place.unit}" if system else f"--user-unit={place.unit}"
    command = ["journalctl", "--no-pager", "--quiet", which, f"--lines={lines}"]
    command.append("--output=json" if as_json else "--output=cat")
    if since is not None:
        command.append(f"--since={since}")
    if follow:
        command.append("--follow")
    try:
        code = subprocess.call(command, env=systemctl.environment(os.environ))
    except FileNotFoundError:
        code = fail("journalctl is not installed: this machine keeps no journal of systemd")
    raise typer.Exit(code)


def _place(name: str, *, system: bool) -> Place:
    return Place.of(Scope.SYSTEM if system else Scope.USER, name, os.environ)


def _needs_rights(place: Place) -> None:
    if place.scope is Scope.SYSTEM and os.geteuid() != 0:
        raise ServiceFault("--system needs root: call it with sudo (without --system it needs no rights)")
