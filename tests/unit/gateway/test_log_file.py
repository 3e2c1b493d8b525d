"""The log file: turned over by size, moved away by others, on a disk that is full."""

from __future__ import annotations

import errno
import io
import json
import logging
import os
import stat
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from gateway import log
from gateway.log_file import FileSettings, LogFile

TOKEN = "123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1"


class Told:
    """What standard error is told."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def __call__(self, event: str, about: str) -> None:
        assert about
        self.events.append(event)


def a_file(path: Path, told: Told | None = None, *, max_bytes: int = 1000, keep: int = 2) -> LogFile:
    return LogFile(FileSettings(path=path, max_bytes=max_bytes, keep=keep), told or Told())


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def test_it_is_turned_over_at_its_size_and_keeps_so_many(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "tidings.log"
    log_file = a_file(path, max_bytes=100, keep=2)
    for number in range(40):
        log_file.write(f"line {number:04}\n")  # 10 bytes
    names = sorted(one.name for one in path.parent.iterdir())
    assert names == ["tidings.log", "tidings.log.1", "tidings.log.2"]
    kept = [line for name in reversed(names) for line in lines(path.parent / name)]
    assert kept == [f"line {number:04}" for number in range(10, 40)]
    assert all(stat.S_IMODE(one.stat().st_mode) == 0o600 for one in path.parent.iterdir())
    log_file.close()


def test_a_batch_is_cut_between_lines_and_a_line_that_is_too_long_is_written_whole(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log_file = a_file(path, max_bytes=100, keep=9)
    long = "x" * 250
    log_file.write("".join(f"line {number:04}\n" for number in range(15)) + long + "\n" + "end\n")
    assert lines(path) == ["end"]
    assert lines(tmp_path / "log.1") == [long]
    assert lines(tmp_path / "log.2") == [f"line {number:04}" for number in range(10, 15)]
    assert lines(tmp_path / "log.3") == [f"line {number:04}" for number in range(10)]
    log_file.close()


def test_nothing_is_kept_where_nothing_is_to_be_kept(tmp_path: Path) -> None:
    log_file = a_file(tmp_path / "log", max_bytes=20, keep=0)
    for number in range(10):
        log_file.write(f"line {number:04}\n")
    assert [one.name for one in tmp_path.iterdir()] == ["log"]
    assert lines(tmp_path / "log") == ["line 0008", "line 0009"]
    log_file.close()


def test_a_file_that_somebody_moves_or_removes_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log_file = a_file(path)
    log_file.write("one\n")
    path.rename(tmp_path / "moved")
    log_file.write("two\n")
    assert lines(tmp_path / "moved") == ["one"]
    assert lines(path) == ["two"]
    path.unlink()
    log_file.write("three\n")
    assert lines(path) == ["three"]
    log_file.close()


def test_a_file_that_is_moved_away_in_the_moment_it_is_turned_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Told()
    path = tmp_path / "log"
    log_file = a_file(path, told, max_bytes=12)
    log_file.write("line 0001\n")
    close = log_file.close

    def taken() -> None:
        close()
        if path.exists():
            path.rename(tmp_path / "moved")

    monkeypatch.setattr(log_file, "close", taken)
    log_file.write("line 0002\n")
    monkeypatch.undo()
    assert lines(tmp_path / "moved") == ["line 0001"]
    assert lines(path) == ["line 0002"]
    assert told.events == []
    log_file.close()


def test_an_existing_file_is_continued_and_closed_to_others(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("earlier\n")
    path.chmod(0o644)
    log_file = a_file(path)
    log_file.write("later\n")
    assert lines(path) == ["earlier", "later"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    log_file.close()


def test_a_full_disk_is_told_once_and_half_a_line_does_not_spoil_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Told()
    log_file = a_file(tmp_path / "log", told)
    log_file.write("one\n")
    real = os.write
    room = [3]

    def full(descriptor: int, data: bytes | memoryview) -> int:
        if room[0] == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = real(descriptor, bytes(data)[: room[0]])
        room[0] -= written
        return written

    monkeypatch.setattr(os, "write", full)
    for _ in range(3):
        with pytest.raises(OSError, match="No space"):
            log_file.write("two is longer\n")
    assert told.events == ["log.file_failed"]
    monkeypatch.setattr(os, "write", real)
    log_file.write("three\n")
    assert told.events == ["log.file_failed", "log.file_again"]
    assert lines(tmp_path / "log") == ["one", "two", "three"]
    log_file.close()


@pytest.mark.parametrize("kind", ["folder", "link", "pipe"])
def test_what_is_no_plain_file_is_told_and_holds_nothing_up(tmp_path: Path, kind: str) -> None:
    path, told = tmp_path / "log", Told()
    if kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to(tmp_path / "other")
    else:
        os.mkfifo(path)
    log_file = a_file(path, told)
    with pytest.raises(OSError):  # noqa: PT011 - whatever the system calls it
        log_file.write("one\n")
    assert told.events == ["log.file_failed"]
    assert not (tmp_path / "other").exists()


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """A standard error; everything global is put back afterwards."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    yield io.StringIO()
    log.configure(stream=io.StringIO())
    log.shutdown()
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)
    structlog.reset_defaults()


def test_the_file_gets_the_same_redacted_lines(stream: io.StringIO, tmp_path: Path) -> None:
    log.configure(stream=stream, secrets=["a-secret-of-ours"], file=FileSettings(path=tmp_path / "log"))
    structlog.get_logger("x").info("told", about=f"a-secret-of-ours and {TOKEN}", text="what people say")
    log.shutdown()
    assert (tmp_path / "log").read_text() == stream.getvalue()
    (line,) = [json.loads(one) for one in lines(tmp_path / "log")]
    assert "secret" not in line["about"]
    assert TOKEN not in line["about"]
    assert line["text"] == "<15 long>"


def test_settings_change_while_it_is_written(stream: io.StringIO, tmp_path: Path) -> None:
    first, second = FileSettings(path=tmp_path / "first"), FileSettings(path=tmp_path / "second")
    log.configure(stream=stream, file=first)
    logger = structlog.get_logger("x")
    logger.info("one")
    logger.debug("hidden")
    log.change(level="debug", format="json", secrets=["another-secret"], file=second)
    logger.debug("two", about="another-secret")
    log.change(level="error", format="json", secrets=[], file=None)
    logger.info("hidden")
    logger.error("three", about="another-secret")
    for thread in threading.enumerate():
        if thread.name == "log-file-close":
            thread.join(5)
    log.shutdown()
    assert [json.loads(one)["event"] for one in lines(tmp_path / "first")] == ["one"]
    assert [json.loads(one)["event"] for one in lines(tmp_path / "second")] == ["two"]
    assert [json.loads(one)["event"] for one in stream.getvalue().splitlines()] == ["one", "two", "three"]
    assert "another-secret" not in stream.getvalue()
