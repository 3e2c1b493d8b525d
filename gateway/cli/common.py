"""What the subcommands share: the options, the configuration, the store, errors in one line."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from gateway.lifecycle import ExitCode

if TYPE_CHECKING:
    from gateway.config_types import Config
    from state.store import Store

T = TypeVar("T")

ConfigOption = Annotated[
    Path | None, typer.Option("--config", help="The configuration file (default: config.yaml in the state folder).")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def family(help_text: str, *, single: bool = False) -> typer.Typer:
    """The application of one family of subcommands; `single`: it is one command itself."""
    return typer.Typer(
        help=help_text,
        no_args_is_help=not single,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )


def fail(message: str, code: int = ExitCode.FAULT) -> int:
    """Tell an error in one line."""
    print(f"tidings: {message}", file=sys.stderr)  # noqa: T201 - the command's own output
    return int(code)


def stop(message: str, code: int = ExitCode.FAULT) -> typer.Exit:
    """The same, as the exception to be raised."""
    return typer.Exit(fail(message, code))


def load_config(path: Path | None) -> Config:
    """The configuration, or the end of the command with every fault of it told."""
    from gateway.config import ConfigError, load  # noqa: PLC0415 - pydantic is not needed for --help

    try:
        return load(path, environ=os.environ)
    except ConfigError as error:
        raise stop(str(error), ExitCode.CONFIG) from None


def out(value: object, *, end: str = "\n") -> None:
    """Print to standard output."""
    print(value, end=end, flush=True)  # noqa: T201 - the command's own output


def out_json(value: object) -> None:
    """Print as JSON."""
    out(json.dumps(value, ensure_ascii=False, default=_plain, indent=2))


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value)


def with_store(config: Config, work: Callable[[Store], Awaitable[T]]) -> T:
    """Run `work` on the store (also beside a running daemon). Ends the command where it cannot be opened."""
    from state.errors import StateError  # noqa: PLC0415
    from state.owners import this_process  # noqa: PLC0415
    from state.store import Store  # noqa: PLC0415

    path = config.home / "tidings.db"
    if not path.exists():
        raise stop(f"there is no database at {path} yet; it is made at the first start")

    async def run() -> T:
        async with Store.open(path, owner=this_process("command"), readers=1) as store:
            return await work(store)

    try:
        return asyncio.run(run())
    except StateError as error:
        raise stop(str(error)) from None
