"""The `tidings` command. Heavy modules are imported by the subcommand that needs them."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line; the exit code is returned."""
    from gateway.cli.main import run_cli  # noqa: PLC0415 - so that an import of this module costs nothing

    return run_cli(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
