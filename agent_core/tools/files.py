"""The tools `read_file`, `write_file`, `patch_file` and `list_files`, inside the working folder."""

from __future__ import annotations

import codecs
import os
import stat
import threading
from collections.abc import Callable, Mapping
from typing import Any

from agent_core.models.ports import ToolSpec
from agent_core.tools import text
from agent_core.tools.confine import Confined, Refused, Stamp
from agent_core.tools.ports import ToolContext, ToolResult
from agent_core.tools.settings import FileSettings
from agent_core.tools.threads import in_thread

_PATH = '"path":{"type":"string","description":"Relative to the working folder.","minLength":1,"maxLength":4096}'
_MAX_LINE = 2000
_MAX_ENTRIES = 500

Work = Callable[[Confined, threading.Event], ToolResult]


async def confined(context: ToolContext, doing: str, work: Work) -> ToolResult:
    """Run blocking file work, and turn what it refuses or what the system refuses into a result."""

    def whole(stop: threading.Event) -> ToolResult:
        try:
            return work(Confined(context.root, context.home), stop)
        except Refused as refusal:
            fault = str(refusal)
        except FileNotFoundError:
            fault = "there is no such file or folder"
        except OSError as error:
            fault = error.strerror or str(error)
        return ToolResult(content=f"{doing}: {fault}", ok=False, summary=text.line(f"{doing}: {fault}"))

    return await in_thread(whole)


class ReadFile:
    """Reads lines of a text file, numbered and bounded."""

    group = "files"
    parallel = True

    def __init__(self, settings: FileSettings) -> None:
        self._settings = settings
        self.spec = ToolSpec(
            name="read_file",
            description="Read a text file of the working folder. Each line comes with its number and a tab before it.",
            parameters=(
                '{"type":"object","properties":{' + _PATH + ","
                '"first":{"type":"integer","description":"First line, from 1.","minimum":1},'
                '"last":{"type":"integer","description":"Last line.","minimum":1}'
                '},"required":["path"],"additionalProperties":false}'
            ),
        )

    def describe(self, arguments: Mapping[str, Any]) -> str:
        """The path."""
        return text.line(f"reads {text.argument(arguments, 'path')}")

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """See `Tool.run`."""
        path: str = arguments["path"]
        first: int = arguments.get("first", 1)
        last: int | None = arguments.get("last")

        def work(files: Confined, _: threading.Event) -> ToolResult:
            data, stamp, name = load(files, path, self._settings.max_bytes)
            content = self._lines(name, data, stamp, first, last)
            return ToolResult(content=content, summary=text.line(f"read {name}"), extract=f"read {name}")

        return await confined(context, f"Cannot read {path!r}", work)

    def _lines(self, name: str, data: bytes, stamp: Stamp, first: int, last: int | None) -> str:
        decoded, notes = decode(data)
        lines = decoded.split("\n")
        if lines[-1] == "":
            lines.pop()
        if lines and first > len(lines):
            raise Refused(f"it has only {text.count(len(lines), 'line')}")
        if last is not None and last < first:
            raise Refused("the last line stands before the first")
        end = min(len(lines), last or len(lines))
        shown: list[str] = []
        room = self._settings.result_chars
        for number in range(first, end + 1):
            one = lines[number - 1].removesuffix("\r")
            if len(one) > _MAX_LINE:
                one = f"{one[:_MAX_LINE]} [… {len(one) - _MAX_LINE:,} more characters]"
            room -= len(one) + 8
            if room < 0:
                notes.append(f"cut: go on with first={number}")
                end = number - 1
                break
            shown.append(f"{number:>6}\t{one}")
        if stamp.links > 1:
            notes.append(f"the file has {stamp.links} names (hard links)")
        what = f"lines {first}-{end} of {len(lines):,}" if lines else "empty"
        head = "; ".join([f"{name}: {what}, {text.count(len(data), 'byte')}", *notes])
        return "\n".join([head, *shown])


