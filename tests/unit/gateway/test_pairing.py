"""Pairing codes: hashed, single use, an hour long, and no way around the lock-out (B82, B85)."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from adapters.events import ChatAddress, ChatKind, EventKind, MessageEvent, Sender
from gateway.access import Access, AccessSettings
from gateway.pairing import ALPHABET, LENGTH, QUIET, WAITING, WRONG_HERE, Pairing
from state.clock import SteppedClock
from state.owners import this_process
from state.store import Store


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
async def store(tmp_path: Path, clock: SteppedClock) -> AsyncIterator[Store]:
    async with Store.open(tmp_path / "t.db", owner=this_process("test"), clock=clock) as store:
        yield store


@pytest.fixture
def access() -> Access:
    return Access(AccessSettings(owners=frozenset({"p:1"}), allow={"closed": frozenset({"5"})}))


@pytest.fixture
def pairing(store: Store, access: Access) -> Pairing:
    return Pairing(store, access, enabled=True)


def event(
    store: Store, sender: str, *, platform: str = "p", kind: ChatKind = "private", bot: bool = False
) -> MessageEvent:
    return MessageEvent(
        dedup_id="1",
        kind=EventKind.MESSAGE,
        message_id="1",
        received_at=store.clock.utc(),
        text="hello",
        address=ChatAddress(platform=platform, account="a", chat_id=sender, chat_kind=kind),
        sender=Sender(id=sender, name="Eve]\n[x", is_bot=bot),
    )


async def code_for(pairing: Pairing, store: Store, sender: str, platform: str = "p") -> str:
    told = await pairing.greet(event(store, sender, platform=platform))
    assert told is not None
    code = told.split("`")[1]
    assert len(code) == LENGTH
    assert set(code) <= set(ALPHABET)
    return code


async def test_a_code_lets_its_person_in_once(pairing: Pairing, store: Store, access: Access) -> None:
    code = await code_for(pairing, store, "7")
    assert access.role("p", "7") is None
    assert (await pairing.approve(f" {code[:4].lower()}-{code[4:].lower()} ", role="member", by="p:1", where="p")).ok
    assert access.role("p", "7") == "member"
    assert access.role("other", "7") is None
    assert not (await pairing.approve(code, role="member", by="p:1", where="p")).ok
    assert (await pairing.lines())[0].startswith("p:7 Eve) (x: member, by p:1")
    assert (await pairing.revoke("p:7", by="p:1")).ok
    assert access.role("p", "7") is None
    assert not (await pairing.revoke("p:7", by="p:1")).ok


async def test_B82_the_code_is_kept_nowhere(pairing: Pairing, store: Store) -> None:
    code = await code_for(pairing, store, "7")
    await store.checkpoint()
    files = [path.read_bytes() for path in store.path.parent.iterdir()]
    assert all(code.encode() not in data for data in files)


async def test_B82_the_lock_out_holds_for_the_right_code_too_and_over_a_restart(
    pairing: Pairing, store: Store, access: Access, clock: SteppedClock
) -> None:
    code = await code_for(pairing, store, "7")
    for _ in range(WRONG_HERE):
        assert not (await pairing.approve("WRONG222", role="member", by="p:1", where="p")).ok
    for again in (pairing, Pairing(store, access, enabled=True)):
        outcome = await again.approve(code, role="member", by="p:1", where="p")
        assert not outcome.ok
        assert "Too many" in outcome.told
    clock.advance(3601)
    late = await pairing.approve(code, role="member", by="p:1", where="p")
    assert "expired" in late.told
    assert (await pairing.approve(await code_for(pairing, store, "7"), role="guest", by="p:1", where="p")).ok
    assert access.role("p", "7") == "guest"


async def test_B82_wrong_codes_at_the_same_time_all_count(pairing: Pairing, store: Store) -> None:
    code = await code_for(pairing, store, "eve")
    guesses = [*(f"WRONG22{one}" for one in "ABCDEFGHJK"), code]
    ends = await asyncio.gather(*(pairing.approve(one, role="member", by="p:ann", where="p") for one in guesses))
    assert sum("No such code" in one.told for one in ends) == 5
    assert sum("Too many" in one.told for one in ends) == 6
    assert await store.pairings.people() == []


async def test_a_code_whose_telling_a_crash_has_cut_off_is_replaced(pairing: Pairing, store: Store) -> None:
    """The same message comes again after kill -9: its person must not wait an hour without a code."""
    first = event(store, "eve")
    lost = await pairing.greet(first)
    told = await pairing.greet(first)
    assert lost is not None
    assert told is not None
    assert "Give my owner this code" in told
    assert len(await store.pairings.codes()) == 1
    other = await pairing.greet(dataclasses.replace(first, received_at=first.received_at + timedelta(minutes=5)))
    assert other is not None
    assert "write again in an hour" in other


async def test_B82_wrong_codes_spread_over_platforms_lock_all_of_them(pairing: Pairing, store: Store) -> None:
    code = await code_for(pairing, store, "7")
    for where in ("p", "q", "r", "s", "t"):
        for _ in range(2):
            await pairing.approve("WRONG222", role="member", by="x", where=where)
    assert "Too many" in (await pairing.approve(code, role="member", by="p:1", where="elsewhere")).told


async def test_a_code_ends_with_the_boot(pairing: Pairing, store: Store, clock: SteppedClock) -> None:
    code = await code_for(pairing, store, "7")
    clock.boot_name = "another boot"
    assert not (await pairing.approve(code, role="member", by="p:1", where="p")).ok


async def test_codes_are_bounded(pairing: Pairing, store: Store, clock: SteppedClock) -> None:
    for number in range(WAITING):
        await code_for(pairing, store, str(100 + number))
    clock.advance(1)
    more = await pairing.greet(event(store, "999"))
    again = await pairing.greet(event(store, "100"))
    assert more is not None
    assert again is not None
    assert "`" not in more
    assert "`" not in again


async def test_rooms_bots_and_platforms_with_a_list_give_no_code(
    pairing: Pairing, store: Store, access: Access
) -> None:
    assert await pairing.greet(event(store, "7", kind="group")) is None
    assert await pairing.greet(event(store, "7", bot=True)) is None
    assert await pairing.greet(event(store, "7", platform="closed")) is None
    assert await Pairing(store, access, enabled=False).greet(event(store, "7")) is None


async def test_B85_a_pairing_never_widens_a_list_that_somebody_has_written(
    pairing: Pairing, store: Store, access: Access
) -> None:
    code = await code_for(pairing, store, "7")
    await pairing.approve(code, role="member", by="p:1", where="p")
    access.settings = AccessSettings(allow={"p": frozenset({"8"})})
    assert access.role("p", "7") is None
    access.settings = AccessSettings()
    assert access.role("p", "7") == "member"


async def test_a_stranger_is_told_once_in_ten_minutes(
    pairing: Pairing, store: Store, access: Access, clock: SteppedClock
) -> None:
    said = event(store, "7")
    first = await pairing.stranger(said, access.judge(said))
    assert first.told is not None
    assert "`" in first.told
    assert (await pairing.stranger(said, access.judge(said))).told is None
    clock.advance(QUIET + 1)
    assert (await pairing.stranger(said, access.judge(said))).told is not None


async def test_what_another_process_has_approved_counts_on_the_next_message(
    pairing: Pairing, store: Store, access: Access
) -> None:
    code = await code_for(pairing, store, "7")
    elsewhere = Pairing(store, Access(AccessSettings()), enabled=True)
    await elsewhere.approve(code, role="member", by="terminal", where="terminal")
    said = event(store, "7")
    assert (await pairing.stranger(said, access.judge(said))).fate == "go"
    assert timedelta(hours=1) >= timedelta(seconds=QUIET)
