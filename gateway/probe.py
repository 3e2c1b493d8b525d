"""Asks the daemon on this machine whether it does its work: `python -m gateway.probe [URL]`, for health checks.

Of the standard library only, so that it takes a fraction of a second however often it is called. The address is
the argument, else `$TIDINGS_PROBE`, else where `/healthz` is by default.
"""

from __future__ import annotations

import os
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence

DEFAULT = "http://127.0.0.1:8787/healthz"
SECONDS = 5.0


def main(args: Sequence[str]) -> int:
    """0 where it answers with 200; otherwise 1, and the reason in a line on standard error."""
    url = args[0] if args else os.environ.get("TIDINGS_PROBE") or DEFAULT
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy is for other machines
    try:
        with opener.open(url, timeout=SECONDS):
            return 0
    except (OSError, ValueError) as error:  # an HTTPError is an OSError
        sys.stderr.write(f"{url}: {error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
