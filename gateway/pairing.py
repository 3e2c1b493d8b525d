"""Pairing: a stranger gets a code, an owner approves it, and the person is let in (B82).

Only where the platform's allow-list is empty: a list that somebody has written is the last word (B85).
Wrong guesses lock approving for an hour, also for the right code, and over restarts.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import hmac
import secrets
from collections import OrderedDict
from datetime import timedelta
from typing import Literal, NamedTuple

import structlog

from adapters.events import MessageEvent
from gateway.access import Access, Verdict
from gateway.inputs import NAME, one_line
from gateway.keys import person_of
from state.errors import StateError
from state.pairings import Paired, PairingCode
from state.store import Store

log = structlog.get_logger("gateway.pairing")

ALPHABET = "23456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Without look-alikes: no 0 and O, no 1, I and L, no U beside V."""
LENGTH = 8
HOUR = timedelta(hours=1)
WAITING = 10
"""Codes that may wait on one platform."""
WRONG_HERE = 5
WRONG_IN_ALL = 10
"""Wrong guesses within an hour, from one platform and in all, after which nothing is approved."""
LOOK_EVERY = 5.0
QUIET = 600.0
"""Seconds for which the same stranger is not told anything again."""
REMEMBERED = 1000

GuestOrMember = Literal["guest", "member"]


class Outcome(NamedTuple):
    """What became of an approval, and the sentence to tell."""

    ok: bool
    told: str


class Pairing:
    """Offers and approves. What was approved reaches `Access` at once here, and within seconds elsewhere."""

    def __init__(self, store: Store, access: Access, *, enabled: bool) -> None:
        self._pairings = store.pairings
        self._access = access
        self.enabled = enabled
        """May be replaced while running."""
        self._clock = store.clock
        self._quiet: OrderedDict[str, float] = OrderedDict()

    async def load(self) -> None:
        """Tell `Access` who is let in. Raises a `StateError`."""
        people = await self._pairings.people()
        self._access.paired = {person_of(one.platform, one.sender_id): _role(one.role) for one in people}

    async def watch(self) -> None:
        """Keep up with what other processes approve and revoke. Runs until cancelled."""
        while True:
            await asyncio.sleep(LOOK_EVERY)
            try:
                await self.load()
            except StateError as error:
                log.warning("pairing.not_loaded", error=str(error))

    def offers(self, platform: str) -> bool:
        """Whether strangers of the platform may be let in by a code."""
        return self.enabled and self._access.may_pair(platform)

    async def stranger(self, event: MessageEvent, verdict: Verdict) -> Verdict:
        """The verdict on somebody who is in no list: let in by another process just now, or what is told.

        The same person is told anything once in ten minutes, so that nobody makes us talk. Raises a `StateError`.
        """
        await self.load()
        fresh = self._access.judge(event)
        if fresh.role is not None or verdict.told is None:
            return fresh
        person, now = person_of(event.address.platform, event.sender.id), self._clock.monotonic()
        if now < self._quiet.get(person, 0.0):
            return dataclasses.replace(fresh, told=None)
        self._quiet[person] = now + QUIET
        self._quiet.move_to_end(person)
        if len(self._quiet) > REMEMBERED:
            self._quiet.popitem(last=False)
        return dataclasses.replace(fresh, told=await self.greet(event) or fresh.told)

    async def greet(self, event: MessageEvent) -> str | None:
        """What a stranger who writes privately is told, with a code where one is due; None: as without pairing."""
        address, sender = event.address, event.sender
        if not self.offers(address.platform) or sender.is_bot or address.chat_kind != "private":
            return None
        code = "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))
        salt = secrets.token_bytes(16)
        kept = await self._pairings.offer(
            PairingCode(
                platform=address.platform,
                sender_id=sender.id,
                name=one_line(sender.name, NAME),
                salt=salt,
                digest=await asyncio.to_thread(_digest, code, salt),
                created_at=event.received_at,
            ),
            ttl=HOUR.total_seconds(),
            most=WAITING,
        )
        who = person_of(address.platform, sender.id)
        if not kept:
            return (
                f"I do not know you yet ({who}). If you have a code from me, give it to my owner within its hour; "
                "if you have none, write again in an hour."
            )
        log.info("pairing.offered", person=who)
        return (
            f"I do not know you yet ({who}). Give my owner this code: `{code}`. It is good for an hour. "
            f"(My owner writes `/pair approve {code}` to me, or runs `tidings pair approve {code}`.)"
        )

    async def approve(self, code: str, *, role: GuestOrMember, by: str, where: str) -> Outcome:
        """Let in whom the code was given to. `where` is the platform on which it is approved."""
        guess = await self._pairings.guess(where, within=HOUR, here=WRONG_HERE, in_all=WRONG_IN_ALL)
        if guess is None:
            log.warning("pairing.locked", by=by)
            return Outcome(False, "Too many wrong codes: nothing is approved for an hour.")
        wanted = "".join(code.split()).replace("-", "").upper()
        found: PairingCode | None = None
        for one in await self._pairings.codes():  # all of them, so that the time tells nothing
            if hmac.compare_digest(await asyncio.to_thread(_digest, wanted, one.salt), one.digest):
                found = one
        if found is None or not await self._pairings.approve(found, role=role, by=by):
            log.warning("pairing.wrong_code", by=by)
            return Outcome(False, "No such code, or it has expired.")
        await self._pairings.was_right(guess)
        await self.load()
        person = person_of(found.platform, found.sender_id)
        log.info("pairing.approved", person=person, role=role, by=by)
        closed = (
            ""
            if self.offers(found.platform)
            else " (But the platform's allow-list is not empty, so it does not count.)"
        )
        return Outcome(True, f"{found.name or person} ({person}) is let in as a {role}.{closed}")

    async def revoke(self, person: str, *, by: str) -> Outcome:
        """Let "platform:id" in no more; running turns lose their rights at once."""
        platform, _, sender = person.partition(":")
        if not await self._pairings.revoke(platform, sender):
            return Outcome(False, f"{person} was not let in by a code.")
        await self.load()
        log.info("pairing.revoked", person=person, by=by)
        return Outcome(True, f"{person} is let in no more.")

    async def lines(self) -> list[str]:
        """Who is let in and who waits, one line each."""
        people, codes = await self._pairings.people(), await self._pairings.codes()
        return [_line(one) for one in people] + [
            f"{person_of(one.platform, one.sender_id)} {one.name}: waits for its code to be approved" for one in codes
        ]


def _line(one: Paired) -> str:
    day = one.created_at.strftime("%Y-%m-%d")
    return f"{person_of(one.platform, one.sender_id)} {one.name}: {one.role}, by {one.approved_by}, {day}"


def _role(text: str) -> GuestOrMember:
    return "member" if text == "member" else "guest"


def _digest(code: str, salt: bytes) -> bytes:
    """Slow enough that a stolen table of short codes is no list of codes within their hour."""
    return hashlib.scrypt(code.encode(), salt=salt, n=2**13, r=8, p=1)
