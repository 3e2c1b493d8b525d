"""`tidings pair`: let strangers in by their code, list them, let them in no more. Works beside a running daemon."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from gateway.access import Access
from gateway.cli.common import ConfigOption, JsonOption, fail, family, load_config, out, out_json, with_store
from gateway.in_force import access_settings
from gateway.keys import person_of
from gateway.pairing import GuestOrMember, Outcome, Pairing
from state.store import Store

app = family("Let people in by their pairing code.")

T = TypeVar("T")
HERE = "terminal"


def _with(path: Path | None, work: Callable[[Pairing], Awaitable[T]]) -> T:
    settings = load_config(path)

    async def run(store: Store) -> T:
        return await work(Pairing(store, Access(access_settings(settings)), enabled=settings.access.pairing))

    return with_store(settings, run)


@app.command(name="list")
def list_(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Who is let in, and who waits for approval."""
    settings = load_config(config)
    if as_json:

        async def read(store: Store) -> dict[str, list[dict[str, object]]]:
            people, codes = await store.pairings.people(), await store.pairings.codes()
            return {
                "people": [
                    {
                        "person": person_of(one.platform, one.sender_id),
                        "name": one.name,
                        "role": one.role,
                        "approved_by": one.approved_by,
                        "since": one.created_at,
                    }
                    for one in people
                ],
                "waiting": [
                    {"person": person_of(one.platform, one.sender_id), "name": one.name, "since": one.created_at}
                    for one in codes
                ],
            }

        out_json(with_store(settings, read))
        return
    lines = _with(config, lambda pairing: pairing.lines())
    for line in lines:
        out(line)
    if not lines:
        out("nobody yet")


@app.command()
def approve(
    code: Annotated[str, typer.Argument(help="The code that the stranger was given.")],
    guest: Annotated[bool, typer.Option("--guest", help="As a guest, not as a member.")] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let the person with this code in."""
    role: GuestOrMember = "guest" if guest else "member"
    _tell(_with(config, lambda pairing: pairing.approve(code, role=role, by=HERE, where=HERE)), as_json=as_json)


@app.command()
def revoke(
    person: Annotated[str, typer.Argument(help="Whom, as platform:id.")],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let somebody in no more."""
    _tell(_with(config, lambda pairing: pairing.revoke(person, by=HERE)), as_json=as_json)


def _tell(outcome: Outcome, *, as_json: bool) -> None:
    if as_json:
        out_json({"ok": outcome.ok, "told": outcome.told})
    elif outcome.ok:
        out(outcome.told)
    else:
        fail(outcome.told)
    if not outcome.ok:
        raise typer.Exit(1)
