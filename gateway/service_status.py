"""How systemd sees the service: its properties as plain data, and in sentences with what to do."""

from __future__ import annotations

from typing import Any

from gateway import systemctl
from gateway.lifecycle import ExitCode
from gateway.service import Place
from gateway.systemctl import SystemdFault
from gateway.units import Scope

NOT_INSTALLED = 4
_PROPERTIES = (
    "LoadState",
    "ActiveState",
    "SubState",
    "UnitFileState",
    "FragmentPath",
    "MainPID",
    "NRestarts",
    "Result",
    "ExecMainStatus",
    "StatusText",
    "StateChangeTimestamp",
    "MemoryCurrent",
    "NeedDaemonReload",
)


def look(place: Place) -> dict[str, Any]:
    """What is known of the unit. Raises `SystemdFault` where systemd cannot be asked."""
    if not systemctl.is_booted():
        raise SystemdFault(f"systemd does not run here; {place.file} {'is' if place.file.exists() else 'is not'} there")
    found = systemctl.show(place.scope, place.unit, _PROPERTIES)
    origin = place.origin()
    return {
        "unit": place.unit,
        "scope": place.scope.value,
        "file": found.get("FragmentPath") or str(place.file),
        "file_is": None if origin is None else origin.value,
        "installed": found.get("LoadState") not in (None, "", "not-found"),
        "enabled": found.get("UnitFileState") or None,
        "active": found.get("ActiveState") or "inactive",
        "sub": found.get("SubState") or "dead",
        "since": found.get("StateChangeTimestamp") or None,
        "says": found.get("StatusText") or None,
        "pid": _number(found.get("MainPID")) or None,
        "restarts": _number(found.get("NRestarts")) or 0,
        "result": found.get("Result") or None,
        "exit_code": _number(found.get("ExecMainStatus")),
        "memory_bytes": _number(found.get("MemoryCurrent")),
        "needs_reload": found.get("NeedDaemonReload") == "yes",
    }


def sentences(facts: dict[str, Any]) -> list[str]:
    """The same for people."""
    option = "" if facts["scope"] == Scope.USER.value else " --system"
    if not facts["installed"]:
        return [f"{facts['unit']} is not installed: tidings service install{option}"]
    lines = [f"{facts['unit']}: {facts['active']} ({facts['sub']}), {facts['enabled'] or 'not enabled'}"]
    if facts["since"]:
        lines[0] += f", since {facts['since']}"
    if facts["pid"]:
        memory = "" if facts["memory_bytes"] is None else f", {facts['memory_bytes'] / 1e6:.0f} MB"
        lines.append(f"process {facts['pid']}{memory}, {facts['restarts']} restarts by systemd")
    if facts["says"]:
        lines.append(f"it says: {facts['says']}")
    lines.append(f"unit file: {facts['file']}{' (edited)' if facts['file_is'] == 'edited' else ''}")
    if facts["active"] != "active":
        lines.extend(_why(facts, option))
    if facts["needs_reload"]:
        lines.append(f"-> the unit file has changed since systemd read it: tidings service install{option}")
    return lines


def _why(facts: dict[str, Any], option: str) -> list[str]:
    if facts["exit_code"] == ExitCode.CONFIG:
        return [f"-> the configuration cannot be used: mend it, then tidings service install --now{option}"]
    if facts["result"] not in (None, "success"):
        code = "" if not facts["exit_code"] else f", exit code {facts['exit_code']}"
        return [f"-> it ended with {facts['result']}{code}: tidings service logs{option}"]
    return []


def _number(text: str | None) -> int | None:
    """systemd writes [not set], or the largest number, for what it does not know."""
    return int(text) if text and text.isdecimal() and int(text) < 2**63 else None
