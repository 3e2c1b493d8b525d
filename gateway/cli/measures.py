"""Figures for `tidings status` out of the text of `/metrics`: levels, counts, and what is usual and slow."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_SAMPLE = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]*)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"')

LEVELS = {
    "turns_running": "turns_running",
    "workers": "chats_at_work",
    "events_queued": "events_queued",
    "delivery_lanes": "chats_written_to",
}
TIMES = {
    "queue_seconds": "queue",
    "first_text_seconds": "first_text",
    "turn_seconds": "turn",
    "model_call_seconds": "model_call",
    "arbiter_wait_seconds": "arbiter_wait",
    "loop_lag_seconds": "loop_lag",
}
"""Histogram -> the beginning of the names of its figures."""
COUNTS = {
    "tidings_leases_lost_total": "leases_lost",
    "tidings_sends_unknown_total": "sends_unknown",
    "tidings_retry_after_total": "waits_asked_for",
}

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Samples:
    """Every sample by its name and labels."""

    values: Mapping[tuple[str, Labels], float] = field(default_factory=dict)

    def total(self, name: str, **labels: str) -> float | None:
        """The sum over all samples of that name that have these labels; None where there is none."""
        wanted = labels.items()
        found = [value for (one, has), value in self.values.items() if one == name and wanted <= dict(has).items()]
        return sum(found) if found else None

    def since(self, before: Samples) -> Samples:
        """What was counted since then. A daemon that was started anew meanwhile counts from its start."""
        same = self.total("process_start_time_seconds") == before.total("process_start_time_seconds")
        if not same:
            return self
        return Samples({key: value - before.values.get(key, 0.0) for key, value in self.values.items()})

    def quantile(self, name: str, q: float) -> float | None:
        """The least bound below which at least the share `q` of a histogram lies, over all its labels; infinite
        where that is beyond the last bound, None where nothing was measured."""
        bounds: dict[float, float] = {}
        for (one, labels), value in self.values.items():
            if one == f"{name}_bucket":
                bound = float(dict(labels)["le"])
                bounds[bound] = bounds.get(bound, 0.0) + value
        count = max(bounds.values(), default=0.0)
        if count <= 0:
            return None
        return min(bound for bound, below in bounds.items() if below >= q * count)


def samples(text: str) -> Samples:
    """Read Prometheus text. Lines that are none are left out."""
    found: dict[tuple[str, Labels], float] = {}
    for line in text.splitlines():
        match = _SAMPLE.fullmatch(line.strip())
        if match is None or line.startswith("#"):
            continue
        try:
            value = float(match[3])
        except ValueError:
            continue
        found[match[1], tuple(sorted(_LABEL.findall(match[2] or "")))] = value
    return Samples(found)


def figures(now: Samples, before: Samples | None = None) -> dict[str, float]:
    """The figures worth a line; times are of the interval since `before`, or of the daemon's whole run."""
    found: dict[str, float | None] = {
        "memory_bytes": now.total("process_resident_memory_bytes"),
        "cpu_seconds": now.total("process_cpu_seconds_total"),
    }
    for what, name in LEVELS.items():
        found[name] = now.total("tidings_now", what=what)
    for metric, name in COUNTS.items():
        found[name] = now.total(metric)
    found["prefix_breaks_undeclared"] = now.total("tidings_prefix_breaks_total", reason="undeclared")
    lately = now if before is None else now.since(before)
    for metric, name in TIMES.items():
        found[f"{name}_count"] = lately.total(f"tidings_{metric}_count")
        found[f"{name}_p50"] = lately.quantile(f"tidings_{metric}", 0.5)
        found[f"{name}_p95"] = lately.quantile(f"tidings_{metric}", 0.95)
    return {name: value for name, value in found.items() if value is not None}
