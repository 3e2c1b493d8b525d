"""Neutral markdown as Telegram's HTML, held against the counterpart's parser."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.errors import Rejected
from adapters.events import Attachment, Button, Buttons, Markdown, Media, RenderedChunk
from adapters.telegram.buttons import decode, encode, rows
from adapters.telegram.markup import draw, draw_plain, length, linkable
from adapters.telegram.render import TelegramRenderer, read_said
from tests.counterparts.telegram_text import covered, parse_html, units, with_detected

RENDERER = TelegramRenderer()


def shown(markdown: str) -> tuple[str, list[tuple[str, str]]]:
    """The text that people see, and each entity with its words."""
    drawn = draw(markdown)
    text, entities = parse_html(drawn.html)
    assert drawn.size == units(text)
    return text, [(one["type"], covered(text, one)) for one in entities]


def texts(*blocks: str) -> list[str]:
    return [json.loads(chunk.payload)["text"] for chunk in RENDERER.render([Markdown(text=one) for one in blocks])]


def test_every_part_of_the_tree_is_drawn() -> None:
    text, entities = shown(
        "# A *head*\n\nSome **bold**, _thin_, ~~gone~~, `code` and ||hidden||.\n\n- one\n- two\n  - inner\n"
        "\n1. first\n2. second\n\n> said\n> twice\n\n```py\nx < 1\n```\n\n---\n![a cat](https://x.example/c.png)"
    )
    assert text == (
        "A head\n\nSome bold, thin, gone, code and hidden.\n\n• one\n• two\n  ◦ inner\n\n1. first\n2. second\n\n"
        "said\ntwice\n\nx < 1\n\n———\n\na cat"
    )
    assert {
        *(("bold", "A head"), ("italic", "head"), ("bold", "bold"), ("italic", "thin"), ("strikethrough", "gone")),
        *(("code", "code"), ("spoiler", "hidden"), ("blockquote", "said\ntwice"), ("pre", "x < 1")),
        ("text_link", "a cat"),
    } == set(entities)
    assert 'class="language-py"' in draw("```py\nx\n```").html


def test_a_table_stands_in_columns() -> None:
    text, entities = shown("| name | n |\n|---|--:|\n| 花 | 1 |\n| **ab** | 22 |")
    assert text.splitlines() == [
        "name |  n",
        "-----+---",
        "花   |  1",
        "ab   | 22",
    ]
    assert [kind for kind, _ in entities] == ["pre"]


def test_a_long_quotation_is_folded_and_none_stands_in_another() -> None:
    assert draw("\n".join(f"> line {n}" for n in range(12))).html.startswith("<blockquote expandable>")
    html = draw("> a\n>\n> > b").html
    assert html.count("<blockquote") == 1
    assert "&gt; b" in html


@pytest.mark.parametrize(
    "text",
    ["file_name is a_b", "**antique_identifier** and a lone *", "a < b && c", "[x](", "`unclosed", "&lt; &amp;",
     "1. item (x) #1 + = | { } . !"],
)  # fmt: skip
def test_B36_every_text_is_markup_that_can_be_parsed(text: str) -> None:
    seen, _ = shown(text)
    assert seen.replace(" ", "") == text.replace("**antique_identifier**", "antique_identifier").replace(
        " ", ""
    ).replace("&lt;&amp;", "<&")


@pytest.mark.parametrize(
    ("markdown", "code"),
    [
        ("`C:\\dir\\b`", "C:\\dir\\b"),
        ("```\nprint('`')\n```", "print('`')"),
        ("`\\d+\\.`", "\\d+\\."),
        ("`` ` ``", "`"),
        ("`&lt;b&gt;`", "&lt;b&gt;"),
    ],
)
def test_B37_code_keeps_its_characters(markdown: str, code: str) -> None:
    text, ((kind, words),) = shown(markdown)
    assert text == words == code
    assert kind in ("code", "pre")


@pytest.mark.parametrize("size", [4095, 4096, 4097, 8192])
def test_B35_the_real_limit_is_used_to_the_last_unit(size: int) -> None:
    parts = texts("x" * size)
    assert len(parts) == -(-size // 4096)
    assert sum(len(part) for part in parts) == size


def test_the_limit_counts_what_is_left_without_tags() -> None:
    assert len(texts("<" * 4096)) == 1  # escaped it is four times as long
    assert all(units(parse_html(part)[0]) <= 4096 for part in texts("😀" * 3000))


def test_no_link_is_lost_to_the_hundred_entities_of_a_message() -> None:
    parts = texts("\n".join(f"[n{n}](https://x.example/{n})" for n in range(250)))
    for part in parts:
        text, entities = parse_html(part)
        kept = with_detected(text, entities)
        assert len([one for one in kept if one["type"] == "text_link"]) == part.count("<a ")
    assert sum(part.count("<a ") for part in parts) == 250
    assert len(parts) <= 4


def test_what_a_model_writes_calls_nobody() -> None:
    text = "hello @ann_lee and **@Bob_x**, mail a@b.example; [me](tg://user?id=12) [@carol](https://x.example/@carol)"
    seen, entities = parse_html(draw(text).html)
    kinds = [one["type"] for one in with_detected(seen, entities)]
    assert "mention" not in kinds
    assert "text_mention" not in kinds
    assert "tg://user" not in draw(text).html.replace("(tg://user?id=12)", "")
    assert "mention" not in [one["type"] for one in with_detected(*parse_html(draw_plain("hey @ann_lee").html))]


def test_links_that_telegram_drops_show_their_address() -> None:
    assert [one for one in ("https://a.example/x", "http://[::1]/", "tg://resolve?domain=x") if not linkable(one)] == []
    for href in (
        "javascript:alert(1)",
        "http://localhost:80",
        "mailto:a@b.example",
        "file:///etc",
        "tg://user?id=1",
        "x",
    ):
        assert not linkable(href)
    assert shown("[get](ftp://x.example/a) [mail](mailto:a@b.example)")[0] == (
        "get (ftp://x.example/a) mail (mailto:a@b.example)"
    )
    assert shown("<mailto:a@b.example>")[0] == "mailto:a@b.example"
    assert shown('[](https://x.example/a?b=1&c="2")')[0].startswith("https://x.example/a?b=1&c=")


def test_a_spoiler_is_not_an_or() -> None:
    for text in ("a || b || c", "x||y||z", "|| ||", "if (a||b) and (c||d)"):
        assert [kind for kind, _ in shown(text)[1]] == []


def test_what_would_show_nothing_is_shown_as_it_is() -> None:
    assert RENDERER.render([]) == []
    assert RENDERER.render([Markdown(text="  \n ")]) == []
    (part,) = texts("```\n```")
    assert parse_html(part)[0].strip()


def test_buttons_go_below_the_text_and_carry_their_id() -> None:
    yes, no = (
        Button(id="a_0123456789abcdef0123456789abcdef", label="Approve", value="approve"),
        Button(id="a_1", label="No", value=""),
    )
    (chunk,) = RENDERER.render([Markdown(text="Really?"), Buttons(buttons=(yes, no))])
    said = read_said(chunk)
    assert said.text == "Really?"
    assert [label for label, _ in said.buttons] == ["Approve", "No"]
    for button, (_, data) in zip((yes, no), said.buttons, strict=True):
        assert len(data.encode()) <= 64
        action = decode(data)
        assert action is not None
        assert (action.button_id, action.value) == (button.id, button.value)
    assert "1. Approve" in chunk.plain


def test_a_button_that_is_too_long_becomes_words() -> None:
    long = Button(id="i" * 40, label="Ä long one", value="ä" * 20)
    assert encode(long) is None
    (chunk,) = RENDERER.render([Markdown(text="Choose"), Buttons(buttons=(long,))])
    said = read_said(chunk)
    assert said.buttons == ()
    assert said.text == "Choose\n\n1. Ä long one"


@given(st.text(max_size=20), st.text(max_size=20))
def test_data_of_buttons_comes_back(button_id: str, value: str) -> None:
    data = encode(Button(id=button_id, label="x", value=value))
    if data is not None:
        action = decode(data)
        assert action is not None
        assert (action.button_id, action.value) == (button_id, value)


@pytest.mark.parametrize("data", ["", "1", "x", "19:abc", "1-1:a", "2" + "3:abcd", "1²:ab"])
def test_foreign_data_is_no_press(data: str) -> None:
    assert decode(data) is None


def test_short_labels_stand_beside_each_other() -> None:
    assert [len(row) for row in rows([("Yes", "1"), ("No", "2"), ("x" * 40, "3"), ("a", "4")])] == [2, 1, 1]


def test_a_file_is_a_message_of_its_own() -> None:
    media = Media(attachment=Attachment(kind="image", name="a.png", mime="image/png", size=3, path="/x/a.png"))
    first, second, third = RENDERER.render([Markdown(text="Look"), media, Markdown(text="there")])
    assert (read_said(first).text, read_said(third).text) == ("Look", "there")
    assert read_said(second).media == media.attachment
    assert second.plain == "[file: a.png]"


def test_drafts_in_groups_keep_the_twenty_messages_a_minute() -> None:
    limits = RENDERER.limits
    assert limits.edits_in("private") == 1.5
    assert 60 / limits.edits_in("group") <= 20 - 5


@pytest.mark.parametrize("payload", ["[]", "{", '{"text":1}', '{"text":"x","parse_mode":"HTML","media":{}}'])
def test_a_payload_of_somebody_else_is_refused(payload: str) -> None:
    with pytest.raises(Rejected):
        read_said(RenderedChunk(payload=payload, plain="x"))


@given(st.text(alphabet=st.sampled_from('ab *_`~|<>&[]()#-\n1.@x:/\\!"😀'), max_size=300))
@settings(max_examples=300, deadline=None)
def test_whatever_is_written_can_be_parsed_and_keeps_the_limit(text: str) -> None:
    drawn = draw(text)
    seen, entities = parse_html(drawn.html)
    assert units(seen) == drawn.size
    assert len(entities) <= drawn.entities
    assert length(drawn) >= drawn.size
