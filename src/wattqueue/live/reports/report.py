"""What one round saw and did, as a value for the log, the status and the metrics."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from wattqueue.live.apply import WriteResult
from wattqueue.live.cluster import Snapshot, Write
from wattqueue.live.planner import RoundState
from wattqueue.live.reports.conditions import Conditions
from wattqueue.live.table import Stage
from wattqueue.live.telemetry.base import NodePower, Telemetry

STATES: Mapping[str, tuple[Stage, ...]] = {
    "refused": (Stage.BACK_OFF,), "foreign": (Stage.FREE, Stage.STALLED), "late": (Stage.LATE,),
    "adopt": (Stage.STRAY,), "barred": (Stage.BARRED,),
}  # fmt: skip
"""Stages of jobs that the status and the metrics count together."""


class Meter(Protocol):
    """Counts rounds: the Prometheus metrics."""

    def round(self, report: Report) -> None:
        """Take over the figures of a round."""
        ...

    def failed(self, reason: str) -> None:
        """Count a round in which Slurm could not be observed."""
        ...


@dataclass(frozen=True)
class Report:
    """What one round saw and did."""

    plan: RoundState
    outcomes: Sequence[WriteResult]
    """The writes that were tried."""
    would: Sequence[Write]
    """The writes that observe and advise mode leave out."""
    took_s: float
    """Duration of the round."""
    plan_s: float
    """Duration of planning alone."""
    conditions: Conditions = field(default_factory=Conditions)
    problems: Sequence[str] = ()
    """What a person should act on: a cap file that cannot be read, jobs that Slurm does not start."""

    @property
    def snapshot(self) -> Snapshot:
        """The cluster at the begin of the round."""
        return self.plan.snapshot

    @property
    def power(self) -> Mapping[str, NodePower]:
        """Counted power by node name; empty without telemetry."""
        return self.plan.power


def measured_w(report: Report) -> float | None:
    """Return the watts of all nodes, each measured or its maximum; None without telemetry."""
    return sum(p.power_w for p in report.power.values()) if report.power else None


def counts_of(report: Report) -> dict[str, int]:
    """Return how many jobs there are, by what the controller sees in them, for the status and the metrics."""
    plan, found = report.plan, report.conditions
    at = {name: len(plan.jobs.at(stages)) for name, stages in STATES.items()}
    states = {name: len(getattr(found, name)) for name in ("stuck", "failed", "unlicensed", "never")}
    return {"running": len(plan.running), "under_way": len(plan.under_way), "waiting": len(plan.waiting)} | at | states


def describe(report: Report, mode: str, telemetry: Telemetry) -> dict[str, Any]:
    """Return the status as JSON values, for ``wattqueue live status`` and ``/status``."""
    plan, pool = report.plan, report.snapshot.pool
    counts = counts_of(report)
    labels = [p.label for p in report.power.values()]
    unreadable = [f"unreadable: {line[:80]}" for line in report.snapshot.unreadable[:3]]
    return {
        "time_s": report.snapshot.taken_s,
        "mode": mode,
        "cap_w": None if plan.alone_w == float("inf") else plan.alone_w,
        "limit_w": None if plan.stated_w == float("inf") else plan.stated_w,
        "counted_w": plan.counted_w,
        "reserved_w": plan.reserved_w,
        "over_cap_w": report.conditions.over_cap_w,
        "over_target_w": report.conditions.over_target_w,
        "measured_w": measured_w(report),
        "over_measured_w": report.conditions.over_measured_w,
        "pool_w": None if pool is None else {
            "total": pool.total, "open": pool.open_w, "used": pool.used, "uncounted": pool.uncounted,
        },
        "jobs": {name: count for name, count in counts.items() if name not in ("late", "adopt")},
        "nodes": {
            "total": len(report.snapshot.nodes),
            "busy": sum(len(row.node_names) for row in plan.jobs.rows(plan.running)),
            "off": sum(n.power != "on" for n in report.snapshot.nodes),
        },
        "shared_nodes": {
            "counted_w": plan.shared.watts, "open": plan.shared.open, "closed": plan.shared.closed,
        },
        "telemetry": {label: labels.count(label) for label in ("measured", "stale", "missing")},
        "telemetry_ok": plan.telemetry_ok,
        "promise": dict(plan.promise),
        "domains": {} if plan.planner.domains is None else plan.planner.domains.figures(plan),
        "limits": dict(plan.limit_figures),
        "unusable_targets": plan.unusable_targets,
        "problems": [*report.problems, *telemetry.problems[:5], *unreadable],
        "writes": len(report.outcomes),
        "errors": [o.error for o in report.outcomes if o.error][:5],
        "would": [f"{w.kind} {w.target}: {w.after}" for w in report.would[:20]],
        "round_s": report.took_s,
    }  # fmt: skip


AGAIN_S = 60.0
"""A problem whose figures change is logged again after so long."""
_FIGURE = re.compile(r"[0-9][0-9,.]*")


@dataclass
class ControllerLog:
    """Logs round after round through ``say``: writes with their outcome, problems when they come, change and go.

    In observe and advise mode it logs what would be written, when that changes.
    """

    say: Callable[[str], None]
    say_write: Callable[[str], None] | None = None
    """Takes the lines of writes instead, where they go elsewhere."""
    _problems: dict[str, tuple[float, set[str]]] = field(default_factory=dict)
    """Problems of the last round without their figures: when they were logged last, and the texts."""
    _would: str = ""

    def round(self, report: Report) -> None:
        """Log one round."""
        self._say_problems(report)
        for outcome in report.outcomes:
            write = outcome.write
            what = f"{write.kind} {write.target}: {write.before} -> {write.after} ({write.why})"
            (self.say_write or self.say)(f"{what}: {outcome.error}" if outcome.error else what)
        would = would_line(report)
        if would != self._would:
            self.say(would or "would write nothing")
            self._would = would

    def _say_problems(self, report: Report) -> None:
        now_s, found = report.snapshot.taken_s, dict[str, set[str]]()
        for text in report.problems:
            found.setdefault(_FIGURE.sub("#", text), set()).add(text)
        for kind in self._problems.keys() - found.keys():
            self.say(f"no more: {min(self._problems.pop(kind)[1])}")
        for kind, texts in found.items():
            since_s, known = self._problems.get(kind, (-AGAIN_S, set()))
            if texts - known and now_s - since_s >= AGAIN_S:
                for text in sorted(texts - known):
                    self.say(text)
                self._problems[kind] = (now_s, texts)


def would_line(report: Report) -> str:
    """Return what observe and advise mode leave out, in one line; empty where that is nothing."""
    if not report.would:
        return ""
    first = "; ".join(f"{w.kind} {w.target} {w.after}" for w in report.would[:5])
    return f"would write {len(report.would)}: {first}"
