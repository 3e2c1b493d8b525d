"""Patterns on commands: what is never run, and what is asked for although nothing else is.

A pattern stops accidents and habits, not intent: a shell has more ways to write a command than patterns can name. It is
looked for in the command as it stands, and in the forms that people (and models) take for the same: blanks folded,
quotes and backslashes taken out, `$IFS` as a blank.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

_BLANK = re.compile(r"\$\{?IFS\}?|\\\n|\s+")
_QUOTES = re.compile(r"['\"\\]")


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


def fault(pattern: str) -> str | None:
    """Why the text is no pattern; None for a good one."""
    try:
        _compiled(pattern)
    except re.error as error:
        return f"{pattern!r} is no regular expression: {error}"
    return None


def first_match(patterns: Iterable[str], command: str) -> str | None:
    """The first pattern that is found in any form of the command."""
    folded = _BLANK.sub(" ", command)
    forms = dict.fromkeys((command, folded, _QUOTES.sub("", command), _QUOTES.sub("", folded)))
    return next((one for one in patterns if any(_compiled(one).search(form) for form in forms)), None)
