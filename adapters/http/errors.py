"""The one shape in which the HTTP server tells that something is wrong (OpenAI's, for every path)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from aiohttp import web

NO_RETRY = {"x-should-retry": "false"}
"""OpenAI's SDKs repeat a POST after many errors; this keeps them from running a turn twice."""


class HttpProblem(Exception):
    """A request ends with an error. `message` is a sentence for the client and holds no secret.

    `param` names the field that is at fault, `code` is for programs.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.param = param
        self.headers = dict(headers or {})

    def body(self) -> dict[str, Any]:
        """The error as plain data."""
        return problem_body(self.status, self.message, code=self.code, param=self.param)

    def response(self) -> web.Response:
        """The error as an answer."""
        return json_response(self.body(), status=self.status, headers=self.headers)


def problem_body(status: int, message: str, *, code: str | None = None, param: str | None = None) -> dict[str, Any]:
    """The body of an error."""
    kinds = {401: "authentication_error", 403: "permission_error", 404: "not_found_error"}
    kind = kinds.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def json_response(data: object, *, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """An answer of compact JSON."""
    body = json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return web.Response(body=body, status=status, headers=headers, content_type="application/json", charset="utf-8")


def bad(param: str, message: str) -> HttpProblem:
    """A field is wrong."""
    return HttpProblem(400, message, code="invalid_value", param=param)


def missing(what: str, name: str) -> HttpProblem:
    """There is no such thing for this principal; whether another has it is not told."""
    return HttpProblem(404, f"There is no {what} {name!r}.", code="not_found")
