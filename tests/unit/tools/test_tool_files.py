"""The file tools on a real file system, and the ways out of the folder that must be closed (B81)."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from agent_core.tools import confine, threads
from agent_core.tools.confine import Confined, Refused
from agent_core.tools.factory import default_registry
from agent_core.tools.ports import ToolContext, ToolResult
from agent_core.tools.schema import check
from agent_core.tools.settings import FileSettings, ToolSettings

LIMITS = FileSettings(max_bytes=100_000, result_chars=5_000, search_file_bytes=50_000, search_files=200)


async def call(name: str, context: ToolContext, **arguments: Any) -> ToolResult:
    tool = default_registry(ToolSettings(files=LIMITS)).get(name)
    assert tool is not None
    assert check(arguments, tool.spec.parameters) is None
    return await tool.run(arguments, context)


async def test_read_numbers_lines_and_takes_ranges(context: ToolContext, root: Path) -> None:
    (root / "a.txt").write_text("one\ntwo\nthree\n")
    whole = await call("read_file", context, path="a.txt")
    assert whole.ok
    assert whole.content == "a.txt: lines 1-3 of 3, 14 bytes\n     1\tone\n     2\ttwo\n     3\tthree"
    assert whole.extract == "read a.txt"
    part = await call("read_file", context, path=str(root / "a.txt"), first=2, last=2)
    assert part.content.splitlines()[1:] == ["     2\ttwo"]
    beyond = await call("read_file", context, path="a.txt", first=9)
    assert not beyond.ok
    assert "only 3 lines" in beyond.content


async def test_read_is_bounded(context: ToolContext, root: Path) -> None:
    (root / "long.txt").write_text("x" * 3000 + "\n" + "line\n" * 5000)
    result = await call("read_file", context, path="long.txt")
    assert len(result.content) < 5_200
    assert "1,000 more characters" in result.content
    head = result.content.splitlines()[0]
    follow = int(head.rpartition("first=")[2])
    again = await call("read_file", context, path="long.txt", first=follow)
    assert f"{follow:>6}\tline" in again.content


async def test_read_tells_binary_bad_utf8_bom_and_crlf(context: ToolContext, root: Path) -> None:
    (root / "b.bin").write_bytes(b"\x7fELF\0\0")
    (root / "latin.txt").write_bytes(b"caf\xe9\n")
    (root / "dos.txt").write_bytes(b"\xef\xbb\xbfa\r\nb\r\n")
    (root / "empty.txt").write_bytes(b"")
    binary = await call("read_file", context, path="b.bin")
    assert not binary.ok
    assert "binary (6 bytes, beginning 7f 45 4c 46" in binary.content
    latin = await call("read_file", context, path="latin.txt")
    assert latin.ok
    assert "not UTF-8: 1 byte shown" in latin.content
    dos = await call("read_file", context, path="dos.txt")
    assert "byte order mark" in dos.content
    assert "CRLF" in dos.content
    assert dos.content.splitlines()[1] == "     1\ta"
    assert "empty" in (await call("read_file", context, path="empty.txt")).content


async def test_write_is_atomic_and_keeps_the_mode(context: ToolContext, root: Path) -> None:
    script = root / "run.sh"
    script.write_text("old")
    script.chmod(0o750)
    inode = script.stat().st_ino
    result = await call("write_file", context, path="run.sh", content="new ✓")
    assert result.content == "Replaced run.sh (7 bytes)."
    assert script.read_text() == "new ✓"
    assert stat.S_IMODE(script.stat().st_mode) == 0o750
    assert script.stat().st_ino != inode  # another file was renamed over it
    assert [one.name for one in root.iterdir()] == ["run.sh"]
    made = await call("write_file", context, path="deep/er/new.txt", content="x")
    assert made.content == "Made deep/er/new.txt (1 byte)."
    assert stat.S_IMODE((root / "deep/er/new.txt").stat().st_mode) == 0o666 & ~_umask()


def _umask() -> int:
    old = os.umask(0)
    os.umask(old)
    return old


async def test_write_through_a_link_inside_keeps_the_link(context: ToolContext, root: Path) -> None:
    (root / "real.txt").write_text("old")
    (root / "link.txt").symlink_to("real.txt")
    assert (await call("write_file", context, path="link.txt", content="new")).ok
    assert (root / "link.txt").is_symlink()
    assert (root / "real.txt").read_text() == "new"


async def test_a_failed_write_leaves_the_old_file_and_no_rest(
    context: ToolContext, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a.txt").write_text("old")

    def full(descriptor: int, data: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    result = await call("write_file", context, path="a.txt", content="new")
    monkeypatch.undo()
    assert not result.ok
    assert "No space left" in result.content
    assert (root / "a.txt").read_text() == "old"
    assert [one.name for one in root.iterdir()] == ["a.txt"]


async def test_hard_links_are_stated(context: ToolContext, root: Path) -> None:
    (root / "a.txt").write_text("old\n")
    os.link(root / "a.txt", root / "b.txt")
    assert "2 names (hard links)" in (await call("read_file", context, path="a.txt")).content
    assert "2 names" in (await call("write_file", context, path="a.txt", content="new")).content
    assert (root / "b.txt").read_text() == "old\n"


async def test_patch_changes_unique_passages_all_or_none(context: ToolContext, root: Path) -> None:
    file = root / "a.py"
    file.write_bytes(b"def a():\n    return 1\n\ndef b():\n    return 2\n# \xff\n")
    good = await call(
        "patch_file",
        context,
        path="a.py",
        edits=[{"old": "return 1", "new": "return 10"}, {"old": "return 2\n", "new": "return 20\n"}],
    )
    assert good.content == "Changed a.py: 2 edits at line 2, 5."
    assert file.read_bytes() == b"def a():\n    return 10\n\ndef b():\n    return 20\n# \xff\n"
    before = file.read_bytes()
    for edits, fault in (
        ([{"old": "return 10", "new": "x"}, {"old": "nowhere", "new": "y"}], "edit 2: `old` is not in the file"),
        ([{"old": "return", "new": "x"}], "not unique (lines 2 and 5)"),
        ([{"old": "def a():\n  return 10", "new": "x"}], "line 1 differs only in its blanks"),
    ):
        bad = await call("patch_file", context, path="a.py", edits=edits)
        assert not bad.ok
        assert "nothing was changed" in bad.content
        assert fault in bad.content
        assert file.read_bytes() == before


async def test_patch_keeps_crlf(context: ToolContext, root: Path) -> None:
    (root / "dos.txt").write_bytes(b"a\r\nb\r\nc\r\n")
    assert (await call("patch_file", context, path="dos.txt", edits=[{"old": "a\nb", "new": "x\ny\nz"}])).ok
    assert (root / "dos.txt").read_bytes() == b"x\r\ny\r\nz\r\nc\r\n"


async def test_overlapping_patches_lose_nothing(context: ToolContext, root: Path) -> None:
    file = root / "list.txt"
    file.write_text("".join(f"<{number}>\n" for number in range(20)))

    async def one(number: int) -> None:
        while True:
            result = await call("patch_file", context, path="list.txt", edits=[{"old": f"<{number}>", "new": "done"}])
            if result.ok:
                return
            assert "changed by somebody else" in result.content

    await asyncio.gather(*(one(number) for number in range(20)))
    assert file.read_text() == "done\n" * 20


async def test_list_shows_kinds_and_is_bounded(context: ToolContext, root: Path) -> None:
    (root / "sub").mkdir()
    (root / "a.txt").write_text("abc")
    (root / "l").symlink_to("/etc/passwd")
    os.mkfifo(root / "p")
    (root / "bad\nname").write_text("")
    os.close(os.open(os.fsencode(root) + b"/\xff", os.O_CREAT))
    result = await call("list_files", context)
    assert result.content.splitlines()[0] == ".: 6 entries"
    assert {"file\t3\ta.txt", "folder\t-\tsub/", "link\t-\tl", "special\t-\tp", "file\t0\tbad\ufffdname"} <= set(
        result.content.splitlines()
    )
    result.content.encode("utf-8")
    for number in range(600):
        (root / "sub" / f"{number:03}").touch()
    many = await call("list_files", context, path="sub")
    assert many.content.splitlines()[0] == "sub: 600 entries, the first 500 follow"
    assert len(many.content.splitlines()) == 501


async def test_search_by_content_name_and_regex(context: ToolContext, root: Path) -> None:
    (root / "src").mkdir()
    (root / "src/a.py").write_text("alpha\nBeta = 1\n")
    (root / "src/b.txt").write_text("beta\n")
    (root / ".git").mkdir()
    (root / ".git/config").write_text("beta\n")
    (root / "bin").write_bytes(b"beta\0")
    (root / "out").symlink_to("/etc")
    found = await call("search_files", context, query="beta", ignore_case=True)
    assert found.content.splitlines()[1:] == ["src/a.py:2: Beta = 1", "src/b.txt:1: beta"]
    assert "1 files left out" in found.content
    assert "src/b.txt" not in (await call("search_files", context, query="beta", names="*.py")).content
    named = await call("search_files", context, query="*.py", by="name")
    assert named.content.splitlines()[1:] == ["src/a.py"]
    assert (await call("search_files", context, query="src/*", by="name", path="src")).content.count("src/") == 2
    regex = await call("search_files", context, query=r"^\w+ = \d", regex=True, path="src/a.py")
    assert regex.content.splitlines()[1:] == ["src/a.py:2: Beta = 1"]
    wrong = await call("search_files", context, query="(", regex=True)
    assert not wrong.ok
    assert "not valid" in wrong.content


async def test_search_is_bounded(context: ToolContext, root: Path) -> None:
    (root / "many.txt").write_text("hit\n" * 2000)
    result = await call("search_files", context, query="hit")
    assert len(result.content.splitlines()) == 201
    assert "more hits than fit" in result.content
    (root / "many.txt").unlink()
    for number in range(300):
        (root / f"{number}").touch()
    assert "too many entries" in (await call("search_files", context, query="hit")).content


async def test_an_evil_expression_neither_blocks_the_loop_nor_hangs(context: ToolContext, root: Path) -> None:
    (root / "a.txt").write_text("a" * 4000 + "!\n")
    worst = 0.0

    async def watch() -> None:
        nonlocal worst
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.01)
            worst = max(worst, time.perf_counter() - before - 0.01)

    watching = asyncio.create_task(watch())
    result = await call("search_files", context, query=r"(a|aa|aaa)+(b|c)\1$", regex=True)
    watching.cancel()
    assert not result.ok
    assert "takes too long" in result.content
    assert worst < 0.3


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "~/.state/.env",
        "../../etc/passwd",
        "../state/.env",
        "/proc/self/environ",
        "link",
        "folder/passwd",
        "chain",
        "magic",
        "sub/../../state/.env",
        "a\0b",
    ],
)
async def test_B81_no_way_out_by_path(context: ToolContext, root: Path, home: Path, path: str) -> None:
    (root / "sub").mkdir()
    (root / "link").symlink_to("/etc/passwd")
    (root / "folder").symlink_to("/etc")
    (root / "chain").symlink_to("link")
    (root / "magic").symlink_to(f"/proc/self/root{home}/.env")
    for result in (
        await call("read_file", context, path=path),
        await call("write_file", context, path=path, content="x") if path[0] != "~" else None,
        await call("patch_file", context, path=path, edits=[{"old": "root", "new": "x"}]),
        await call("list_files", context, path=path),
        await call("search_files", context, query="root", path=path),
    ):
        if result is not None:
            assert not result.ok
            assert "root:x" not in result.content
            assert "of-the-daemon" not in result.content
    assert (home / ".env").read_text() == "TOKEN=of-the-daemon\n"


async def test_B81_the_state_folder_is_closed_even_inside_the_root(context: ToolContext, tmp_path: Path) -> None:
    wide = _with_root(context, tmp_path)
    for path in ("state/.env", "work/../state/.env", "state", "way/.env"):
        (tmp_path / "way").unlink(missing_ok=True)
        (tmp_path / "way").symlink_to("state")
        for result in (
            await call("read_file", wide, path=path),
            await call("list_files", wide, path=path),
            await call("write_file", wide, path=f"{path}/x", content="x"),
        ):
            assert not result.ok, path
            assert "closed to tools" in result.content
    assert "of-the-daemon" not in (await call("search_files", wide, query="TOKEN")).content
    found = await call("search_files", wide, query="*env*", by="name")
    assert "state/" not in found.content
    assert not (await call("list_files", _with_root(context, context.home))).ok


async def test_a_root_below_the_state_folder_is_open_alone(context: ToolContext, home: Path) -> None:
    (home / "desk").mkdir()
    desk = _with_root(context, home / "desk")
    assert (await call("write_file", desk, path="a.txt", content="x")).ok
    assert not (await call("read_file", desk, path="../.env")).ok


def _with_root(context: ToolContext, root: Path) -> ToolContext:
    return ToolContext(
        session_id=context.session_id,
        turn_id=context.turn_id,
        call_id=context.call_id,
        rights=context.rights,
        root=root,
        home=context.home,
        ask=context.ask,
        processes=context.processes,
    )


async def test_B81_only_regular_files(context: ToolContext, root: Path) -> None:
    os.mkfifo(root / "fifo")
    listener = socket.socket(socket.AF_UNIX)
    here = Path.cwd()
    os.chdir(root)  # the name of a socket is short
    try:
        listener.bind("sock")
    finally:
        os.chdir(here)
    (root / "dir").mkdir()
    cases = {"fifo": "a pipe", "sock": "a socket", "dir": "a folder", ".": "a folder"}
    if os.geteuid() == 0:
        os.mknod(root / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        cases["null"] = "a device"
    try:
        for name, kind in cases.items():
            async with asyncio.timeout(2):  # opening a pipe would wait for a writer
                for result in (
                    await call("read_file", context, path=name),
                    await call("write_file", context, path=name, content="x"),
                ):
                    assert not result.ok
                    assert kind in result.content
        async with asyncio.timeout(2):
            assert (await call("search_files", context, query="x")).ok
    finally:
        listener.close()


async def test_B81_a_huge_file_is_refused_by_its_size(context: ToolContext, root: Path) -> None:
    with open(root / "huge", "wb") as file:
        file.truncate(5_000_000_000)
    result = await call("read_file", context, path="huge")
    assert not result.ok
    assert "5,000,000,000 bytes, the limit is 100,000" in result.content


async def test_B81_a_file_swapped_for_a_link_after_the_check(
    context: ToolContext, root: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The swap happens at the worst moment: between the check of the path and the opening."""
    checked = Confined.check

    def swap(self: Confined, real: Path, path: str) -> None:
        checked(self, real, path)
        if real.name in {"a.txt", "sub"} and not real.is_symlink():
            real.rename(root.parent / "aside")
            real.symlink_to(home / ".env" if real.name == "a.txt" else home)

    for path in ("a.txt", "sub/.env"):
        with monkeypatch.context() as patch:
            (root / "a.txt").write_text("mine")
            (root / "sub").mkdir(exist_ok=True)
            (root / "sub/.env").write_text("mine")
            real = Confined.resolve

            def resolve(self: Confined, given: str, real: Any = real) -> Path:
                found: Path = real(self, given)
                swap(self, found if found.name == "a.txt" else found.parent, given)
                return found

            patch.setattr(Confined, "resolve", resolve)
            result = await call("read_file", context, path=path)
        assert not result.ok
        assert "of-the-daemon" not in result.content


