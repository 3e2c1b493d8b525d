"""`tidings handoff`: hand a session off to a chat, from a script; waits for the end."""

from __future__ import annotations

import os
import pwd
from typing import Annotated

import typer

from gateway import locks
from gateway.access import Access
from gateway.cli.common import ConfigOption, JsonOption, fail, family, load_config, out, out_json, stop, with_store
from gateway.commands.handoff import NO_DAEMON, warning
from gateway.config_types import Config
from gateway.core import targets_of
from gateway.handoff import Plan
from gateway.handoff_follow import end_of, follow
from gateway.handoff_target import TERMINAL, TargetFault
from gateway.in_force import InForce, access_settings
from gateway.keys import person_of
from state.errors import Conflict
from state.records import BindingState, Handoff, HandoffState, SessionBinding
from state.store import Store

app = family("Hand a conversation off to a chat.", single=True)


@app.command()
def handoff(
    target: Annotated[str, typer.Argument(help="PLATFORM, PLATFORM:CHAT or PLATFORM:CHAT:THREAD.")],
    session: Annotated[str | None, typer.Option("--session", help="The session, by id or name.")] = None,
    last: Annotated[bool, typer.Option("--last", help="The newest terminal session (the default).")] = False,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Others can read at the target, and that is meant.")
    ] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Move a session with its whole transcript. Exit code 0 when it has moved, 1 with the reason when not.

    The running daemon does it. When none runs, nothing is left behind.
    """
    settings = load_config(config)
    if session is not None and last:
        raise stop("--session or --last, not both")
    if locks.holder(locks.daemon_lock_path(settings.home)) is None:
        raise stop(NO_DAEMON)
    row = with_store(settings, lambda store: _hand_off(settings, store, target, session, confirm=confirm))
    done = row.state is HandoffState.DONE
    if as_json:
        plan = Plan.from_json(row.target)
        out_json(
            {
                "handoff": row.id,
                "session": row.session_id,
                "state": row.state.value,
                "target": {"platform": plan.target.address.platform, "name": plan.target.name},
                "reason": row.reason,
            }
        )
    elif done:
        out(end_of(row))
    else:
        fail(end_of(row))
    if not done:
        raise typer.Exit(1)


async def _hand_off(settings: Config, store: Store, text: str, session: str | None, *, confirm: bool) -> Handoff:
    binding = await _source(store, session)
    assert binding.session_id is not None
    targets = targets_of(InForce(settings), store, {}, Access(access_settings(settings)), elsewhere=True)
    asked_by = person_of(TERMINAL, pwd.getpwuid(os.getuid()).pw_name)
    try:
        target = await targets.find(text)
        targets.key(target.address, asked_by)
    except TargetFault as fault:
        raise stop(str(fault)) from None
    if not confirm and await targets.others_read(target, asked_by):
        raise stop(f"{warning(target)} --confirm")
    try:
        made = await store.handoffs.request(binding.session_id, binding.key, Plan(target=target).to_json(), asked_by)
    except Conflict as conflict:
        raise stop(str(conflict)) from None
    return await follow(store, made.id)


async def _source(store: Store, wanted: str | None) -> SessionBinding:
    """The place that the session is at now."""
    if wanted is None:
        binding = await store.sessions.last_on(TERMINAL)
        if binding is None:
            raise stop("there is no terminal session yet")
        if binding.state is not BindingState.ACTIVE:
            raise stop(f"the newest terminal session has moved to {binding.moved_to}; name one with --session")
        return binding
    found = await store.sessions.get(wanted)  # type: ignore[arg-type]
    named = [found] if found is not None else await store.sessions.by_title(None, wanted)
    if not named:
        raise stop(f"there is no session {wanted!r}; `tidings sessions list` shows them")
    for binding in await store.sessions.bindings_of(named[0].id):
        if binding.state is BindingState.ACTIVE:
            return binding
    raise stop(f"the session {named[0].id} is at no place from which it could be handed off")
