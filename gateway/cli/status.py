"""`tidings status`: how the daemon stands, by what it says itself and by what the store knows."""

from __future__ import annotations

import json
import sys
import time
import urllib.error
import urllib.request
from typing import Annotated, Any

import typer

from adapters.http.settings import HttpSettings
from gateway import locks
from gateway.cli.common import ConfigOption, JsonOption, family, load_config, out, out_json, with_store
from gateway.cli.measures import TIMES, Samples, figures, samples
from gateway.config_types import Config
from gateway.convert import event_from_row
from gateway.inputs import one_line
from state.store import Store

app = family("How the daemon stands.", single=True)

SECONDS = 3.0
"""The bound of one question to the daemon."""
EVERY = 2.0
OPEN_SHOWN = 10


@app.command()
def status(
    config: ConfigOption = None,
    watch: Annotated[bool, typer.Option("--watch", help="Show it again every two seconds, until Ctrl-C.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Whether the daemon runs, how its platforms stand, and what is open. Exit code 1 where it is not ready."""
    settings = load_config(config)
    before: Samples | None = None
    while True:
        facts, before = look(settings, before)
        if watch and sys.stdout.isatty() and not as_json:
            out("\x1b[2J\x1b[H", end="")
        if as_json:
            out_json(facts)
        else:
            _print(facts)
        if not watch:
            break
        time.sleep(EVERY)
    ready = facts["ready"]
    if ready is None or ready.get("status") != "ready":
        raise typer.Exit(1)


def look(settings: Config, before: Samples | None = None) -> tuple[dict[str, Any], Samples]:
    """Everything that is known now, as plain data, and the daemon's metrics for the next look (`before`). Takes a
    few seconds at most."""
    holder = locks.holder(locks.daemon_lock_path(settings.home))
    runs = holder is not None
    facts: dict[str, Any] = {
        "running": None if holder is None else str(holder),
        "address": base_url(settings) if runs else None,
        "healthy": ask(settings, "/healthz") if runs else None,
        "ready": ask(settings, "/readyz") if runs else None,
        "store": with_store(settings, _counts) if (settings.home / "tidings.db").exists() else None,
    }
    scraped = samples((_get(settings, "/metrics") if runs else None) or "")
    return {**facts, "measures": figures(scraped, before), "lately": before is not None}, scraped


async def _counts(store: Store) -> dict[str, Any]:
    events, deliveries = await store.inbox.counts(), await store.outbox.counts()
    waiting, holds = await store.inbox.open_events(), await store.holds.active()
    return {
        "journal": store.journal_mode,
        "events": {fate.value: count for fate, count in events.items() if count},
        "deliveries": {state: count for state, count in deliveries.items() if count},
        "open": [
            {
                "event": row.id,
                "platform": row.platform,
                "fate": row.fate.value,
                "received_at": row.received_at,
                "text": one_line(event_from_row(row).text, 60),
            }
            for row in waiting[:OPEN_SHOWN]
        ],
        "holds": [{"chat": hold.chat, "until": hold.until, "reason": hold.reason} for hold in holds],
    }


def base_url(settings: Config) -> str | None:
    """Where the daemon's HTTP server answers on this machine; None where its port is not fixed."""
    http = settings.platforms["http"]
    assert isinstance(http, HttpSettings)
    if http.port == 0:
        return None
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(http.host, http.host)
    return f"http://{f'[{host}]' if ':' in host else host}:{http.port}"


def ask(settings: Config, path: str) -> dict[str, Any] | None:
    """What the daemon's HTTP server answers there as JSON, whatever its status; None where it does not."""
    try:
        return dict(json.loads(_get(settings, path) or ""))
    except (ValueError, TypeError):
        return None


def _get(settings: Config, path: str) -> str | None:
    base = base_url(settings)
    if base is None:
        return None
    # straight to it: a proxy of the environment is for other machines
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(_request(settings, base + path), timeout=SECONDS) as answer:
            return str(answer.read().decode("utf-8", "replace"))
    except urllib.error.HTTPError as error:
        with error:
            return error.read().decode("utf-8", "replace")
    except OSError:
        return None


def _request(settings: Config, url: str) -> urllib.request.Request:
    http = settings.platforms["http"]
    assert isinstance(http, HttpSettings)
    headers = {} if http.key is None else {"Authorization": f"Bearer {http.key.get_secret_value()}"}
    return urllib.request.Request(url, headers=headers)


def _print(facts: dict[str, Any]) -> None:
    address = f", {facts['address']}" if facts["address"] else ""
    out(f"daemon: {facts['running'] or 'not running'}{address}")
    ready = facts["ready"]
    if ready is not None and "missing" in ready:
        missing = f": {'; '.join(ready['missing'])}" if ready["missing"] else ""
        out(f"state: {ready['status']}{missing}; version {ready['version']}, up for {ready['uptime_seconds']} s")
        for name, state in ready["platforms"].items():
            out(f"  {name}: {state['state']}{' (' + state['reason'] + ')' if state.get('reason') else ''}")
    elif facts["running"]:
        out(f"state: it does not answer at {facts['address'] or 'its HTTP port, which is chosen at each start'}")
    if facts["measures"]:
        _print_measures(facts["measures"], "since the last look" if facts["lately"] else "since the start")
    store = facts["store"]
    if store is None:
        return
    for title in ("events", "deliveries"):
        out(f"{title}: {', '.join(f'{count} {name}' for name, count in store[title].items()) or 'none'}")
    for row in store["open"]:
        out(f"  event {row['event']} ({row['platform']}) is {row['fate']}: {row['text']}")
    for hold in store["holds"]:
        out(f"  {hold['chat']} is held until {hold['until']:%H:%M:%S} UTC: {hold['reason']}")


def _print_measures(found: dict[str, float], when: str) -> None:
    out(
        f"memory: {found.get('memory_bytes', 0) / 1e6:.0f} MB; CPU: {found.get('cpu_seconds', 0):.1f} s; "
        f"turns: {found.get('turns_running', 0):.0f}; chats at work: {found.get('chats_at_work', 0):.0f}; "
        f"messages queued: {found.get('events_queued', 0):.0f}; "
        f"chats written to: {found.get('chats_written_to', 0):.0f}"
    )
    times = [
        f"{name.replace('_', ' ')} {_seconds(found[f'{name}_p50'])} / {_seconds(found[f'{name}_p95'])}"
        for name in TIMES.values()
        if f"{name}_p95" in found
    ]
    if times:
        out(f"{when}, half and 95 % within: {'; '.join(times)}")
    faults = {
        "leases_lost": "leases lost",
        "sends_unknown": "sends of unknown outcome",
        "waits_asked_for": "waits that platforms asked for",
        "prefix_breaks_undeclared": "undeclared prefix breaks",
    }
    told = [f"{text}: {found[name]:.0f}" for name, text in faults.items() if found.get(name)]
    if told:
        out("; ".join(told))


def _seconds(value: float) -> str:
    if value == float("inf"):
        return "longer"
    return f"{value * 1000:g} ms" if value < 1 else f"{value:g} s"
