"""`tidings run`, without a command-line library: the daemon is started often, by machines, and has one option."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from gateway.app import run_daemon
from gateway.config import ConfigError, load
from gateway.lifecycle import ExitCode


def run(config: str | None, *, takeover: bool = False) -> int:
    """Start the daemon; the exit code. A fault of the configuration is told in lines on standard error."""
    try:
        settings = load(None if config is None else Path(config), environ=os.environ)
    except ConfigError as error:
        sys.stderr.write(f"tidings: {error}\n")
        return ExitCode.CONFIG
    return run_daemon(settings, takeover=takeover)
