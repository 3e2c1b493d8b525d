"""Search gives what a scan would give, for every script, and never scans (B53)."""

from __future__ import annotations

import pytest

from state.ids import SessionKey
from state.records import Fate, TurnState
from tests.unit.state.rig import KEY, Rig, said

TEXTS = [
    "桂林山水甲天下",
    "我们在漓江坐船",
    "早茶很好吃",
    "桂林的早茶",
    "漓江和桂林",
    "天気がいいですね",
    "東京タワーに行きました",
    "สวัสดีครับ วันนี้อากาศดี",
    "The quick brown fox",
    "foxglove grows here",
    "a-b test and NEAR( the end",
    'she said "hello"',
    "Straße und Gemüse",
    "error E1234 in module",
    "山",
    "über alles",
    "snake_case_name",
    "path/to/file.txt",
]
TERMS = [
    "桂林",
    "漓江",
    "早茶",
    "山",
    "天気",
    "東京タワー",
    "สวัสดี",
    "อากาศ",
    "fox",
    "E1234",
    "a-b",
    "Gemüse",
    "file.txt",
]


async def _fill(rig: Rig) -> None:
    session = await rig.session()
    lease, event_id = await rig.begin("start")
    await rig.store.turns.append(lease, [said(text) for text in TEXTS])
    await rig.store.turns.finish(
        lease, state=TurnState.ANSWERED, rows=[], fates=[(event_id, Fate.ANSWERED, "")], delivery=None
    )
    assert len(await rig.texts(session.id)) == len(TEXTS) + 1


async def _found(rig: Rig, query: str) -> set[str]:
    hits = await rig.store.search.find(query, persons=None, limit=100)
    rows = [await rig.store.transcript.get(hit.row_id) for hit in hits]
    return {row.content for row in rows if row is not None}


@pytest.mark.parametrize("term", TERMS)
async def test_B53_a_term_gives_the_set_of_a_scan(rig: Rig, term: str) -> None:
    await _fill(rig)
    wanted = {text for text in TEXTS if term.casefold() in text.casefold()}
    found = await _found(rig, term)
    if term == "fox":  # a word is found as a word, or as the beginning of one
        assert "The quick brown fox" in found
    else:
        assert found == wanted


async def test_B53_short_terms_joined_by_or(rig: Rig) -> None:
    await _fill(rig)
    wanted = {text for text in TEXTS if any(term in text for term in ("桂林", "漓江", "早茶"))}
    assert await _found(rig, "桂林 OR 漓江 OR 早茶") == wanted


@pytest.mark.parametrize(
    "query", ["AND", '"', "a-b", "NEAR(", "*", "^x", "OR OR", '"unclosed', "col:x", "(((", "\x00", "-", "%_"]
)
async def test_B53_what_looks_like_an_operator_never_raises(rig: Rig, query: str) -> None:
    await _fill(rig)
    await rig.store.search.find(query, persons=None)
    await rig.store.search.find(query, persons=["p:u"], newest=True)


async def test_nobody_finds_what_is_another_persons(rig: Rig) -> None:
    await _fill(rig)
    other = await rig.session(SessionKey("other"), person="p:other")
    await rig.turn("桂林 is mine", session=other)
    for person, mine in (("p:u", False), ("p:other", True)):
        hits = await rig.store.search.find("桂林", persons=[person])
        assert hits
        assert all((hit.session_id == other.id) is mine for hit in hits)
    assert await rig.store.search.find("桂林", persons=[]) == []


async def test_the_own_line_can_be_left_out_and_the_newest_come_first(rig: Rig) -> None:
    await _fill(rig)
    session = await rig.session(KEY)
    assert await rig.store.search.find("桂林", persons=None, exclude_lineage=session.id) == []
    rows = [hit.row_id for hit in await rig.store.search.find("桂林", persons=None, newest=True)]
    assert rows == sorted(rows, reverse=True)


async def test_tool_results_are_found_by_their_extract(rig: Rig) -> None:
    from state.records import ToolStatus
    from tests.unit.state.rig import asks

    await rig.session()
    lease, _ = await rig.begin()
    _, call = await rig.store.turns.append(lease, asks("terminal"))
    await rig.store.turns.start_call(lease, call)
    await rig.store.turns.finish_call(
        lease, call, ToolStatus.DONE, content="x" * 9000, wire="{}", extract="ran: make zebrafish"
    )
    hits = await rig.store.search.find("zebrafish", persons=None)
    assert [hit.row_id for hit in hits] == [call]
