"""The terminal with real processes: bounds, cancelling, death of the daemon, what is reaped after it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_core.tools import proc
from agent_core.tools.ports import ToolContext, ToolResult
from agent_core.tools.reap import Reaped, reap
from agent_core.tools.settings import TerminalSettings
from agent_core.tools.shell import Output, environment
from agent_core.tools.terminal import Terminal
from state.errors import LeaseLost
from state.ids import Owner, TurnId
from state.records import ToolProcess

TOOL = Terminal(TerminalSettings(output_bytes=2_000, seconds=20))


async def run(context: ToolContext, command: str, **arguments: Any) -> ToolResult:
    return await TOOL.run({"command": command, **arguments}, context)


def alive(pid: int) -> bool:
    found = proc.read(pid)
    return found is not None and found.state not in "ZX"


async def pids_of(folder: Path, count: int) -> list[int]:
    """The ids that a command writes into `pids`, one a line."""
    async with asyncio.timeout(10):
        while True:
            file = folder / "pids"
            lines = file.read_text().split() if file.exists() else []
            if len(lines) >= count:
                return [int(one) for one in lines]
            await asyncio.sleep(0.01)


async def gone(pids: list[int], within: float) -> float:
    """Seconds until all are gone; fails after `within`."""
    before = time.monotonic()
    while any(alive(pid) for pid in pids):
        assert time.monotonic() - before < within, f"{[pid for pid in pids if alive(pid)]} live on"
        await asyncio.sleep(0.02)
    return time.monotonic() - before


FAMILY = textwrap.dedent(
    """
    trap '' TERM
    echo $$ >> pids
    (trap '' TERM; echo $BASHPID >> pids; sleep 300) &
    setsid bash -c "trap '' TERM; echo \\$\\$ >> pids; sleep 300; :" &
    ( ( setsid -f bash -c "trap '' TERM HUP; echo \\$\\$ >> pids; sleep 300; :" ) & )
    """
)
"""A child, one that left the session, and one orphaned by a double fork; none listens to SIGTERM."""


async def test_output_status_and_folder(context: ToolContext, root: Path, ledger: Any, person: Any) -> None:
    result = await run(context, "echo out; echo err >&2; pwd; cat; exit 0")
    assert result.ok
    assert result.content == f"Exit code 0.\nout\nerr\n{root}\n"
    assert result.extract.startswith("ran: echo out")
    assert person.asked == [("call_1", "echo out; echo err >&2; pwd; cat; exit 0")]
    (_, call_id, group, ticks), (_, *ended) = ledger.notes
    assert call_id == "call_1"
    assert ended == [group, ticks]


async def test_failures_are_told(context: ToolContext) -> None:
    for command, status in (("exit 7", "Exit code 7."), ("kill -SEGV $$", "Ended by signal SIGSEGV.")):
        result = await run(context, command)
        assert not result.ok
        assert result.summary == status
    missing = await run(context, "no-such-program-anywhere")
    assert "Exit code 127" in missing.content
    assert "not found" in missing.content


async def test_a_denied_command_does_not_run(context: ToolContext, root: Path, person: Any, ledger: Any) -> None:
    person.allows = False
    result = await run(context, "touch made")
    assert not result.ok
    assert "not allowed" in result.content
    assert not (root / "made").exists()
    assert ledger.notes == []


async def test_what_the_approver_could_not_see_is_refused(context: ToolContext, person: Any) -> None:
    for command in ("echo safe \u202e fr- mr", "echo a\u200bb", "echo \x1b[8m; rm x", "echo a\rb"):
        assert "could not see" in (await run(context, command)).content
    assert person.asked == []
    assert (await run(context, "echo 👩‍💻 ok")).ok  # joiners belong to people's scripts


async def test_the_state_folder_is_refused_by_name(context: ToolContext, home: Path, person: Any) -> None:
    assert "closed to tools" in (await run(context, f"cat {home}/.env")).content
    assert "closed to tools" in (await run(replace(context, root=home), "ls")).content
    assert "does not exist" in (await run(replace(context, root=home.parent / "none"), "ls")).content
    assert person.asked == []


async def test_nothing_runs_before_the_commit(context: ToolContext, root: Path, ledger: Any) -> None:
    seen: list[object] = []

    def look(group: int, ticks: int) -> None:
        time.sleep(0.05)  # it would have run by now
        found = proc.read(group)
        assert found is not None
        seen.append((found.group, found.ticks == ticks, (root / "made").exists()))
        seen.append(group)

    ledger.at_start = look
    assert (await run(context, "touch made")).ok
    assert seen[0] == (seen[1], True, False)
    assert (root / "made").exists()


async def test_a_lost_lease_at_the_commit_means_it_never_runs(context: ToolContext, root: Path, ledger: Any) -> None:
    groups: list[int] = []
    ledger.at_start = lambda group, _: groups.append(group)
    ledger.fails = LeaseLost()
    with pytest.raises(LeaseLost):
        await run(context, "touch made")
    assert not (root / "made").exists()
    assert not alive(groups[0])


async def test_the_environment_is_an_allow_list(context: ToolContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDINGS_TELEGRAM_TOKEN", "123456:secret-value")
    monkeypatch.setenv("OPENAI_API_KEY", "secret-value")
    monkeypatch.setenv("BASH_ENV", "/tmp/secret-value")
    monkeypatch.setenv("LD_PRELOAD", "")
    monkeypatch.setenv("TZ", "UTC")
    result = await run(context, "env; tr '\\0' '\\n' < /proc/$PPID/environ; tr '\\0' ' ' < /proc/$PPID/cmdline")
    assert "secret-value" not in result.content
    names = {one.partition("=")[0] for one in result.content.splitlines()[1:] if "=" in one}
    allowed = {"PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM", "USER", "LOGNAME"}
    assert names <= allowed | {"PWD", "OLDPWD", "SHLVL", "_", proc.MARK}
    assert {"PATH", "HOME", "TERM", "TZ"} <= names
    assert environment().keys() <= allowed


async def test_output_is_bounded_and_counted(context: ToolContext) -> None:
    result = await run(context, "echo first; head -c 3000000 /dev/zero | tr '\\0' x; echo; echo last")
    assert len(result.content) < 2_300
    assert "first" in result.content
    assert result.content.endswith("last\n")
    assert "of 3,000,012 bytes left out" in result.content


async def test_output_is_made_plain(context: ToolContext) -> None:
    result = await run(context, r"printf '\033[31mred\033[0m\033]0;title\007 \001ok\377\n'")
    assert result.content == "Exit code 0.\nred ok\ufffd\n"


def test_output_keeps_head_and_tail_whatever_the_blocks() -> None:
    data = bytes(range(256)) * 8
    for size in (1, 7, 100, 3000):
        output = Output(200)
        for start in range(0, len(data), size):
            output.add(data[start : start + size])
        assert (bytes(output.head), bytes(output.tail), output.size) == (data[:100], data[-100:], len(data))


async def test_the_time_limit_ends_everything(context: ToolContext, root: Path, ledger: Any) -> None:
    before = time.monotonic()
    result = await run(context, f"{FAMILY}\nsleep 300", seconds=1)
    assert not result.ok
    assert "time limit of 1 s" in result.content
    assert time.monotonic() - before < 6
    await gone(await pids_of(root, 4), 0.5)
    assert ledger.notes[-1][0] == "ended"


async def test_background_processes_end_with_the_call(context: ToolContext, root: Path) -> None:
    result = await run(context, f"{FAMILY}\nwhile [ $(wc -l < pids) -lt 4 ]; do sleep 0.02; done; echo over")
    assert result.ok
    assert "over" in result.content
    assert "still ran and were ended" in result.content
    await gone(await pids_of(root, 4), 0.5)


async def test_B54_cancelling_ends_a_command_that_ignores_sigterm_within_5_s(
    context: ToolContext, root: Path, ledger: Any
) -> None:
    task = asyncio.create_task(run(context, f"{FAMILY}\nsleep 300"))
    pids = await pids_of(root, 4)
    before = time.monotonic()
    task.cancel()
    await asyncio.sleep(0.01)
    task.cancel()  # a second cancel does not break the clearing up
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - before < 5
    assert not [pid for pid in pids if alive(pid)]
    assert [note[0] for note in ledger.notes] == ["started", "ended"]


async def test_B54_a_frozen_guardian_does_not_hold_the_turn(context: ToolContext, root: Path) -> None:
    task = asyncio.create_task(run(context, f"{FAMILY}\necho $PPID >> pids; sleep 300"))
    pids = await pids_of(root, 5)
    guardian = next(one.parent for one in [proc.read(pids[0])] if one)
    os.kill(guardian, signal.SIGSTOP)
    before = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - before < 5
    await gone(pids, 1)


async def test_a_killed_guardian_leaves_nothing(context: ToolContext, root: Path, ledger: Any) -> None:
    result = await run(
        context, f"{FAMILY}\nwhile [ $(wc -l < pids) -lt 4 ]; do sleep 0.02; done; kill -9 $PPID; sleep 300"
    )
    assert not result.ok
    assert "outcome is unknown" in result.content
    await gone(await pids_of(root, 4), 0.5)
    assert [note[0] for note in ledger.notes] == ["started", "ended"]


async def test_a_fork_storm_ends(context: ToolContext, root: Path) -> None:
    storm = "f() { while :; do (sleep 300) & sleep 0.01; done; }; f & f & f & echo $$ >> pids; sleep 300"
    result = await run(context, storm, seconds=1)
    assert "time limit" in result.content
    assert "could not be ended" not in result.content
    group = (await pids_of(root, 1))[0]
    assert not [one for one in proc.everything().values() if one.group == group and one.state not in "ZX"]


async def test_B04_overlapping_commands_keep_their_sessions(context: ToolContext, tmp_path: Path) -> None:
    class Asks:
        """Each context has its own person; the answer names whom it asked."""

        def __init__(self) -> None:
            self.asked: list[str] = []

        async def approve(self, call_id: str, what: str) -> bool:
            await asyncio.sleep(0.02)
            self.asked.append(f"{call_id} {what}")
            return True

        async def clarify(self, call_id: str, question: str, options: object) -> str | None:
            return None

    contexts = []
    for number in range(6):
        folder = tmp_path / f"room{number}"
        folder.mkdir()
        contexts.append(replace(context, call_id=f"call_{number}", root=folder, ask=Asks()))
    results = await asyncio.gather(*(run(one, f"sleep 0.05; pwd; echo {one.call_id}") for one in contexts))
    for one, result in zip(contexts, results, strict=True):
        assert result.content == f"Exit code 0.\n{one.root}\n{one.call_id}\n"
        assert one.ask.asked == [f"{one.call_id} sleep 0.05; pwd; echo {one.call_id}"]  # type: ignore[attr-defined]


DAEMON = """
import asyncio, sys
from pathlib import Path
from agent_core.tools.shell import run_shell

