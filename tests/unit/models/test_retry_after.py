"""The server's own delay: every form, and nothing absurd."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from agent_core.models.retry_after import LONGEST, retry_after

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Sun, 01 Mar 2026 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Sun, 01 Mar 2026 11:00:00 GMT"}, 0.0),
        # Our clock is a day off; the server's own date tells what it means.
        ({"retry-after": "Mon, 02 Mar 2026 12:00:30 GMT", "date": "Mon, 02 Mar 2026 12:00:00 GMT"}, 30.0),
        ({"retry-after": "1772366400"}, LONGEST),
        ({"retry-after": "inf"}, LONGEST),
        ({"retry-after": "Fri, 01 Jan 2100 00:00:00 GMT"}, LONGEST),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
    ],
)
def test_forms(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, now=NOW) == seconds
