"""Who sits at the terminal."""

from __future__ import annotations

import os
import pwd

from adapters.events import Sender


def local_sender() -> Sender:
    """The user of this process by the system's own list (the environment could name anybody)."""
    uid = os.getuid()
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return Sender(id=str(uid), name=str(uid))
    name = entry.pw_gecos.split(",")[0].strip() or entry.pw_name
    return Sender(id=entry.pw_name, name=name)
