"""The response object of /v1/responses."""

from __future__ import annotations

from typing import Any

from adapters.http.desk import OPEN_FATES, stored
from adapters.http.openai_common import DEFAULT_MODEL, fate_problem
from adapters.ports import Answer


def response_json(answer: Answer) -> dict[str, Any]:
    """A response, finished or not, as OpenAI's clients read it."""
    noted = stored(answer)
    is_open = answer.fate in OPEN_FATES
    problem = None if is_open else fate_problem(answer)
    cut = answer.finish_reason in ("length", "content_filter")
    if is_open:
        status = "queued" if answer.fate == "waiting" else "in_progress"
    elif problem is not None:
        status = "cancelled" if answer.fate == "cancelled" else "failed"
    else:
        status = "incomplete" if cut else "completed"
    error = {"code": "server_error", "message": problem.message} if problem is not None and status == "failed" else None
    why = "max_output_tokens" if answer.finish_reason == "length" else "content_filter"
    done = status in ("completed", "incomplete")
    return {
        "id": answer.message_id,
        "object": "response",
        "created_at": int(answer.received_at.timestamp()),
        "status": status,
        "background": False,
        "error": error,
        "incomplete_details": {"reason": why} if status == "incomplete" else None,
        "instructions": noted.get("instructions"),
        "max_output_tokens": None,
        "metadata": noted.get("metadata") or {},
        "model": noted.get("model") or DEFAULT_MODEL,
        "output": [message_json(answer.message_id, 0, answer.text, status)] if done else [],
        "parallel_tool_calls": False,
        "previous_response_id": noted.get("previous"),
        "reasoning": {"effort": None, "summary": None},
        "store": noted.get("store", True),
        "temperature": None,
        "text": {"format": {"type": "text"}},
        "tool_choice": "none",
        "tools": [],
        "top_p": None,
        "truncation": "disabled",
        "usage": usage_json(answer) if done else None,
    }


def message_json(response_id: str, number: int, text: str, status: str) -> dict[str, Any]:
    """An output message of a response. Its id follows from the response's."""
    return {
        "id": item_id(response_id, number),
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": [text_json(text)] if status != "in_progress" else [],
    }


def text_json(text: str) -> dict[str, Any]:
    """A text part of an output message."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def item_id(response_id: str, number: int) -> str:
    """The id of an output message."""
    return f"msg_{response_id.removeprefix('resp_')}_{number}"


def usage_json(answer: Answer) -> dict[str, Any]:
    """The figures of the turn."""
    return {
        "input_tokens": answer.input_tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": answer.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": answer.input_tokens + answer.output_tokens,
    }
