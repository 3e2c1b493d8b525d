"""Putting the daemon under systemd and taking it out again: files, systemd told, and what is left to the person.

Blocking; for the command line. Only files that carry our mark are changed or removed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import secrets
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from gateway import systemctl
from gateway.config import ConfigError, load
from gateway.config_paths import default_path
from gateway.config_types import Config
from gateway.lifecycle import longest_stop
from gateway.systemctl import SystemdFault
from gateway.units import (
    STATE_ROOT,
    STOP_SPARE,
    Origin,
    Scope,
    UnitSpec,
    check_name,
    origin,
    protect_home,
    render,
    stop_timeout,
)

SYSTEM_FOLDER = Path("/etc/systemd/system")
SYSTEM_CONFIG = Path("/etc")
LINGER = Path("/var/lib/systemd/linger")
"""A file with a user's name in it: the user's manager runs without a login."""
START_SECONDS = 310.0
"""Longer than TimeoutStartSec=."""
MANAGER_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class ServiceFault(Exception):
    """The service cannot be installed or removed like this. The text says why, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a unit lives."""

    scope: Scope
    name: str
    file: Path

    @classmethod
    def of(cls, scope: Scope, name: str, environ: Mapping[str, str]) -> Place:
        """The place of the unit `name`. Raises `units.UnitFault` for a name that is none."""
        check_name(name)
        if scope is Scope.SYSTEM:
            folder = SYSTEM_FOLDER
        else:
            own = environ.get("XDG_CONFIG_HOME", "")
            base = Path(own) if own.startswith("/") else Path(environ.get("HOME") or Path("~").expanduser(), ".config")
            folder = base / "systemd" / "user"
        return cls(scope=scope, name=name, file=folder / f"{name}.service")

    @property
    def unit(self) -> str:
        """The unit's name."""
        return self.file.name

    @property
    def systemctl(self) -> str:
        """How a person calls systemctl for it."""
        return " ".join(("systemctl", *systemctl.flags(self.scope)))

    def origin(self) -> Origin | None:
        """Whose the unit file is; None where there is none. A link is never ours (`systemctl mask` makes one)."""
        if self.file.is_symlink():
            return Origin.FOREIGN
        try:
            return origin(self.file.read_text(encoding="utf-8", errors="replace"))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ServiceFault(f"{self.file} cannot be read: {error.strerror or error}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A unit that could be installed: its configuration has been read and is in order."""

    place: Place
    spec: UnitSpec
    settings: Config


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What was done, and what is left to the person, in sentences."""

    place: Place
    enabled: bool = False
    started: bool = False
    done: list[str] = field(default_factory=list)
    to_do: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "unit": self.place.unit,
            "scope": self.place.scope.value,
            "file": str(self.place.file),
            "enabled": self.enabled,
            "started": self.started,
            "done": self.done,
            "to_do": self.to_do,
        }


# planning ----------------------------------------------------------------------------------------


def plan(
    place: Place, config: Path | None, *, environment: Path | None, account: str, environ: Mapping[str, str]
) -> Planned:
    """Read the configuration as the service will, and settle what the unit says. Changes nothing.

    Raises `ConfigError` with every fault of the configuration (and a note where variables are missing), or
    `ServiceFault`.
    """
    _installed()
    is_system = place.scope is Scope.SYSTEM
    own = _own_environ(place, environ)
    file = default_path(own) if config is None else config.expanduser().absolute()
    if environment is not None:
        variables = environment.expanduser().absolute()
    else:
        variables = (SYSTEM_CONFIG / place.name if is_system else file.parent) / "environment"
    try:
        settings = load(file, environ=own | _variables(variables))
    except ConfigError as error:
        if any("environment variable" in fault.message for fault in error.faults):
            error.add_note(f"the service sees no variables of your shell, but those in {variables} (NAME=value lines)")
        raise
    spec = UnitSpec(
        scope=place.scope,
        name=place.name,
        python=Path(sys.executable),
        config=file,
        home=settings.home,
        root=settings.root,
        environment=variables,
        stop_seconds=longest_stop(settings.limits.drain_seconds),
        account=_account(account, place) if is_system else "",
        protect_home=protect_home(_reached(settings)),
    )
    return Planned(place=place, spec=spec, settings=settings)


def unit_text(planned: Planned) -> str:
    """The unit file. Raises `units.UnitFault`."""
    return render(planned.spec)


def _installed() -> None:
    """The unit names the interpreter, not this folder: the package must be there from everywhere."""
    try:
        distribution("tidings")
    except PackageNotFoundError:
        raise ServiceFault("install tidings into an environment first; a plain checkout is no service") from None


def _own_environ(place: Place, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that the service will have, but for its file. Those of the shell are not among them."""
    own = {"PATH": MANAGER_PATH}
    if systemctl.is_booted():
        with contextlib.suppress(SystemdFault):  # without it we know less; what is missing is told
            own |= systemctl.manager_environment(place.scope)
    if place.scope is Scope.SYSTEM:
        home = str(STATE_ROOT / place.name)
        return own | {"HOME": home, "TIDINGS_HOME": home}
    own["HOME"] = environ.get("HOME") or str(Path("~").expanduser())
    if home := environ.get("TIDINGS_HOME", "").strip():
        own["TIDINGS_HOME"] = home
    return own


def _variables(file: Path) -> dict[str, str]:
    try:
        return systemctl.assignments(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ServiceFault(f"the environment file {file} cannot be read: {error}") from None


def _account(name: str, place: Place) -> str:
    try:
        pwd.getpwnam(name)
    except KeyError:
        home = STATE_ROOT / place.name
        raise ServiceFault(
            f"there is no account {name!r}: make one with\n"
            f"  useradd --system --create-home --home-dir {home} --shell /usr/sbin/nologin {name}\n"
            f"or name another with --account"
        ) from None
    return name


def _reached(settings: Config) -> list[Path]:
    """What the service must be able to reach."""
    package = importlib.util.find_spec("gateway")
    code = [] if package is None or package.origin is None else [Path(package.origin)]
    references = [value.origin.removeprefix("file:") for value in settings.values if value.origin.startswith("file:")]
    programs = [Path(sys.executable), Path(sys.executable).resolve(), *code]
    return [*programs, settings.file, settings.root, *map(Path, references)]


# doing -------------------------------------------------------------------------------------------


def install_unit(planned: Planned, *, now: bool, force: bool) -> Outcome:
    """Write the unit, and have systemd know it. With `now` also start it (anew, where it runs), and wait for it.

    Raises `ServiceFault`, `units.UnitFault`, or `SystemdFault` where systemd refuses; the unit is written then.
    """
    place, spec = planned.place, planned.spec
    text = unit_text(planned)
    outcome = Outcome(place=place)
    _write_unit(place, text, outcome, force=force)
    if not spec.root.exists():
        _make_root(spec)
        outcome.done.append(f"made {spec.root}, where the agent's tools work")
    with contextlib.suppress(FileNotFoundError):
        if stat.S_IMODE(spec.environment.stat().st_mode) & 0o077:
            outcome.to_do.append(f"others can read {spec.environment}: chmod 600 it")
    outcome.to_do.extend(_closed(spec))
    start = f"{place.systemctl} daemon-reload && {place.systemctl} enable --now {place.unit}"
    if not systemctl.is_booted():
        outcome.to_do.append(f"systemd does not run here; where it does: {start}")
        return outcome
    try:
        systemctl.systemctl(place.scope, "daemon-reload")
        systemctl.systemctl(place.scope, "enable", place.unit)
    except SystemdFault as fault:
        raise SystemdFault(
            f"{place.file} is written, but systemd does not take it over: {fault}\nlater: {start}"
        ) from None
    outcome.enabled = True
    outcome.done.append(f"enabled {place.unit}")
    if now:
        systemctl.systemctl(place.scope, "restart", place.unit, seconds=START_SECONDS + spec.stop_seconds + STOP_SPARE)
        outcome.started = True
        outcome.done.append(f"started {place.unit}; it is ready")
    else:
        outcome.to_do.append(f"start it: {place.systemctl} start {place.unit}")
    if place.scope is Scope.USER and not _lingers():
        outcome.to_do.append("it runs while you are logged in; for always: loginctl enable-linger")
    return outcome


def uninstall_unit(place: Place, *, force: bool) -> Outcome:
    """Stop and disable the unit, and remove its file. Nothing happens where there is none.

    Raises `ServiceFault` for a unit that is not ours, `SystemdFault` where it could not be stopped; it stays then.
    """
    outcome = Outcome(place=place)
    found = place.origin()
    if found is None:
        outcome.done.append(f"there is no {place.file}")
        return outcome
    if found is Origin.FOREIGN:
        raise ServiceFault(f"{place.file} is not ours; it is left alone")
    if found is Origin.EDITED and not force:
        raise ServiceFault(f"{place.file} was edited; --force removes it all the same")
    booted = systemctl.is_booted()
    if booted:
        bound = systemctl.SECONDS + stop_timeout(place.file.read_text(encoding="utf-8", errors="replace"))
        systemctl.systemctl(place.scope, "disable", "--now", place.unit, seconds=bound)
        outcome.done.append(f"stopped and disabled {place.unit}")
    place.file.unlink()
    outcome.done.append(f"removed {place.file}; the state folder stays")
    if booted:
        systemctl.systemctl(place.scope, "daemon-reload")
        with contextlib.suppress(SystemdFault):  # there is nothing to reset where it has not failed
            systemctl.systemctl(place.scope, "reset-failed", place.unit)
    return outcome


def _write_unit(place: Place, text: str, outcome: Outcome, *, force: bool) -> None:
    found = place.origin()
    if found is Origin.OURS and place.file.read_text(encoding="utf-8") == text:
        outcome.done.append(f"{place.file} is up to date")
        return
    if found in (Origin.FOREIGN, Origin.EDITED) and not force:
        why = "is not ours" if found is Origin.FOREIGN else "was edited since it was written"
        raise ServiceFault(
            f"{place.file} {why}; --force overwrites it, --name takes another name, "
            f"and `{place.systemctl} edit {place.unit}` adds settings that stay"
        )
    place.file.parent.mkdir(parents=True, exist_ok=True)
    draft = place.file.with_name(f".{place.file.name}.{secrets.token_hex(4)}")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.chmod(0o644)  # there is no secret in it, and everybody may see what runs
        draft.replace(place.file)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    outcome.done.append(f"wrote {place.file}")


def _make_root(spec: UnitSpec) -> None:
    """A unit with a path that is not there does not start."""
    try:
        spec.root.mkdir(parents=True, mode=0o700)
        if spec.account:
            entry = pwd.getpwnam(spec.account)
            os.chown(spec.root, entry.pw_uid, entry.pw_gid)
    except OSError as error:
        raise ServiceFault(f"tools.root {spec.root} cannot be made: {error.strerror or error}") from None


def _closed(spec: UnitSpec) -> list[str]:
    """What the account of a system unit cannot reach, by the rights of the files (not by access lists)."""
    if not spec.account:
        return []
    found = []
    for path in (spec.python, spec.python.resolve(), spec.config):
        closed = next((one for one in (*reversed(path.parents), path) if not _open_to(one, spec.account)), None)
        if closed is not None:
            found.append(f"{spec.account} cannot read {path}: {closed} is closed to it")
    return list(dict.fromkeys(found))


def _open_to(path: Path, account: str) -> bool:
    try:
        found = path.stat()
    except OSError:
        return False
    entry = pwd.getpwnam(account)
    needed = 1 if path.is_dir() else 4  # to go through a folder, to read a file
    groups = os.getgrouplist(account, entry.pw_gid)
    shift = 6 if found.st_uid == entry.pw_uid else 3 if found.st_gid in groups else 0
    return entry.pw_uid == 0 or (found.st_mode >> shift) & needed == needed


def _lingers() -> bool:
    with contextlib.suppress(KeyError, OSError):
        return (LINGER / pwd.getpwuid(os.getuid()).pw_name).exists()
    return False
