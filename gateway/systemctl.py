"""systemd, asked through its own commands: every call is bounded, and a failure is one sentence. Blocking."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from gateway.units import Scope

BOOTED = Path("/run/systemd/system")
"""This folder is there where systemd is the service manager (sd_booted)."""
SECONDS = 30.0
"""The bound of a call that waits for no service."""


class SystemdFault(Exception):
    """A command of systemd that failed, or cannot be found. The text is what it said."""


def is_booted() -> bool:
    """Whether systemd runs this machine."""
    return BOOTED.is_dir()


def flags(scope: Scope) -> tuple[str, ...]:
    """What tells `systemctl` the manager."""
    return ("--user",) if scope is Scope.USER else ()


def systemctl(scope: Scope, *args: str, seconds: float = SECONDS) -> str:
    """Call it; what it printed. Raises `SystemdFault`."""
    return run(("systemctl", *flags(scope), "--no-pager", "--no-ask-password", *args), seconds=seconds)


def run(command: Sequence[str], *, seconds: float) -> str:
    """Call a command that ends by itself; what it printed. Raises `SystemdFault`."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
            env=environment(os.environ),
        )
    except FileNotFoundError:
        raise SystemdFault(f"{command[0]} is not installed") from None
    except subprocess.TimeoutExpired:
        raise SystemdFault(f"`{shlex.join(command)}` has not ended within {seconds:.0f} s") from None
    if done.returncode != 0:
        said = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        raise SystemdFault(f"`{shlex.join(command)}`: {said}")
    return done.stdout


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment for these commands. After `su` and in cron the way to one's own manager is not in it."""
    found = dict(environ)
    runtime = Path(f"/run/user/{os.getuid()}")
    if not found.get("XDG_RUNTIME_DIR") and runtime.is_dir():
        found["XDG_RUNTIME_DIR"] = str(runtime)
    return found


def show(scope: Scope, unit: str, properties: Sequence[str]) -> dict[str, str]:
    """Properties of a unit, also of one that does not exist. Raises `SystemdFault`."""
    text = systemctl(scope, "show", unit, f"--property={','.join(properties)}")
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def manager_environment(scope: Scope) -> dict[str, str]:
    """The variables that the manager hands to every service. Raises `SystemdFault`."""
    return assignments(systemctl(scope, "show-environment"))


def assignments(text: str) -> dict[str, str]:
    """The variables of an environment file, read as systemd reads it: comments begin with # or ;, a backslash at
    the end of a line joins the next, quotes may surround a value. What is no assignment is passed over."""
    found: dict[str, str] = {}
    for line in text.replace("\\\n", "").splitlines():
        key, equals, value = line.strip().partition("=")
        if not equals or key.startswith(("#", ";")) or not key.rstrip().isidentifier():
            continue
        found[key.rstrip()] = _unquoted(value.strip())
    return found


def _unquoted(value: str) -> str:
    parser = shlex.shlex(value.removeprefix("$") if value.startswith("$'") else value, posix=True)
    parser.whitespace, parser.commenters, parser.whitespace_split = "", "", True
    try:
        return "".join(parser)
    except ValueError:  # a quote that is not closed: systemd leaves the line out, and so the variable is empty here
        return ""
