"""The unit of systemd that runs the daemon: its text, and how to tell whether a file is one of ours.

Pure: nothing here touches the disk or asks systemd. systemd has three ways to read a value, each with rules of
its own for blanks, quotes, backslashes and `%`; there is one function for each.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from gateway.lifecycle import ExitCode

STOP_SPARE = 10.0
"""Seconds that systemd waits over the longest stop, before it kills."""
STATE_ROOT = Path("/var/lib")
"""What `%S` is in a system unit."""

_MARK = "# Written by `tidings service install`; `systemctl edit` adds to it. sha256: "
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,30}")
_HOMES = tuple(map(Path, ("/home", "/root", "/run/user")))
"""What ProtectHome= is about."""


class UnitFault(Exception):
    """Something that cannot be written into a unit. The text is for people."""


class Scope(StrEnum):
    """Whose manager runs the unit."""

    USER = "user"  #: the person's own; needs no privilege
    SYSTEM = "system"  #: the machine's


class Origin(StrEnum):
    """Whose a unit file is."""

    OURS = "ours"  #: as it was written
    EDITED = "edited"  #: written by us, changed since
    FOREIGN = "foreign"  #: somebody else's


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitSpec:
    """What a unit is made from. Every path is absolute."""

    scope: Scope
    name: str
    python: Path
    config: Path
    home: Path
    """The state folder; a system unit has it at `STATE_ROOT / name`."""
    root: Path
    """`tools.root`."""
    environment: Path
    """The file with the variables of the service. It need not exist."""
    stop_seconds: float
    """The longest stop of the daemon (`lifecycle.longest_stop`)."""
    account: str = ""
    """For a system unit: who it runs as."""
    protect_home: str = "yes"


_COMMON = f"""\
NotifyAccess=main
# the event loop gives the sign of life; when it hangs, SIGABRT leaves the stacks in the journal
WatchdogSec=60
# migrations of a large database are part of the start
TimeoutStartSec=300
Restart=on-failure
RestartSec=2
# a restart that was asked for is no failure; a configuration that cannot be used is not tried again
SuccessExitStatus={ExitCode.RESTART}
RestartForceExitStatus={ExitCode.RESTART}
RestartPreventExitStatus={ExitCode.CONFIG}
# the daemon drains and lets its tools end; what is left of them goes with it
KillMode=mixed
# a tool that eats the memory is no reason to end the daemon
OOMPolicy=continue
StandardOutput=journal
StandardError=journal
LimitNOFILE=16384
# a core would hold what people said
LimitCORE=0
UMask=0077
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RestrictNamespaces=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
"""
"""For both scopes; nothing of it needs a privilege."""

_SYSTEM = """\
CapabilityBoundingSet=
AmbientCapabilities=
ProtectSystem=strict
PrivateTmp=yes
PrivateDevices=yes
DevicePolicy=closed
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
RemoveIPC=yes
KeyringMode=private
# not ProtectProc=, ProcSubset=, PrivateUsers=: whether the owner of a lease lives is read in /proc, whoever it runs as
# not MemoryDenyWriteExecute=: approved commands may be programs that compile as they run
"""
"""What takes a privilege to set up."""


def check_name(name: str) -> str:
    """`name` where it can name a unit and its state folder. Raises `UnitFault`."""
    if not _NAME.fullmatch(name):
        raise UnitFault(f"{name!r} cannot be the name: small letters, digits, - and _, beginning with a letter")
    return name


def render(spec: UnitSpec) -> str:
    """The whole text of the unit file, with the mark by which `origin` knows it. Raises `UnitFault`."""
    is_system = spec.scope is Scope.SYSTEM
    unit = [f"Description=Tidings: one agent in every chat ({spec.name})"]
    if is_system:
        unit += ["Wants=network-online.target", "After=network-online.target"]
    unit += ["# it is started again for as long as it takes", "StartLimitIntervalSec=0"]
    service = [
        "Type=notify",
        f"ExecStart={_command(spec, 'run')}",
        # it tells systemd what is wrong with the file, where something is
        f"ExecReload={_command(spec, 'reload')}",
        f"EnvironmentFile=-{_whole(spec.environment)}",
        f"SyslogIdentifier={spec.name}",
        f"TimeoutStopSec={math.ceil(spec.stop_seconds + STOP_SPARE)}",
    ]
    if is_system:
        here = f"%S/{spec.name}"
        service += [
            f"User={spec.account}",
            f"Environment={_word(f'TIDINGS_HOME={here}', specifiers=True)} {_word(f'HOME={here}', specifiers=True)}",
            f"StateDirectory={spec.name}",
            "StateDirectoryMode=0700",
            f"ProtectHome={spec.protect_home}",
        ]
        if not spec.root.is_relative_to(spec.home):
            service.append(f"ReadWritePaths={_listed(spec.root)}")
    else:
        service.append(f"Environment={_word(f'TIDINGS_HOME={spec.home}')}")
    text = "\n".join(
        (
            "[Unit]",
            *unit,
            "",
            "[Service]",
            *service,
            _COMMON + (_SYSTEM if is_system else ""),
            "[Install]",
            f"WantedBy={'multi-user.target' if is_system else 'default.target'}",
            "",
        )
    )
    return f"{_MARK}{_digest(text)}\n{text}"


def origin(text: str) -> Origin:
    """Whose a unit file with this text is."""
    first, _, rest = text.partition("\n")
    if not first.startswith(_MARK):
        return Origin.FOREIGN
    return Origin.OURS if first.removeprefix(_MARK) == _digest(rest) else Origin.EDITED


def stop_timeout(text: str) -> float:
    """Seconds that systemd gives the service of this unit file to stop; 90 where it does not say."""
    found = re.search(r"^TimeoutStopSec=(\d+)$", text, re.MULTILINE)
    return float(found[1]) if found else 90.0


def protect_home(paths: Iterable[Path]) -> str:
    """What ProtectHome= may be where the service must reach `paths`."""
    return "read-only" if any(path.is_relative_to(home) for path in paths for home in _HOMES) else "yes"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _command(spec: UnitSpec, subcommand: str) -> str:
    """`:` keeps systemd from reading `$` in it; -P keeps Python from importing out of the working folder."""
    program = str(spec.python)
    if set(program) & set("\"'\\"):
        raise UnitFault(f"systemd takes no quotes and backslashes in the path of a program: {program}")
    args = ("-P", "-m", "gateway", subcommand, "--config", str(spec.config))
    return " ".join((_word(f":{program}"), *map(_word, args)))


def _word(text: str, *, specifiers: bool = False) -> str:
    """A word where quotes and backslashes are read as in C. With `specifiers` a `%` keeps its meaning."""
    text = _printable(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text if specifiers else _percent(text)}"'


def _listed(path: Path) -> str:
    """A path in a list of paths: quotes are read; backslashes vanish, and cannot be had."""
    text = _percent(_printable(str(path)))
    if "\\" in text or {'"', "'"} <= set(text):
        raise UnitFault(f"systemd takes no path with backslashes or with both kinds of quotes in a list: {path}")
    quote = "'" if '"' in text else '"'
    return f"{quote}{text}{quote}"


def _whole(path: Path) -> str:
    """A path that is the rest of its line: no quotes are read, and blanks at its end are dropped."""
    text = _printable(str(path))
    if text != text.strip() or text.endswith("\\"):
        raise UnitFault(f"systemd takes no path here that ends with a blank or a backslash: {path}")
    return _percent(text)


def _percent(text: str) -> str:
    return text.replace("%", "%%")


def _printable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UnitFault(f"a unit is UTF-8, and this is not: {text!r}") from None
    if any(ord(char) < 32 or ord(char) == 127 for char in text):
        raise UnitFault(f"a unit takes no line breaks and control characters: {text!r}")
    return text
