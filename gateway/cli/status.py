"""`tidings status`: how the daemon stands, by what it says itself and by what the store knows."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import typer

from gateway import locks
from gateway.cli.common import ConfigOption, JsonOption, load_config, out, out_json, with_store
from gateway.config_types import Config
from state.store import Store

app = typer.Typer(rich_markup_mode=None, help="How the daemon stands.")
SECONDS = 3.0


@app.command()
def status(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Whether the daemon runs, how its platforms stand, and what is open. Exit code 1 where it is not ready."""
    settings = load_config(config)
    holder = locks.holder(locks.daemon_lock_path(settings.home))
    ready = ask(settings, "/readyz") if holder is not None else None
    facts: dict[str, Any] = {
        "running": None if holder is None else str(holder),
        "ready": ready,
        "store": with_store(settings, _counts) if (settings.home / "tidings.db").exists() else None,
    }
    if as_json:
        out_json(facts)
    else:
        _print(facts)
    if ready is None or ready.get("status") != "ready":
        raise typer.Exit(1)


async def _counts(store: Store) -> dict[str, Any]:
    events = await store.inbox.counts()
    return {
        "journal": store.journal_mode,
        "events": {fate.value: count for fate, count in events.items() if count},
        "deliveries": await store.outbox.counts(),
    }


def ask(settings: Config, path: str) -> dict[str, Any] | None:
    """What the daemon's HTTP server answers, None where it does not."""
    http = settings.platforms["http"]
    host, port = getattr(http, "host", "127.0.0.1"), getattr(http, "port", 0)
    if port == 0:
        return None
    try:
        with urllib.request.urlopen(f"http://{host}:{port}{path}", timeout=SECONDS) as answer:
            return dict(json.loads(answer.read()))
    except urllib.error.HTTPError as error:
        return dict(json.loads(error.read()))
    except (OSError, ValueError):
        return None


def _print(facts: dict[str, Any]) -> None:
    out(f"daemon: {facts['running'] or 'not running'}")
    ready = facts["ready"]
    if ready is not None:
        out(f"state: {ready['status']}{': ' + '; '.join(ready['missing']) if ready['missing'] else ''}")
        for name, state in ready["platforms"].items():
            out(f"  {name}: {state['state']}{' (' + state['reason'] + ')' if state.get('reason') else ''}")
    elif facts["running"]:
        out("state: it does not answer on its HTTP port")
    store = facts["store"]
    if store is not None:
        for title in ("events", "deliveries"):
            out(f"{title}: {', '.join(f'{count} {name}' for name, count in store[title].items() if count) or 'none'}")
