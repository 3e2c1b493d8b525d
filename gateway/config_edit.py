"""Changes single values of a configuration file and leaves everything else, comments too, as it stands.

The place of a value is found by a parse; the text of it alone is replaced. What comes out is read again
and compared with what was meant: a file that cannot be changed safely is not changed.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from gateway.config_yaml import parse

Keys = tuple[str, ...]


class CannotEdit(Exception):
    """The file has a form in which this place cannot be changed. The message tells what to write by hand."""


def edited(text: str, changes: Mapping[Keys, Any]) -> str:
    """`text` with each value of `changes` at its path; missing keys and groups are made.

    Raises `CannotEdit`; then nothing of it was changed.
    """
    wanted = _plain(text)
    for path, value in changes.items():
        text = _set(text, path, value)
        _deep_set(wanted, path, value)
    if _plain(text) != wanted:
        raise CannotEdit("the file has a form that I cannot change safely")
    return text


def write_private(path: Path, text: str) -> None:
    """Put `text` there, whole or not at all, readable by its user only. Blocking. Raises OSError."""
    path = path.resolve()  # a link to the file stays a link
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _plain(text: str) -> dict[str, Any]:
    document, faults = parse(text)
    if faults and not document.tree:
        raise CannotEdit(f"the file cannot be read: {faults[0].message}")
    return json.loads(json.dumps(document.tree))  # type: ignore[no-any-return]


def _deep_set(tree: dict[str, Any], path: Keys, value: Any) -> None:
    for key in path[:-1]:
        if not isinstance(tree.get(key), dict):
            tree[key] = {}
        tree = tree[key]
    tree[path[-1]] = value


def _flow(value: Any) -> str:
    """As YAML of one line: JSON is YAML."""
    return json.dumps(value, ensure_ascii=False)


def _nest(keys: Sequence[str], value: Any) -> str:
    for key in reversed(keys):
        value = {key: value}
    return _flow(value)


def _set(text: str, path: Keys, value: Any) -> str:
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    if node is None or not isinstance(node, yaml.MappingNode):
        return _append(text, path, value)
    depth = 0
    while True:
        pair = next((pair for pair in node.value if pair[0].value == path[depth]), None)
        if pair is None:
            return _insert(text, node, path[depth:], value, top=depth == 0)
        depth += 1
        key, old = pair
        if depth == len(path) or not isinstance(old, yaml.MappingNode):
            new = _nest(path[depth:], value)
            return f"{text[: key.end_mark.index]}: {new}{text[_end(old, key) :]}"
        node = old


def _end(node: yaml.Node, key: yaml.Node) -> int:
    """Where the text of a value ends: of a block, where its last part ends, not where the next key begins."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(last[1], last[0]) if isinstance(last, tuple) else _end(last, key)
    if isinstance(node, yaml.ScalarNode) and node.start_mark.index == node.end_mark.index:
        after: int = key.end_mark.index  # nothing stands there: the colon follows the key
        return int(after) + 1
    if isinstance(node, yaml.ScalarNode) and node.style in ("|", ">"):
        raise CannotEdit("a text over several lines stands there")
    return int(node.end_mark.index)


def _insert(text: str, node: yaml.MappingNode, path: Keys, value: Any, *, top: bool) -> str:
    line = f"{_flow(path[0]) if not path[0].isidentifier() else path[0]}: {_nest(path[1:], value)}"
    if node.flow_style:
        at = node.start_mark.index + 1
        rest = ", " if node.value else ""
        return f"{text[:at]}{line}{rest}{text[at:]}"
    if top:
        return _append(text, path, value)
    first = node.value[0][0].start_mark
    start = first.index - first.column
    return f"{text[:start]}{' ' * first.column}{line}\n{text[start:]}"


def _append(text: str, path: Keys, value: Any) -> str:
    gap = "" if not text or text.endswith("\n") else "\n"
    return f"{text}{gap}{path[0]}: {_nest(path[1:], value)}\n"
