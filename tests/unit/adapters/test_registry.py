"""Platforms by name: nothing heavy is imported to know them or to render for them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from adapters import registry
from adapters.errors import Rejected
from adapters.events import Attachment, Button, Buttons, Markdown, Media, RenderedChunk
from adapters.limits import Limits
from adapters.render import PlainRenderer, read_said


def test_every_manifest_names_what_is_there() -> None:
    for name, manifest in registry.manifests().items():
        assert manifest.name == name
        for path in (manifest.settings, manifest.adapter, manifest.renderer):
            if path is not None:
                assert callable(registry.load(path))


def test_a_renderer_is_made_once_and_an_unknown_platform_is_told() -> None:
    assert registry.renderer_for("terminal") is registry.renderer_for("terminal")
    assert registry.renderer_for("terminal").limits.text is None
    with pytest.raises(KeyError):
        registry.renderer_for("carrier-pigeon")


def test_knowing_the_platforms_imports_none_of_them() -> None:
    program = (
        "import sys; from adapters import registry; registry.manifests(); registry.renderer_for('terminal');"
        "registry.renderer_for('memory');"
        "heavy = {'rich', 'prompt_toolkit', 'markdown_it', 'regex', 'aiohttp', 'pydantic', 'telegram', 'discord'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout == "[]\n"


YES = Button(id="b1", label="Yes", value="yes")
NO = Button(id="b2", label="No", value="no")
FILE = Attachment(kind="image", name="a.png", mime="image/png", size=3, path="/x/a.png")


def test_blocks_become_messages() -> None:
    renderer = PlainRenderer(Limits(text=40))
    chunks = renderer.render(
        [
            Markdown(text="one"),
            Markdown(text="**two**"),
            Buttons(buttons=(YES, NO)),
            Media(attachment=FILE),
            Markdown(text=" \n"),
            Markdown(text="```py\nopen"),
            Markdown(text="x " * 30),
        ]
    )
    said = [read_said(chunk) for chunk in chunks]
    assert said[0].text == "one\n\n**two**"
    assert said[0].buttons == (YES, NO)
    assert chunks[0].plain == "one\n\ntwo\n\n1. Yes\n2. No"
    assert said[1].media == FILE
    assert chunks[1].plain == "[file: a.png]"
    assert said[2].text.startswith("```py\nopen\n```")
    assert all(len(one.text) <= 40 for one in said)
    assert all(len(chunk.plain) <= 40 for chunk in chunks)


def test_buttons_alone_are_a_message() -> None:
    (chunk,) = PlainRenderer(Limits(text=None)).render([Buttons(buttons=(YES, NO))])
    assert chunk.plain == "1. Yes\n2. No"
    assert read_said(chunk).buttons == (YES, NO)


def test_a_chunk_without_a_payload_is_its_plain_text() -> None:
    assert read_said(RenderedChunk(payload="", plain="words")).text == "words"


@pytest.mark.parametrize("payload", ["{", "[]", "{}", '{"text":"x","buttons":[1]}', '{"text":"x","media":{}}', "null"])
def test_a_payload_of_others_is_refused(payload: str) -> None:
    with pytest.raises(Rejected):
        read_said(RenderedChunk(payload=payload, plain=""))


@pytest.mark.parametrize("name", [name for name, one in registry.manifests().items() if one.setup is not None])
def test_a_setup_is_an_object_with_questions(name: str) -> None:
    path = registry.manifests()[name].setup
    assert path is not None
    setup = registry.load(path)
    keys = [question.key for question in setup.questions]
    assert keys
    assert len(set(keys)) == len(keys)
    assert setup.intro
