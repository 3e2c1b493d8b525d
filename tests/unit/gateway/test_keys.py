"""Keys are injective for any text (B07)."""

from hypothesis import given
from hypothesis import strategies as st

from adapters.events import ChatAddress
from gateway.keys import chat_queue, join_parts, line_key, session_key

_awkward = st.one_of(
    st.none(), st.text(alphabet=":/%~| aA0\u00e9\U0001f600", max_size=6), st.text(max_size=8), st.just("")
)
_parts = st.tuples(*[_awkward] * 6)


@given(_parts, _parts)
def test_B07_distinct_tuples_give_distinct_keys(one: tuple[str | None, ...], two: tuple[str | None, ...]) -> None:
    assert (join_parts(*one) == join_parts(*two)) == (one == two)


def _at(chat: str, thread: str | None, *, account: str = "bot", kind: str = "group") -> ChatAddress:
    return ChatAddress(platform="p", account=account, chat_id=chat, thread_id=thread, chat_kind=kind)  # type: ignore[arg-type]


def test_B07_reported_pairs() -> None:
    assert session_key(_at("a:b", "c")) != session_key(_at("a", "b:c"))
    assert session_key(_at("a", "")) != session_key(_at("a", None))
    assert session_key(_at("a", "0")) != session_key(_at("a", None))
    assert session_key(_at("a", "~")) != session_key(_at("a", None))
    assert session_key(_at("u", None, account="x")) != session_key(_at("u", None, account="y"))
    assert session_key(_at("a%3Ab", None)) != session_key(_at("a:b", None))


def test_keys_are_stable_over_versions() -> None:
    """The format is persisted: this literal must never change without a migration."""
    address = ChatAddress(platform="p", account="b 1", scope="g/1", chat_id="-100:5", thread_id="7", chat_kind="thread")
    assert session_key(address, "u~1") == "p:b%201:g%2F1:-100%3A5:7:u%7E1"
    assert session_key(_at("x", None)) == "p:bot:~:x:~:~"


def test_the_kind_of_chat_is_no_part_of_the_identity() -> None:
    assert session_key(_at("a", None, kind="group")) == session_key(_at("a", None, kind="channel"))


def test_lines_by_setting() -> None:
    group, thread, private = _at("c", None), _at("c", "t"), _at("c", None, kind="private")
    assert line_key(group, "u1", groups="person", threads="shared") != line_key(
        group, "u2", groups="person", threads="shared"
    )
    assert line_key(thread, "u1", groups="person", threads="shared") == line_key(
        thread, "u2", groups="person", threads="shared"
    )
    assert line_key(private, "u1", groups="person", threads="shared") == line_key(
        private, "u2", groups="shared", threads="person"
    )
    assert chat_queue(group) == chat_queue(thread)
