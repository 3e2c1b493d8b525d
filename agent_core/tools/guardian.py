"""The guardian of one shell command: a small process between the daemon and the command.

It is started as `python -I -S guardian.py` with the environment that the command is to have, and speaks
lines of JSON: requests on descriptor 0, reports on descriptor 1; descriptor 2 is the command's output.

    daemon:    {"shell": "/bin/bash", "command": "…", "folder": "/…", "seconds": 120, "grace": 1}
    guardian:  {"group": 123, "ticks": 456}      the command's process stands still, in its own session
    daemon:    {"go": true}                      the group is committed, now the command may run
    guardian:  {"why": "exit", "code": 0, "signal": 0, "ended": 0, "left": 0}

When the daemon closes descriptor 0, which it also does by dying, or when the time is over, everything
below the guardian is ended: SIGTERM, `grace` seconds, SIGKILL. The guardian is a subreaper: what leaves
the process group or is orphaned by a double fork still hangs below it. If the guardian itself is killed,
the shell dies by a death signal, and the rest is found by its mark (`reap.py`).

Linux only, standard library only, imports kept few: it starts once a command.
"""

import ctypes
import json
import os
import select
import signal
import sys
import time
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING or __name__ != "__main__":
    from agent_core.tools import proc
else:  # `-I` keeps this folder out of the path, on purpose: it holds names like `schema` and `text`
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import proc

    del sys.path[0]

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
SWEEP_SECONDS = 3.0
"""Bound of the last stage; what a SIGKILL does not end in that time is told in `left`."""


def main() -> int:
    """Guard one command. The exit code is 0 if a report could be made."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        # The daemon's end decides, not a signal that a service manager sends to everybody at once.
        signal.signal(number, signal.SIG_IGN)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    wake, wake_in = os.pipe()
    os.set_blocking(wake_in, False)
    signal.set_wakeup_fd(wake_in)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    lines = Lines(0)
    request = lines.next()
    if request is None:
        return 0
    held, release = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(release)
        become(request, held)
    os.close(held)
    process = proc.read(child)
    while process is not None and process.group != child and process.state not in "ZX":  # until its setsid() is done
        time.sleep(0.001)
        process = proc.read(child)
    guard = Guard(child, float(request["grace"]))
    if process is None or not tell({"group": child, "ticks": process.ticks}) or lines.next() is None:
        os.close(release)  # the held process ends by itself
        guard.end("closed")
        return 0
    os.write(release, proc.marker(child, process.ticks).encode())
    os.close(release)
    guard.end(guard.watch(wake, time.monotonic() + float(request["seconds"])))
    return 0


def become(request: dict[str, Any], held: int) -> NoReturn:
    """In the child: wait for the release, then turn into the shell. Never returns."""
    try:
        guardian = os.getppid()
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guardian:
            os._exit(125)
        os.setsid()
        mark = os.read(held, 100)
        if not mark:
            os._exit(125)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        os.chdir(request["folder"])
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        name = os.path.basename(request["shell"])
        environment = {**os.environ, proc.MARK: mark.decode(), "PWD": request["folder"]}
        os.execve(request["shell"], [name, "-c", request["command"]], environment)
    except OSError as error:
        os.write(2, f"the shell cannot be started: {error}\n".encode())
    finally:
        os._exit(126)


class Guard:
    """Watches the command and ends everything below this process."""

    def __init__(self, child: int, grace: float) -> None:
        self.child = child
        self.grace = grace
        self.status: int | None = None

    def watch(self, wake: int, deadline: float) -> str:
        """Wait until the shell has ended, the time is over, or the daemon's end is closed. Says which."""
        while True:
            self.reap()
            if self.status is not None:
                return "exit"
            left = deadline - time.monotonic()
            if left <= 0:
                return "limit"
            ready, _, _ = select.select([0, wake], [], [], left)
            if wake in ready:
                os.read(wake, 4096)
            if 0 in ready and not os.read(0, 4096):
                return "closed"

    def reap(self) -> None:
        """Collect whoever has ended, orphans included."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.child:
                self.status = status

    def end(self, why: str) -> None:
        """End everything, then report."""
        me = os.getpid()
        ended = len(self.alive(me))
        if ended:
            for pid in self.alive(me):
                send(pid, signal.SIGTERM)
                send(pid, signal.SIGCONT)
            limit = time.monotonic() + self.grace
            while self.alive(me) and time.monotonic() < limit:
                time.sleep(0.01)
        limit = time.monotonic() + SWEEP_SECONDS
        while (living := self.alive(me)) and time.monotonic() < limit:
            # First hold them all, so that none forks away behind our back; then end them.
            for _ in range(20):
                for pid in living:
                    send(pid, signal.SIGSTOP)
                more = self.alive(me)
                if more.keys() <= living.keys():
                    break
                living = more
            for pid in living:
                send(pid, signal.SIGKILL)
            time.sleep(0.005)
        status = self.status or 0
        report = {"why": why, "code": -1, "signal": 0, "ended": ended, "left": len(self.alive(me))}
        if os.WIFSIGNALED(status):
            report["signal"] = os.WTERMSIG(status)
        elif self.status is not None:
            report["code"] = os.WEXITSTATUS(status)
        tell(report)

    def alive(self, me: int) -> dict[int, proc.Process]:
        """Everything below this process that still runs."""
        self.reap()
        return proc.descendants({me}, proc.everything())


class Lines:
    """JSON lines from a descriptor."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.rest = b""

    def next(self) -> dict[str, Any] | None:
        """The next line, or None when the other end is closed."""
        while b"\n" not in self.rest:
            block = os.read(self.descriptor, 65536)
            if not block:
                return None
            self.rest += block
        line, _, self.rest = self.rest.partition(b"\n")
        found = json.loads(line)
        return found if isinstance(found, dict) else None


def tell(report: dict[str, Any]) -> bool:
    """Report to the daemon. False if it is gone."""
    try:
        os.write(1, json.dumps(report).encode() + b"\n")
    except OSError:
        return False
    return True


def send(pid: int, number: int) -> None:
    """Send a signal; whoever is gone or belongs to somebody else is left alone."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def prctl(option: int, value: int) -> None:
    """Set an attribute of this process; see prctl(2)."""
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


if __name__ == "__main__":
    sys.exit(main())
