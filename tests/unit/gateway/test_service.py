"""`tidings service` against a systemctl and a journalctl that write down how they were called."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway import service, systemctl
from gateway.cli.main import run_cli
from gateway.lifecycle import longest_stop
from gateway.units import Origin, origin, stop_timeout

Run = Callable[..., tuple[int, str, str]]

STUB = """\
#!{python}
import json, os, pathlib, sys
here = pathlib.Path({folder!r})
with (here / "calls").open("a") as calls:
    calls.write(json.dumps([pathlib.Path(sys.argv[0]).name, *sys.argv[1:]]) + "\\n")
answers = json.loads((here / "answers").read_text())
for verb, (code, text) in answers.items():
    if verb in sys.argv:
        print(text, end="", file=sys.stderr if code else sys.stdout)
        sys.exit(code)
"""


class Systemd:
    """A systemctl and a journalctl that write down how they were called, and answer as they are told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.answers: dict[str, tuple[int, str]] = {}
        folder.mkdir()
        for name in ("systemctl", "journalctl"):
            (folder / name).write_text(STUB.format(python=sys.executable, folder=str(folder)))
            (folder / name).chmod(0o755)
        (folder / "calls").touch()
        self.answer()

    def answer(self, **answers: tuple[int, str]) -> None:
        """What a call with that verb in it ends with (`_` stands for `-`)."""
        self.answers.update({verb.replace("_", "-"): answer for verb, answer in answers.items()})
        (self.folder / "answers").write_text(json.dumps(self.answers))

    def calls(self) -> list[str]:
        """The calls since the last look, without the options that all have."""
        found = [json.loads(line) for line in (self.folder / "calls").read_text().splitlines()]
        (self.folder / "calls").write_text("")
        common = ("--no-pager", "--no-ask-password")
        return [" ".join(word for word in call if word not in common) for call in found]


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home, an awkward state folder with a configuration in it, and no systemd."""
    home = tmp_path / "ann's home"
    state = home / "state of 100%"
    state.mkdir(parents=True)
    (state / "script.json").write_text("[]")
    _configure(state)
    for name in ("XDG_CONFIG_HOME", "KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("TIDINGS_HOME", str(state))
    monkeypatch.setattr(systemctl, "BOOTED", tmp_path / "booted")
    monkeypatch.setattr(service, "LINGER", tmp_path / "linger")
    monkeypatch.setattr(service, "SYSTEM_FOLDER", tmp_path / "etc/systemd/system")
    monkeypatch.setattr(service, "SYSTEM_CONFIG", tmp_path / "etc")
    monkeypatch.setattr(service, "STATE_ROOT", tmp_path / "var")
    return home


@pytest.fixture
def systemd(person: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Systemd:
    """systemd runs here, as far as the commands can tell."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    (tmp_path / "booted").mkdir()
    return Systemd(tmp_path / "bin")


@pytest.fixture
def run(person: Path, capfd: pytest.CaptureFixture[str]) -> Run:
    def command(*args: str) -> tuple[int, str, str]:
        code = run_cli(["service", *args])
        said = capfd.readouterr()
        return code, said.out, said.err

    return command


def _configure(state: Path, **changes: object) -> Path:
    config = {
        "model": {"provider": "scripted", "script": str(state / "script.json")},
        "tools": {"root": str(state.parent / "work shop")},
        **changes,
    }
    (state / "config.yaml").write_text(json.dumps(config))
    return state / "config.yaml"


def unit_of(person: Path, name: str = "tidings") -> Path:
    return person / ".config/systemd/user" / f"{name}.service"


def test_install_writes_enables_and_says_what_is_left(person: Path, systemd: Systemd, run: Run) -> None:
    code, said, _ = run("install")
    file = unit_of(person)
    assert (code, origin(file.read_text())) == (0, Origin.OURS)
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert systemd.calls() == [
        "systemctl --user show-environment",
        "systemctl --user daemon-reload",
        "systemctl --user enable tidings.service",
    ]
    assert f"wrote {file}" in said
    assert "-> start it: systemctl --user start tidings.service" in said
    assert "loginctl enable-linger" in said
    assert (person / "work shop").is_dir()
    assert "TIDINGS_HOME=" + str(person / "state of 100%%") in file.read_text()
    assert list(file.parent.iterdir()) == [file]
    code, said, _ = run("install", "--now", "--json")
    told = json.loads(said)
    assert (code, told["started"], told["enabled"]) == (0, True, True)
    assert told["done"][0] == f"{file} is up to date"
    assert systemd.calls()[-1] == "systemctl --user restart tidings.service"


def test_without_systemd_the_unit_is_written_and_the_way_on_is_told(person: Path, run: Run) -> None:
    code, said, _ = run("install", "--now")
    assert (code, unit_of(person).exists()) == (0, True)
    assert "-> systemd does not run here; where it does: systemctl --user daemon-reload && systemctl --user en" in said
    code, _, said = run("status")
    assert (code, "systemd does not run here" in said) == (1, True)
    code, said, _ = run("uninstall")
    assert (code, unit_of(person).exists()) == (0, False)
    assert "the state folder stays" in said


