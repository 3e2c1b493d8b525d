"""Checks bodies of calls against Discord's OpenAPI description, where this machine has it."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

PATH = Path(__file__).resolve().parents[3] / "shared" / "specs" / "discord" / "openapi.json"
_URN = "urn:discord"


class Spec:
    """The description. Without the file everything is allowed."""

    def __init__(self, path: Path = PATH) -> None:
        self.operations: list[tuple[str, re.Pattern[str], int, str]] = []
        """Method, path, how many of its segments are literal, pointer to the schema of the body."""
        self._registry: Registry[Any] = Registry()
        self._validators: dict[str, Draft202012Validator] = {}
        if not path.is_file():
            return
        document = json.loads(path.read_text("utf-8"))
        # Discord takes ids as numbers, too, and discord.py sends some so
        document["components"]["schemas"]["SnowflakeType"] = {"type": ["string", "integer"]}
        resource: Resource[Any] = Resource(contents=document, specification=DRAFT202012)
        self._registry = self._registry.with_resource(_URN, resource)
        for template, operations in document["paths"].items():
            literal = sum("{" not in part for part in template.split("/"))
            pattern = re.compile(re.sub(r"\{[^/]+\}", "[^/]+", template))
            for method, operation in operations.items():
                content = (operation.get("requestBody") or {}).get("content", {}) if method != "parameters" else {}
                if "application/json" in content:
                    escaped = template.replace("~", "~0").replace("/", "~1").replace("{", "%7B").replace("}", "%7D")
                    pointer = f"#/paths/{escaped}/{method}/requestBody/content/application~1json/schema"
                    self.operations.append((method.upper(), pattern, literal, pointer))

    def faults(self, method: str, path: str, body: Any) -> list[str]:
        """What is wrong with the body of a call, in words."""
        fitting = [
            (literal, pointer)
            for known, pattern, literal, pointer in self.operations
            if known == method and pattern.fullmatch(path)
        ]
        if not fitting or body is None:
            return []
        pointer = max(fitting)[1]
        if pointer not in self._validators:
            self._validators[pointer] = Draft202012Validator({"$ref": _URN + pointer}, registry=self._registry)
        error = best_match(self._validators[pointer].iter_errors(body))
        return [] if error is None else [f"{method} {path}: {error.json_path}: {error.message}"]


@cache
def load() -> Spec:
    """The description, read once."""
    return Spec()
