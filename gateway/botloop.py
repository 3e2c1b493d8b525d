"""The breaker of loops between bots: two agents that hear each other must not talk for ever (B46).

A bot that is allowed is answered; one that was answered `rounds` times within the window is left alone
for the cool-down, which is told once. People are answered all the while.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field

from adapters.events import MessageEvent
from gateway.keys import join_parts
from state.clock import Clock

WINDOW = 120.0
COOL_DOWN = 600.0
PAIRS = 1000
"""Pairs of chat and bot that are remembered."""


@dataclass(slots=True, eq=False)
class _Pair:
    rounds: deque[float] = field(default_factory=deque)
    quiet_until: float = 0.0


class BotBreaker:
    """Counts per chat and bot, in memory: after a restart a loop is noticed again within the window."""

    def __init__(self, clock: Clock, rounds: int) -> None:
        self._clock = clock
        self.rounds = rounds
        """May be replaced while running."""
        self._pairs: OrderedDict[str, _Pair] = OrderedDict()

    def admit(self, event: MessageEvent) -> tuple[bool, str | None]:
        """Whether this message of a bot is answered; the text is a notice that is due now (at most once)."""
        address, now = event.address, self._clock.monotonic()
        name = join_parts(address.platform, address.account, address.chat_id, event.sender.id)
        pair = self._pairs.setdefault(name, _Pair())
        self._pairs.move_to_end(name)
        if len(self._pairs) > PAIRS:
            self._pairs.popitem(last=False)
        if now < pair.quiet_until:
            return False, None
        while pair.rounds and pair.rounds[0] <= now - WINDOW:
            pair.rounds.popleft()
        if len(pair.rounds) >= self.rounds:
            pair.rounds.clear()
            pair.quiet_until = now + COOL_DOWN
            return False, f"I have answered this bot {self.rounds} times in a row; I leave it alone for ten minutes."
        pair.rounds.append(now)
        return True, None