def test_a_foreign_unit_is_left_alone(person: Path, systemd: Systemd, run: Run) -> None:
    file = unit_of(person)
    file.parent.mkdir(parents=True)
    file.write_text("[Service]\nExecStart=/bin/true\n")
    for command in (("install",), ("uninstall",), ("uninstall", "--force")):
        code, _, said = run(*command)
        assert (code, "is not ours" in said) == (1, True), command
    assert "daemon-reload" not in " ".join(systemd.calls())
    assert file.read_text() == "[Service]\nExecStart=/bin/true\n"
    assert run("install", "--force")[0] == 0
    assert origin(file.read_text()) is Origin.OURS


def test_a_masked_unit_is_left_alone(person: Path, systemd: Systemd, run: Run) -> None:
    file = unit_of(person)
    file.parent.mkdir(parents=True)
    file.symlink_to("/dev/null")
    assert run("install")[0] == 1
    assert run("uninstall")[0] == 1
    assert file.is_symlink()


def test_an_edited_unit_is_neither_overwritten_nor_removed(person: Path, systemd: Systemd, run: Run) -> None:
    run("install")
    file = unit_of(person)
    file.write_text(file.read_text() + "# mine\n")
    code, _, said = run("install")
    assert (code, "was edited since it was written" in said) == (1, True)
    code, _, said = run("uninstall")
    assert (code, "was edited" in said) == (1, True)
    assert file.read_text().endswith("# mine\n")
    assert run("uninstall", "--force")[0] == 0
    assert not file.exists()


def test_uninstall_stops_first_and_removes_only_what_is_ours(person: Path, systemd: Systemd, run: Run) -> None:
    run("install")
    run("install", "--name", "second")
    systemd.calls()
    systemd.answer(reset_failed=(1, "Unit tidings.service not loaded."))
    code, said, _ = run("uninstall", "--json")
    assert code == 0
    assert json.loads(said)["done"][0] == "stopped and disabled tidings.service"
    assert systemd.calls() == [
        "systemctl --user disable --now tidings.service",
        "systemctl --user daemon-reload",
        "systemctl --user reset-failed tidings.service",
    ]
    assert (unit_of(person).exists(), unit_of(person, "second").exists()) == (False, True)
    assert (person / "state of 100%" / "config.yaml").exists()
    code, said, _ = run("uninstall")
    assert (code, "there is no" in said) == (0, True)


def test_a_unit_that_does_not_stop_stays(person: Path, systemd: Systemd, run: Run) -> None:
    run("install")
    systemd.answer(disable=(1, "Failed to stop tidings.service: Connection timed out"))
    code, _, said = run("uninstall")
    assert (code, unit_of(person).exists()) == (1, True)
    assert "Connection timed out" in said


def test_a_manager_that_cannot_be_reached_is_told_with_the_way_on(person: Path, systemd: Systemd, run: Run) -> None:
    systemd.answer(
        show_environment=(1, "Failed to connect to bus: No medium found"),
        daemon_reload=(1, "Failed to connect to bus: No medium found\n"),
    )
    code, _, said = run("install")
    assert (code, unit_of(person).exists()) == (1, True)
    assert "is written, but systemd does not take it over" in said
    assert "No medium found" in said
    assert "later: systemctl --user daemon-reload" in said


