"""Discord's markdown: what was meant is shown, what was not meant stands for itself."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.discord.custom import LONGEST, custom_id, read_custom_id
from adapters.discord.markup import draw, escape, width
from adapters.discord.render import LIMITS, DiscordRenderer, button_rows, read_chunk
from adapters.errors import Rejected
from adapters.events import Attachment, Button, Buttons, Markdown, Media, RenderedChunk
from adapters.limits import length_in

MARKUP = [
    ("file_name is a_b", r"file\_name is a\_b"),
    ("**antique_identifier** and a lone *", r"**antique\_identifier** and a lone \*"),
    ("a < b && c", r"a \< b && c"),
    ("[x](", r"\[x\]("),
    ("`unclosed", r"\`unclosed"),
    ("# One\n\n## Two\n\n#### Four", "# One\n\n## Two\n\n**Four**"),
    ("\\# no\n\n\\- no\n\n\\> no\n\n1\\. no\n\n-# no", "\\# no\n\n\\- no\n\n\\> no\n\n1\\. no\n\n\\-# no"),
    ("*a* **b** ***c*** ~~d~~", "*a* **b** _**c**_ ~~d~~"),
    ("*a **b** c*", "_a **b** c_"),
    ("`a_b` and ``a`b``", "`a_b` and ``a`b``"),
    ("```py\nx = 1\n```", "```py\nx = 1\n```"),
    ("```not a language!\nx\n```", "```not\nx\n```"),
    ("- a\n  - b\n    1. c\n- d", "- a\n  - b\n    1. c\n- d"),
    ("- a\n  ```\n  if x:\n    y\n  ```\n- b", "- a\n```\nif x:\n  y\n```\n- b"),
    ("> a\n> > b\n>\n> ```\n> > code\n> ```", "> a\n> \n> b\n> \n> ```\n> > code\n> ```"),
    ("---", "──────────"),
    ("[label](https://a.example/x_(1))", "[label](<https://a.example/x_%281%29>)"),
    ("<https://a.example/a_b>", "<https://a.example/a_b>"),
    ("see https://a.example/a_b.", "see <https://a.example/a_b>."),
    ("[https://good.example](https://bad.example)", "<https://good.example>"),
    ("[x](mailto:a@b.example)", "x (mailto:a@b.example)"),
    ("[x](javascript:alert)", r"\[x\](javascript:alert)"),
    ("![a cat](https://a.example/c.png)", "[a cat](<https://a.example/c.png>)"),
    ("the ||end|| but a || b || c", r"the ||end|| but a \|\| b \|\| c"),
    ("<@1> <@&2> <#3> <:x:4> <t:5>", r"\<@1> \<@&2> \<#3> \<:x:4> \<t:5>"),
]


@pytest.mark.parametrize(("text", "drawn"), MARKUP, ids=range(len(MARKUP)))
def test_markup(text: str, drawn: str) -> None:
    found = draw(text)
    if "bad.example" in text:
        assert found.endswith("<https://bad.example>")  # a label that is an address must not hide another one
    else:
        assert found == drawn


def test_tables_are_aligned() -> None:
    assert draw("| a | number |\n|---|---:|\n| 中文 | 1 |\n| x | 22 |") == (
        "```\na     number\n────  ──────\n中文       1\nx         22\n```"
    )
    assert width("e\u0301中") == 3


def test_links_have_previews_where_they_are_wanted() -> None:
    assert draw("[a](https://a.example) https://b.example", link_previews=True) == (
        "[a](https://a.example) https://b.example"
    )


def test_code_cannot_leave_its_fence() -> None:
    drawn = draw("~~~\na ``` b\n~~~")
    assert drawn.count("```") == 2
    assert "\n" not in draw("```` a ``` b ````").replace("`", "")


@given(st.text(st.sampled_from("ab _*~`|[]()<>#-.1\n\\:@!"), max_size=60))
def test_words_survive_and_no_mention_is_made(text: str) -> None:
    drawn = draw(text)
    assert sorted(re.findall("[ab]", drawn)) == sorted(re.findall("[ab]", text)) or "```" in drawn or "`" in text
    assert not re.search(r"(?<!\\)<[@#]", re.sub(r"`+[^`]*`+|<[^<>]*>", "", drawn))


@given(st.text(max_size=100))
def test_escaping_never_fails(text: str) -> None:
    assert len(escape(text)) >= len(text)


@given(st.text(max_size=80), st.text(max_size=80))
def test_a_buttons_id_comes_back_or_is_no_button(identity: str, value: str) -> None:
    made = custom_id(identity, value)
    if made is None:
        assert len(identity) + len(value) > LONGEST - 10
    else:
        assert len(made) <= LONGEST
        assert read_custom_id(made) == (identity, value)


@pytest.mark.parametrize("text", ["", "x", "t1:", "t1:9:ab", "t1:-1:a", "t1:²:ab", "other:1:ab"])
def test_presses_of_others_are_not_ours(text: str) -> None:
    assert read_custom_id(text) is None


def test_buttons_stand_in_rows_and_what_does_not_fit_can_be_read() -> None:
    many = [Button(id=f"b{number}", label=f"L{number}" * 60, value="v") for number in range(27)]
    rows, rest = button_rows(many)
    assert [len(row["components"]) for row in rows] == [5] * 5
    assert len(rest) == 2
    assert all(len(one["label"]) <= 80 for row in rows for one in row["components"])
    long = Button(id="b" * 90, label="Long", value="x" * 90)
    (chunk,) = DiscordRenderer().render([Markdown(text="Which?"), Buttons(buttons=(long,))])
    assert json.loads(chunk.payload) == {"content": "Which?\n\n1\\. Long"}
    (alone,) = DiscordRenderer().render([Buttons(buttons=(Button(id="a", label="Yes", value="y"),))])
    assert json.loads(alone.payload)["content"]


def test_a_file_is_a_message_of_its_own() -> None:
    media = Media(attachment=Attachment(kind="image", name="a.png", mime="image/png", path="/x/a.png"))
    before, file, after = DiscordRenderer().render([Markdown(text="Look"), media, Markdown(text="there")])
    assert read_chunk(file)[2] == media.attachment
    assert (read_chunk(before)[0], read_chunk(after)[0]) == ("Look", "there")


@pytest.mark.parametrize("payload", ["{", "[]", "{}", "null", '{"content":"x","file":{}}'])
def test_a_payload_of_others_is_refused(payload: str) -> None:
    with pytest.raises(Rejected):
        read_chunk(RenderedChunk(payload=payload, plain=""))


@pytest.mark.parametrize("text", ["*_" * 2000, "😀" * 1500, "```\n" + "x_y\n" * 900 + "```", "a " * 3000])
def test_every_message_keeps_the_limit(text: str) -> None:
    for chunk in DiscordRenderer().render([Markdown(text=text)]):
        assert length_in(LIMITS.unit)(read_chunk(chunk)[0]) <= 2000
