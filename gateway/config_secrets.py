"""Secrets in the configuration: references only, resolved only where they are used.

A secret is a field of type `SecretStr`. In the file it is `${VARIABLE}` or `file:/path`; plain text is
refused. Other texts may be a `${VARIABLE}` too.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import BaseModel, SecretStr

from gateway.config_faults import Fault, dotted
from gateway.config_schema import nested
from gateway.config_yaml import Document

KeyPath = tuple[str | int, ...]

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_PLACEHOLDER = re.compile(r"(?i)(change|replace)[-_ ]?(me|this)\b.*|<[^<>]*>|your[-_ ].*(token|key|secret|here)|x{4,}")
_MAX_BYTES = 64 * 1024
UNRESOLVED = "unresolved-" + "x" * 64
"""Stands for a secret that could not be resolved, so that the other faults are still found."""


def is_placeholder(text: str) -> bool:
    """True for a text that a template leaves to be filled in."""
    return _PLACEHOLDER.fullmatch(text.strip()) is not None


def secret_paths(model: type[BaseModel]) -> set[KeyPath]:
    """The paths of the secrets in a settings class; "*" stands for any key of a mapping of secrets."""
    found: set[KeyPath] = set()
    for name, info in model.model_fields.items():
        if info.annotation is SecretStr or SecretStr in get_args(info.annotation):
            is_mapping = get_origin(info.annotation) is dict
            found.add((name, "*") if is_mapping else (name,))
        elif inner := nested(info.annotation):
            found.update((name, *rest) for rest in secret_paths(inner))
    return found


@dataclass(slots=True)
class Resolver:
    """Replaces references by their values. Faults and origins are collected; it never raises."""

    document: Document
    environ: Mapping[str, str]
    folder: Path
    faults: list[Fault] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    origins: dict[KeyPath, str] = field(default_factory=dict)
    secrets: set[str] = field(default_factory=set)
    broken: set[KeyPath] = field(default_factory=set)
    """Paths whose fault is already noted; what validation says about them besides is noise."""
    absent: set[KeyPath] = field(default_factory=set)
    """Of these, the paths whose reference is in order, but leads to nothing on this machine."""

    def section(self, raw: Any, model: type[BaseModel], at: KeyPath, *, use: bool) -> Any:
        """`raw` with its references resolved. With `use` false (the platform is off) they are only
        checked for their form, and left out."""
        if not isinstance(raw, dict):
            return raw
        secrets = {(*at, *path) for path in secret_paths(model)}
        return self._walk(raw, at, secrets, use=use)

    def plain(self, text: str, at: KeyPath) -> str:
        """One text that is no secret, with its reference resolved."""
        return str(self._text(text, at, use=True))

    def _walk(self, raw: Any, at: KeyPath, secrets: set[KeyPath], *, use: bool) -> Any:
        if isinstance(raw, dict):
            done = {key: self._walk(value, (*at, key), secrets, use=use) for key, value in raw.items()}
            return {key: value for key, value in done.items() if value is not _LEFT_OUT}
        if at in secrets:
            return self._secret(raw, at, use=use)
        if (*at[:-1], "*") in secrets:
            value = self._secret(raw, at, use=use)
            return _LEFT_OUT if value is None else value
        if isinstance(raw, list):
            done_list = [self._walk(value, (*at, index), secrets, use=use) for index, value in enumerate(raw)]
            return [value for value in done_list if value is not _LEFT_OUT]
        if isinstance(raw, str):
            return self._text(raw, at, use=use)
        return raw

    def _text(self, text: str, at: KeyPath, *, use: bool) -> Any:
        if is_placeholder(text):
            return self._broken(at, f"{text!r} is a placeholder; put the real value there")
        if not (match := _VARIABLE.fullmatch(text.strip())):
            return text
        if not use:
            return _LEFT_OUT
        return self._variable(match[1], at)

    def _secret(self, raw: Any, at: KeyPath, *, use: bool) -> Any:
        if raw is None:
            return None
        text = raw.strip() if isinstance(raw, str) else ""
        if is_placeholder(text):
            return self._broken(at, f"{text!r} is a placeholder; write ${{VARIABLE}} or file:/path")
        match = _VARIABLE.fullmatch(text)
        if not match and not text.startswith("file:"):
            return self._broken(
                at, "a secret must not stand in the configuration as plain text; write ${VARIABLE} or file:/path"
            )
        if not use:
            return None
        value = self._variable(match[1], at) if match else self._file(text.removeprefix("file:"), at)
        if value != UNRESOLVED:
            self.secrets.add(value)
        return value

    def _variable(self, name: str, at: KeyPath) -> str:
        self.origins[at] = f"${{{name}}}"
        value = self.environ.get(name)
        if value is None:
            self.absent.add(at)
            return self._broken(at, f"the environment variable {name} is not set")
        return self._checked(value, at, f"the environment variable {name}")

    def _file(self, name: str, at: KeyPath) -> str:
        path = self.folder / Path(name).expanduser()
        self.origins[at] = f"file:{path}"
        try:
            with path.open("rb") as opened:
                mode = os.fstat(opened.fileno()).st_mode
                data = opened.read(_MAX_BYTES + 1)
            value = data.decode("utf-8")
        except OSError as exc:
            self.absent.add(at)
            return self._broken(at, f"the file {path} cannot be read: {exc.strerror or exc}")
        except UnicodeDecodeError:
            return self._broken(at, f"the file {path} holds no text")
        if len(data) > _MAX_BYTES:
            return self._broken(at, f"the file {path} is too large for a secret")
        if mode & (stat.S_IRGRP | stat.S_IROTH):
            self.warnings.append(f"{dotted(at)}: others may read {path}; chmod 600 it")
        return self._checked(value, at, f"the file {path}")

    def _checked(self, value: str, at: KeyPath, what: str) -> str:
        value = value.strip()
        if not value:
            return self._broken(at, f"{what} is empty")
        if is_placeholder(value):
            return self._broken(at, f"{what} holds a placeholder; put the real value there")
        if any(ord(char) < 32 or ord(char) == 127 for char in value):
            return self._broken(at, f"{what} holds line breaks or control characters")
        return value

    def _broken(self, at: KeyPath, message: str) -> str:
        self.broken.add(at)
        self.faults.append(Fault(where=dotted(at), line=self.document.line(at), message=message))
        return UNRESOLVED


def read_reference(text: str, *, folder: Path, environ: Mapping[str, str]) -> str:
    """The secret that `${VARIABLE}` or `file:/path` leads to. Blocking. Raises ValueError with a sentence."""
    resolver = Resolver(document=Document(tree={}, lines={}), environ=environ, folder=folder)
    at = ("answer",)
    match = _VARIABLE.fullmatch(text.strip())
    value = resolver._variable(match[1], at) if match else resolver._file(text.strip().removeprefix("file:"), at)  # noqa: SLF001 - its own module
    if resolver.faults:
        raise ValueError(resolver.faults[0].message)
    return value


class _LeftOut:
    """The mark of a reference that is not resolved because its section is off."""


_LEFT_OUT = _LeftOut()
