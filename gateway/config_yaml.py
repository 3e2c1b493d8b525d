"""Reads YAML into plain values and remembers the line of each.

Only the core schema of YAML 1.2 is understood: `no`, `on`, `012` and `12:30` are text, not a boolean,
an octal number and a number of seconds. An id in an allow-list must not change by being read. A
duplicate key is a fault, not the last one wins.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import yaml

from gateway.config_faults import Fault, dotted

Path = tuple[str | int, ...]

_PREFIX = "tag:yaml.org,2002:"
_FLOAT = re.compile(
    r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)
_MAX_DEPTH = 20


class _CoreLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """The safe loader with the implicit types of YAML 1.2's core schema."""

    yaml_implicit_resolvers: ClassVar[dict[str | None, list[tuple[str, re.Pattern[str]]]]] = {}


def _resolve(tag: str, pattern: str, first: list[str]) -> None:
    _CoreLoader.add_implicit_resolver(_PREFIX + tag, re.compile(rf"^(?:{pattern})$"), first)


_resolve("bool", "true|True|TRUE|false|False|FALSE", list("tTfF"))
_resolve("int", "[-+]?(?:0|[1-9][0-9]*)", list("-+0123456789"))
_resolve("float", _FLOAT.pattern, list("-+.0123456789"))
_resolve("null", "~|null|Null|NULL|", ["~", "n", "N", ""])


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A file's content. `lines` gives the line (from 1) of each path: of its key, or of its list entry."""

    tree: Mapping[str, Any]
    lines: Mapping[Path, int]

    def line(self, path: Path) -> int | None:
        """The line of `path`, or of the nearest part of it that is in the file."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.lines:
                return self.lines[path[:length]]
        return None


_BARE_REFERENCE = re.compile(r"(?<=[:,\[{])([ \t]+|(?<=[\[{]))(\$\{\w+\})(?=[ \t]*(?:[,}\]#]|$))", re.MULTILINE)


def parse(text: str) -> tuple[Document, list[Fault]]:
    """Read `text`. What cannot be read is left out of the document and stands among the faults.

    Inside of `{…}` YAML takes the braces of an unquoted `${NAME}` for its own. Everybody writes it that
    way once, and there is only one thing that it can mean: such a file is read as if it had quotes.
    """
    document, faults = _parse(text)
    if faults and not document.tree and (quoted := _BARE_REFERENCE.sub(r'\1"\2"', text)) != text:
        again = _parse(quoted)
        if again[0].tree:
            return again
    return document, faults


def _parse(text: str) -> tuple[Document, list[Fault]]:
    reader = _Reader()
    try:
        loader = _CoreLoader(text)
        try:
            node = loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        line = mark.line + 1 if mark else None
        problem = f"this is no valid YAML: {exc.problem or exc.context}"
        return Document(tree={}, lines={}), [Fault(where="", line=line, message=problem)]
    except yaml.YAMLError as exc:  # a character that YAML does not allow; it has no mark
        problem = f"this is no valid YAML: {str(exc).splitlines()[0]}"
        return Document(tree={}, lines={}), [Fault(where="", message=problem)]
    tree = {} if node is None else reader.value(node, ())
    if not isinstance(tree, dict):
        reader.faults.append(Fault(where="", line=1, message="the file must be a mapping of keys to values"))
        tree = {}
    return Document(tree=tree, lines=reader.lines), reader.faults


class _Reader:
    """Turns nodes into values, noting lines and faults on the way."""

    def __init__(self) -> None:
        self.lines: dict[Path, int] = {}
        self.faults: list[Fault] = []

    def value(self, node: yaml.Node, path: Path) -> Any:
        if len(path) > _MAX_DEPTH:  # also ends an alias that contains itself
            self._fault(node, path, "nested too deeply")
            return None
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            values = []
            for index, item in enumerate(node.value):
                self.lines[(*path, index)] = item.start_mark.line + 1
                values.append(self.value(item, (*path, index)))
            return values
        return self._scalar(node, path)

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._fault(key_node, path, "a key must be a plain word")
                continue
            key = str(key_node.value)
            here = (*path, key)
            if key in values:
                first = self.lines[here]
                self._fault(key_node, here, f"this key stands twice (first on line {first})")
                continue
            self.lines[here] = key_node.start_mark.line + 1
            values[key] = self.value(value_node, here)
        return values

    def _scalar(self, node: yaml.Node, path: Path) -> Any:
        text = str(node.value)
        match node.tag.removeprefix(_PREFIX):
            case "str":
                return text
            case "null":
                return None
            case "bool":
                return text.lower() == "true"
            case "int" if re.fullmatch(r"[-+]?[0-9]{1,40}", text):
                return int(text)
            case "float" if _FLOAT.fullmatch(text):
                if not text.lower().endswith(("inf", "nan")) and math.isfinite(float(text)):
                    return float(text)
        self._fault(node, path, f"this kind of value is not understood ({node.tag.removeprefix(_PREFIX)})")
        return None

    def _fault(self, node: yaml.Node, path: Path, message: str) -> None:
        self.faults.append(Fault(where=dotted(path), line=node.start_mark.line + 1, message=message))
