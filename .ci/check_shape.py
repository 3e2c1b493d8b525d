"""The gate on the shape of the code: sizes, names of platforms, unnamed tasks, the top level.

Run as `python .ci/check_shape.py [ROOT]`. Prints each fault as `path:line: what`, then the median size of a file;
ends with 1 where there is a fault. It only parses, and imports nothing of the project.
"""

from __future__ import annotations

import ast
import fnmatch
import re
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FILE_LINES = 600
FUNCTION_LINES = 80
CLASS_METHODS = 25

PACKAGES = ("gateway", "agent_core", "adapters", "state")
MEASURED = (*PACKAGES, "tests", ".ci", "deploy")
CODE = frozenset({".py", ".pyi", ".sql", ".sh"})

PLATFORM_BLIND = ("gateway", "agent_core", "state")
"""Packages that know no platform by name."""
CONFIGURATION = frozenset({".yaml", ".yml", ".json", ".toml"})
"""What may name platforms there: configuration data."""
PLATFORMS = re.compile("telegram|discord|slack", re.IGNORECASE)

TOP_LEVEL = frozenset(
    {
        *("pyproject.toml", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "config.example.yaml"),
        *("gateway", "agent_core", "adapters", "state", "deploy", "tests", "docs"),
        *(".ci", ".gitignore", ".dockerignore", ".git"),
    }
)
ADAPTERISH = re.compile("adapter", re.IGNORECASE)

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, order=True)
class Fault:
    """One thing that is refused. `line` is 0 where it is about the whole file."""

    path: str
    line: int
    what: str

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line else self.path
        return f"{place}: {self.what}"


def check(root: Path) -> list[Fault]:
    """Every fault of the tree at `root`, in order."""
    faults = list(_top_level(root))
    for path in _files(root, MEASURED):
        faults += _file(root, path)
    for path in _files(root, PLATFORM_BLIND, every=True):
        faults += _names(root, path)
    return sorted(faults)


def median(root: Path, folders: tuple[str, ...] = PACKAGES) -> int:
    """The median number of lines of the Python files in `folders` that are not empty."""
    sizes = [len(_lines(path)) for path in _files(root, folders) if path.suffix == ".py"]
    return int(statistics.median([size for size in sizes if size] or [0]))


def _top_level(root: Path) -> Iterator[Fault]:
    ignored = _ignored(root)
    for entry in sorted(root.iterdir()):
        name = entry.name
        if name not in TOP_LEVEL and not any(fnmatch.fnmatch(name, pattern) for pattern in ignored):
            yield Fault(name, 0, "this does not belong to the top level (DESIGN 3)")


def _ignored(root: Path) -> list[str]:
    try:
        lines = (root / ".gitignore").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    return [line.strip().strip("/") for line in lines if line.strip() and not line.startswith("#")]


def _files(root: Path, folders: tuple[str, ...], *, every: bool = False) -> Iterator[Path]:
    """Files of code in `folders`, or all of them; nothing that git ignores by its name."""
    ignored = _ignored(root)
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            parts = path.relative_to(root / folder).parts
            if any(fnmatch.fnmatch(part, pattern) for part in parts for pattern in ignored) or not path.is_file():
                continue
            if every or path.suffix in CODE or _is_script(path):
                yield path


def _is_script(path: Path) -> bool:
    if path.suffix:
        return False
    with path.open("rb") as file:
        return file.read(2) == b"#!"


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def _file(root: Path, path: Path) -> Iterator[Fault]:
    where = path.relative_to(root).as_posix()
    size = len(_lines(path))
    if size > FILE_LINES:
        yield Fault(where, 0, f"{size} lines, {FILE_LINES} are allowed")
    if path.suffix not in (".py", ".pyi"):
        return
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"), where)
    except SyntaxError as error:
        yield Fault(where, error.lineno or 0, "cannot be parsed")
        return
    is_ours = where.partition("/")[0] in PACKAGES
    for node in ast.walk(tree):
        if isinstance(node, Function):
            yield from _function(where, node)
        elif isinstance(node, ast.ClassDef):
            yield from _class(where, node)
        elif isinstance(node, ast.Call) and is_ours:
            yield from _call(where, node)


def _function(where: str, node: Function) -> Iterator[Fault]:
    size = (node.end_lineno or node.lineno) - node.lineno + 1
    if size > FUNCTION_LINES:
        yield Fault(where, node.lineno, f"{node.name} has {size} lines, {FUNCTION_LINES} are allowed")


def _class(where: str, node: ast.ClassDef) -> Iterator[Fault]:
    methods = {part.name for part in node.body if isinstance(part, Function)}
    if len(methods) > CLASS_METHODS:
        yield Fault(where, node.lineno, f"{node.name} has {len(methods)} methods, {CLASS_METHODS} are allowed")


def _call(where: str, node: ast.Call) -> Iterator[Fault]:
    name = _called(node.func)
    if name in ("getattr", "hasattr") and isinstance(node.func, ast.Name) and node.args:
        subject = ast.unparse(node.args[0])
        if ADAPTERISH.search(subject):
            yield Fault(where, node.lineno, f"{name}({subject}, ...): an ability of an adapter is a Protocol")
    elif name == "create_task" and not any(word.arg == "name" for word in node.keywords):
        yield Fault(where, node.lineno, "create_task( without name=")
    elif name == "ensure_future":
        yield Fault(where, node.lineno, "ensure_future makes a task without a name: use create_task(..., name=...)")


def _called(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _names(root: Path, path: Path) -> Iterator[Fault]:
    if path.suffix in CONFIGURATION:
        return
    where = path.relative_to(root).as_posix()
    if match := PLATFORMS.search(where):
        yield Fault(where, 0, f"the file's name holds {match[0]}, a platform")
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        if match := PLATFORMS.search(line):
            yield Fault(where, number, f"names the platform {match[0]}; that is for adapters/ alone")


def main(arguments: list[str]) -> int:
    """Check the tree; the exit code."""
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    faults = check(root)
    for fault in faults:
        print(fault)
    sizes = f"median file {median(root)} lines ({median(root, MEASURED)} with the tests)"
    print(f"check_shape: {sizes}, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