async def test_B81_swapping_all_the_time_never_leaks(root: Path, home: Path) -> None:
    (root / "d").mkdir()
    (root / "d/.env").write_text("mine")
    stop = threading.Event()

    def swapper() -> None:
        while not stop.is_set():
            os.rename(root / "d", root / "e")
            os.symlink(home, root / "d")
            os.unlink(root / "d")
            os.rename(root / "e", root / "d")

    def reader() -> tuple[int, int]:
        files = Confined(root, home)
        good = refused = 0
        end = time.monotonic() + 1.0
        while time.monotonic() < end or not (good and refused):
            if time.monotonic() > end + 20:
                break
            try:
                with files.file("d/.env") as (descriptor, _, _):
                    data = os.read(descriptor, 100)
            except (Refused, OSError):
                refused += 1
            else:
                assert data == b"mine"
                good += 1
        return good, refused

    swapping = asyncio.create_task(asyncio.to_thread(swapper))
    try:
        good, refused = await asyncio.to_thread(reader)
    finally:
        stop.set()
        await swapping
    assert good
    assert refused


async def test_B81_a_folder_moved_out_during_the_walk(
    root: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "sub").mkdir()
    (root / "sub/a.txt").write_text("mine")
    step = Confined.step

    def moving(self: Confined, folder: int, part: str, path: str) -> int:
        inner = step(self, folder, part, path)
        (root / part).rename(tmp_path / "moved")
        return inner

    monkeypatch.setattr(Confined, "step", moving)
    with pytest.raises(Refused, match="outside"), Confined(root, home).file("sub/a.txt"):
        pass