def test_the_configuration_is_read_with_the_variables_of_the_service(
    person: Path, systemd: Systemd, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = person / "state of 100%"
    _configure(state, platforms={"http": {"enabled": True, "key": "${KEY}"}})
    monkeypatch.setenv("KEY", "k" * 30)  # the shell has it, the service will not
    code, _, said = run("install")
    assert (code, unit_of(person).exists()) == (78, False)
    assert "the environment variable KEY is not set" in said
    assert f"no variables of your shell, but those in {state / 'environment'}" in said
    (state / "environment").write_text(f"# keys\nKEY='{'k' * 30}'\n")
    code, said, _ = run("install")
    assert code == 0
    assert f"others can read {state / 'environment'}" in said
    (state / "environment").unlink()
    systemd.answer(show_environment=(0, f"LANG=C.UTF-8\nKEY={'k' * 30}\n"))
    assert run("install", "--print")[0] == 0
    assert run("install", "--print", "--environment", str(state / "other"))[1].count(str(state / "other")[-5:]) == 1


def test_print_changes_nothing(person: Path, systemd: Systemd, run: Run) -> None:
    code, said, _ = run("install", "--print")
    assert (code, origin(said)) == (0, Origin.OURS)
    assert not unit_of(person).exists()
    assert systemd.calls() == ["systemctl --user show-environment"]


def test_the_drain_of_the_configuration_counts(person: Path, run: Run) -> None:
    config = _configure(person / "state of 100%", limits={"drain_seconds": 300})
    _, said, _ = run("install", "--print", "--config", str(config))
    assert stop_timeout(said) > longest_stop(300.0)


def test_status_in_words_and_in_json(person: Path, systemd: Systemd, run: Run) -> None:
    run("install")
    facts = {
        "LoadState": "loaded",
        "ActiveState": "active",
        "SubState": "running",
        "UnitFileState": "enabled",
        "FragmentPath": str(unit_of(person)),
        "MainPID": "4242",
        "NRestarts": "3",
        "Result": "success",
        "ExecMainStatus": "0",
        "StatusText": "serving a=b",
        "StateChangeTimestamp": "Mon 2026-01-05 10:00:00 UTC",
        "MemoryCurrent": "104857600",
        "NeedDaemonReload": "yes",
    }

    def answer(**changes: str) -> None:
        systemd.answer(show=(0, "".join(f"{key}={value}\n" for key, value in {**facts, **changes}.items())))

    answer()
    code, said, _ = run("status")
    assert code == 0
    assert said.splitlines()[:3] == [
        "tidings.service: active (running), enabled, since Mon 2026-01-05 10:00:00 UTC",
        "process 4242, 105 MB, 3 restarts by systemd",
        "it says: serving a=b",
    ]
    assert "has changed since systemd read it" in said
    told = json.loads(run("status", "--json")[1])
    assert (told["pid"], told["restarts"], told["file_is"], told["memory_bytes"]) == (4242, 3, "ours", 104857600)

    answer(ActiveState="failed", SubState="failed", MainPID="0", Result="exit-code", ExecMainStatus="78")
    code, said, _ = run("status")
    assert (code, "the configuration cannot be used" in said) == (3, True)
    answer(ActiveState="failed", SubState="failed", MainPID="0", Result="watchdog", ExecMainStatus="6")
    code, said, _ = run("status")
    assert (code, "it ended with watchdog, exit code 6: tidings service logs" in said) == (3, True)
    answer(LoadState="not-found", ActiveState="inactive", MemoryCurrent="[not set]")
    code, said, _ = run("status")
    assert (code, "is not installed: tidings service install" in said) == (4, True)
    assert json.loads(run("status", "--json")[1])["memory_bytes"] is None


def test_logs_come_from_the_journal(systemd: Systemd, run: Run) -> None:
    systemd.answer(**{"--user-unit=tidings.service": (0, '{"event": "daemon.ready"}\n')})
    code, said, _ = run("logs", "-n", "5", "--since", "1 hour ago")
    assert (code, said) == (0, '{"event": "daemon.ready"}\n')
    common = "journalctl --quiet"
    assert systemd.calls() == [f"{common} --user-unit=tidings.service --lines=5 --output=cat --since=1 hour ago"]
    assert run("logs", "--system", "--name", "x", "--json", "--follow")[0] == 0
    assert systemd.calls() == [f"{common} --unit=x.service --lines=50 --output=json --follow"]


def test_logs_without_a_journal_say_so(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    code, _, said = run("logs")
    assert (code, "journalctl is not installed" in said) == (1, True)


def test_the_system_unit_is_for_root_and_an_account(
    person: Path, systemd: Systemd, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "var/tidings").mkdir(parents=True)
    code, _, said = run("install", "--system", "--account", "daemon")
    assert (code, "variables" in said) == (78, False)  # the configuration is looked for in the service's own home
    assert str(tmp_path / "var/tidings/config.yaml") in said
    (tmp_path / "var/tidings/script.json").write_text("[]")
    _configure(tmp_path / "var/tidings", tools={"root": "~/work"})
    code, _, said = run("install", "--system", "--account", "nobody-of-that-name")
    assert (code, f"useradd --system --create-home --home-dir {tmp_path / 'var/tidings'}" in said) == (1, True)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    code, _, said = run("install", "--system", "--account", "daemon")
    assert (code, "--system needs root" in said) == (1, True)
    assert run("install", "--system", "--account", "daemon", "--print")[0] == 0
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "chown", lambda *_: None)
    systemd.calls()
    code, said, _ = run("install", "--system", "--account", "daemon")
    file = tmp_path / "etc/systemd/system/tidings.service"
    assert (code, origin(file.read_text())) == (0, Origin.OURS)
    assert systemd.calls()[-1] == "systemctl enable tidings.service"
    assert "enable-linger" not in said
    assert "daemon cannot read" in said  # pytest's folder is closed to other accounts
    assert f"EnvironmentFile=-{tmp_path}/etc/tidings/environment" in file.read_text()


def test_an_environment_file_is_read_as_systemd_reads_it() -> None:
    text = '# A=1\n; B=2\n C = plain words \nD=\'a "b" # c\'\nE="x \\" y"\nF=one\\\ntwo\n'
    text += "no assignment\n1G=x\nH='open\nI=\n"
    assert systemctl.assignments(text) == {
        "C": "plain words",
        "D": 'a "b" # c',
        "E": 'x " y',
        "F": "onetwo",
        "H": "",
        "I": "",
    }


def test_a_call_that_hangs_is_given_up(tmp_path: Path) -> None:
    with pytest.raises(systemctl.SystemdFault, match=r"has not ended within 0 s"):
        systemctl.run([sys.executable, "-c", "import time; time.sleep(60)"], seconds=0.05)
