"""`tidings upgrade`: another version takes over from the running daemon, without a gap."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.common import ConfigOption, JsonOption, family, out, out_json, stop
from gateway.daemon_process import home_of

app = family("Let another version take over from the running daemon, without a gap.", single=True)

WAIT = 330.0
"""Seconds; the daemon itself gives up a little earlier."""


@app.command()
def upgrade(
    to: Annotated[
        Path, typer.Option("--to", help="The Python environment with the new version (the folder with bin/).")
    ],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Have the running daemon start the new version beside itself and hand over to it.

    The new one checks the configuration, the schema and recorded events first, and takes platform after platform.
    Where anything fails the running one goes on, and the reason is told (exit code 1).
    """
    program = _program(to.expanduser().absolute())
    home = home_of(config, os.environ)
    from gateway.succession.successor import upgrade as ask  # noqa: PLC0415 - imports the whole gateway
    from gateway.succession.wire import Gone  # noqa: PLC0415

    try:
        answer = asyncio.run(ask(home, program, WAIT))
    except (FileNotFoundError, ConnectionRefusedError):
        raise stop(f"no daemon that can hand over runs over {home}: start the new version with `tidings run`") from None
    except (OSError, Gone) as error:
        raise stop(f"the daemon cannot be asked: {error}") from None
    if answer.get("op") != "done":
        raise stop(f"not upgraded, the running daemon goes on: {answer.get('reason') or 'it says nothing of use'}")
    if as_json:
        out_json({"pid": answer.get("pid")})
    else:
        out(f"upgraded: process {answer.get('pid')} serves; the one before ends when its running turns have")


def _program(environment: Path) -> list[str]:
    """The command of an environment. Ends the command where there is none."""
    command, python = environment / "bin" / "tidings", environment / "bin" / "python"
    if os.access(command, os.X_OK):
        return [str(command)]
    if os.access(python, os.X_OK):
        return [str(python), "-m", "gateway"]
    raise stop(f"{environment} is no environment with Tidings in it: there is neither bin/tidings nor bin/python")