def test_B81_each_layer_refuses_by_itself(
    root: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The walk, the opening and the opened descriptor, each with the earlier checks already passed."""
    files = Confined(root, home)
    (root / "way").symlink_to(home)
    (root / "a.txt").write_text("mine")
    folder = os.open(root, os.O_RDONLY)
    regular = confine._regular

    def swap(found: os.stat_result, path: str) -> None:
        regular(found, path)
        (root / "a.txt").unlink()
        (root / "a.txt").symlink_to(home / ".env")

    try:
        with pytest.raises(Refused, match="changed just now"):
            files.step(folder, "way", "way")
        with monkeypatch.context() as patch:
            patch.setattr(confine, "_regular", swap)
            with pytest.raises(Refused, match="changed while it was opened"):
                files.open_regular(folder, "a.txt", "a.txt")
    finally:
        os.close(folder)
    (root / "a.txt").unlink()
    (root / "a.txt").write_text("mine")
    opening = Confined.open_regular

    def moving(self: Confined, folder: int, name: str, path: str) -> int:
        opened = opening(self, folder, name, path)
        (root / name).rename(tmp_path / "moved")
        return opened

    monkeypatch.setattr(Confined, "open_regular", moving)
    with pytest.raises(Refused, match="outside"), files.file("a.txt"):
        pass


async def test_a_cancelled_write_changes_nothing(
    context: ToolContext, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a.txt").write_text("old")
    reached, go = threading.Event(), threading.Event()
    fill = confine._fill

    def slow(descriptor: int, data: bytes, before: Any) -> None:
        fill(descriptor, data, before)
        reached.set()
        go.wait(5)

    monkeypatch.setattr(confine, "_fill", slow)
    task = asyncio.create_task(call("write_file", context, path="a.txt", content="new"))
    await asyncio.to_thread(reached.wait, 5)
    task.cancel()
    asyncio.get_running_loop().call_later(0.02, go.set)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (root / "a.txt").read_text() == "old"
    assert [one.name for one in root.iterdir()] == ["a.txt"]


async def test_B54_a_thread_that_does_not_stop_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "STOP_SECONDS", 0.05)
    go = threading.Event()
    task = asyncio.create_task(threads.in_thread(lambda _: go.wait(10)))
    await asyncio.sleep(0.01)
    task.cancel()
    before = time.monotonic()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - before < 1
    go.set()
