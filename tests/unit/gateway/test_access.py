"""Default deny, stable ids only, rights by role and room (B43, B45, B85)."""

from __future__ import annotations

from datetime import UTC, datetime

from adapters.events import ChatAddress, ChatKind, EventKind, MessageEvent, ReplyTo, Sender
from gateway.access import Access, AccessSettings

SETTINGS = AccessSettings(
    owners=frozenset({"p:1"}),
    allow={"p": frozenset({"2"}), "open": frozenset({"*"})},
    members=frozenset({"http:default"}),
    guest_tools=frozenset({"clarify"}),
    member_tools=frozenset({"web", "todo"}),
    owner_tools=frozenset({"files", "terminal"}),
    group_tools=frozenset({"files"}),
    disabled_tools=frozenset({"todo"}),
)


def event(
    sender: str, *, name: str = "x", kind: ChatKind = "private", platform: str = "p", **more: object
) -> MessageEvent:
    return MessageEvent(
        dedup_id="1",
        kind=EventKind.MESSAGE,
        message_id="1",
        received_at=datetime(2026, 1, 1, tzinfo=UTC),
        address=ChatAddress(platform=platform, account="a", chat_id="c", chat_kind=kind),
        sender=Sender(id=sender, name=name, is_bot=bool(more.pop("bot", False))),
        **more,  # type: ignore[arg-type]
    )


def test_roles() -> None:
    access = Access(SETTINGS)
    assert [access.role("p", who) for who in ("1", "2", "3")] == ["owner", "member", None]
    assert access.role("open", "anybody") == "guest"
    assert access.role("http", "default") == "member"


def test_B85_a_name_is_no_id() -> None:
    access = Access(SETTINGS)
    for name in ("1", "2", "p:1", "owner"):
        verdict = access.judge(event("2002", name=name))
        assert verdict.fate == "refused"
        assert "p:2002" in (verdict.told or "")


def test_B85_a_removal_acts_at_once() -> None:
    access = Access(SETTINGS)
    assert access.judge(event("2")).fate == "go"
    access.settings = AccessSettings()
    assert access.judge(event("2")).fate == "refused"


def test_tools_by_role_and_room() -> None:
    access = Access(SETTINGS)
    assert access.rights("guest", shared=False).tools == {"clarify"}
    assert access.rights("member", shared=False).tools == {"clarify", "web"}
    assert access.rights("owner", shared=False).tools == {"clarify", "web", "files", "terminal"}
    assert access.rights("owner", shared=True).tools == {"clarify", "web", "files"}


def test_rights_of_several_people_are_their_intersection() -> None:
    access = Access(SETTINGS)
    met = access.rights("owner", shared=False).meet(access.rights("guest", shared=False))
    assert met.role == "guest"
    assert met.tools == {"clarify"}


def test_groups_answer_only_when_addressed() -> None:
    access = Access(SETTINGS)
    assert access.judge(event("2", kind="group")).fate == "silent"
    assert access.judge(event("2", kind="group", mentions_us=True)).fate == "go"
    ours = ReplyTo(message_id="9", is_ours=True)
    assert access.judge(event("2", kind="group", reply_to=ours)).fate == "go"
    assert access.judge(event("2", kind="group", reply_to=ReplyTo(message_id="9"))).fate == "silent"


def test_strangers_in_a_room_are_not_answered_but_told_when_they_ask() -> None:
    access = Access(SETTINGS)
    assert access.judge(event("9", kind="group")).told is None
    assert access.judge(event("9", kind="group", mentions_us=True)).told is not None


def test_B46_bots_are_ignored_unless_named() -> None:
    access = Access(SETTINGS)
    assert access.judge(event("2", bot=True)).fate == "silent"
    access.settings = AccessSettings(allow={"p": frozenset({"2"})}, bots=frozenset({"p:2"}))
    assert access.judge(event("2", bot=True)).fate == "go"


def test_B42_a_chat_with_a_new_id_keeps_its_place_in_the_lists() -> None:
    moved = {"-1": "-1001"}
    access = Access(
        AccessSettings(allow={"p": frozenset({"-1001"})}), also=lambda _platform, chat: moved.get(chat, chat)
    )
    assert access.role("p", "-1") == "member"
    assert access.role("p", "-2") is None
