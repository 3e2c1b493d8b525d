"""Neutral markdown as Slack's mrkdwn, and back; the limits of its messages."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.errors import Rejected
from adapters.events import Attachment, Button, Buttons, Markdown, Media, RenderedChunk
from adapters.limits import length_in
from adapters.slack.mrkdwn import escape, mentions, mrkdwn, readable, unescape, without_leading_mention
from adapters.slack.render import LIMITS, SlackRenderer, button_of, read_post

utf16 = length_in("utf16")


def payload(chunk: RenderedChunk) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(chunk.payload)
    return data


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("**bold** *it* ~~gone~~ `code`", "*bold* _it_ ~gone~ `code`"),
        ("# Title\n\nbody", "*Title*\n\nbody"),
        ("# A **B** C", "*A B C*"),
        ("***both***", "_*both*_"),
        ("- a\n  - b\n    - c\n- d", "• a\n    ◦ b\n        ▪ c\n• d"),
        ("3. x\n4. y", "3. x\n4. y"),
        ("> one\n> two", "> one\n> two"),
        ("```py\nx < 1\n```", "```\nx &lt; 1\n```"),
        ("a<b && c>d", "a&lt;b &amp;&amp; c&gt;d"),
        ("a**b**c", "a\u200b*b*\u200bc"),
        ("**two\nlines**", "*two*\n*lines*"),
        ("``a`b``", "a`b"),
        ("![pic](https://x.test/a.png)", "<https://x.test/a.png|pic>"),
        ("a\n\n---\n\nb", "a\n\n———\n\nb"),
        ("| a | long |\n|---|---|\n| 1 | 2 |", "```\na | long\n--+-----\n1 | 2\n```"),
        ("- x\n\n  ```\n  y\n  ```", "• x\n\n    ```\n    y\n    ```"),
    ],
)
def test_markdown_becomes_mrkdwn(markdown: str, expected: str) -> None:
    assert mrkdwn(markdown) == expected


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("[docs > setup](https://x.test/a?b=1&c=2)", "<https://x.test/a?b=1&amp;c=2|docs &gt; setup>"),
        ("<https://x.test|here>", "<https://x.test|here>"),
        ("see <https://x.test|over here>", "see <https://x.test|over here>"),
        ("**<https://x.test/1>**", "*<https://x.test/1>*"),
        ("**[a|b](https://x.test)**", "*<https://x.test|a|b>*"),
        ("[**b**](https://x.test)", "<https://x.test|b>"),
        ("[a](https://x.test/a|b>c)", "<https://x.test/a%7Cb%3Ec|a>"),
        ("&lt;b&gt; &amp;", "&lt;b&gt; &amp;"),
    ],
)
def test_B38_labels_and_addresses_are_escaped_once(markdown: str, expected: str) -> None:
    assert mrkdwn(markdown) == expected


@pytest.mark.parametrize(
    "text",
    ["<!channel>", "<!here|here>", "<!everyone>", "<@U012AB>", "<!subteam^S1>", "<#C1>", "[x](!channel)",
     "[x](@U012AB)", "<!date^1^{date}|x>", "`<!here>`", "```\n<!channel>\n```", "[<!here>](https://x.test)",
     "| <!here> |\n|---|", "![<@U1>](!here)", "# <!channel>", "[a](#C1)", "<https://x.test|<!here>>"],
)  # fmt: skip
def test_no_text_of_the_model_pings(text: str) -> None:
    for chunk in SlackRenderer().render([Markdown(text=text)]):
        for shown in (read_post(chunk).text, read_post(RenderedChunk(payload="", plain=chunk.plain)).text):
            for token in ("<!", "<@", "<#"):
                assert token not in shown, shown


@pytest.mark.parametrize(
    "text",
    ["file_name is a_b", "**antique_identifier** and a lone *", "a < b && c", "[x](", "`unclosed",
     "1. item (x) #1 + = | { } . !"],
)  # fmt: skip
def test_B36_the_words_are_always_there(text: str) -> None:
    (chunk,) = SlackRenderer().render([Markdown(text=text)])
    shown = unescape(read_post(chunk).text).replace("*", "").replace("_", "").replace("`", "")
    for word in text.replace("*", " ").replace("_", " ").replace("`", " ").split():
        for part in word.split("_"):
            assert part in shown


@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_B35_as_few_messages_as_the_limit_allows(extra: int) -> None:
    text = "x" * (4000 + extra)
    chunks = SlackRenderer().render([Markdown(text=text)])
    assert len(chunks) == (1 if extra <= 0 else 2)
    assert "".join(chunk.plain for chunk in chunks) == text
    assert all(utf16(read_post(chunk).text) <= 4000 for chunk in chunks)


@given(text=st.text(alphabet="ab <>&*_`~|#\n-[]()!@😀", max_size=6000))
@settings(max_examples=40, deadline=None)
def test_no_message_is_longer_than_slack_takes(text: str) -> None:
    for chunk in SlackRenderer().render([Markdown(text=text)]):
        assert utf16(read_post(chunk).text) <= 4000
        assert utf16(chunk.plain) <= 4000


def test_B35_a_section_below_buttons_takes_three_thousand() -> None:
    buttons = Buttons(
        buttons=(Button(id="a1", label="Approve", value="yes"), Button(id="a1", label="Deny", value="no"))
    )
    (chunk,) = SlackRenderer().render([Markdown(text="word " * 700), buttons])
    post = read_post(chunk)
    *sections, actions = post.blocks
    assert len(sections) == 2
    assert all(utf16(one["text"]["text"]) <= 3000 for one in sections)
    assert [one["action_id"] for one in actions["elements"]] == ["0|a1", "1|a1"]
    assert [button_of(one["action_id"]) for one in actions["elements"]] == ["a1", "a1"]
    assert post.text.startswith("word")
    assert "1. Approve" in chunk.plain or utf16(chunk.plain) > 3400


def test_a_code_block_is_whole_in_every_section() -> None:
    text = "```py\n" + "line = 1  # something\n" * 160 + "```"
    (chunk,) = SlackRenderer().render([Markdown(text=text), Buttons(buttons=(Button(id="a", label="Go", value="1"),))])
    for section in read_post(chunk).blocks[:-1]:
        assert section["text"]["text"].count("```") == 2


def test_buttons_that_slack_does_not_take_become_lines() -> None:
    long = Buttons(buttons=(Button(id="i" * 300, label="Yes", value="1"),))
    (chunk,) = SlackRenderer().render([Markdown(text="Really?"), long])
    assert read_post(chunk).blocks == ()
    assert "1. Yes" in read_post(chunk).text
    wide = Button(id="a", label="L" * 200, value="1")
    (chunk,) = SlackRenderer().render([Buttons(buttons=(wide,))])
    assert utf16(read_post(chunk).blocks[-1]["elements"][0]["text"]["text"]) <= 75


def test_buttons_below_a_file_are_a_message_of_their_own() -> None:
    media = Media(attachment=Attachment(kind="image", name="a.png", mime="image/png", size=3, path="/x/a.png"))
    button = Buttons(buttons=(Button(id="a", label="Keep", value="1"),))
    first, second = SlackRenderer().render([media, button])
    assert read_post(first).media == media.attachment
    assert read_post(second).blocks[-1]["type"] == "actions"
    assert "Keep" in read_post(second).text


def test_plain_words_are_escaped_and_without_markup() -> None:
    post = read_post(RenderedChunk(payload="", plain="only * <!here> & words_"))
    assert post.text == "only * &lt;!here&gt; &amp; words_"
    assert not post.markup
    with pytest.raises(Rejected):
        read_post(RenderedChunk(payload="[1]", plain=""))


def test_the_limit_is_one_for_posts_and_edits() -> None:
    assert (LIMITS.text, LIMITS.unit) == (4000, "utf16")


def test_what_people_write_is_readable() -> None:
    names = {"U1": "Ann"}
    raw = (
        "<@U1> <@U2|bob> <#C1|general> <https://a.test?b=1&amp;c=2|the page> "
        "<https://a.test> <!here> <!subteam^S1|@ops>"
    )
    assert readable(raw, names.get) == (
        "@Ann @bob #general the page (https://a.test?b=1&c=2) https://a.test @here @ops"
    )  # fmt: skip
    assert readable("<mailto:a@b.test|a@b.test> <!date^1^{date}|1 May>", names.get) == "a@b.test 1 May"
    assert readable("&lt;@U1&gt; &amp;lt;", names.get) == "<@U1> &lt;"
    assert readable("<http://x.test|x.test> a < b", names.get) == "x.test a < b"


def test_B43_only_a_real_mention_counts() -> None:
    assert mentions("hi <@UBOT>", "UBOT")
    assert mentions("hi <@UBOT|tidings>", "UBOT")
    for text in ("write to foo@tidings.example", "@tidings hi", "&lt;@UBOT&gt;", "<@UBOTX> hi", "the UBOT log"):
        assert not mentions(text, "UBOT"), text
    assert without_leading_mention("  <@UBOT>: /status", "UBOT") == "/status"
    assert without_leading_mention("ask <@UBOT> now", "UBOT") == "ask <@UBOT> now"


@given(text=st.text(max_size=200))
def test_escaping_can_be_undone(text: str) -> None:
    kept = "".join(ch for ch in text if ch in "\n\t" or (ord(ch) > 31 and ord(ch) != 127))
    assert unescape(escape(text)) == kept
