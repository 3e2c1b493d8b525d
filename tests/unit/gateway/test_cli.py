"""The subcommands over a real configuration and a real store, beside no daemon and beside one that answers."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from adapters.events import ChatAddress, EventKind, MessageEvent, Sender
from agent_core.models.embedded import install as weights
from agent_core.models.embedded.manifest import SMOLLM2
from gateway import locks
from gateway.cli import config as config_cli
from gateway.cli import model as model_cli
from gateway.cli.main import run_cli
from gateway.cli.measures import figures, samples
from gateway.convert import address_to_json, event_to_new
from gateway.keys import session_key
from state.clock import SYSTEM
from state.ids import SessionId, new_turn_id
from state.owners import this_process
from state.records import Fate, NewMessage, ToolCall, TurnState
from state.store import Store

ADDRESS = ChatAddress(platform="http", account="local", chat_id="c")
KEY = session_key(ADDRESS)

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "state: of #1"  # an awkward name
    monkeypatch.setenv("TIDINGS_HOME", str(home))
    return home


@pytest.fixture
def run(home: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def command(*args: str) -> tuple[int, str, str]:
        code = run_cli(args)
        said = capsys.readouterr()
        return code, said.out, said.err

    return command


def _configure(home: Path, **changes: Any) -> None:
    home.mkdir(mode=0o700, exist_ok=True)
    (home / "script.json").write_text("[]")
    config = {"model": {"provider": "scripted", "script": str(home / "script.json")}, **changes}
    (home / "config.yaml").write_text(json.dumps(config))


def _in_store(home: Path, work: Callable[[Store], Any]) -> Any:
    async def inside() -> Any:
        async with Store.open(home / "tidings.db", owner=this_process("test"), readers=1, clock=SYSTEM) as store:
            return await work(store)

    return asyncio.run(inside())


async def _conversation(store: Store) -> SessionId:
    """One answered message, and one that waits."""
    binding = await store.sessions.claim(KEY, store.owner, address_to_json(ADDRESS))
    _, session = await store.sessions.activate(KEY, binding.version, person="http:default", title="About boats")
    accepted = await store.inbox.accept(event_to_new(_event("m1", "how does a boat float"), KEY))
    lease = await store.leases.acquire(session.id, new_turn_id())
    asked = NewMessage(role="user", content="how does a boat float", wire='{"role":"user"}', author="Ann")
    await store.turns.begin(lease, KEY, [accepted.event_id], [asked])
    calls = (ToolCall(id="c1", name="search_files", arguments='{"text":"Archimedes"}'),)
    said = NewMessage(role="assistant", content="It pushes water away.", wire="{}", tool_calls=calls)
    fates = [(accepted.event_id, Fate.ANSWERED, "")]
    await store.turns.finish(lease, state=TurnState.ANSWERED, rows=[said], fates=fates, delivery=None)
    await store.inbox.accept(event_to_new(_event("m2", "and a stone?"), KEY))
    return session.id


def _event(message_id: str, text: str) -> MessageEvent:
    return MessageEvent(
        dedup_id=message_id,
        kind=EventKind.MESSAGE,
        message_id=message_id,
        address=ADDRESS,
        sender=Sender(id="default", name="Ann"),
        received_at=SYSTEM.utc(),
        text=text,
    )


@pytest.fixture
def talked(home: Path) -> SessionId:
    _configure(home)
    session: SessionId = _in_store(home, _conversation)
    return session


FAMILIES = {
    "sessions": "search",
    "why": "event",
    "status": "--watch",
    "doctor": "--json",
    "config": "init",
    "db": "backup",
    "model": "install",
}


@pytest.mark.parametrize(("family", "shown"), FAMILIES.items())
def test_each_family_has_its_help_under_its_own_name(run: Run, family: str, shown: str) -> None:
    code, out, err = run(family, "--help")
    assert (code, err) == (0, "")
    assert f"Usage: tidings {family}" in out
    assert shown in out
    assert "completion" not in out


def test_help_names_every_family_and_imports_none(home: Path) -> None:
    import subprocess

    code = (
        "import sys; from gateway.cli.main import run_cli; run_cli(['--help']);"
        "sys.exit(any(name.startswith(('gateway.cli.s', 'state', 'agent_core', 'pydantic')) for name in sys.modules))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    for family in FAMILIES:
        assert f"  {family} " in said.stdout


@pytest.mark.parametrize(
    "args", [("nosuch",), ("sessions", "nosuch"), ("sessions", "show"), ("status", "--bogus"), ("why", "word")]
)
def test_a_wrong_command_line_ends_with_2(run: Run, args: tuple[str, ...]) -> None:
    code, out, err = run(*args)
    assert code == 2
    assert out == ""
    assert "Error" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "args", [("status",), ("sessions", "list"), ("db", "check"), ("doctor",), ("config", "check"), ("chat",)]
)
def test_without_a_configuration_each_says_how_to_get_one(run: Run, args: tuple[str, ...]) -> None:
    code, out, err = run(*args)
    assert (code, out) == (78, "")
    assert "`tidings config init` writes one" in err
    assert len(err.splitlines()) == 1


def test_a_configuration_for_the_quick_start_can_be_used_at_once(run: Run, home: Path) -> None:
    assert run("config", "init", "--quick")[0] == 0
    for name in ("config.yaml", "http.key"):
        assert stat.S_IMODE((home / name).stat().st_mode) == 0o600
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    key = (home / "http.key").read_text().strip()
    code, out, _ = run("config", "check", "--json")
    assert code == 0
    assert key not in out
    values = {value["key"]: value["value"] for value in json.loads(out)["values"]}
    assert values["platforms.http.host"] == '"127.0.0.1"'
    assert values["model.provider"] == '"embedded"'
    assert json.loads(values["home"] if values["home"].startswith('"') else json.dumps(values["home"])) == str(home)


def test_a_configuration_is_never_overwritten(run: Run, home: Path) -> None:
    _configure(home)
    before = (home / "config.yaml").read_text()
    code, _, err = run("config", "init", "--quick")
    assert code == 1
    assert "exists already" in err
    assert (home / "config.yaml").read_text() == before


def test_the_example_is_what_init_writes(run: Run, home: Path) -> None:
    assert json.loads(run("config", "init", "--json")[1]) == {"path": str(home / "config.yaml")}
    example = Path(__file__).parents[3] / "config.example.yaml"
    assert (home / "config.yaml").read_text() == example.read_text()
    assert run("config", "check")[0] == 0


def test_a_port_that_is_taken_is_not_proposed(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        monkeypatch.setattr(config_cli, "FIRST_PORT", taken.getsockname()[1])
        assert config_cli.free_port() not in (0, taken.getsockname()[1])


def test_the_faults_of_a_configuration_are_all_told(run: Run, home: Path) -> None:
    _configure(home, modle={}, limits={"drain_seconds": "soon"})
    code, out, err = run("config", "check")
    assert (code, out) == (78, "")
    assert "modle" in err
    assert "limits.drain_seconds" in err


def test_sessions_are_listed_shown_searched_and_exported(run: Run, talked: SessionId) -> None:
    code, out, _ = run("sessions", "list")
    assert code == 0
    assert talked in out
    assert "About boats" in out
    assert "prompt" not in json.loads(run("sessions", "list", "--json")[1])[0]
    for name in (talked, "About boats"):
        code, out, _ = run("sessions", "show", name)
        assert code == 0
        assert out.index("Ann: how does a boat float") < out.index("assistant: It pushes water away.")
        assert '[calls search_files {"text":"Archimedes"}]' in out
    shown = json.loads(run("sessions", "show", talked, "--json")[1])
    assert [row["role"] for row in shown["messages"]] == ["user", "assistant"]
    exported = [json.loads(line) for line in run("sessions", "export", talked)[1].splitlines()]
    assert [row["content"] for row in exported] == ["how does a boat float", "It pushes water away."]
    assert "boat float" in run("sessions", "search", "float")[1]
    hits = json.loads(run("sessions", "search", "float", "--json")[1])
    assert [hit["session_id"] for hit in hits] == [talked]
    assert run("sessions", "search", "submarine") == (0, "", "")


def test_a_session_that_is_not_there_is_said_so(run: Run, talked: SessionId) -> None:
    assert run("sessions", "show", "s_none") == (1, "", "tidings: there is no session 's_none'\n")


def test_why_tells_the_fate_of_an_event_and_what_is_open(run: Run, talked: SessionId) -> None:
    assert "answered" in run("why", "1")[1]
    code, out, _ = run("why")
    assert code == 0
    assert "event 2 " in out
    assert "waiting" in out
    assert "and a stone?" in out
    assert "event 1 " not in out
    assert "payload" not in json.loads(run("why", "1", "--json")[1])[0]
    assert run("why", "99") == (1, "", "tidings: there is no event 99\n")


def test_a_backup_is_whole_private_and_never_written_over(run: Run, home: Path, talked: SessionId) -> None:
    made = json.loads(run("db", "backup", "--json")[1])
    path = Path(made["path"])
    assert path.parent == home / "backups"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    code, _, err = run("db", "backup", str(path))
    assert code == 1
    assert "exists" in err
    other = home.parent / "other"
    other.mkdir()
    path.rename(other / "tidings.db")
    assert _in_store(other, lambda store: store.sessions.get(talked)).title == "About boats"


def test_a_backup_comes_back_and_what_was_open_then_is_ended(run: Run, home: Path, talked: SessionId) -> None:
    made = json.loads(run("db", "backup", "--json")[1])["path"]
    _in_store(home, lambda store: store.sessions.set_title(talked, "Something else"))
    code, out, err = run("db", "restore", made)
    assert code == 0, err
    assert "restored: 1 sessions" in out
    assert "1 messages that were open then are ended, not answered" in out
    assert _in_store(home, lambda store: store.sessions.get(talked)).title == "About boats"
    assert _in_store(home, lambda store: store.inbox.open_events()) == []
    (kept,) = (home / "backups").glob("before-restore-*.db")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    (home / "tidings.db").write_bytes(b"no database at all, is it? " * 200)
    shutil.rmtree(home / "backups" / "none", ignore_errors=True)
    kept.rename(home / "kept.db")
    code, out, err = run("db", "restore", str(home / "kept.db"))
    assert code == 0, err
    assert _in_store(home, lambda store: store.sessions.get(talked)).title == "Something else"
    (damaged,) = (home / "backups").glob("before-restore-*.db")
    assert damaged.read_bytes().startswith(b"no database")
    assert not list(home.glob(".restore-*"))


def test_what_is_no_backup_is_refused_and_a_running_daemon_too(run: Run, home: Path, talked: SessionId) -> None:
    made = json.loads(run("db", "backup", "--json")[1])["path"]
    junk = home / "junk.db"
    junk.write_bytes(b"junk" * 4000)
    other = home / "other.db"
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE things (id INTEGER)")
    newer = home / "newer.db"
    shutil.copy(made, newer)
    with sqlite3.connect(newer) as db:
        db.execute("PRAGMA user_version = 999")
        db.execute("UPDATE compatibility SET usable_from = 999")
    for file, why in (
        (junk, "damaged"),
        (other, "no database of Tidings"),
        (newer, "version 999"),
        (home / "nowhere", "no file"),
    ):
        code, _, err = run("db", "restore", str(file))
        assert code == 1
        assert "nothing was restored" in err
        assert why in err
    with locks.held(locks.daemon_lock(home)):
        code, _, err = run("db", "restore", made)
    assert code == 1
    assert "tidings stop" in err
    assert _in_store(home, lambda store: store.sessions.get(talked)).title == "About boats"


def test_a_sound_and_a_damaged_database_are_told_apart(run: Run, home: Path, talked: SessionId) -> None:
    assert run("db", "check") == (0, "the database is sound\n", "")
    database = home / "tidings.db"
    with database.open("r+b") as file:
        file.write(b"no database at all, is it? " * 200)
    code, out, err = run("db", "check")
    assert (code, out) == (1, "")
    assert "damaged" in err
    code, out, _ = run("doctor")
    assert code == 1
    assert "[fault]" in out
    assert "StoreCorrupt" in out


def test_status_without_a_daemon_ends_with_1_and_tells_what_waits(run: Run, talked: SessionId) -> None:
    code, out, _ = run("status")
    assert code == 1
    assert "daemon: not running" in out
    assert "1 answered" in out
    assert "event 2 (http) is waiting: and a stone?" in out


METRICS = b"""# HELP process_resident_memory_bytes x
process_resident_memory_bytes 5.0e+07
process_cpu_seconds_total 1.5
tidings_now{what="turns_running"} 2.0
something_else 7
"""


class _Daemon(BaseHTTPRequestHandler):
    """What a daemon says of itself, on a real socket."""

    seen: list[tuple[str, str | None]]
    missing: list[str]

    def do_GET(self) -> None:
        self.seen.append((self.path, self.headers.get("Authorization")))
        body = METRICS
        if self.path != "/metrics":
            facts = {"version": "9", "uptime_seconds": 5, "platforms": {"http": {"state": "connected"}}}
            state = "not ready" if self.missing else "ready"
            body = json.dumps({"status": state, "missing": self.missing, **facts}).encode()
        self.send_response(503 if self.missing and self.path == "/readyz" else 200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None: ...


@pytest.fixture
def daemon(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[_Daemon]]:
    """Holds the lock and answers, as a daemon does. A proxy in the environment must not come between."""
    handler = type("Handler", (_Daemon,), {"seen": [], "missing": []})
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    home.mkdir(mode=0o700)
    (home / "key").write_text("k" * 32)
    (home / "key").chmod(0o600)
    http = {"enabled": True, "port": server.server_port, "key": f"file:{home / 'key'}"}
    _configure(home, platforms={"http": http})
    thread = threading.Thread(target=lambda: server.serve_forever(0.01))
    thread.start()
    with locks.held(locks.daemon_lock(home)):
        yield handler
    server.shutdown()
    thread.join()
    server.server_close()


def test_status_asks_the_daemon_itself(run: Run, daemon: type[_Daemon]) -> None:
    code, out, _ = run("status")
    assert code == 0
    assert "state: ready; version 9, up for 5 s" in out
    assert "http: connected" in out
    assert "memory: 50 MB; CPU: 1.5 s; turns: 2" in out
    assert [path for path, _ in daemon.seen] == ["/healthz", "/readyz", "/metrics"]
    assert {key for _, key in daemon.seen} == {f"Bearer {'k' * 32}"}
    assert "k" * 32 not in out


def test_status_of_a_daemon_that_is_not_ready_says_what_is_missing(run: Run, daemon: type[_Daemon]) -> None:
    daemon.missing = ["platform x is waiting (no network)"]
    code, out, _ = run("status")
    assert code == 1
    assert "platform x is waiting (no network)" in out
    code, out, _ = run("doctor")
    assert code == 0
    assert "platform x is waiting (no network) -> see its log" in out


def test_a_daemon_that_does_not_answer_is_told_from_one_that_does_not_run(run: Run, home: Path) -> None:
    _configure(home, platforms={"http": {"port": 0}})
    with locks.held(locks.daemon_lock(home)):
        code, out, _ = run("status")
    assert code == 1
    assert "a daemon with process" in out
    assert "it does not answer" in out


def test_measures_are_read_out_of_prometheus_text() -> None:
    assert figures(samples(METRICS.decode())) == {"memory_bytes": 5.0e7, "cpu_seconds": 1.5, "turns_running": 2.0}


def test_doctor_has_a_remedy_for_each_finding_and_lists_the_limits(run: Run, home: Path, talked: SessionId) -> None:
    home.chmod(0o755)
    (home / "tidings.db").chmod(0o644)
    code, out, _ = run("doctor", "--json")
    told = json.loads(out)
    assert code == 0
    remedies = {one["remedy"] for one in told["findings"] if one["grade"] != "ok"}
    assert {f"chmod 700 {home}", f"chmod 600 {home / 'tidings.db'}"} <= remedies
    assert "" not in remedies
    limits = " ".join(told["stated_limits"])
    for place in ("Discord", "Slack", "Telegram", "frozen"):
        assert place in limits


def test_doctor_names_a_model_that_cannot_be_reached(run: Run, home: Path) -> None:
    model = {"provider": "openai", "name": "m", "base_url": "http://127.0.0.1:9/v1"}
    _configure(home, model=model)
    code, out, _ = run("doctor")
    assert code == 1
    assert "[fault] model m: " in out
    assert "-> see its base_url and api_key" in out


def test_doctor_asks_the_memory_and_tells_what_it_says(run: Run, home: Path, talked: SessionId) -> None:
    _configure(home, memory={"provider": "hindsight", "hindsight": {"base_url": "http://127.0.0.1:9"}})
    _, out, _ = run("doctor")
    assert "[warning] memory hindsight: version: ClientConnectorError -> see memory.hindsight and docs/memory.md" in out


def test_the_home_of_the_weights_is_the_configured_one(run: Run, home: Path, tmp_path: Path) -> None:
    assert str(SMOLLM2.path(home)) in run("model", "list")[1]
    assert str(SMOLLM2.path(tmp_path / "other")) in run("model", "list", "--home", str(tmp_path / "other"))[1]
    listed = json.loads(run("model", "list", "--json")[1])
    assert [one["installed"] for one in listed] == [False]
    code, out, err = run("model", "check")
    assert (code, out) == (1, "")
    assert "tidings model install" in err


def test_an_install_that_fails_is_told_in_one_line(run: Run, home: Path) -> None:
    home.write_text("a file where the folder should be")
    code, out, err = run("model", "install")
    assert (code, out) == (1, "")
    assert len(err.splitlines()) == 1
    assert err.startswith("tidings: ")


def test_progress_is_a_line_now_and_then_where_nobody_sees_a_bar(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def install(place: Path, tell: weights.Progress) -> Path:
        tell(50 << 20, 100 << 20)
        return SMOLLM2.path(place)

    monkeypatch.setattr(model_cli, "LINE_EVERY", 0.0)
    monkeypatch.setattr(weights, "install", install)
    code, out, err = run("model", "install", "--json")
    assert code == 0
    assert json.loads(out) == {"path": str(SMOLLM2.path(home))}
    assert err == "fetching the embedded model: 50 of 100 MB\n"