class WriteFile:
    """Writes a whole file."""

    group = "files"
    parallel = False

    def __init__(self, settings: FileSettings) -> None:
        self._settings = settings
        self.spec = ToolSpec(
            name="write_file",
            description="Write a whole text file in the working folder; folders on the way are made. Replaces it.",
            parameters=(
                '{"type":"object","properties":{' + _PATH + ","
                '"content":{"type":"string","maxLength":2000000}'
                '},"required":["path","content"],"additionalProperties":false}'
            ),
        )

    def describe(self, arguments: Mapping[str, Any]) -> str:
        """The path and the size."""
        size = len(text.argument(arguments, "content"))
        return text.line(f"writes {text.argument(arguments, 'path')} ({text.count(size, 'character')})")

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """See `Tool.run`."""
        path: str = arguments["path"]
        content: str = arguments["content"]

        def work(files: Confined, stop: threading.Event) -> ToolResult:
            data = content.encode("utf-8")
            name = files.name(files.resolve(path))
            before = files.replace(path, data, stop=stop)
            told = f"{'Replaced' if before else 'Made'} {name} ({text.count(len(data), 'byte')}).{_links(before)}"
            return ToolResult(content=told, summary=text.line(told), extract=f"wrote {name}")

        return await confined(context, f"Cannot write {path!r}", work)


class PatchFile:
    """Replaces passages that occur exactly once. All edits of a call or none."""

    group = "files"
    parallel = False

    def __init__(self, settings: FileSettings) -> None:
        self._settings = settings
        self.spec = ToolSpec(
            name="patch_file",
            description=(
                "Change passages of a text file. Each `old` must occur exactly once (take enough lines around it) and "
                "becomes `new`. The edits are made in order, all of them or none."
            ),
            parameters=(
                '{"type":"object","properties":{' + _PATH + ","
                '"edits":{"type":"array","minItems":1,"maxItems":100,"items":{"type":"object","properties":{'
                '"old":{"type":"string","minLength":1,"maxLength":200000},'
                '"new":{"type":"string","maxLength":200000}'
                '},"required":["old","new"],"additionalProperties":false}}'
                '},"required":["path","edits"],"additionalProperties":false}'
            ),
        )

    def describe(self, arguments: Mapping[str, Any]) -> str:
        """The path."""
        return text.line(f"changes {text.argument(arguments, 'path')}")

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """See `Tool.run`."""
        path: str = arguments["path"]
        edits: list[dict[str, str]] = arguments["edits"]

        def work(files: Confined, stop: threading.Event) -> ToolResult:
            data, stamp, name = load(files, path, self._settings.max_bytes)
            # Bytes that are no UTF-8 pass through unchanged.
            content = data.decode("utf-8", "surrogateescape")
            crlf = "\r\n" in content and content.count("\n") == content.count("\r\n")
            places = []
            for number, edit in enumerate(edits, 1):
                old, new = (_as_crlf(edit[one]) if crlf else edit[one] for one in ("old", "new"))
                place = _only_place(content, old, number)
                places.append(content.count("\n", 0, place) + 1)
                content = content[:place] + new + content[place + len(old) :]
            files.replace(path, content.encode("utf-8", "surrogateescape"), stop=stop, expect=stamp)
            lines = ", ".join(map(str, places))
            told = f"Changed {name}: {text.count(len(edits), 'edit')} at line {lines}.{_links(stamp)}"
            return ToolResult(content=told, summary=text.line(told), extract=f"changed {name}")

        return await confined(context, f"Cannot change {path!r}; nothing was changed", work)


