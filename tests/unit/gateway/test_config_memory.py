"""The section `memory`: one provider, its key looked up only if it is active, and what is missing told by its path."""

from __future__ import annotations

import pytest

from gateway import config_build
from gateway.reload_plan import plan
from tests.unit.gateway.test_config import Load, given, refused

__all__ = ["given"]

KEYS = """
memory:
  provider: %s
  namespace: mine
  honcho: {api_key: "${HONCHO_KEY}", workspace: home}
  mem0: {api_key: "${MEM0_KEY}"}
"""


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every client, whatever is installed here."""
    monkeypatch.setattr(config_build, "missing", lambda name: "")


def test_nothing_is_active_by_itself(given: Load) -> None:
    assert given("").memory.active() is None
    assert given(KEYS % "none").memory.active() is None, "and no key is looked up"


def test_only_the_key_of_the_active_provider_is_looked_up(given: Load) -> None:
    config = given(KEYS % "honcho", {"HONCHO_KEY": "secret-of-honcho"})
    active = config.memory.active()
    assert active is not None
    assert (active.name, active.api_key, active.account, active.namespace) == (
        *("honcho", "secret-of-honcho", "home", "mine"),
    )
    assert "secret-of-honcho" in config.secrets
    assert "secret-of-honcho" not in repr(active) + repr(config)
    assert not any("secret-of-honcho" in value.shown for value in config.values)
    (line,) = refused(given, KEYS % "mem0", {"HONCHO_KEY": "x"})
    assert "memory.mem0.api_key: the environment variable MEM0_KEY is not set" in line


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("memory: {provider: mem0}", "memory.mem0.api_key: must be set for this provider"),
        ("memory: {provider: honcho}", "memory.honcho.api_key: must be set for this provider"),
        ("memory: {provider: elephants}", "memory.provider"),
        ("memory: {mode: loud}", "memory.mode"),
        ("memory: {provider: hindsight, hindsight: {url: x}}", "memory.hindsight.url"),
        ("memory: {provider: mem0, mem0: {api_key: plain-text-key}}", "memory.mem0.api_key: a secret must not stand"),
        ("memory: {recall_seconds: 60}", "memory.recall_seconds"),
        ("memory: {hindsight: 7}", "memory.hindsight: must be a group of keys"),
        ("memory: 7", "memory: must be a group of keys"),
    ],
)
def test_faults_name_their_path(given: Load, text: str, told: str) -> None:
    assert any(told in line for line in refused(given, text)), refused(given, text)


@pytest.mark.parametrize("name", ["local", "hindsight", "openviking"])
def test_servers_of_ones_own_need_no_key(given: Load, name: str) -> None:
    active = given(f"memory: {{provider: {name}}}").memory.active()
    assert active is not None
    assert (active.name, active.mode) == (name, "hybrid")


def test_a_client_that_is_not_installed_is_told(given: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_build, "missing", lambda name: f"pip install 'tidings[{name}]'")
    (line,) = refused(given, "memory: {provider: hindsight}")
    assert "memory.provider: its client is not installed: pip install 'tidings[hindsight]', or set it to none" in line


def test_it_counts_after_a_restart(given: Load) -> None:
    old, new = given(""), given("memory: {provider: hindsight, mode: tools}")
    made = plan(old, new)
    assert set(made.later) == {"memory.provider", "memory.mode"}
    assert made.config.memory == old.memory
