"""Checks bodies of calls, and answers to them, against Discord's OpenAPI description, where this machine has it."""

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
_JSON = "application/json"
_BODY = "/requestBody/content/application~1json/schema"
_ANSWER = "/responses/{}/content/application~1json/schema"


class Spec:
    """The description. Without the file everything is allowed."""

    def __init__(self, path: Path = PATH) -> None:
        self._operations: list[tuple[str, re.Pattern[str], int, str]] = []
        """Method, path, how many of its segments are literal, pointer to the operation."""
        self._known: set[str] = set()
        """Pointers to schemas that there are."""
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
            escaped = template.replace("~", "~0").replace("/", "~1").replace("{", "%7B").replace("}", "%7D")
            for method, operation in operations.items():
                if method == "parameters":
                    continue
                pointer = f"#/paths/{escaped}/{method}"
                self._operations.append((method.upper(), pattern, literal, pointer))
                if _JSON in (operation.get("requestBody") or {}).get("content", {}):
                    self._known.add(pointer + _BODY)
                for status, answer in operation["responses"].items():
                    if _JSON in answer.get("content", {}):
                        self._known.add(pointer + _ANSWER.format(status))

    def faults(self, method: str, path: str, body: Any) -> list[str]:
        """What is wrong with the body of a call, in words."""
        return self._faults(method, path, _BODY, body)

    def faults_of_answer(self, method: str, path: str, status: int, payload: Any) -> list[str]:
        """What is wrong with the answer to a call, in words."""
        return self._faults(method, path, _ANSWER.format(status), payload)

    def _faults(self, method: str, path: str, part: str, payload: Any) -> list[str]:
        fitting = [
            (literal, pointer)
            for known, pattern, literal, pointer in self._operations
            if known == method and pattern.fullmatch(path)
        ]
        pointer = max(fitting)[1] + part if fitting else ""
        if pointer not in self._known or payload is None:
            return []
        if pointer not in self._validators:
            self._validators[pointer] = Draft202012Validator({"$ref": _URN + pointer}, registry=self._registry)
        error = best_match(self._validators[pointer].iter_errors(payload))
        return [] if error is None else [f"{method} {path}: {error.json_path}: {error.message}"]


@cache
def load() -> Spec:
    """The description, read once."""
    return Spec()
