"""The `tidings` command. Heavy modules are imported by the subcommand that needs them."""

from __future__ import annotations

import gc
import sys

RUN = "run"
TAKEOVER = "--takeover"


def main() -> int:
    """Run the command line; the exit code is returned."""
    args = sys.argv[1:]
    if args[:1] == [RUN]:
        # imports make objects that stay: collecting between them finds nothing and costs a tenth of the start
        gc.disable()
        _without_rich()
        takeover = args[1:2] == [TAKEOVER]
        config = _config_only(args[2:] if takeover else args[1:])
        if config is not None:
            from gateway.cli.daemon import run  # noqa: PLC0415 - the daemon needs no command-line library

            return run(*config, takeover=takeover)
    from gateway.cli.main import run_cli  # noqa: PLC0415 - so that an import of this module costs nothing

    return run_cli(args)


def _config_only(args: list[str]) -> tuple[str | None] | None:
    """The file of `--config`, where there is nothing else to be understood; None hands over to the full parser."""
    match args:
        case []:
            return (None,)
        case ["--config", path] if not path.startswith("-"):
            return (path,)
        case [option] if option.startswith("--config="):
            return (option.removeprefix("--config="),)
    return None


def _without_rich() -> None:
    """The log library imports rich (80 ms) for coloured tracebacks wherever it is installed. The daemon writes
    JSON lines and has no use for it, so it is not to be found while that import runs."""
    known = sys.modules.get("rich")
    if known is not None:
        return
    sys.modules["rich"] = None  # type: ignore[assignment] # an import of it raises ImportError
    try:
        import structlog  # noqa: F401, PLC0415 - imported now, for what it does not import
    finally:
        del sys.modules["rich"]


if __name__ == "__main__":
    sys.exit(main())
