"""`tidings setup`: what is asked is checked, and written without touching the rest of the file."""

from __future__ import annotations

import errno
import json
import re
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters import registry
from adapters.errors import AuthFailed, NotReady
from adapters.registry import Manifest
from adapters.setup import Checked, Question
from gateway.cli.main import run_cli
from gateway.config import load
from gateway.config_edit import CannotEdit, edited
from gateway.config_yaml import parse

EXAMPLE = Path(__file__).parents[3] / "config.example.yaml"
TELEGRAM = ("platforms", "telegram")

FILES = [
    "",
    "# only a comment\n",
    'home: x  # mine\nplatforms:\n  # a bot\n  telegram: {enabled: false, allow: ["1"]}  # off\n  http: {port: 1}\n',
    'platforms:\n  telegram:\n    allow:\n      - "1"   # me\n      - "2"\n    # the token\n    token: null\n\n'
    "  # web\n  http:\n    enabled: true\n",
    "platforms:\n  telegram:\n    enabled:\n    token:\nlog: {level: info}\n",
    "platforms: {}\n",
    "platforms:\n",
    "log: {level: info}",
    '{"platforms": {"telegram": {"enabled": false}}, "log": {}}',
    EXAMPLE.read_text(),
]


@pytest.mark.parametrize("text", FILES, ids=range(len(FILES)))
def test_single_values_change_and_everything_else_stays(text: str) -> None:
    before = json.loads(json.dumps(parse(text)[0].tree))
    changes: dict[tuple[str, ...], Any] = {
        (*TELEGRAM, "enabled"): True,
        (*TELEGRAM, "token"): "file:/x y/#1: z",
        (*TELEGRAM, "allow"): ["1", "22"],
        (*TELEGRAM, "webhook", "url"): "https://a.example/x",
    }
    after_text = edited(text, changes)
    after = parse(after_text)[0].tree
    told = after["platforms"]["telegram"]
    assert (told["enabled"], told["token"], told["allow"]) == (True, "file:/x y/#1: z", ["1", "22"])
    assert told["webhook"]["url"] == "https://a.example/x"
    for key, value in before.items():
        if key != "platforms":
            assert after[key] == value
    for line in text.splitlines():
        if "#" in line and "[" not in line and "- " not in line:
            assert line in after_text.splitlines(), line
    assert edited(after_text, changes) == after_text


@given(
    st.dictionaries(
        st.text("abé: #'\"", min_size=1, max_size=6),
        st.text(max_size=8) | st.integers() | st.booleans() | st.none(),
        max_size=4,
    )
)
def test_any_value_and_key_survives(values: dict[str, Any]) -> None:
    text = "log: {level: info}\n"
    for key, value in values.items():
        if isinstance(value, str) and not value.isprintable():
            continue
        try:
            text = edited(text, {("platforms", key): value})
        except CannotEdit:
            continue
        assert parse(text)[0].tree["platforms"][key] == value


def test_what_cannot_be_changed_safely_is_refused() -> None:
    with pytest.raises(CannotEdit):
        edited("platforms: [1, 2\n", {("platforms", "x"): 1})
    with pytest.raises(CannotEdit):
        edited("platforms:\n  telegram:\n    token: |\n      abc\n", {(*TELEGRAM, "token"): "x"})


class FakeSetup:
    """A platform that is asked."""

    intro = "Do this first."
    questions = (
        Question(key="token", text="The token", secret=True),
        Question(key="allow", text="Who", many=True, fault=lambda one: None if one.isdigit() else f"{one!r} is no id"),
        Question(key="webhook.url", text="Where", optional=True),
    )

    def __init__(self) -> None:
        self.answers: Mapping[str, Any] = {}
        self.error: Exception | None = None
        self.missing: tuple[str, ...] = ()

    async def check(self, answers: Mapping[str, Any]) -> Checked:
        self.answers = answers
        if self.error is not None:
            raise self.error
        return Checked(found=("the bot is @tidy",), missing=self.missing, after="https://invite.example")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeSetup:
    fake, load_object = FakeSetup(), registry.load
    manifest = registry.manifests()["telegram"]
    changed = Manifest(name="telegram", title="Telegram", settings=manifest.settings, adapter="x:y", setup="fake:fake")
    monkeypatch.setitem(registry.manifests(), "telegram", changed)  # type: ignore[arg-type]
    monkeypatch.setattr(registry, "load", lambda path: fake if path == "fake:fake" else load_object(path))
    return fake


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setenv("TIDINGS_HOME", str(tmp_path / "home"))

    def command(*args: str) -> tuple[int, str, str]:
        code = run_cli(["setup", *args])
        said = capsys.readouterr()
        return code, said.out, said.err

    return command


