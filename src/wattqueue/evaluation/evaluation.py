"""Evaluate estimators on one workload: what ``wattqueue predict eval`` and ``wattqueue.predict`` both do.

``evaluate_workload`` checks the input, walks every estimator over the trace (``evaluate``), collects remarks on the
data, and warns of estimators that read the future. ``Evaluation.pages`` are the texts that are written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from wattqueue.checks.leak import find_leak
from wattqueue.errors import InputError, one_of
from wattqueue.evaluation.evaluate import Clock, Evaluated, evaluate_all, maker
from wattqueue.evaluation.page import document
from wattqueue.formats.machine.file import load_machine, parse_node_watts
from wattqueue.formats.workload import Workload
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.machine import Machine, plain_machine
from wattqueue.model.physics import Physics
from wattqueue.parts.features import TEXTS
from wattqueue.parts.timeline import job_watts, trace_timeline
from wattqueue.report import words
from wattqueue.report.document import Document
from wattqueue.sim.physics import true_figures
from wattqueue.version import SCHEMA_VERSION, __version__

TEXT = "submission-text"
"""The estimator that reads texts of submissions."""
PUBLISHED_ONLINE = (
    "Published errors of online prediction from submissions: 10 % (Fugaku, UoPC), under 12 % (F-DATA), under 22 % "
    "(PM100). They are of other data: nothing follows from a difference to the errors here."
)
"""Printed wherever that estimator is evaluated. No trace at hand has scripts and measured watts."""
DEFAULTS = {"mean": "last-job,history-mean", "max": "last-job,history-max"}
"""Estimators that are evaluated where none is named, by target."""
CHECKED_JOBS = 400
"""Jobs on which an estimator of the user's own is tested for reading the future; each is predicted twice."""


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """Estimators scored on one workload.

    ``workload`` is what was read and ``name`` what reports call it; ``target`` is ``mean`` or ``max``, watts of one
    node; ``found`` has one element per estimator, in the order in which they were named; ``remarks`` are sentences on
    the data and the estimators.
    """

    workload: Workload
    name: str
    target: str
    found: tuple[Evaluated, ...]
    remarks: tuple[str, ...]

    @property
    def actual_w(self) -> Floats:
        """Return the watts of one node of each job, as recorded; NaN where unknown. Shape (n,)."""
        return job_watts(self.workload.jobs, self.target)

    @property
    def document(self) -> Document:
        """Return the scores as text and page."""
        scores = [e.score for e in self.found]
        origin = self.workload.jobs.origin
        return document(scores, target=self.target, workload=self.name, origin=origin, remarks=self.remarks)

    def scores_json(self) -> str:
        """Return scores.json: the figures of every estimator, and the remarks."""
        document = {
            "schema_version": SCHEMA_VERSION,
            "wattqueue": __version__,
            "workload": self.name,
            "origin": self.workload.jobs.origin,
            "target": self.target,
            "scores": [e.score.figures() for e in self.found],
            "remarks": list(self.remarks),
        }
        return json.dumps(document, indent=2) + "\n"

    def pages(self) -> dict[str, str]:
        """Return the texts that are written beside predictions.csv, by name."""
        return {"scores.json": self.scores_json(), "report.html": self.document.html()}


def evaluate_workload(
    workload: Workload,
    machine: Machine,
    *,
    name: str,
    estimators: Sequence[str] = (),
    target: str = "mean",
    seed: int = 0,
    clock: Clock,
    tell: Callable[[int, int], None] | None = None,
    physics: Physics | None = None,
) -> Evaluation:
    """Predict every job at its submission from the jobs that had ended by then, and score the predictions.

    ``estimators`` are names or ``my.py:Class``, several in one text separated by commas; empty means ``DEFAULTS``.
    With ``physics`` jobs without watts of their own have those of its tables. ``clock`` returns seconds of CPU time;
    ``tell`` is called with (evaluated, all) before each estimator.

    Raises: InputError where an estimator is named twice or no job has measured watts; PolicyError for an estimator
    that is unknown or breaks its contract.
    """
    if target not in DEFAULTS:
        raise InputError(f"unknown target {target!r}", where="--target", hint=one_of(target, DEFAULTS))
    specs = [spec for text in estimators or [DEFAULTS[target]] for spec in text.split(",") if spec.strip()]
    if not specs:
        raise InputError("names no estimator", where="--estimator", hint="leave it out for the default ones")
    if len(set(specs)) < len(specs):
        raise InputError(f"names one twice: {', '.join(specs)}", where="--estimator")
    told: list[str] = []
    if physics is not None:
        workload, told = with_physics(workload, machine, physics)
    remarks = told + remarks_on(workload, target, name)
    found = evaluate_all(specs, workload.jobs, machine, target=target, clock=clock, tell=tell, seed=seed)
    remarks += [text for spec in specs for text in _leak(spec, target, workload, machine)]
    if any(spec.partition(":")[0] == TEXT for spec in specs):
        remarks += text_remarks(workload.jobs)
    return Evaluation(workload, name, target, tuple(found), tuple(remarks))


