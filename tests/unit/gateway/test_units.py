"""The unit that `tidings service` writes: its text, and what systemd's own tools read in it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.lifecycle import LAST_RESORT_MARGIN, longest_stop
from gateway.units import Origin, Scope, UnitFault, UnitSpec, check_name, origin, protect_home, render, stop_timeout

ANALYZE = shutil.which("systemd-analyze")
MANAGER = Path("/lib/systemd/systemd")
needs_systemd = pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is missing: apt-get install systemd")


def spec(folder: Path, scope: Scope = Scope.USER, **changes: object) -> UnitSpec:
    values: dict[str, object] = {
        "scope": scope,
        "name": "tidings",
        "python": Path(sys.executable),
        "config": folder / "config.yaml",
        "home": folder if scope is Scope.USER else Path("/var/lib/tidings"),
        "root": folder / "work",
        "environment": folder / "environment",
        "stop_seconds": longest_stop(30.0),
        "account": "daemon" if scope is Scope.SYSTEM else "",
        **changes,
    }
    return UnitSpec(**values)  # type: ignore[arg-type]


# the text ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", list(Scope))
def test_the_unit_says_what_the_daemon_promises(tmp_path: Path, scope: Scope) -> None:
    lines = render(spec(tmp_path, scope)).splitlines()
    for line in (
        "Type=notify",
        "NotifyAccess=main",
        "Restart=on-failure",
        "RestartForceExitStatus=75",
        "RestartPreventExitStatus=78",
        "KillMode=mixed",
        "OOMPolicy=continue",
        "StandardError=journal",
        "StartLimitIntervalSec=0",
    ):
        assert line in lines, line
    assert ("ProtectSystem=strict" in lines) == (scope is Scope.SYSTEM)
    assert (f'ReadWritePaths="{tmp_path}/work"' in lines) == (scope is Scope.SYSTEM)
    assert ('Environment="TIDINGS_HOME=%S/tidings" "HOME=%S/tidings"' in lines) == (scope is Scope.SYSTEM)


@pytest.mark.parametrize("drain", [0.0, 30.0, 1799.5])
def test_systemd_waits_longer_than_any_stop(tmp_path: Path, drain: float) -> None:
    text = render(spec(tmp_path, stop_seconds=longest_stop(drain)))
    assert stop_timeout(text) > longest_stop(drain) > drain + 35 > drain + LAST_RESORT_MARGIN


def test_a_root_inside_the_state_folder_needs_no_path_of_its_own(tmp_path: Path) -> None:
    text = render(spec(tmp_path, Scope.SYSTEM, root=Path("/var/lib/tidings/work")))
    assert "ReadWritePaths" not in text


def test_homes_are_hidden_unless_something_lies_there() -> None:
    assert protect_home([Path("/opt/tidings/bin/python"), Path("/homes/x")]) == "yes"
    assert protect_home([Path("/opt/tidings"), Path("/home/ann/work")]) == "read-only"


@pytest.mark.parametrize(
    ("change", "scope"),
    [
        ({"python": Path('/opt/a"b/python')}, Scope.USER),
        ({"python": Path("/opt/a\\b/python")}, Scope.USER),
        ({"config": Path("/tmp/a\nb.yaml")}, Scope.USER),
        ({"config": Path(os.fsdecode(b"/tmp/\xff.yaml"))}, Scope.USER),
        ({"environment": Path("/tmp/env ")}, Scope.USER),
        ({"environment": Path("/tmp/env\\")}, Scope.USER),
        ({"root": Path("/srv/a\"b'c")}, Scope.SYSTEM),
        ({"root": Path("/srv/a\\b")}, Scope.SYSTEM),
    ],
)
def test_what_systemd_cannot_read_is_refused(tmp_path: Path, change: dict[str, Path], scope: Scope) -> None:
    with pytest.raises(UnitFault):
        render(spec(tmp_path, scope, **change))


@pytest.mark.parametrize("name", ["", "a b", "../x", "A", "tidings@1", "-x", "x" * 40])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(UnitFault):
        check_name(name)


def test_an_edited_unit_is_told_from_ours_and_from_a_foreign_one(tmp_path: Path) -> None:
    text = render(spec(tmp_path))
    assert origin(text) is Origin.OURS
    assert origin(text.replace("WatchdogSec=60", "WatchdogSec=0")) is Origin.EDITED
    assert origin(text.partition("\n")[2]) is Origin.FOREIGN
    assert origin("") is Origin.FOREIGN


# as systemd reads it -----------------------------------------------------------------------------


def odd(folder: Path, scope: Scope) -> UnitSpec:
    """Paths with everything in them that means something to systemd. The interpreter is there."""
    strange = folder / "odd $HOME ${x} %d 50% ünï;#x"
    strange.mkdir()
    (strange / "python 3").symlink_to(sys.executable)
    return spec(
        strange,
        scope,
        python=strange / "python 3",
        config=strange / "a \"b' \\ %h $X \\x41.yaml",
        home=strange / 'st"at\\e' if scope is Scope.USER else Path("/var/lib/tidings"),
        root=strange / 'the "root"',
        environment=strange / "e n\"v'\\%n",
    )


def analyze(*args: str, folder: Path) -> subprocess.CompletedProcess[str]:
    assert ANALYZE is not None
    runtime = folder / "runtime"
    runtime.mkdir(exist_ok=True)
    environ = {**os.environ, "XDG_RUNTIME_DIR": str(runtime), "HOME": str(folder)}
    return subprocess.run([ANALYZE, *args], capture_output=True, text=True, timeout=60, check=False, env=environ)


def written(folder: Path, what: UnitSpec) -> Path:
    file = folder / "units" / "tidings.service"
    file.parent.mkdir()
    file.write_text(render(what), encoding="utf-8")
    return file


@needs_systemd
@pytest.mark.parametrize("scope", list(Scope))
def test_systemd_finds_nothing_to_say_about_the_unit(tmp_path: Path, scope: Scope) -> None:
    file = written(tmp_path, odd(tmp_path, scope))
    done = analyze("verify", f"--{scope.value}", str(file), folder=tmp_path)
    ours = [line for line in done.stderr.splitlines() if "tidings" in line]
    assert (done.returncode, ours) == (0, [])


@needs_systemd
def test_verify_would_tell_a_wrong_path(tmp_path: Path) -> None:
    wrong = odd(tmp_path, Scope.SYSTEM)
    file = written(tmp_path, wrong)
    wrong.python.unlink()
    done = analyze("verify", str(file), folder=tmp_path)
    assert done.returncode != 0
    assert str(wrong.python) in done.stderr


@needs_systemd
@pytest.mark.parametrize(("scope", "tenths"), [(Scope.SYSTEM, 25), (Scope.USER, 65)])
def test_the_sandbox_is_as_tight_as_promised(tmp_path: Path, scope: Scope, tenths: int) -> None:
    """ "OK" is below 5.0; what keeps it from there is held as well."""
    file = written(tmp_path, spec(tmp_path, scope))
    done = analyze("security", "--offline=true", f"--threshold={tenths}", str(file), folder=tmp_path)
    assert done.returncode == 0, done.stdout[-300:]


@needs_systemd
@pytest.mark.skipif(not MANAGER.exists(), reason=f"{MANAGER} is missing: apt-get install systemd")
@pytest.mark.parametrize("scope", list(Scope))
def test_systemd_reads_back_what_was_meant(scope: Scope) -> None:
    """The manager itself in its test mode, as somebody without rights, dumps the unit as it has understood it."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="tidings-unit-") as name:
        folder = Path(name)  # pytest's own folder is closed to others
        folder.chmod(0o755)
        meant = odd(folder, scope)
        file = written(folder, meant)
        for target in ("basic", "sockets", "timers", "paths", "shutdown", "default"):
            shutil.copy(f"/usr/lib/systemd/user/{target}.target", file.parent)
        runtime = folder / "run"
        runtime.mkdir()
        unprivileged = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
        if unprivileged:
            os.chown(runtime, 65534, 65534)
        done = subprocess.run(
            [str(MANAGER), "--test", "--user", "--unit=tidings.service"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={"HOME": str(runtime), "XDG_RUNTIME_DIR": str(runtime), "SYSTEMD_UNIT_PATH": str(file.parent)},
            **unprivileged,  # type: ignore[call-overload] # user= and group= take ids
        )
        dump = done.stdout.partition("-> Unit tidings.service:")[2].partition("-> Unit ")[0]
        assert dump, done.stderr[-500:]
        assert f"EnvironmentFile: -{meant.environment}\n" in dump
        command = re.search(r"Command Line: (.*)", dump)
        assert command is not None
        # what it prints is quoted for a shell, without any substitution left to be done
        assert _shell_words(command[1]) == [
            str(meant.python), "-P", "-m", "gateway", "run", "--config", str(meant.config),
        ]  # fmt: skip
        if scope is Scope.USER:
            assert f"Environment: TIDINGS_HOME={meant.home}\n" in dump
        else:
            assert f"ReadWritePaths: {meant.root}\n" in dump
        assert "TimeoutStopSec: 1min 20s\n" in dump


def _shell_words(line: str) -> list[str]:
    done = subprocess.run(["sh", "-c", f"printf '%s\\0' {line}"], capture_output=True, text=True, check=True, env={})
    return done.stdout.split("\0")[:-1]
