"""The registry, toolsets, the check of arguments, and what holds for every tool."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_core.tools.factory import default_registry
from agent_core.tools.ports import Rights
from agent_core.tools.registry import Registry
from agent_core.tools.schema import check, unsupported
from agent_core.tools.todo import Todo
from agent_core.tools.toolsets import resolve

ALL = frozenset({"files", "terminal", "web", "todo", "clarify"})
OWNER = Rights(role="owner", tools=ALL)


def _names(tools: object) -> list[str]:
    return [one.spec.name for one in tools]  # type: ignore[attr-defined]


def test_order_is_fixed_and_independent_of_construction() -> None:
    registry = default_registry()
    turned = Registry(list(reversed(list(registry))))
    assert _names(registry.for_rights(OWNER)) == _names(turned.for_rights(OWNER)) == sorted(_names(registry))
    assert _names(registry) == [
        "clarify",
        "list_files",
        "patch_file",
        "read_file",
        "search_files",
        "send_message",
        "terminal",
        "todo",
        "web_fetch",
        "write_file",
    ]


def test_specs_have_fixed_bytes() -> None:
    first, second = default_registry(), default_registry()
    assert [one.spec for one in first] == [one.spec for one in second]


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="todo"):
        Registry([Todo(), Todo()])


def test_rights_decide() -> None:
    registry = default_registry()
    assert _names(registry.for_rights(Rights(role="member", tools=ALL))) == ["clarify", "todo", "web_fetch"]
    assert _names(registry.for_rights(Rights(role="owner", tools=frozenset({"todo"})))) == ["todo"]
    assert registry.for_rights(OWNER, native=False) == ()
    assert not registry.allows("terminal", Rights(role="member", tools=ALL))
    assert not registry.allows("nothing", OWNER)


def test_disabled_by_tool_and_by_group() -> None:
    registry = default_registry()
    left = _names(registry.for_rights(OWNER, disabled=frozenset({"files", "terminal"})))
    assert left == ["clarify", "todo", "web_fetch"]
    assert "write_file" not in _names(registry.for_rights(OWNER, disabled=frozenset({"write_file"})))
    assert registry.get("write_file") is not None
    assert registry.get("no_such_tool") is None


def test_toolsets_nest_and_cycles_are_harmless() -> None:
    sets = {"a": ["b", "x"], "b": ["a", "y"], "self": ["self"], "all": ["a", "z"]}
    assert resolve(["all"], sets) == {"x", "y", "z"}
    assert resolve(["self"], sets) == frozenset()
    assert resolve(["plain"], sets) == {"plain"}


def test_disabled_is_subtracted_last() -> None:
    sets = {"safe": ["todo", "web"], "all": ["safe", "terminal"], "evil": ["terminal", "all"]}
    assert resolve(["all", "evil", "terminal"], sets, disabled=["terminal"]) == {"todo", "web"}
    assert resolve(["all"], sets, disabled=["safe"]) == {"terminal"}
    assert resolve(["files"], default_registry().groups(), disabled=["write_file"]) >= {"read_file"}
    assert "write_file" not in resolve(["files"], default_registry().groups(), disabled=["write_file"])


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.lists(st.sampled_from("abcdefxyz"), max_size=6), max_size=6),
    st.lists(st.sampled_from("abcdefxyz"), max_size=5),
    st.lists(st.sampled_from("abcdefxyz"), max_size=5),
)
def test_nothing_disabled_comes_back(sets: dict[str, list[str]], names: list[str], disabled: list[str]) -> None:
    found = resolve(names, sets, disabled)
    assert not found & resolve(disabled, sets)
    assert found <= resolve(names, sets)


def test_every_tool_keeps_the_port() -> None:
    for tool in default_registry():
        schema = json.loads(tool.spec.parameters)
        assert schema["type"] == "object", tool.spec.name
        assert schema["additionalProperties"] is False, tool.spec.name
        assert not unsupported(tool.spec.parameters), tool.spec.name
        assert tool.group in ALL


REGISTRY = default_registry()


@settings(max_examples=40)
@given(st.dictionaries(st.text(max_size=9), st.none() | st.integers() | st.text() | st.lists(st.text(), max_size=3)))
def test_describe_never_raises_and_is_one_line(arguments: dict[str, object]) -> None:
    for tool in REGISTRY:
        names = json.loads(tool.spec.parameters)["properties"]
        for given_ in (arguments, dict.fromkeys(names, arguments), dict.fromkeys(names, "a\n\u202eb\x1b[31m")):
            told = tool.describe(given_)
            assert told
            assert told.isprintable()
            assert len(told) <= 160


def test_describe_tells_no_secret() -> None:
    registry = default_registry()
    terminal, web = registry.get("terminal"), registry.get("web_fetch")
    assert terminal is not None
    assert web is not None
    for command in (
        "curl -H 'Authorization: Bearer abcdef0123456789' x",
        "API_KEY=abcdef0123456789 run",
        "git clone https://me:abcdef0123456789@example.org/x",
        "echo sk-abcdef0123456789abcdef",
    ):
        assert "abcdef0123456789" not in terminal.describe({"command": command}), command
    assert "hunter2" not in web.describe({"url": "https://a:hunter2@example.org/x?key=hunter2#hunter2"})


SCHEMA = (
    '{"type":"object","properties":{"n":{"type":"integer","minimum":1,"maximum":5},"s":{"type":"string","minLength":1,'
    '"maxLength":3},"e":{"type":"string","enum":["a","b"]},"l":{"type":"array","maxItems":2,"minItems":1,"items":'
    '{"type":"object","properties":{"x":{"type":"number"}},"required":["x"],"additionalProperties":false}},'
    '"o":{"type":["string","null"]},"b":{"type":"boolean"}},"required":["n"],"additionalProperties":false}'
)


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({"n": 1}, None),
        ({"n": 5, "s": "abc", "e": "b", "l": [{"x": 1.5}], "o": None, "b": True}, None),
        ([], "the arguments must be an object"),
        ({}, "the arguments must have 'n'"),
        ({"n": True}, "n must be a whole number"),
        ({"n": 1.0}, "n must be a whole number"),
        ({"n": "1"}, "n must be a whole number"),
        ({"n": 0}, "n must be at least 1"),
        ({"n": 6}, "n must be at most 5"),
        ({"n": 1, "s": ""}, "s must not be empty"),
        ({"n": 1, "s": "abcd"}, "s is longer than 3 characters"),
        ({"n": 1, "s": "\ud800"}, "s holds half of a surrogate pair, which is no text"),
        ({"n": 1, "e": "c"}, 'e must be one of "a", "b"'),
        ({"n": 1, "l": []}, "l must hold at least 1 entries"),
        ({"n": 1, "l": [{"x": 1}] * 3}, "l must hold at most 2 entries"),
        ({"n": 1, "l": [{"x": 1}, {"x": "1"}]}, "l[1].x must be a number"),
        ({"n": 1, "l": [{"x": float("nan")}]}, "l[0].x must be a number"),
        ({"n": 1, "l": [{}]}, "l[0] must have 'x'"),
        ({"n": 1, "o": 3}, "o must be a text or null"),
        ({"n": 1, "b": 1}, "b must be true or false"),
        ({"n": 1, "zz": 1}, "the arguments must not have 'zz' (known: b, e, l, n, o, s)"),
    ],
)
def test_check_names_the_fault(arguments: object, fault: str | None) -> None:
    assert check(arguments, SCHEMA) == fault


def test_check_tells_no_value() -> None:
    assert "hunter2" not in str(check({"n": "hunter2", "e": "hunter2"}, SCHEMA))
    assert unsupported('{"type":"object","oneOf":[],"properties":{"a":{"pattern":"x"}}}') == {"oneOf", "pattern"}
