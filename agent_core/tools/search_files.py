"""The tool `search_files`: by name or by content, inside the working folder."""

from __future__ import annotations

import fnmatch
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from agent_core.models.ports import ToolSpec
from agent_core.tools import text
from agent_core.tools.confine import Confined, Refused
from agent_core.tools.files import confined
from agent_core.tools.ports import ToolContext, ToolResult
from agent_core.tools.settings import FileSettings

_SKIPPED = frozenset(
    {".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", ".mypy_cache", ".ruff_cache"}
)
_MAX_HITS = 200
_MAX_DEPTH = 40
_MATCH_SECONDS = 0.5
"""Bound of one expression on one line."""

Match = Callable[[str], bool]


class SearchFiles:
    """Finds files by a name pattern, or lines by a text or an expression."""

    group = "files"
    parallel = True

    def __init__(self, settings: FileSettings) -> None:
        self._settings = settings
        self.spec = ToolSpec(
            name="search_files",
            description=(
                "Search the working folder. `by` content: lines that hold `query`; by name: files whose name fits the "
                "pattern `query` (like *.py; with a slash the whole path is compared). Links are not followed, and "
                "folders such as .git and node_modules are left out."
            ),
            parameters=(
                '{"type":"object","properties":{'
                '"query":{"type":"string","minLength":1,"maxLength":1000},'
                '"by":{"type":"string","enum":["content","name"]},'
                '"path":{"type":"string","description":"Folder or file to search.","minLength":1,"maxLength":4096},'
                '"names":{"type":"string","description":"Only files whose name fits this pattern.","minLength":1,'
                '"maxLength":200},'
                '"regex":{"type":"boolean","description":"`query` is a regular expression."},'
                '"ignore_case":{"type":"boolean"}'
                '},"required":["query"],"additionalProperties":false}'
            ),
        )

    def describe(self, arguments: Mapping[str, Any]) -> str:
        """What is searched."""
        return text.line(f"searches files for {text.argument(arguments, 'query')}")

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """See `Tool.run`."""

        def work(files: Confined, stop: threading.Event) -> ToolResult:
            return _Search(files, stop, self._settings, arguments).run()

        return await confined(context, "Cannot search", work)


class _Search:
    """One search."""

    def __init__(
        self, files: Confined, stop: threading.Event, settings: FileSettings, arguments: Mapping[str, Any]
    ) -> None:
        self.files = files
        self.stop = stop
        self.settings = settings
        self.query: str = arguments["query"]
        self.path: str = arguments.get("path", ".")
        self.names: str | None = arguments.get("names")
        self.by_name = arguments.get("by", "content") == "name"
        self.matches = _matcher(self.query, arguments.get("regex", False), arguments.get("ignore_case", False))
        self.limit = time.monotonic() + settings.search_seconds
        self.looked = 0
        self.hits: list[str] = []
        self.notes: list[str] = []
        self.left_out = 0
        self.room = settings.result_chars

    def run(self) -> ToolResult:
        """Walk until the end or a bound."""
        real = self.files.resolve(self.path)
        start = self.files.name(real)
        if os.path.isfile(real):
            with self.files.file(self.path) as (descriptor, found, _):
                self._lines(descriptor, found.st_size, start)
        else:
            with self.files.folder(real, self.path) as folder:
                for inner, name, path in self._walk(folder, "" if start == "." else f"{start}/", 0):
                    self._visit(inner, name, path)
                    if self._enough():
                        break
        if self.left_out:
            self.notes.append(f"{self.left_out} files left out (binary, too large or not readable)")
        head = "; ".join([f"{text.count(len(self.hits), 'hit')}, looked at {self.looked:,} entries", *self.notes])
        return ToolResult(content="\n".join([head, *self.hits]), summary=text.line(f"{head}: {self.query}"))

    def _walk(self, folder: int, prefix: str, depth: int) -> Iterator[tuple[int, str, str]]:
        """Every entry that is no folder: the descriptor of its folder, its name, its path."""
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda one: one.name)
        for entry in entries:
            self.looked += 1
            if not entry.is_dir(follow_symlinks=False):
                yield folder, entry.name, f"{prefix}{entry.name}"
            elif entry.name not in _SKIPPED and depth < _MAX_DEPTH:
                try:
                    inner = self.files.step(folder, entry.name, f"{prefix}{entry.name}")
                except (OSError, Refused):
                    continue
                try:
                    yield from self._walk(inner, f"{prefix}{entry.name}/", depth + 1)
                finally:
                    os.close(inner)

    def _visit(self, folder: int, name: str, path: str) -> None:
        if self.by_name:
            if fnmatch.fnmatchcase(path if "/" in self.query else name, self.query):
                self._hit(path)
            return
        if self.names is not None and not fnmatch.fnmatchcase(name, self.names):
            return
        try:
            if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                return
            descriptor = self.files.open_regular(folder, name, path)
        except (OSError, Refused):
            self.left_out += 1
            return
        try:
            self._lines(descriptor, os.fstat(descriptor).st_size, path)
        finally:
            os.close(descriptor)

    def _lines(self, descriptor: int, size: int, path: str) -> None:
        if size > self.settings.search_file_bytes:
            self.left_out += 1
            return
        data = os.read(descriptor, size)
        if b"\0" in data[:8192]:
            self.left_out += 1
            return
        for number, one in enumerate(data.decode("utf-8", "replace").split("\n"), 1):
            try:
                hit = self.matches(one)
            except TimeoutError:
                raise Refused("the expression takes too long; make it simpler") from None
            if hit:
                self._hit(f"{path}:{number}: {text.cut(one.strip(), 300)}")
            if self._enough():
                return

    def _hit(self, row: str) -> None:
        self.hits.append("".join(one if one.isprintable() or one == "\t" else "\ufffd" for one in row))
        self.room -= len(row) + 1

    def _enough(self) -> bool:
        """True when a bound is reached; says which, once."""
        if self.notes:
            return True
        if len(self.hits) >= _MAX_HITS or self.room <= 0:
            self.notes.append("stopped: more hits than fit")
        elif self.looked >= self.settings.search_files:
            self.notes.append("stopped: too many entries, name a folder")
        elif self.stop.is_set() or time.monotonic() > self.limit:
            self.notes.append("stopped: out of time, name a folder")
        return bool(self.notes)


def _matcher(query: str, is_regex: bool, ignore_case: bool) -> Match:
    if not is_regex:
        if not ignore_case:
            return lambda one: query in one
        folded = query.casefold()
        return lambda one: folded in one.casefold()
    import regex  # noqa: PLC0415 - heavy, and seldom needed

    try:
        compiled = regex.compile(query, regex.IGNORECASE if ignore_case else 0)
    except (regex.error, RecursionError, OverflowError) as error:
        raise Refused(f"the expression is not valid: {error}") from None
    # `concurrent` gives the interpreter free while it matches: the event loop goes on.
    return lambda one: compiled.search(one, timeout=_MATCH_SECONDS, concurrent=True) is not None
