"""What was measured, what generated, what predicted: said in the report, a row each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wattqueue.report.run import Run

KINDS = {
    "measured": "recorded on a real machine",
    "generated": "made by a model with a seed; no machine recorded it",
    "simulated": "computed by WattQueue from the rows above and below it",
    "predicted": "what the estimator said before the job ran",
    "stated": "given by the machine description or the command",
    "unknown": "said by nobody",
}


@dataclass(frozen=True, slots=True)
class Source:
    """One quantity, the kind of figure it is, and where it comes from."""

    what: str
    kind: str
    where: str


def sources(run: Run) -> list[Source]:
    """A row for each quantity that the report shows."""
    about = run.about
    origin = about.origin if about.origin in KINDS else "measured"
    machine = about.machine_source or "the machine description"
    rows = [
        Source("Jobs: submission, size, run time, walltime", origin, about.workload or "the workload"),
        Source(
            "Start and end times, waits, queue", "simulated", f"policy {about.policy}" if about.policy else "the policy"
        ),
    ]
    if not run.has_watts:
        return [*rows, Source(f"Number of {run.unit}s", "stated", _joined(about.machine, machine)), _no_watts(run)]
    rows.insert(1, _watts(run, origin))
    rows += [
        Source(
            "Power and energy of the machine",
            "simulated",
            "exact sum over jobs and idle units, exact integral over time",
        ),
        Source("Units, idle and maximum watts, frequencies", "stated", _joined(about.machine, machine)),
    ]
    if np.isfinite(run.predicted_w).any():
        rows.append(Source("Watts counted against the cap", "predicted", _estimator(about.estimator)))
    if run.series.limited:
        rows.append(Source("The cap", "stated", about.cap or "the cap given"))
    return rows


def _watts(run: Run, origin: str) -> Source:
    kind, where = {
        "machine": ("stated", f"the workload brings none: the machine's figures for one {run.unit}"),
        "workload in part": (origin, "the workload's where it has them, the machine's figures for the other jobs"),
    }.get(run.about.watts, (origin, f"the workload's figures for one {run.unit}"))
    return Source("Watts of jobs", kind, where)


def _no_watts(run: Run) -> Source:
    where = (
        f"neither the workload nor the machine states watts of a {run.unit}: --node-watts IDLE:MAX, or a machine file"
    )
    return Source("Watts, power, energy", "unknown", where)


def _estimator(name: str) -> str:
    return f"estimator {name}" if name else "the policy's estimator"


def _joined(name: str, source: str) -> str:
    return f"{name}: {source}" if name else source
