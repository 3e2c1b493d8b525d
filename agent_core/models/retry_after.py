"""How long a server asks us to wait."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LONGEST = 3600.0
"""A server that asks for more (or sends nonsense such as an epoch) is asked again after an hour."""


def retry_after(headers: Mapping[str, str], *, now: datetime) -> float | None:
    """The wait in seconds, from 0 to `LONGEST`; None where the server names none that can be read.

    `retry-after-ms` is the most exact and wins. A date is measured against the server's own `Date`
    where it sent one, else against `now` (UTC), so that a wrong clock here does no harm.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return _bounded(milliseconds / 1000)
    raw = headers.get("retry-after")
    seconds = _number(raw)
    if seconds is not None:
        return _bounded(seconds)
    then = _date(raw)
    if then is None:
        return None
    return _bounded((then - (_date(headers.get("date")) or now)).total_seconds())


def _bounded(seconds: float) -> float:
    return min(max(seconds, 0.0), LONGEST)


def _number(raw: str | None) -> float | None:
    try:
        value = float(raw or "")
    except ValueError:
        return None
    return None if math.isnan(value) or value < 0 else value


def _date(raw: str | None) -> datetime | None:
    try:
        then = parsedate_to_datetime(raw or "")
    except ValueError:
        return None
    return then if then.tzinfo is not None else then.replace(tzinfo=UTC)
