"""How the Slack counterpart tells the app what happens: by a socket or by HTTP; held, doubled and reordered at will."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.counterparts.slack_signed import Signed
from tests.counterparts.slack_socket import EVENTS, SocketMode
from tests.counterparts.slack_world import APP, BOT_USER, TEAM, Event, World


class Outbox:
    """Where everything goes that the app hears. `sent` holds every payload with its kind, in order."""

    def __init__(self, world: World, socket_mode: SocketMode, signed: Signed) -> None:
        self._world = world
        self._socket_mode = socket_mode
        self._signed = signed
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self.copies = 1
        """How often each event is delivered."""
        self.wanted: set[str] | None = None
        """The types of events that the app has subscribed to; None: all."""
        self._held: list[tuple[str, dict[str, Any]]] | None = None

    def event(self, inner: Event) -> dict[str, Any]:
        """Tell one event, with an event id of its own; the outer payload."""
        when = inner.get("event_ts") or self._world.ts()
        channel = inner.get("channel") or inner.get("item", {}).get("channel")
        outer: dict[str, Any] = {
            "token": "unused", "team_id": TEAM, "context_team_id": TEAM, "context_enterprise_id": None,
            "api_app_id": APP, "event": inner, "type": "event_callback", "event_id": self._world.id("Ev"),
            "event_time": int(float(when)), "is_ext_shared_channel": False,
            "authorizations": [
                {"enterprise_id": None, "team_id": TEAM, "user_id": BOT_USER, "is_bot": True,
                 "is_enterprise_install": False}
            ],
            "event_context": f"4-{inner.get('type')}-{channel}",
        }  # fmt: skip
        if self.wanted is None or inner.get("type") in self.wanted:
            self.put(EVENTS, outer)
        return outer

    def put(self, kind: str, payload: dict[str, Any]) -> None:
        """Deliver a payload, or keep it while held."""
        self.sent.append((kind, payload))
        if self._held is not None:
            self._held.append((kind, payload))
            return
        for _ in range(self.copies if kind == EVENTS else 1):
            self._deliver(kind, payload)

    def again(self, which: str | int = -1) -> None:
        """Deliver once more what was sent before: by its event id, or by its place in `sent`."""
        if isinstance(which, int):
            self._deliver(*self.sent[which])
            return
        self._deliver(*next(one for one in self.sent if one[1].get("event_id") == which))

    def hold(self) -> None:
        """Keep what happens from now on for `release`."""
        self._held = []

    def release(self, order: Sequence[int] | None = None, *, reverse: bool = False) -> None:
        """Deliver what was held: as it came, reversed, or in the `order` of indices (an index may come twice)."""
        held, self._held = self._held or [], None
        if order is not None:
            held = [held[at] for at in order]
        for kind, payload in reversed(held) if reverse else held:
            self._deliver(kind, payload)

    def _deliver(self, kind: str, payload: dict[str, Any]) -> None:
        if self._signed.url is not None:
            self._signed.deliver(kind, payload)
        else:
            self._socket_mode.deliver(kind, payload)
