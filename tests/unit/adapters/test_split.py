"""The splitter: within the limit, nothing lost, nothing broken, linear (B31, B32, B33, B35)."""

from __future__ import annotations

import html
import re
import time

import pytest
import regex
from hypothesis import example, given, settings
from hypothesis import strategies as st

from adapters.limits import Limits, Unit, length_in
from adapters.markdown import parse
from adapters.markdown.tree import Block, CodeBlock, List, Quote
from adapters.split import Piece, split, split_rendered
from adapters.split.cuts import LEAST

UNITS: tuple[Unit, ...] = ("utf16", "codepoints", "bytes")

NASTY = ["😀", "👨‍👩‍👧‍👦", "🇩🇪", "e\u0301\u0323", "𠀀", "नि", "\u200d", "\ud800", "\x00", "ﷺ", "한"]
WORDS = [
    "word",
    "a",
    "**bold**",
    "`code`",
    "[l](http://x)",
    "- ",
    "1. ",
    "# ",
    "> ",
    "~~~",
    "``",
    "|",
    "***",
    "\\",
    "a.",
    "b! ",
]
LINES = [
    "# Title", "plain text. And more of it", "- item", "  - nested", "    - deeper", "1. one", "   para", "> quote",
    "> - in", "```", "```py", "````", "~~~", "~~~js", "  ```", "- ```sh", "  code", "    indented", "", "", "---",
    "===", "| a | b |", "|---|---|", "| 1 | 2 |", "\ttab", "-\ttabbed", "> ```", "> code", "lazy", "* * *", "x" * 90,
]  # fmt: skip
text_of = st.one_of(
    st.text(max_size=300),
    st.lists(st.sampled_from(LINES), max_size=40).map("\n".join),
    st.lists(st.sampled_from(LINES), max_size=30).map("\r\n".join),
    st.lists(st.sampled_from(WORDS + NASTY), max_size=60).map(" ".join),
    st.lists(st.sampled_from(NASTY), max_size=80).map("".join),
)


def sources(pieces: list[Piece]) -> str:
    return "".join(piece.source for piece in pieces)


def visible(text: str) -> str:
    return re.sub(r"[ \t\r\n]+", "", text)


def check(text: str, limit: int, unit: Unit) -> list[Piece]:
    limits = Limits(text=limit, unit=unit)
    measure = length_in(unit)
    pieces = split(text, limits)
    if not text.strip(" \t\r\n"):
        assert pieces == []
        return pieces
    assert sources(pieces) == text
    for piece in pieces:
        assert measure(piece.text) <= max(limit, LEAST[unit])
        assert piece.text.startswith(piece.before)
        assert piece.text.endswith(piece.after)
        inner = piece.text[len(piece.before) : len(piece.text) - len(piece.after)]
        assert visible(inner) == visible(piece.source)
    return pieces


@given(text_of, st.integers(1, 120), st.sampled_from(UNITS))
@example(text="00000000000\r# 00000000000000000\n>```00\r\r00000", limit=32, unit="utf16")
@settings(max_examples=400, deadline=None)
def test_within_the_limit_and_nothing_lost(text: str, limit: int, unit: Unit) -> None:
    check(text, limit, unit)


@given(text_of, st.integers(10, 80), st.sampled_from(UNITS))
@example(text="0000000 \u200c", limit=10, unit="bytes")
@settings(max_examples=300, deadline=None)
def test_no_cut_inside_a_grapheme_that_fits(text: str, limit: int, unit: Unit) -> None:
    measure = length_in(unit)
    inner = {0}
    sizes = {}
    for match in regex.finditer(r"\X", text):
        inner.add(match.end())
        for position in range(match.start() + 1, match.end()):
            sizes[position] = measure(match[0])
    position = 0
    for piece in check(text, limit, unit)[:-1]:
        position += len(piece.source)
        assert position in inner or sizes[position] > limit


def codes(blocks: tuple[Block, ...]) -> list[CodeBlock]:
    found: list[CodeBlock] = []
    for block in blocks:
        match block:
            case CodeBlock():
                found.append(block)
            case Quote():
                found += codes(block.blocks)
            case List():
                for item in block.items:
                    found += codes(item.blocks)
            case _:
                pass
    return found


def fenced(text: str) -> str:
    """Every character that stands in a fence with a language, blanks left out."""
    return visible("".join(code.text for code in codes(parse(text).blocks) if code.info))


def is_open(text: str) -> bool:
    """Whether the end of the text is inside of a fence."""
    mark = "endmark7"
    return any(mark in code.text for code in codes(parse(f"{text}\n{mark}").blocks) if code.info)