def test_a_fresh_machine_gets_a_configuration_that_works(fake: FakeSetup, run: Run, tmp_path: Path) -> None:
    code, out, err = run("telegram", "--set", "token=1:secret-of-this-test", "--set", "allow=1001, 1002")
    assert code == 0, err
    assert "@tidy" in out
    assert "https://invite.example" in out
    assert "secret-of-this-test" not in out
    home = tmp_path / "home"
    config = load(None, environ={"TIDINGS_HOME": str(home)})
    telegram: Any = config.platforms["telegram"]
    assert telegram.enabled
    assert telegram.allow == ("1001", "1002")
    assert telegram.token.get_secret_value() == "1:secret-of-this-test"
    assert "secret-of-this-test" not in (home / "config.yaml").read_text()
    secret = home / "secrets" / "telegram-token"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert stat.S_IMODE((home / "config.yaml").stat().st_mode) == 0o600
    assert fake.answers["allow"] == ["1001", "1002"]


def test_the_server_that_the_file_names_is_the_one_that_is_asked(fake: FakeSetup, run: Run, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.yaml").write_text('platforms: {telegram: {api_base: "http://own.example", token: "${NO}"}}\n')
    code, _, err = run("telegram", "--set", "token=1:x", "--set", "allow=1002")
    assert code == 0, err
    assert fake.answers["api_base"] == "http://own.example"
    assert fake.answers["token"] == "1:x"


def test_the_owner_joins_those_that_are_there(fake: FakeSetup, run: Run, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.yaml").write_text('access: {owners: ["http:default"]}  # me\n')
    for _ in range(2):
        code, _, err = run("telegram", "--set", "token=1:x", "--set", "allow=1002", "--set", "owner=1001")
        assert code == 0, err
    text = (home / "config.yaml").read_text()
    assert parse(text)[0].tree["access"]["owners"] == ["http:default", "telegram:1001"]
    assert "# me" in text
    code, _, err = run("telegram", "--set", "token=1:x", "--set", "allow=1002", "--set", "owner=@nobody")
    assert code == 1
    code, _, err = run("telegram", "--set", "token=1:x", "--set", "allow=1002", "--set", "owner=ann")
    assert code == 1
    assert "owner" in err


def test_references_are_checked_and_kept_as_references(
    fake: FakeSetup, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "1:from-the-environment")
    code, _, err = run(
        "telegram", "--set", "token=${MY_TOKEN}", "--set", "allow=1001", "--set", "api_base=http://x.example"
    )
    assert code == 0, err
    assert fake.answers["token"] == "1:from-the-environment"
    assert fake.answers["api_base"] == "http://x.example"
    tree = parse((tmp_path / "home" / "config.yaml").read_text())[0].tree["platforms"]["telegram"]
    assert tree["token"] == "${MY_TOKEN}"
    assert tree["api_base"] == "http://x.example"
    assert not (tmp_path / "home" / "secrets").exists()


def test_nothing_is_written_where_the_platform_refuses(fake: FakeSetup, run: Run, tmp_path: Path) -> None:
    for error in (AuthFailed("no"), NotReady("down")):
        fake.error = error
        code, _, err = run("telegram", "--set", "token=1:x", "--set", "allow=1001")
        assert code == 1
        assert "nothing was written" in err
        assert not (tmp_path / "home" / "config.yaml").exists()


def test_a_file_that_cannot_be_changed_is_told_with_what_to_write_and_the_secret_is_kept(
    fake: FakeSetup, run: Run, tmp_path: Path
) -> None:
    """The lines to be written by hand name the file of the secret: it must be there."""
    config = tmp_path / "config.yaml"
    config.write_text(f"home: {tmp_path / 'home'}\nplatforms:\n  telegram:\n    token: |\n      abc\n")
    code, _, err = run("telegram", "--config", str(config), "--set", "token=SECRET", "--set", "allow=7")
    assert code == 78
    assert "SECRET" not in err
    named = re.search(r"file:(\S+)", err)
    assert named is not None
    assert Path(named[1]).read_text() == "SECRET\n"


def test_a_disk_that_refuses_is_told_in_one_line(
    fake: FakeSetup, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, _text: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr("gateway.cli.setup.write_private", full)
    code, _, err = run("telegram", "--config", str(tmp_path / "c.yaml"), "--set", "token=SECRET", "--set", "allow=7")
    assert code == 1
    assert "cannot be written: No space left on device; telegram is not on" in err
    assert "Traceback" not in err


def test_what_is_missing_is_told_and_the_exit_code_says_so(fake: FakeSetup, run: Run) -> None:
    fake.missing = ("the intent is off: switch it on at …",)
    code, out, _ = run("telegram", "--set", "token=1:x", "--set", "allow=1001", "--json")
    assert code == 1
    assert json.loads(out)["missing"] == ["the intent is off: switch it on at …"]


def test_wrong_answers_are_refused_in_one_line(fake: FakeSetup, run: Run) -> None:
    for args, told in (
        (("telegram", "--set", "token=1:x", "--set", "allow=@nobody-here"), "cannot be read"),
        (("telegram", "--set", "token=1:x", "--set", "allow=ann"), "is no id"),
        (("telegram", "--set", "allow=1"), "--set token=… is missing"),
        (("telegram", "--set", "token"), "KEY=VALUE"),
        (("nowhere",), "nothing to set up"),
        (("telegram",), "nobody to ask"),
    ):
        code, _, err = run(*args)
        assert code == 1
        assert told in err
        assert err.count("\n") == 1
