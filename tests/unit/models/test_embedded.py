"""The embedded model for real: its cache as an oracle for P5, and its server's life. Never its wording."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psutil
import pytest

from agent_core.errors import ContextFull
from agent_core.models.embedded.model import EmbeddedModel
from agent_core.models.embedded.server import SLOT_FILE
from agent_core.models.embedded.shared import Place
from agent_core.models.ports import Completion, Request
from agent_core.models.settings import ModelSettings
from tests.weights import home_with_weights

pytestmark = [pytest.mark.embedded, pytest.mark.slow, pytest.mark.timeout(300)]

SYSTEM = "You are a helpful assistant. " + " ".join(f"Rule {n}: be kind to guest number {n * 7}." for n in range(30))
SETTINGS = ModelSettings(provider="embedded", name="smollm2", max_tokens=8)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return home_with_weights(tmp_path)


@pytest.fixture
async def model(home: Path) -> AsyncIterator[EmbeddedModel]:
    made = EmbeddedModel(SETTINGS, home=home, grace=0.5)
    yield made
    await made.close()
    await gone(home)


async def ask(model: EmbeddedModel, system: str, *messages: str) -> Completion:
    pieces = [piece async for piece in model.stream(Request(system=model.wire_system(system), messages=messages))]
    last = pieces[-1]
    assert isinstance(last, Completion)
    return last


def cached(done: Completion) -> float:
    return done.usage.cached_tokens / done.usage.input_tokens


async def until(check: Callable[[], bool], seconds: float = 20.0) -> None:
    async with asyncio.timeout(seconds):
        while not check():
            await asyncio.sleep(0.05)


async def gone(home: Path) -> None:
    await until(lambda: not Place(home).is_alive())


def server_of(home: Path) -> int:
    listening = Place(home).published()
    assert listening is not None
    return listening.pid


async def test_its_cache_proves_the_prefix(model: EmbeddedModel, home: Path) -> None:
    first = await ask(model, SYSTEM, model.wire_user("hello"))
    assert cached(first) < 0.05
    turn = [model.wire_user("hello"), first.wire, model.wire_user("and now?")]
    second = await ask(model, SYSTEM, *turn)
    assert cached(second) > 0.9
    changed = await ask(model, "X" + SYSTEM, *turn)
    assert cached(changed) < 0.05
    # After a restart with the slot that the end of a turn has saved, in the hands of a new server.
    again = await ask(model, SYSTEM, *turn, second.wire, model.wire_user("more"))
    await model.turn_ended()
    slot = home / "models" / "slots" / SLOT_FILE
    assert slot.stat().st_mode & 0o077 == 0
    assert slot.parent.stat().st_mode & 0o077 == 0
    os.kill(server_of(home), signal.SIGKILL)
    await gone(home)
    restored = await ask(model, SYSTEM, *turn, second.wire, model.wire_user("more"), again.wire, model.wire_user("!"))
    assert cached(restored) > 0.9


async def test_its_window_is_read_from_the_server_and_overflow_is_typed(model: EmbeddedModel) -> None:
    able = await model.capabilities()
    assert (able.context_tokens, able.tools, able.images, able.brief) == (8192, "none", False, True)
    with pytest.raises(ContextFull):
        await ask(model, "s", model.wire_user("word " * 9000))


async def test_a_ruined_slot_file_only_costs_time(home: Path) -> None:
    slots = home / "models" / "slots"
    slots.mkdir(mode=0o700)
    (slots / SLOT_FILE).write_bytes(b"not a slot")
    model = EmbeddedModel(SETTINGS, home=home, grace=0.0)
    assert (await ask(model, "s", model.wire_user("hi"))).finish_reason in ("stop", "length")
    await model.close()
    await gone(home)


async def test_it_runs_behind_everybody_else_and_ends_after_close(model: EmbeddedModel, home: Path) -> None:
    await model.warm()
    process = psutil.Process(server_of(home))
    assert process.nice() >= 10
    assert all(
        address.laddr.ip == "127.0.0.1" for address in process.net_connections("inet") if address.status == "LISTEN"
    )
    assert "--home" in process.cmdline()
    listening = Place(home).published()
    assert listening is not None
    assert listening.key not in " ".join([*process.cmdline(), *process.environ().values()])
    await model.close()
    await gone(home)
    assert (home / "models" / "slots" / SLOT_FILE).exists()
    assert not (home / "models" / "server" / "port.json").exists()
    # And it comes back for whoever asks next.
    await model.capabilities()
    assert server_of(home) != process.pid


USER = """
    import asyncio
    from pathlib import Path
    from agent_core.models.embedded.model import EmbeddedModel
    from agent_core.models.settings import ModelSettings

    async def main():
        model = EmbeddedModel(ModelSettings(provider="embedded", name="m"), home=Path({home!r}), grace=0.5)
        await model.capabilities()
        print("ready", flush=True)
        await asyncio.sleep(120)

    asyncio.run(main())
"""


async def test_two_processes_share_one_server_that_outlives_neither(home: Path) -> None:
    code = textwrap.dedent(USER.format(home=str(home)))
    users = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for _ in range(2)]
    try:
        for user in users:
            assert user.stdout is not None
            assert await asyncio.to_thread(user.stdout.readline) == b"ready\n"
        pid = server_of(home)
        assert len([p for p in psutil.process_iter(["cmdline"]) if str(home) in (p.info["cmdline"] or [])]) == 1
        users[0].kill()
        users[0].wait(10)
        await asyncio.sleep(2.0)  # longer than the grace and a look of the server
        assert psutil.pid_exists(pid)
        # A service manager tells the whole group to end: the server waits for its user's last turn.
        os.kill(pid, signal.SIGTERM)
        await asyncio.sleep(1.5)
        assert Place(home).is_alive()
        users[1].kill()
        users[1].wait(10)
        begun = time.monotonic()
        await gone(home)
        assert time.monotonic() - begun < 15
    finally:
        for user in users:
            user.kill()
            user.wait(10)
            assert user.stdout is not None
            user.stdout.close()
