"""List the origin of each quantity of a report: measured, generated, simulated, predicted or stated.

A reader must be able to see that the watts of a generated workload were never measured, and that waits are simulated
even where the trace holds real ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wattqueue.model.energy_origin import ORIGIN_NAMES, UNSTATED, origin_sentence
from wattqueue.policy.oracles import marked
from wattqueue.report.run import RunData

KINDS = {
    "measured": "recorded on a real machine",
    "generated": "made by a model with a seed; no machine recorded it",
    "simulated": "computed by WattQueue from the other rows",
    "predicted": "what the estimator returned before the job ran",
    "stated": "given by the machine description or the command",
    "unknown": "stated in no input",
}
"""Kinds of origin and what each means, printed below the table of sources."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """One quantity and its origin.

    Attributes:
        what: The quantity.
        kind: A key of KINDS.
        where: File, machine, policy or estimator that it comes from.
    """

    what: str
    kind: str
    where: str


def sources(run: RunData) -> list[Provenance]:
    """Return one entry per quantity that the report shows.

    Without any watts the entries of power and energy are one: unknown, with the option that states them.
    """
    about = run.about
    origin = about.origin if about.origin in KINDS else "measured"
    machine = about.machine_source or "the machine description"
    rows = [
        Provenance("Jobs: submission, size, run time, walltime", origin, about.workload or "the workload"),
        Provenance(
            "Start and end times, waits, queue",
            "simulated",
            marked(f"policy {about.policy}" if about.policy else "the policy", about.oracle),
        ),
    ]
    if not run.has_watts:
        return [*rows, Provenance(f"Number of {run.unit}s", "stated", _joined(about.machine, machine)), _no_watts(run)]
    rows.insert(1, _watts(run, origin))
    rows[2:2] = [Provenance(f"Physics: {text}", "stated", f"{count:,} jobs") for text, count in about.physics.items()]
    rows += [
        Provenance(
            "Power and energy of the machine",
            "simulated",
            "exact sum over jobs and idle units, exact integral over time",
        ),
        Provenance("Units, idle and maximum watts, frequencies", "stated", _joined(about.machine, machine)),
    ]
    if np.isfinite(run.predicted_w).any():
        rows.append(Provenance("Watts counted against the cap", "predicted", _estimator(about.estimator)))
    if len(run.caps_w):
        rows.append(Provenance("The cap", "stated", about.cap or "the cap given"))
    if len(run.targets_w):
        rows.append(Provenance("Load targets", "stated", "the targets given"))
    return rows


def _watts(run: RunData, origin: str) -> Provenance:
    """Return the origin of the jobs' watts: workload, machine, or both."""
    rest = "those of the physics or the machine's figures" if run.about.physics else "the machine's figures"
    kind, where = {
        "machine": ("stated", f"the workload states none: {rest} for one {run.unit}"),
        "workload in part": (origin, f"the workload's where it has them, {rest} for the other jobs"),
    }.get(run.about.watts, (origin, f"the workload's figures for one {run.unit}"))
    return Provenance("Watts of jobs", kind, where)


def energy_note(run: RunData) -> str:
    """Return how much of the energy of jobs is measured, for the tile of that energy; empty without watts.

    An import labels the energy of each job, and the run records the shares (``energy_origin`` in run.toml). Without
    labels only the kind of source is known: generated, from the trace, or assumed from the machine's figures.
    """
    if not run.has_watts:
        return ""
    if run.about.energy_origin:
        return origin_sentence(dict(run.about.energy_origin))
    if run.about.watts == "machine":
        return ORIGIN_NAMES["machine"]
    part = "in part from the trace, in part " + ORIGIN_NAMES["machine"] if run.about.watts == "workload in part" else ""
    return part or ORIGIN_NAMES["generated" if run.about.origin == "generated" else UNSTATED]


def _no_watts(run: RunData) -> Provenance:
    """Return the entry of a run for which neither workload nor machine states watts."""
    where = (
        f"neither the workload nor the machine states watts of a {run.unit}: --node-watts IDLE:MAX, or a machine file"
    )
    return Provenance("Watts, power, energy", "unknown", where)


def _estimator(name: str) -> str:
    """Return the name of an estimator as a source."""
    return f"estimator {name}" if name else "the policy's estimator"


def _joined(name: str, source: str) -> str:
    """Return a machine's name and source as one text."""
    return f"{name}: {source}" if name else source
