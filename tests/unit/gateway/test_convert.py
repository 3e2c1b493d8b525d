"""Every value comes back as it went."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from adapters.events import (
    Action,
    Attachment,
    Block,
    Button,
    Buttons,
    ChatAddress,
    EventKind,
    HistoryItem,
    Markdown,
    Media,
    MessageEvent,
    ReplyTo,
    Sender,
)
from gateway.convert import blocks_from_json, blocks_to_json, event_from_json, event_to_json

_text = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=20)
_maybe = st.none() | _text
_address = st.builds(
    ChatAddress,
    platform=_text,
    account=_text,
    chat_id=_text,
    scope=_maybe,
    thread_id=_maybe,
    chat_kind=st.sampled_from(["private", "group", "channel", "thread"]),
)
_attachment = st.builds(
    Attachment,
    kind=st.sampled_from(["image", "document"]),
    name=_text,
    mime=_text,
    size=st.none() | st.integers(0, 10**12),
    path=_maybe,
    sha256=_maybe,
    note=_maybe,
    ref=_maybe,
    shelf=_maybe,
)
_time = st.datetimes(timezones=st.just(UTC), min_value=datetime(2000, 1, 1), max_value=datetime(2100, 1, 1))  # noqa: DTZ001 - hypothesis takes naive bounds and adds the zone
_history = st.builds(HistoryItem, role=st.sampled_from(["user", "assistant"]), text=_text)
_event = st.builds(
    MessageEvent,
    dedup_id=_text,
    kind=st.sampled_from(list(EventKind)),
    message_id=_text,
    address=_address,
    sender=st.builds(Sender, id=_text, name=_text, is_bot=st.booleans()),
    received_at=_time,
    text=_text,
    attachments=st.lists(_attachment, max_size=2).map(tuple),
    reply_to=st.none() | st.builds(ReplyTo, message_id=_text, text=_text, is_ours=st.booleans(), author=_text),
    forwarded_from=st.none() | st.text("ab", min_size=1, max_size=3),
    facts=st.lists(_text, max_size=2).map(tuple),
    came=st.none() | st.text("ab", min_size=1, max_size=3),
    mentions_us=st.booleans(),
    sent_at=st.none() | _time,
    action=st.none() | st.builds(Action, button_id=_text, value=_text),
    history=st.lists(_history, max_size=2).map(tuple),
)
_block: st.SearchStrategy[Block] = st.one_of(
    st.builds(Markdown, text=_text),
    st.builds(Media, attachment=_attachment),
    st.builds(Buttons, buttons=st.lists(st.builds(Button, id=_text, label=_text, value=_text), max_size=3).map(tuple)),
)


@given(_event)
def test_events_survive_the_store(event: MessageEvent) -> None:
    back = event_from_json(event_to_json(event))
    assert back == event
    assert back.address.chat_kind == event.address.chat_kind


@given(st.lists(_block, max_size=4).map(tuple))
def test_blocks_survive_the_store(blocks: tuple[Block, ...]) -> None:
    assert blocks_from_json(blocks_to_json(blocks)) == blocks