class ListFiles:
    """Lists one folder."""

    group = "files"
    parallel = True

    def __init__(self, settings: FileSettings) -> None:
        self.spec = ToolSpec(
            name="list_files",
            description="List a folder of the working folder: kind, size and name of each entry.",
            parameters=(
                '{"type":"object","properties":{'
                '"path":{"type":"string","description":"The folder; the working folder itself if left out.",'
                '"minLength":1,"maxLength":4096}},"additionalProperties":false}'
            ),
        )

    def describe(self, arguments: Mapping[str, Any]) -> str:
        """The path."""
        return text.line(f"lists {text.argument(arguments, 'path') or '.'}")

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """See `Tool.run`."""
        path: str = arguments.get("path", ".")

        def work(files: Confined, stop: threading.Event) -> ToolResult:
            real = files.resolve(path)
            rows: list[str] = []
            with files.folder(real, path) as folder:
                names = sorted(os.listdir(folder))
                for one in names[:_MAX_ENTRIES]:
                    if stop.is_set():
                        break
                    rows.append(_entry(folder, one))
            name = files.name(real)
            head = f"{name}: {len(names):,} entries"
            if len(names) > _MAX_ENTRIES:
                head += f", the first {_MAX_ENTRIES} follow"
            return ToolResult(content="\n".join([head, *rows]), summary=text.line(f"listed {name}"))

        return await confined(context, f"Cannot list {path!r}", work)


def load(files: Confined, path: str, limit: int) -> tuple[bytes, Stamp, str]:
    """The bytes of a text file, what it was, and its name. Refuses what is too large or binary."""
    with files.file(path) as (descriptor, found, real):
        if found.st_size > limit:
            raise Refused(f"it has {found.st_size:,} bytes, the limit is {limit:,}")
        data = bytearray()
        while len(data) <= limit and (block := os.read(descriptor, min(1 << 20, limit + 1 - len(data)))):
            data += block
    if len(data) > limit:
        raise Refused(f"it grew past the limit of {limit:,} bytes while it was read")
    if b"\0" in data:
        raise Refused(f"it is binary ({text.count(len(data), 'byte')}, beginning {bytes(data[:16]).hex(' ')})")
    return bytes(data), Stamp.of(found), files.name(real)


def decode(data: bytes) -> tuple[str, list[str]]:
    """The text, and what has to be said about how it is stored."""
    notes = []
    if data.startswith(codecs.BOM_UTF8):
        data = data[3:]
        notes.append("begins with a byte order mark")
    try:
        decoded = data.decode("utf-8")
    except UnicodeDecodeError:
        decoded = data.decode("utf-8", "replace")
        wrong = sum("\udc80" <= one <= "\udcff" for one in data.decode("utf-8", "surrogateescape"))
        notes.append(f"not UTF-8: {text.count(wrong, 'byte')} shown as \ufffd")
    if "\r\n" in decoded:
        notes.append("lines end with CRLF")
    return decoded, notes


def _only_place(content: str, old: str, number: int) -> int:
    place = content.find(old)
    if place < 0:
        # Compared without indentation and blanks at the ends: the usual reason for a miss.
        wanted = [one.strip() for one in old.strip().splitlines()]
        lines = [one.strip() for one in content.splitlines()]
        for start in range(len(lines) - len(wanted) + 1):
            if wanted and lines[start : start + len(wanted)] == wanted:
                raise Refused(f"edit {number}: `old` is not there, but line {start + 1} differs only in its blanks")
        raise Refused(f"edit {number}: `old` is not in the file")
    again = content.find(old, place + 1)
    if again >= 0:
        lines_at = [content.count("\n", 0, one) + 1 for one in (place, again)]
        raise Refused(
            f"edit {number}: `old` is not unique (lines {lines_at[0]} and {lines_at[1]}); take more around it"
        )
    return place


def _as_crlf(passage: str) -> str:
    return passage.replace("\r\n", "\n").replace("\n", "\r\n")


def _links(before: Stamp | None) -> str:
    if before is None or before.links < 2:
        return ""
    return f" It had {before.links} names (hard links); only this one has the new content."


def _entry(folder: int, name: str) -> str:
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return f"?\t-\t{text.line(name)}"
    shown = "".join(one if one.isprintable() else "\ufffd" for one in name)
    if stat.S_ISDIR(found.st_mode):
        return f"folder\t-\t{shown}/"
    if stat.S_ISREG(found.st_mode):
        return f"file\t{found.st_size}\t{shown}"
    return f"{'link' if stat.S_ISLNK(found.st_mode) else 'special'}\t-\t{shown}"
