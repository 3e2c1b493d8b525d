"""The configuration: what it takes, what it refuses, and in which words."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from adapters import registry
from gateway import config as reading
from gateway.config import Config, ConfigError, default_path, load, load_settled
from gateway.config_build import SECTIONS, schema
from gateway.config_platforms import platform_settings
from gateway.config_yaml import parse

EXAMPLE = Path(__file__).parents[3] / "config.example.yaml"

Load = Callable[..., Config]


@pytest.fixture
def given(tmp_path: Path) -> Load:
    """Loads a text as the configuration."""

    def run(text: str, environ: Mapping[str, str] | None = None) -> Config:
        file = tmp_path / "config.yaml"
        file.write_text(text, encoding="utf-8")
        return load(file, environ={"HOME": str(tmp_path), **(environ or {})})

    return run


def refused(given: Load, text: str, environ: Mapping[str, str] | None = None) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        given(text, environ)
    return caught.value.lines()


def keys(tree: Mapping[str, Any], at: str = "") -> set[str]:
    found = set()
    for name, inner in tree.items():
        found.add(f"{at}{name}")
        if isinstance(inner, dict):
            found |= keys(inner, f"{at}{name}.")
    return found


def test_the_example_has_every_key_and_no_other() -> None:
    document, faults = parse(EXAMPLE.read_text(encoding="utf-8"))
    assert not faults
    free = ("models.", "chat.chats.", "platforms.http.keys.")
    assert {key for key in keys(document.tree) if not key.startswith(free)} == keys(schema())


def test_the_example_is_what_holds_without_it(given: Load, tmp_path: Path) -> None:
    example = load(EXAMPLE, environ={"HOME": str(tmp_path)})
    nothing = given("")
    assert example.home == nothing.home == tmp_path / ".tidings"
    assert example.enabled() == ()
    for name in ("log", "model", "fallbacks", "models", "access", "chat", "tools", "limits", "memory", "platforms"):
        assert getattr(example, name) == getattr(nothing, name), name


def test_every_setting_is_documented() -> None:
    for model in (*SECTIONS.values(), *platform_settings().values()):
        assert (model.__doc__ or "").strip()
        for name, field in model.model_fields.items():
            assert field.description, f"{model.__name__}.{name}"


def test_the_config_of_the_readme_is_taken_with_bare_references_in_braces(given: Load) -> None:
    config = given(
        """
