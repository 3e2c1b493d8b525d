"""One memory file on the disk, with its side-car: read whole, changed under a lock, never half written (B97).

Every change reads the file anew under the lock, so that what another process or an editor has added stays. The
side-car (`MEMORY.meta.json`) says of each entry who may see it, where it comes from, when, and how sure it is; it is
found by the entry's own text, so that an entry that somebody edits by hand has none until it is written again.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import structlog

from agent_core.memory.entries import join, parse

log = structlog.get_logger("agent_core.memory")

LARGEST = 1_000_000
"""Bytes of a file that is read at all."""
LOCK_SECONDS = 5.0
GONE_KEPT = 20


class MemoryFault(Exception):
    """The file cannot be read or written as it is. The message is for people and for the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known about an entry. `audience` is a label (state.audience), None where nobody has said it; `at` is UTC
    as ISO text; `confidence` is `said` (a person said it), `inferred` or `unknown`."""

    audience: str | None = None
    session: str = ""
    turn: str = ""
    at: str = ""
    confidence: str = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry with its facts."""

    text: str
    facts: Facts = Facts()


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """An entry that was taken out, for those who were told of it."""

    text: str
    facts: Facts


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """A file as it is. `problem` is what is wrong with it and does not keep it from being used."""

    entries: tuple[Entry, ...] = ()
    gone: tuple[Gone, ...] = ()
    problem: str = ""

    @property
    def texts(self) -> list[str]:
        """The entries without their facts."""
        return [entry.text for entry in self.entries]


Change = Callable[[Content], Content]
"""Makes the new content. Raises `MemoryFault` for what is refused: then nothing is written."""


class Shelf:
    """One memory file. Blocking; for threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._meta = path.with_name(f"{path.stem}.meta.json")

    def read(self) -> Content:
        """The file as it is; no file is no entries. Raises `MemoryFault` where it cannot be read: that is not empty."""
        data = self._bytes()
        if data is None:
            return Content()
        text = data.decode("utf-8", "surrogateescape")
        problem = f"{self.path.name} holds binary data" if "\x00" in text else ""
        if any(0xDC80 <= ord(char) <= 0xDCFF for char in text):
            problem = f"{self.path.name} is not all UTF-8 text; the bytes are kept as they are"
        facts, gone = self._facts()
        entries = tuple(Entry(text=one, facts=facts.get(_name(one), Facts())) for one in parse(text))
        return Content(entries=entries, gone=gone, problem=problem)

    def change(self, change: Change) -> Content:
        """Read, change and write under the lock. Returns what is there now. Raises `MemoryFault`."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with self._locked():
                before = self.read()
                after = change(before)
                if after != before:
                    _write(self._meta, _dump(after))
                    _write(self.path, join(after.texts).encode("utf-8", "surrogateescape"))
                return after
        except OSError as error:
            raise MemoryFault(f"{self.path.name} cannot be written: {error.strerror or error}") from error

    def _bytes(self) -> bytes | None:
        try:
            with self.path.open("rb") as file:
                data = file.read(LARGEST + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise MemoryFault(f"{self.path.name} cannot be read: {error.strerror or error}") from error
        if len(data) > LARGEST:
            raise MemoryFault(f"{self.path.name} is larger than {LARGEST:,} bytes: somebody has to look at it")
        return data

    def _facts(self) -> tuple[dict[str, Facts], tuple[Gone, ...]]:
        try:
            raw = json.loads(self._meta.read_text(encoding="utf-8"))
            facts = {str(name): Facts(**one) for name, one in raw["entries"].items()}
            gone = tuple(Gone(text=str(one["text"]), facts=Facts(**one["facts"])) for one in raw["gone"])
        except FileNotFoundError:
            return {}, ()
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            # without it an entry is nobody's in particular, which shows it to fewer people, not to more
            log.warning("memory.facts_unreadable", file=self._meta.name, error=str(error))
            return {}, ()
        return facts, gone

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        descriptor = os.open(
            self.path.with_name(f".{self.path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        try:
            until = time.monotonic() + LOCK_SECONDS
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > until:
                        raise MemoryFault(f"{self.path.name} is being written elsewhere; try again") from None
                    time.sleep(0.005)
            yield
        finally:
            os.close(descriptor)


def _name(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _dump(content: Content) -> bytes:
    known = {_name(one.text): asdict(one.facts) for one in content.entries if one.facts != Facts()}
    gone = [{"text": one.text, "facts": asdict(one.facts)} for one in content.gone[-GONE_KEPT:]]
    return json.dumps({"v": 1, "entries": known, "gone": gone}, ensure_ascii=True, indent=1).encode()


def _write(path: Path, data: bytes) -> None:
    """The whole file or the old one, also after a power cut."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def with_entry(content: Content, entry: Entry) -> Content:
    """With one more entry at the end."""
    return replace(content, entries=(*content.entries, entry))


def without(content: Content, place: int, facts: Facts) -> Content:
    """Without the entry at `place`; `facts` say who has taken it out."""
    kept = [*content.entries[:place], *content.entries[place + 1 :]]
    old = content.entries[place]
    gone = Gone(text=old.text, facts=replace(facts, audience=old.facts.audience))
    return replace(content, entries=tuple(kept), gone=(*content.gone, gone))


def instead(content: Content, place: int, entry: Entry) -> Content:
    """With another entry at `place`."""
    entries: Sequence[Entry] = [*content.entries[:place], entry, *content.entries[place + 1 :]]
    return replace(content, entries=tuple(entries))
