"""`python -m tests.bench [--only NAME …] [--quick] [--json FILE]`: run the measures and print what they give."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.bench import measures, store
from tests.bench.crash import crash
from tests.bench.daemon import machine
from tests.bench.embedded import embedded
from tests.bench.soak import soak

MEASURES: dict[str, Callable[[bool], Awaitable[dict[str, Any]]]] = {
    "appends": lambda quick: store.appends(1000 if quick else 5000),
    "size": lambda quick: store.size(300 if quick else 3000),
    "start": measures.start,
    "turns": measures.turns,
    "chats": measures.chats,
    "idle": measures.idle,
    "sessions": measures.sessions,
    "crash": crash,
    "embedded": embedded,
    "soak": soak,
}


async def run(names: list[str], quick: bool) -> dict[str, Any]:
    """Every measure in turn, with the state of the machine before each."""
    found: dict[str, Any] = {}
    for name in names:
        speed = machine()
        print(f"{name} …", file=sys.stderr, flush=True)
        found[name] = {**await MEASURES[name](quick), "machine": speed}
        print(json.dumps({name: found[name]}), flush=True)
    return found


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench")
    parser.add_argument("--only", nargs="+", choices=sorted(MEASURES), default=list(MEASURES))
    parser.add_argument("--quick", action="store_true", help="smaller numbers: a look, no figure for the docs")
    parser.add_argument("--json", type=Path, help="write everything to this file too")
    args = parser.parse_args()
    found = asyncio.run(run(args.only, args.quick))
    if args.json is not None:
        args.json.write_text(json.dumps(found, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
