"""The one parse: what it gives, that it never raises, that nothing of a text is lost (B36, B37)."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.markdown import parse, plain_text
from adapters.markdown.parse import MAX_NESTING
from adapters.markdown.tree import (
    Break,
    Code,
    CodeBlock,
    Emphasis,
    Heading,
    Image,
    Link,
    List,
    Paragraph,
    Quote,
    Rule,
    Strike,
    Strong,
    Table,
    Text,
)


def inline(text: str) -> tuple[object, ...]:
    (block,) = parse(text).blocks
    assert isinstance(block, Paragraph)
    return block.children


def test_blocks() -> None:
    found = parse(
        "# Title\n\ntext\nmore\\\nhard\n\n- a\n  1. b\n\n> quote\n\n```py x\ncode\n```\n\n    indented\n\n---\n\n"
        "3. c\n\n4. d"
    )
    heading, text, bullets, quote, fence, indented, rule, numbers = found.blocks
    assert heading == Heading(1, (Text("Title"),))
    assert text == Paragraph((Text("text"), Break(hard=False), Text("more"), Break(hard=True), Text("hard")))
    assert isinstance(bullets, List)
    assert (bullets.start, bullets.tight) == (None, True)
    assert isinstance(bullets.items[0].blocks[1], List)
    assert isinstance(quote, Quote)
    assert fence == CodeBlock("code", "py x")
    assert isinstance(fence, CodeBlock)
    assert fence.language == "py"
    assert indented == CodeBlock("indented", "")
    assert rule == Rule()
    assert isinstance(numbers, List)
    assert (numbers.start, numbers.tight, len(numbers.items)) == (3, False, 2)


def test_inlines() -> None:
    assert inline("*a* **b** ~~c~~ `d`") == (
        Emphasis((Text("a"),)), Text(" "), Strong((Text("b"),)), Text(" "), Strike((Text("c"),)), Text(" "), Code("d"),
    )  # fmt: skip
    assert inline('[x](http://a/ü_b "t")<http://y.z>![i](s)') == (
        Link("http://a/ü_b", "t", (Text("x"),)),
        Link("http://y.z", "", (Text("http://y.z"),), bare=True),
        Image("s", "i", ""),
    )
    assert inline("<b>raw</b> &amp; &#x41;") == (Text("<b>raw</b> & A"),)
    assert inline("[x](javascript:alert(1))") == (Text("[x](javascript:alert(1))"),)


def test_a_table_has_as_many_cells_everywhere_and_loses_none() -> None:
    (table,) = parse("|a|b|c|\n|:-|:-:|-:|\n|1|\n|1|2|3|4|5|").blocks
    assert isinstance(table, Table)
    assert table.align == ("left", "center", "right")
    assert [len(row) for row in table.rows] == [3, 3]
    assert plain_text("|a|b|\n|-|-|\n|1|2|3|4|") == "a | b\n1 | 2 | 3|4"


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("file_name is a_b", "file_name is a_b"),
        ("**antique_identifier** and a lone *", "antique_identifier and a lone *"),
        ("a < b && c", "a < b && c"),
        ("[x](", "[x]("),
        ("`unclosed", "`unclosed"),
        ("1. item (x) #1 + = | { } . !", "1. item (x) #1 + = | { } . !"),
    ],
)
def test_B36_lone_marks_are_text(text: str, plain: str) -> None:
    assert plain_text(text) == plain


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("`C:\\dir\\b`", "C:\\dir\\b"),
        ("```print('`')```", "print('`')"),
        ("`\\d+\\.`", "\\d+\\."),
        ("`` ` ``", "`"),
        ("`\\_already\\*`", "\\_already\\*"),
        ("```\nC:\\\\dir `x` \\d\n```", "C:\\\\dir `x` \\d"),
    ],
)
def test_B37_code_keeps_its_characters(text: str, plain: str) -> None:
    assert plain_text(text) == plain


def test_plain_text_keeps_lists_quotes_and_addresses() -> None:
    text = "# T\n\n- a\n  1. b\n  2. c\n\n> q **b**\n> r\n\n[l](http://x) <http://y> ![i](z)\n\n---"
    assert plain_text(text) == "T\n\n- a\n  1. b\n  2. c\n\n> q b\n> r\n\nl (http://x) http://y i (z)\n\n---"


def test_a_definition_of_a_reference_is_not_lost() -> None:
    assert plain_text("[a][1] words\n\n[1]: http://x.y") == "[a][1] words\n\n[1]: http://x.y"


@pytest.mark.parametrize("mark", ["> ", "- ", "1. ", "* > ", "[", "![", "**", "~~", "`", "(", "|", "<"])
def test_deep_nesting_is_bounded_and_keeps_the_words(mark: str) -> None:
    text = mark * 3000 + "deepword"
    assert "deepword" in plain_text(text)

    def depth(value: object) -> int:
        inner = [
            getattr(value, name) for name in ("blocks", "items", "children") if getattr(value, name, None) is not None
        ]
        return 1 + max((depth(one) for group in inner for one in group), default=0)

    assert depth(parse(text)) <= 2 * MAX_NESTING + 5


@given(st.one_of(st.text(max_size=400), st.text("*_`~[]()<>!#-+.|>\\ \n\t1a&;:\"'=", max_size=400)))
@settings(max_examples=400, deadline=None)
def test_no_text_raises_or_loses_letters(text: str) -> None:
    plain = plain_text(text)
    assert parse(text) == parse(text)
    if "&" not in text and "```" not in text and "~~~" not in text:  # entities and infos are no words
        letters = [character for character in text if character.isalpha() and character.isascii()]
        assert all(plain.count(one) >= 1 for one in set(letters))


def test_lone_surrogates_and_nothing() -> None:
    assert plain_text("a\ud800b") == "a\ufffdb"
    assert parse("").blocks == ()
    assert plain_text(" \n \n") == ""


@pytest.mark.parametrize(
    "unit",
    ["[", "![", "[a](", "*a **a ", "~~a ", "`a", "<a ", "\\", "&", "_a_b ", "> a\nb\n", "- a\n", "|a", "((", "***"],
)
def test_the_time_is_linear(unit: str) -> None:
    def seconds(count: int) -> float:
        text = unit * count
        started = time.process_time()
        parse(text)
        return time.process_time() - started

    small = min(seconds(2500) for _ in range(2))
    assert seconds(20_000) < max(30 * small, 1.5)
