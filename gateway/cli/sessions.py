"""`tidings sessions` and `tidings why`: what the store knows, for whoever may read its file."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from gateway.cli.common import ConfigOption, JsonOption, family, load_config, out, out_json, stop, with_store
from gateway.convert import event_from_row
from gateway.inputs import one_line
from state.ids import EventId, SessionId
from state.records import Session
from state.store import Store

app = family("List, show, search and export sessions.")
why_app = family("What became of a message.", single=True)

Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="How many at most.")]


def _row(session: Session) -> dict[str, Any]:
    row = asdict(session)
    row.pop("prompt")
    return row


@app.command(name="list")
def list_(config: ConfigOption = None, limit: Limit = 20, as_json: JsonOption = False) -> None:
    """The sessions that were active last, newest first."""
    found = with_store(load_config(config), lambda store: store.sessions.list_all(limit))
    if as_json:
        out_json([_row(session) for session in found])
        return
    for session in found:
        when = session.updated_at.strftime("%Y-%m-%d %H:%M")
        out(f"{session.id}  {when}  {session.person}  {session.title or ''}")


async def _find(store: Store, wanted: str) -> Session:
    found = await store.sessions.get(SessionId(wanted))
    if found is None:
        named = await store.sessions.by_title(None, wanted)
        if not named:
            raise stop(f"there is no session {wanted!r}")
        found = named[0]
    return found


Wanted = Annotated[str, typer.Argument(help="The id or the name of a session.")]


@app.command()
def show(session: Wanted, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """What was said, oldest first."""

    async def read(store: Store) -> tuple[Session, list[Any]]:
        found = await _find(store, session)
        return found, await store.transcript.load(found.id)

    found, rows = with_store(load_config(config), read)
    if as_json:
        out_json({"session": _row(found), "messages": [asdict(row) for row in rows]})
        return
    out(f"# {found.title or found.id} ({found.person})\n")
    for row in rows:
        name = row.tool_name if row.role == "tool" else row.author or row.role
        calls = "".join(f"\n[calls {call.name} {one_line(call.arguments, 200)}]" for call in row.tool_calls)
        out(f"{name}: {row.content}{calls}\n")


@app.command()
def export(session: Wanted, config: ConfigOption = None) -> None:
    """The whole session as JSON lines: one object a message, as it is stored."""

    async def read(store: Store) -> list[Any]:
        return await store.transcript.load((await _find(store, session)).id)

    import json  # noqa: PLC0415

    for row in with_store(load_config(config), read):
        out(json.dumps(asdict(row), ensure_ascii=False, default=str))


@app.command()
def search(
    query: Annotated[str, typer.Argument(help="Words, or a part of one in any script.")],
    config: ConfigOption = None,
    limit: Limit = 20,
    newest: Annotated[bool, typer.Option("--newest", help="Newest first.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Find what was said. Whoever can read the store's file finds everything in it."""
    found = with_store(
        load_config(config), lambda store: store.search.find(query, persons=None, limit=limit, newest=newest)
    )
    if as_json:
        out_json([asdict(hit) for hit in found])
        return
    for hit in found:
        out(f"{hit.session_id}  {hit.created_at:%Y-%m-%d %H:%M}  {hit.role}: {one_line(hit.snippet, 200)}")


@why_app.command()
def why(
    event: Annotated[
        int | None, typer.Argument(help="The number of an event (see the log); without: the open ones.")
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """The fate of an event, or every event that has none yet."""

    async def read(store: Store) -> list[Any]:
        if event is None:
            return await store.inbox.open_events()
        found = await store.inbox.get(EventId(event))
        if found is None:
            raise stop(f"there is no event {event}")
        return [found]

    rows = with_store(load_config(config), read)
    if as_json:
        out_json([{key: value for key, value in asdict(row).items() if key != "payload"} for row in rows])
        return
    for row in rows:
        text = one_line(event_from_row(row).text, 60)
        turn = f", turn {row.turn_id}" if row.turn_id else ""
        out(
            f"event {row.id} ({row.platform}, {row.received_at:%Y-%m-%d %H:%M:%S}): {row.fate}{turn}. "
            f"{row.detail} | {text}"
        )
    if not rows:
        out("no event is open")
