"""What both OpenAI fronts share: models, messages as they come in, ends that are errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from adapters.events import HistoryItem
from adapters.http.desk import End, Pending
from adapters.http.errors import NO_RETRY, HttpProblem, bad
from adapters.http.fields import as_object, clean, list_of, text_of
from adapters.ports import Answer

DEFAULT_MODEL = "default"
"""Stands for the model that the daemon would take by itself."""
PICTURE = "[an image was here]"
"""What stands in the history for a picture of an earlier message."""

GOOD = frozenset({"answered", "merged", "steered", "command", "silent"})
"""Fates that are answers to an OpenAI client; every other is an error."""

_STATUS = {"refused": 403, "failed": 502, "cancelled": 422, "superseded": 422}
_FINISH = frozenset({"stop", "length", "content_filter"})


class ModelNames:
    """The models that clients may name."""

    def __init__(self, names: Callable[[], Sequence[str]]) -> None:
        self._names = names

    def listed(self) -> list[str]:
        """`default` and the configured names."""
        return [DEFAULT_MODEL, *(name for name in self._names() if name != DEFAULT_MODEL)]

    def chosen(self, data: dict[str, Any]) -> str | None:
        """The configured name that a request asks for, None for the default."""
        name = text_of(data, "model")
        if name is None or name == DEFAULT_MODEL:
            return None
        if name not in self._names():
            raise no_model(name)
        return name


def no_model(name: str) -> HttpProblem:
    """There is no model of that name."""
    told = f"The model {name[:100]!r} does not exist here; GET /v1/models lists those that do."
    return HttpProblem(404, told, code="model_not_found", param="model")


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """What a client sent as messages: the last user message, and what comes before it."""

    text: str
    images: tuple[tuple[str, str], ...]
    history: tuple[HistoryItem, ...]
    instructions: str | None


@dataclass(frozen=True, slots=True)
class _Message:
    role: str
    text: str
    images: tuple[tuple[str, str], ...]


def read_conversation(items: Sequence[object], field: str) -> Conversation:
    """Messages of either front. Raises `HttpProblem` that names the item which cannot be taken."""
    messages = [_read_message(as_object(item, f"{field}[{n}]"), f"{field}[{n}]") for n, item in enumerate(items)]
    system = [m.text for m in messages if m.role == "system" and m.text.strip()]
    spoken = [m for m in messages if m.role != "system"]
    if not spoken or spoken[-1].role != "user":
        raise bad(field, f"The last message of {field} must be of the role user.")
    last = spoken[-1]
    if not last.text.strip() and not last.images:
        raise bad(field, f"The last message of {field} must not be empty.")
    return Conversation(
        text=last.text,
        images=last.images,
        history=tuple(_as_history(m) for m in spoken[:-1]),
        instructions="\n\n".join(system) or None,
    )


def _as_history(message: _Message) -> HistoryItem:
    text = "\n".join([message.text, *[PICTURE] * len(message.images)]).strip()
    return HistoryItem(role="user" if message.role == "user" else "assistant", text=text)


def _read_message(item: dict[str, Any], where: str) -> _Message:
    kind = text_of(item, "type", path=f"{where}.")
    if kind not in (None, "message"):
        raise bad(where, f"{where}: items of the type {kind[:60]!r} are not taken; tools run on the server.")
    role = text_of(item, "role", path=f"{where}.")
    if role == "developer":
        role = "system"
    if role in ("tool", "function") or item.get("tool_calls") or item.get("function_call"):
        raise bad(where, f"{where}: tool calls of the client are not taken; tools run on the server.")
    if role not in ("system", "user", "assistant"):
        raise bad(f"{where}.role", f"{where}.role must be system, developer, user or assistant.")
    content = item.get("content")
    if isinstance(content, str):
        return _Message(role, clean(content), ())
    if content is None and role == "assistant":
        return _Message(role, "", ())
    if not isinstance(content, list):
        raise bad(f"{where}.content", f"{where}.content must be a string or a list of parts.")
    texts: list[str] = []
    images: list[tuple[str, str]] = []
    for number, raw in enumerate(content):
        place = f"{where}.content[{number}]"
        _read_part(as_object(raw, place), place, texts, images)
    return _Message(role, "\n".join(texts), tuple(images))


def _read_part(part: dict[str, Any], where: str, texts: list[str], images: list[tuple[str, str]]) -> None:
    kind = part.get("type")
    if kind in ("text", "input_text", "output_text"):
        text = text_of(part, "text", path=f"{where}.")
        if text is None:
            raise bad(f"{where}.text", f"{where}.text is missing.")
        texts.append(text)
    elif kind == "refusal":
        texts.append(text_of(part, "refusal", path=f"{where}.") or "")
    elif kind in ("image_url", "input_image"):
        url = part.get("image_url")
        if isinstance(url, dict):
            url = url.get("url")
        if not isinstance(url, str):
            raise bad(f"{where}.image_url", f"{where}.image_url must be a data: URL.")
        images.append((f"{where}.image_url", url))
    else:
        raise bad(where, f"{where}: parts of the type {str(kind)[:60]!r} are not taken.")


def refuse_unsupported(data: dict[str, Any]) -> None:
    """Refuse what would change the answer if it were done, and cannot be done."""
    if list_of(data, "tools") or list_of(data, "functions"):
        field = "tools" if data.get("tools") else "functions"
        told = f"{field} is not supported: tools run on the server, by its own configuration."
        raise HttpProblem(400, told, code="unsupported_parameter", param=field)
    count = data.get("n")
    if count is not None and (isinstance(count, bool) or count != 1):
        raise HttpProblem(400, "n must be 1.", code="unsupported_parameter", param="n")
    form = data.get("response_format")
    if form is not None and as_object(form, "response_format").get("type", "text") != "text":
        told = "response_format: only text is supported."
        raise HttpProblem(400, told, code="unsupported_parameter", param="response_format")


def finish_reason(answer: Answer) -> str:
    """The reason in OpenAI's words."""
    return answer.finish_reason if answer.finish_reason in _FINISH else "stop"


def end_problem(pending: Pending) -> HttpProblem | None:
    """The error that a request ends with, or None where it has an answer.

    None of them may be retried by the SDK: the message is accepted, and would be run again.
    """
    if pending.end is not End.ANSWER or pending.answer is None:
        if pending.end is End.CLOSING:
            told = "The server is stopping; the answer will be at /api/messages/"
            return HttpProblem(503, told + pending.event.message_id, code="stopping", headers=NO_RETRY)
        told = "The answer took too long; it will be at /api/messages/"
        return HttpProblem(504, told + pending.event.message_id, code="timeout", headers=NO_RETRY)
    return fate_problem(pending.answer)


def fate_problem(answer: Answer) -> HttpProblem | None:
    """The error that a fate is, or None where it is an answer."""
    if answer.fate in GOOD:
        return None
    told = answer.text or answer.detail or f"The message ended as {answer.fate}."
    return HttpProblem(_STATUS.get(answer.fate, 502), told, code=answer.fate, headers=NO_RETRY)