model: {provider: openai, base_url: http://127.0.0.1:9000/v1, api_key: ${MODEL_API_KEY}, name: some-model}
platforms:
  telegram: {enabled: false, token: ${TELEGRAM_BOT_TOKEN}, allow: ["1001"]}
  http: {enabled: true, port: 0, key: ${TIDINGS_HTTP_KEY}}
""",
        {"MODEL_API_KEY": "k-1234567", "TIDINGS_HTTP_KEY": "h" * 32},
    )
    assert config.model.api_key == "k-1234567"
    assert config.enabled() == ("http",)
    assert config.secrets == {"k-1234567", "h" * 32}
    assert config.platforms["telegram"].model_dump()["allow"] == ("1001",)


def test_all_faults_are_told_at_once_with_path_and_line(given: Load) -> None:
    lines = refused(
        given,
        """
log: {level: loud}
level: debug
access:
  paring: true
  owners: "telegram:1001"
platforms:
  http:
    enabled: true
    port: 99999
    key: ${TIDINGS_HTTP_KEY}
""",
    )
    assert lines == [
        "config.yaml:2: log.level: must be one of debug, info, warning or error",
        "config.yaml:3: level: unknown key; it belongs to log.level",
        "config.yaml:5: access.paring: unknown key; did you mean pairing?",
        "config.yaml:6: access.owners: must be a list: write [telegram:1001], not telegram:1001",
        "config.yaml:10: platforms.http.port: must be at most 65535",
        "config.yaml:11: platforms.http.key: the environment variable TIDINGS_HTTP_KEY is not set",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1", "this is no valid YAML"),
        ("- 1", "config.yaml:1: the file must be a mapping"),
        ("log: 5", "config.yaml:1: log: must be a group of keys"),
        ("platforms: [http]", "config.yaml:1: platforms: must be a group of platforms"),
        ("models: [a]", "config.yaml:1: models: must be a group of named models"),
        ("platforms: {irc: {}}", "config.yaml:1: platforms.irc: unknown key"),
        ("log:\n  level: info\n  level: debug", "config.yaml:3: log.level: this key stands twice (first on line 2)"),
        ("home: 5", "config.yaml:1: home: must be a folder"),
        ("model: {provider: openai, name: <model>}", "config.yaml:1: model.name: '<model>' is a placeholder"),
        ("model: {provider: openai}", "config.yaml:1: model: the provider openai needs the name of a model"),
        ("model: {fallbacks: [big]}", "config.yaml:1: model.fallbacks[0]: 'big' stands not under `models`"),
        ("model: {base_url: nowhere}", "config.yaml:1: model.base_url: must have the form ^https?://"),
        ("platforms: {http: {host: ''}}", "config.yaml:1: platforms.http.host: must not be empty"),
        ("tools: {owners: [shell]}", "config.yaml:1: tools.owners: 'shell' is no group of tools"),
        ("log: {level: !!python/name:os.system x}", "this kind of value is not understood"),
        ("limits: {drain_seconds: .nan}", "config.yaml:1: limits.drain_seconds: this kind of value"),
        ("access: {pairing: maybe}", "config.yaml:1: access.pairing: must be true or false"),
        ("chat: {chats: {nowhere: {busy: steer}}}", 'config.yaml:1: chat.chats.nowhere: must be "platform:chat id"'),
        ("a: &x [*x]", "nested too deeply"),
        ("home: \x01", "this is no valid YAML"),
    ],
)
def test_a_fault_names_its_place(given: Load, text: str, message: str) -> None:
    assert any(message in line for line in refused(given, text)), refused(given, text)


@pytest.mark.parametrize(
    ("allow", "message"),
    [
        ("'1001'", 'must be a list of ids: write ["1001"], not 1001'),
        ("null", "must be a list of ids; write [] for nobody"),
        ("{a: 1}", "must be a list of ids"),
        ("['']", "entry 1 (''): an id must not be empty"),
        ("['  ']", "entry 1 (''): an id must not be empty"),
        ("['@bob']", "this is a display name"),
        ("[1001, bob]", "entry 2 ('bob'): a person's id on Telegram is a number"),
        ("['10 01']", "an id has no blanks inside"),
        ("[0123]", "entry 1 ('0123'): a person's id on Telegram is a number"),
        ("[1.5]", "entry 1 must be an id in quotes"),
        ("[true]", "entry 1 must be an id in quotes"),
        ("[[1]]", "entry 1 must be an id in quotes"),
    ],
)
def test_B95_a_malformed_allow_list_refuses_to_start(given: Load, allow: str, message: str) -> None:
    (line,) = refused(given, f"platforms:\n  telegram:\n    allow: {allow}\n")
    assert line.startswith("config.yaml:3: platforms.telegram.allow: ")
    assert message in line


def test_B95_numbers_quotes_and_blanks_around_are_one_id(given: Load) -> None:
    config = given("platforms: {telegram: {allow: [1001, '1001', ' 1002 ']}}")
    assert config.platforms["telegram"].model_dump()["allow"] == ("1001", "1002")


def test_B95_a_key_at_the_wrong_level_is_refused_and_its_place_named(given: Load) -> None:
    assert refused(given, "owners: ['telegram:1001']") == [
        "config.yaml:1: owners: unknown key; it belongs to access.owners or tools.owners"
    ]
    assert refused(given, "access: {allow_all_users: true}") == ["config.yaml:1: access.allow_all_users: unknown key"]


def test_B95_the_environment_counts_only_where_the_file_refers_to_it(given: Load, tmp_path: Path) -> None:
    config = given("log: {level: error}\nhome: here", {"TIDINGS_LOG_LEVEL": "debug", "ALLOW_ALL": "1"})
    assert config.log.level == "error"
    assert config.home == tmp_path / "here"


def test_B95_origin_and_effective_value_are_shown_and_secrets_are_not(given: Load, tmp_path: Path) -> None:
    config = given(
        "log:\n  level: error\nmodel: {provider: openai, name: m, api_key: '${KEY}'}\n"
        "platforms: {telegram: {token: '${NOT_SET}'}}",
        {"KEY": "very-secret-key", "TIDINGS_HOME": str(tmp_path / "elsewhere")},
    )
    shown = {value.where: (value.shown, value.origin) for value in config.values}
    assert shown["log.level"] == ('"error"', "config.yaml:2")
    assert shown["log.format"] == ('"json"', "default")
    assert shown["model.api_key"] == ("********", "config.yaml:3 ${KEY}")
    assert shown["home"] == (str(tmp_path / "elsewhere"), "TIDINGS_HOME")
    assert shown["platforms.telegram.token"][0] == "(not looked up: not in use)"
    assert "very-secret-key" not in str(config.values) + repr(config)


def test_the_file_and_the_environment_disagree_about_home(given: Load, tmp_path: Path) -> None:
    config = given("home: /somewhere", {"TIDINGS_HOME": str(tmp_path / "env")})
    assert config.home == tmp_path / "env"
    assert any("TIDINGS_HOME" in warning for warning in config.warnings)


def test_the_default_place(tmp_path: Path) -> None:
    assert default_path({"HOME": "/h"}) == Path("/h/.tidings/config.yaml")
    assert default_path({"HOME": "/h", "TIDINGS_HOME": "/t"}) == Path("/t/config.yaml")
    with pytest.raises(ConfigError, match="tidings config init"):
        load(None, environ={"TIDINGS_HOME": str(tmp_path)})
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path, environ={})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("plain-text-secret", "must not stand in the configuration as plain text; write ${VARIABLE} or file:/path"),
        ("change-me", "is a placeholder"),
        ("${EMPTY}", "the environment variable EMPTY is empty"),
        ("${LEFT}", "the environment variable LEFT holds a placeholder"),
        ("${LINES}", "holds line breaks"),
        ("file:/does/not/exist", "cannot be read: No such file"),
        ("12345", "must not stand in the configuration as plain text"),
    ],
)
def test_a_secret_is_a_reference_that_resolves(given: Load, value: str, message: str) -> None:
    environ = {"EMPTY": " ", "LEFT": "changeme", "LINES": "a\nb"}
    lines = refused(given, f"model: {{provider: openai, name: m, api_key: '{value}'}}", environ)
    assert len(lines) == 1
    assert message in lines[0]
    assert lines[0].startswith("config.yaml:1: model.api_key: ")
    if value == "plain-text-secret":
        assert value not in lines[0]


def test_a_secret_from_a_file(given: Load, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("0123456789abcdef\n")
    (tmp_path / "key").chmod(0o600)
    text = "platforms: {http: {enabled: true, key: 'file:key'}}"
    config = given(text)
    assert config.secrets == {"0123456789abcdef"}
    assert config.warnings == ()
    (tmp_path / "key").chmod(0o644)
    assert any("chmod 600" in warning for warning in given(text).warnings)


def test_secrets_of_platforms_that_are_off_are_not_asked_for_but_checked_for_form(given: Load) -> None:
    assert given("platforms: {discord: {token: '${NOT_SET}'}, slack: {bot_token: 'file:/nowhere'}}").enabled() == ()
    (line,) = refused(given, "platforms: {discord: {token: abcdefgh}}")
    assert "plain text" in line


def test_a_platform_without_its_adapter_cannot_be_switched_on(given: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    known = dict(registry.manifests())
    known["slack"] = dataclasses.replace(known["slack"], adapter=None)
    monkeypatch.setattr(registry, "manifests", lambda: known)
    text = "platforms: {slack: {enabled: true, bot_token: '${A}', app_token: '${A}'}}"
    (line,) = refused(given, text, {"A": "a1" * 9})
    assert "platforms.slack.enabled: this version of Tidings cannot connect to slack yet" in line


def test_an_enabled_platform_needs_its_secret(given: Load) -> None:
    (line,) = refused(given, "platforms: {http: {enabled: true}}")
    assert line.startswith("config.yaml:1: platforms.http.key: is needed while the platform is on")


def test_a_further_model_without_its_key_is_no_fault_unless_it_is_a_fallback(given: Load) -> None:
    models = "models: {big: {provider: openai, name: b, api_key: '${BIG}'}, small: {provider: embedded}}"
    config = given(models)
    assert set(config.models) == {"small"}
    assert config.unusable_models == {"big": "the environment variable BIG is not set"}
    (line,) = refused(given, models + "\nmodel: {fallbacks: [big]}")
    assert "models.big.api_key: the environment variable BIG is not set" in line
    full = given(models + "\nmodel: {fallbacks: [big]}", {"BIG": "b" * 10})
    assert full.fallbacks == ("big",)
    assert full.models["big"].api_key == "b" * 10


@pytest.mark.parametrize("owner", ["1001", "telegram:", "telegram:@bob", "irc:1", "telegram: 1", "slack:1001"])
def test_owners_are_platform_and_stable_id(given: Load, owner: str) -> None:
    (line,) = refused(given, f"access: {{owners: ['http:default', '{owner}']}}")
    assert line.startswith("config.yaml:1: access.owners[1]: ")


def test_everybody_is_allowed_aloud(given: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.config_build.missing_adapter", lambda _name: None)
    text = "platforms: {telegram: {enabled: true, token: '${T}', allow: ['*']}}"
    config = given(text, {"T": "1:abcdefgh"})
    assert config.enabled() == ("telegram",)
    assert any("everybody" in warning for warning in config.warnings)


def test_words_that_yaml_used_to_turn_into_something_else_stay_words(given: Load) -> None:
    document, faults = parse("a: no\nb: 12:30\nc: 1_000\nd: 2024-01-01\ne: 0x1F\nf: 1e3\ng: -5\nh: ~\ni: yes")
    assert not faults
    assert document.tree == {
        "a": "no", "b": "12:30", "c": "1_000", "d": "2024-01-01", "e": "0x1F", "f": 1000.0, "g": -5, "h": None,
        "i": "yes",
    }  # fmt: skip
    assert given("access: {pairing: no}").access.pairing is False


def test_a_large_file_is_read_in_linear_time(given: Load) -> None:
    text = "chat:\n  chats:\n" + "".join(f'    "telegram:{n}": {{busy: steer}}\n' for n in range(3000))
    before = time.process_time()
    assert len(given(text).chat.chats) == 3000
    assert time.process_time() - before < 5


class Writer:
    """Somebody who writes the file while it is read: each pause of the reader is one step of the writer."""

    def __init__(self, file: Path, steps: list[str]) -> None:
        self.file = file
        self.steps = steps

    def sleep(self, seconds: float) -> None:
        assert seconds == reading.SETTLE_SECONDS
        if self.steps:
            self.file.write_text(self.steps.pop(0), encoding="utf-8")


def settled(monkeypatch: pytest.MonkeyPatch, folder: Path, first: str, *steps: str) -> Config:
    file = folder / "config.yaml"
    file.write_text(first, encoding="utf-8")
    monkeypatch.setattr(reading.time, "sleep", Writer(file, list(steps)).sleep)
    return load_settled(file, environ={"HOME": str(folder)})


def test_a_file_that_is_being_written_counts_once_it_holds_still(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    whole = "log: {level: error}\nchat: {busy: steer}\n"
    config = settled(monkeypatch, tmp_path, "", "", "log: {level: error}\n", whole, whole)
    assert (config.log.level, config.chat.busy) == ("error", "steer"), "not the half of it"


def test_an_emptied_file_puts_no_defaults_in_the_place_of_what_is_in_force(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="is empty"):
        settled(monkeypatch, tmp_path, "\n")
    with pytest.raises(ConfigError, match="being written all the time"):
        settled(monkeypatch, tmp_path, "a: 0", *[f"a: {number}" for number in range(1, 50)])