def with_physics(workload: Workload, machine: Machine, physics: Physics) -> tuple[Workload, list[str]]:
    """Return a workload with the true watts of its jobs where they were recorded, and remarks on their source.

    Raises: InputError as ``sim.physics.true_figures``.
    """
    figures = true_figures(physics, workload.jobs, machine)
    jobs = replace(workload.jobs, mean_power_w=figures.recorded_w(workload.jobs))
    filled, tables = int(figures.filled.sum()), ", ".join(figures.sources[1:])
    said = (
        [f"{filled:,} of {len(jobs):,} jobs have the mean watts of {tables}, since they state none."] if filled else []
    )
    if physics.error:
        said.append(f"True watts are multiplied by a log-normal draw of {physics.error:g} for each application.")
    return replace(workload, jobs=jobs), said


def text_remarks(jobs: Jobs) -> list[str]:
    """Return what the texts of this trace are, and the published errors."""
    columns = [name for name in TEXTS if name in jobs.extra]
    names = words.count(len(jobs.app.names), "job name") if jobs.app.names else "no job names"
    rest = ", ".join(f"{name} ({words.count(sum(map(bool, jobs.extra[name])), 'job')})" for name in columns)
    return [f"Texts of submissions: {names}; {rest or 'no ' + ', '.join(TEXTS)}.", PUBLISHED_ONLINE]


def evaluation_machine(workload: Workload, name: str | None, watts: str | None) -> Machine:
    """Return the named machine, or a plain one of the widest job with or without watts.

    Raises: InputError where both are given.
    """
    if name is not None:
        if watts is not None:
            raise InputError(
                "--machine and --node-watts both give a node's watts", where="--node-watts", hint="leave one out"
            )
        return load_machine(name)
    idle, most = (0.0, None) if watts is None else parse_node_watts(watts)
    return plain_machine(int(workload.jobs.nodes.max(initial=1)), idle, most)


def remarks_on(read: Workload, target: str, name: str) -> list[str]:
    """Return remarks on the trace: unusable rows, jobs that are not scored and why.

    Raises: InputError where no job has watts.
    """
    jobs, actual = read.jobs, job_watts(read.jobs, target)
    known = np.isfinite(actual)
    if not (known & (actual > 0)).any():
        raise InputError(
            "no job has measured watts",
            where=name,
            hint="use a trace with energy or power; wattqueue import prints what one has",
        )
    said = list(read.notes)
    if len(read.unusable):
        said.append(f"{len(read.unusable):,} rows of the trace cannot be used (wattqueue import lists them).")
    for count, what in (
        (int((~known).sum()), "have no measured watts and are neither learned nor scored"),
        (
            int((known & (actual <= 0)).sum()),
            "have 0 W recorded, which is no measurement: neither learned nor scored",
        ),
        (trace_timeline(jobs).early_starts, "started before their submission, which is used as their start"),
        (int((jobs.user.codes < 0).sum()), "have no user: they count overall, but in no user's history"),
    ):
        if count:
            said.append(f"{count:,} of {len(jobs):,} jobs {what}.")
    if target == "max" and jobs.max_power_w is not None and jobs.mean_power_w is not None:
        filled = int((np.isnan(jobs.max_power_w) & np.isfinite(jobs.mean_power_w)).sum())
        if filled:
            said.append(f"{filled:,} of {len(jobs):,} jobs have no maximum: their mean is used.")
    elif target == "max" and jobs.max_power_w is None:
        said.append("No job has a maximum: means are used, so this evaluates the prediction of the mean.")
    return said


def _leak(spec: str, target: str, read: Workload, machine: Machine) -> list[str]:
    """Return a warning if an estimator of the user's own reads the future; stock ones are covered by tests."""
    if ".py" not in spec:
        return []
    first = np.argsort(read.jobs.submit_s, kind="stable")[:CHECKED_JOBS]
    found = find_leak(maker(spec, target), read.jobs.take(first), machine)
    return [f"{spec} reads the future: {found}. Its figures are meaningless."] if found else []
