"""Bodies: where everything stands, and that marks and joins leave the stored texts alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_core.models import anthropic_wire, openai_wire
from agent_core.models.factory import make_model
from agent_core.models.ports import Request, ToolSpec
from agent_core.models.settings import ModelSettings
from agent_core.models.wire import json_text
from state.records import ToolCall

SPEC = ToolSpec(name="t", description="d", parameters='{"type": "object"}')


@given(st.text(st.characters(blacklist_categories=())))
def test_any_text_becomes_one_utf8_json_text(text: str) -> None:
    wire = json_text({"a": text})
    assert wire.encode("utf-8")
    back = json.loads(wire)["a"]
    if not any("\ud800" <= char <= "\udfff" for char in text):
        assert back == text


def test_openai_constants_come_first_and_what_varies_last() -> None:
    request = Request(
        system=openai_wire.system("s"),
        messages=[openai_wire.user("u", ())],
        tools=[openai_wire.tool(SPEC)],
        cache_key="session",
    )
    own = openai_wire.body(request, model="m", stream=True, max_tokens=5, own_endpoint=True).decode()
    assert list(json.loads(own)) == [
        "model",
        "stream",
        "stream_options",
        "tools",
        "messages",
        "max_completion_tokens",
        "prompt_cache_key",
    ]
    other = openai_wire.body(request, model="m", stream=False, max_tokens=5, own_endpoint=False).decode()
    assert list(json.loads(other)) == ["model", "tools", "messages", "max_tokens"]


def test_anthropic_joins_neighbours_and_marks_copies() -> None:
    a, b = (ToolCall(id=f"id.{n}", name="t", arguments='{"n":1}') for n in "ab")
    messages = [
        anthropic_wire.user("go", ()),
        anthropic_wire.assistant("", [a, b]),
        anthropic_wire.tool_result(a, "1"),
        anthropic_wire.tool_result(b, "2"),
        anthropic_wire.user("faster", ()),
    ]
    before = list(messages)
    request = Request(system=anthropic_wire.system("s"), messages=messages, tools=[anthropic_wire.tool(SPEC)] * 2)
    body = json.loads(anthropic_wire.body(request, model="m", stream=True, max_tokens=9))
    assert messages == before
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]
    last = body["messages"][-1]["content"]
    assert [block["type"] for block in last] == ["tool_result", "tool_result", "text"]
    assert [block.get("tool_use_id") for block in last[:2]] == ["id_a", "id_b"]
    mark = {"type": "ephemeral"}
    assert last[-1]["cache_control"] == body["system"][0]["cache_control"] == body["tools"][-1]["cache_control"] == mark
    assert json.dumps(body).count("ephemeral") == 3
    assert list(body) == ["model", "stream", "tools", "system", "messages", "max_tokens"]


@pytest.mark.parametrize("text", ["", " ", "\n"])
def test_anthropic_never_sends_an_empty_text_block(text: str) -> None:
    for wire in (anthropic_wire.system(text or ""), anthropic_wire.user(text, ()), anthropic_wire.assistant(text, ())):
        assert '"text":""' not in wire
        assert '"content":[]' not in wire


def test_a_model_costs_no_sdk_until_it_is_used() -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from agent_core.models.factory import make_model\n"
        "from agent_core.models.settings import ModelSettings\n"
        "for kind in ('openai', 'anthropic', 'embedded', 'scripted'):\n"
        "    make_model(ModelSettings(provider=kind, name='m', api_key='k'), home=Path('/nowhere'))\n"
        "heavy = {'openai', 'anthropic', 'xllamacpp', 'httpx2', 'pydantic'} & set(sys.modules)\n"
        "sys.exit(' '.join(sorted(heavy)) or 0)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stderr


def test_the_key_is_in_no_repr() -> None:
    assert "hush" not in repr(ModelSettings(provider="openai", name="m", api_key="hush"))


def test_a_broken_script_is_named(tmp_path: Path) -> None:
    path = tmp_path / "script.json"
    for text, why in (("{}", "array"), ('[{"txt": 1}]', "txt"), ("[3]", "int"), ("[", "Expecting")):
        path.write_text(text, "utf-8")
        with pytest.raises(ValueError, match=why):
            make_model(ModelSettings(provider="scripted", name="s", script=str(path)), home=tmp_path)