class Ledger:
    async def started(self, call_id, pgid, ticks):
        Path("ledger").write_text(f"{pgid} {ticks}")
        while Path("hold").exists():
            await asyncio.sleep(0.01)
    async def ended(self, pgid, ticks):
        Path("ended").touch()

asyncio.run(run_shell(sys.argv[1], folder=Path.cwd(), seconds=60, output_bytes=1000, ledger=Ledger(), call_id="c"))
"""


@pytest.fixture
def daemon(root: Path) -> Iterator[Any]:
    """Starts a process that runs a command through the guardian, as the daemon does."""
    started: list[subprocess.Popen[bytes]] = []

    def start(command: str) -> subprocess.Popen[bytes]:
        path = str(Path(__file__).parents[3])
        process = subprocess.Popen(
            [sys.executable, "-c", DAEMON, command], cwd=root, env={**os.environ, "PYTHONPATH": path}
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


async def test_kill_9_of_the_daemon_leaves_no_descendant(root: Path, daemon: Any) -> None:
    process = daemon(f"{FAMILY}\nsleep 300")
    pids = await pids_of(root, 4)
    assert all(alive(pid) for pid in pids)
    process.kill()
    process.wait()
    assert await gone(pids, 5) < 5
    assert not (root / "ended").exists()


async def test_kill_9_before_the_commit_means_it_never_runs(root: Path, daemon: Any) -> None:
    (root / "hold").touch()
    process = daemon("touch made; sleep 300")
    async with asyncio.timeout(10):
        while not (root / "ledger").exists() or not (root / "ledger").read_text():
            await asyncio.sleep(0.01)
    group = int((root / "ledger").read_text().split()[0])
    assert alive(group)
    process.kill()
    process.wait()
    await gone([group], 5)
    assert not (root / "made").exists()


async def test_a_service_manager_that_kills_daemon_and_guardian_is_followed_by_reap(root: Path, daemon: Any) -> None:
    """The worst case: both die at once. The shell dies with the guardian, the rest is found by its mark."""
    process = daemon(f"{FAMILY}\nsleep 300")
    pids = await pids_of(root, 4)
    group, ticks = map(int, (root / "ledger").read_text().split())
    shell = proc.read(group)
    assert shell is not None
    os.kill(process.pid, signal.SIGSTOP)  # so that its end is not seen by the guardian
    os.kill(shell.parent, signal.SIGKILL)
    process.kill()
    process.wait()
    await gone([group], 2)
    assert any(alive(pid) for pid in pids)
    reaped = await reap(_record(group, ticks))
    assert reaped.left == 0
    assert reaped.ended >= 3
    assert not [pid for pid in pids if alive(pid)]
    assert await reap(_record(group, ticks)) == Reaped(ended=0, left=0)


def _record(group: int, ticks: int, boot: str | None = None) -> ToolProcess:
    return ToolProcess(
        pgid=group,
        started=ticks,
        boot_id=boot or proc.boot_id(),
        turn_id=TurnId("t_1"),
        call_id="c",
        owner=Owner("dead"),
    )


ORPHAN = """
import subprocess
p = subprocess.Popen(["bash", "-c", "sleep 300 & sleep 300; :"], start_new_session=True, stdout=subprocess.DEVNULL)
print(p.pid, flush=True)
"""


@pytest.fixture
def orphans() -> Iterator[proc.Process]:
    """A group of processes whose parent has died, as a dead daemon leaves it; none of them ours."""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", ORPHAN], stdout=subprocess.PIPE, check=True)
    group = int(done.stdout)
    found = proc.read(group)
    assert found is not None
    yield found
    if _living_of(group):
        os.killpg(group, signal.SIGKILL)


def _living_of(group: int) -> list[proc.Process]:
    return [one for one in proc.everything().values() if one.group == group and one.state not in "ZX"]


async def test_B59_a_recycled_id_is_not_touched(orphans: proc.Process) -> None:
    assert await reap(_record(orphans.group, orphans.ticks - 1)) == Reaped(ended=0, left=0)
    assert await reap(_record(orphans.group, orphans.ticks, boot="another")) == Reaped(ended=0, left=0)
    assert alive(orphans.pid)


async def test_reap_ends_a_recorded_group_of_a_dead_daemon(orphans: proc.Process) -> None:
    before = time.monotonic()
    reaped = await reap(_record(orphans.group, orphans.ticks))
    assert reaped.left == 0
    assert reaped.ended >= 1
    assert time.monotonic() - before < 2
    assert not _living_of(orphans.group)


async def test_reap_spares_what_this_process_has_started() -> None:
    child = subprocess.Popen(["sleep", "300"], start_new_session=True)
    try:
        found = proc.read(child.pid)
        assert found is not None
        assert await reap(_record(found.group, found.ticks)) == Reaped(ended=0, left=0)
        assert alive(child.pid)
    finally:
        child.kill()
        child.wait()


async def test_the_event_loop_goes_on_while_commands_start(context: ToolContext) -> None:
    worst = 0.0

    async def watch() -> None:
        nonlocal worst
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.005)
            worst = max(worst, time.perf_counter() - before - 0.005)

    watching = asyncio.create_task(watch())
    await asyncio.gather(*(run(context, "true") for _ in range(4)))
    watching.cancel()
    assert worst < 0.25


async def test_what_the_operator_has_forbidden_is_not_even_asked_for(context: ToolContext) -> None:
    tool = Terminal(TerminalSettings(never=(r"touch\s+forbidden",)))
    result = await tool.run({"command": "t'ouch'   forbidden"}, context)
    assert not result.ok
    assert "The operator has forbidden commands like this" in result.content
    assert not (context.root / "forbidden").exists()
    assert (await tool.run({"command": "touch allowed"}, context)).ok