NESTING = [
    "{fence}", "- item\n\n{list}", "> said\n{quote}", "1. a\n   - b\n\n{deep}",
]  # fmt: skip


@given(
    fence=st.sampled_from(["```", "~~~", "`````", "~~~~"]),
    nesting=st.sampled_from(NESTING),
    rows=st.lists(st.text("abc xyz=()'\"", max_size=70), min_size=1, max_size=40),
    limit=st.integers(60, 400),
    unit=st.sampled_from(UNITS),
)
@settings(max_examples=250, deadline=None)
def test_B31_fences_are_closed_and_opened_again(
    fence: str, nesting: str, rows: list[str], limit: int, unit: Unit
) -> None:
    block = "\n".join([f"{fence}py", *rows, fence])
    source = "Before it. Some words.\n\n" + nesting.format(
        fence=block,
        list="\n".join("  " + row for row in block.split("\n")),
        quote="\n".join("> " + row for row in block.split("\n")),
        deep="\n".join("     " + row for row in block.split("\n")),
    )
    source += "\n\nAfter it, and on."
    pieces = check(source, limit, unit)
    for piece in pieces:
        assert not is_open(piece.text)
        assert all(code.info == "py" for code in codes(parse(piece.text).blocks))
    assert "".join(fenced(piece.text) for piece in pieces) == fenced(source)


@pytest.mark.parametrize("limit", [2000, 4096])
@pytest.mark.parametrize("off", range(-3, 4))
@pytest.mark.parametrize("fence", ["```", "~~~", "````"])
def test_B31_a_block_that_ends_at_the_limit(limit: int, off: int, fence: str) -> None:
    head = f"Prose before it.\n\n{fence}py\n"
    rows = "x = 1\n" * 300
    fill = limit + off - len(head) - len(fence) - 1
    block = (rows * 10)[: fill - 1] + "z\n" if fill > 1 else "z\n"
    for text in (f"{head}{block}{fence}", f"{head}{block}{fence}\nProse after it.", f"{head}{rows * 3}{fence}\nend"):
        pieces = check(text, limit, "codepoints")
        for piece in pieces:
            marks = [line for line in piece.text.splitlines() if line.startswith(fence)]
            assert len(marks) % 2 == 0
            assert all(mark == f"{fence}py" for mark in marks[::2])
            assert all(mark == fence for mark in marks[1::2])
        assert "".join(fenced(piece.text) for piece in pieces) == fenced(text)


def test_B31_a_nested_fence_of_fewer_marks_is_content() -> None:
    text = "````md\n" + "```py\nx\n```\n" * 40 + "````\n"
    for piece in check(text, 120, "codepoints"):
        (code,) = codes(parse(piece.text).blocks)
        assert code.info == "md"


@pytest.mark.parametrize(
    "text",
    [
        "```\n" + "y" * 9000 + "\n```",
        "https://example.org/" + "x" * 10_000,
        "| a |\n|---|\n| " + "c" * 5000 + " |",
        "~~~\n" + "y" * 9000,
        ">" * 3000,
        "- " * 3000 + "x",
        "`" * 9000,
    ],
)
@pytest.mark.parametrize("limit", [1, 2, 7, 20, 2000, 4096])
def test_B32_one_long_line_comes_to_an_end(text: str, limit: int) -> None:
    started = time.process_time()
    pieces = check(text, limit, "codepoints")
    assert time.process_time() - started < 3.0
    if limit >= 2000:
        assert len(pieces) <= len(text) // (limit - 40) + 2


@pytest.mark.parametrize(
    "text",
    [
        "words and more of them. " * 42_000,
        "paragraph of words\n\n" * 50_000,
        "- item one two three\n  - sub **b** `c`\n" * 25_000,
        "```py\n" + "x = 1  # foo\n" * 77_000 + "```",
        "你好。" * 300_000,
        "😀" * 250_000,
        "\n" * 500_000 + "x" + " " * 500_000 + "y",
        "a" + "\u0301" * 300_000,
    ],
    ids=["words", "paragraphs", "lists", "code", "cjk", "emoji", "blanks", "marks"],
)
def test_a_megabyte_is_linear(text: str) -> None:
    def seconds(part: str) -> float:
        started = time.process_time()
        check(part, 4096, "utf16")
        return time.process_time() - started

    quarter = min(seconds(text[: len(text) // 4]) for _ in range(2))
    assert seconds(text) < max(12 * quarter, 1.0)


@pytest.mark.parametrize(
    "text",
    [
        "😀" * 2100,
        "𠀀字" * 2000,
        "👨‍👩‍👧‍👦" * 900,
        "🇩🇪" * 2000,
        "e\u0301\u0323" * 2000,
        "```\n" + "🇩🇪" * 2000 + "\n```",
    ],
)
def test_B33_length_is_in_the_unit_of_the_platform(text: str) -> None:
    limits = Limits(text=4096, unit="utf16")
    whole = {match.end() for match in regex.finditer(r"\X", text)}
    position = 0
    for piece in check(text, 4096, "utf16"):
        position += len(piece.source)
        assert position in whole
        assert piece.text.encode("utf-16-le").decode("utf-16-le") == piece.text
    streamed = [piece.text for piece in split(text, limits)]
    final = [fitted.piece.text for fitted in split_rendered(text, limits, str, length_in("utf16"))]
    assert streamed == final


@pytest.mark.parametrize("limit", [2000, 3000, 4096, 40_000])
@pytest.mark.parametrize("off", [-1, 0, 1])
def test_B35_as_few_messages_as_the_limit_allows(limit: int, off: int) -> None:
    assert len(check("x" * (limit + off), limit, "codepoints")) == (1 if off <= 0 else 2)
    assert len(check(("word " * limit)[: limit + off - 1] + "e", limit, "codepoints")) == (1 if off <= 0 else 2)


def test_it_cuts_between_paragraphs_before_lines_before_sentences_before_words() -> None:
    limits = Limits(text=60)
    assert next(p.text for p in split("a" * 30 + "\n\n" + "b" * 20 + "\n" + "c" * 20, limits)) == "a" * 30
    assert next(p.text for p in split("a" * 30 + "\n" + "b" * 20 + ". " + "c" * 20, limits)) == "a" * 30
    assert next(p.text for p in split("a b " * 8 + "end. " + "c d " * 20, limits)).endswith("end.")
    assert next(p.text for p in split("word " * 30, limits)) == " ".join(["word"] * 12)


def test_a_table_keeps_its_head() -> None:
    text = "Look:\n\n| a | b |\n|---|---|\n" + "| one | two |\n" * 30 + "\nDone."
    pieces = check(text, 120, "codepoints")
    assert len(pieces) > 3
    for piece in pieces[1:-1]:
        assert piece.text.startswith("| a | b |\n|---|---|\n| one | two |")


def test_a_list_that_goes_on_keeps_its_order() -> None:
    text = "1. one\n   - " + "x " * 30 + "\n   - sub two\n2. two\n3. three"
    pieces = check(text, 60, "codepoints")
    assert [line for piece in pieces for line in piece.text.splitlines()][-3:] == ["- sub two", "2. two", "3. three"]


def test_no_link_or_code_span_is_cut_where_there_is_another_place() -> None:
    link = "[the manual of it](https://example.org/a/b)"
    for piece in check(f"some words {link} and `some code here` more " * 20, 100, "codepoints"):
        assert piece.text.count("[the manual of it](") == piece.text.count("](https://example.org/a/b)")
        assert piece.text.count("`") % 2 == 0


def test_the_rest_of_a_line_does_not_become_a_block() -> None:
    text = "one two three four - five 1. six # seven > eight ~~~ nine " * 10
    for piece in check(text, 30, "codepoints"):
        assert len(parse(piece.text).blocks) == 1
        assert type(parse(piece.text).blocks[0]).__name__ == "Paragraph"


@given(text_of, st.integers(12, 200), st.sampled_from(UNITS))
@settings(max_examples=200, deadline=None)
def test_what_is_rendered_fits_too(text: str, limit: int, unit: Unit) -> None:
    measure = length_in(unit)
    fitted = split_rendered(text, Limits(text=limit, unit=unit), html.escape, measure)
    assert all(measure(one.rendered) <= limit for one in fitted)
    assert all(one.rendered == html.escape(one.piece.text) for one in fitted)
    if text.strip():
        assert sources([one.piece for one in fitted]) == (text if text.strip(" \t\r\n") else "")


def test_escapes_cost_few_tries() -> None:
    calls = 0

    def draw(text: str) -> str:
        nonlocal calls
        calls += 1
        return html.escape(text)

    fitted = split_rendered("<&>" * 20_000, Limits(text=4096), draw, len)
    assert all(len(one.rendered) <= 4096 for one in fitted)
    assert calls <= 4 * len(fitted)
    assert len(fitted) <= 90


def test_without_a_limit_there_is_one_part() -> None:
    assert [piece.text for piece in split("a\n" * 10_000, Limits(text=None))] == ["a\n" * 10_000]
    assert split(" \n ", Limits(text=None)) == []
