"""Which runs may be compared: those that did the same work. All comparisons of runs ask here (rule 18).

A run that leaves most jobs waiting draws less, ends earlier and has shorter waits than one that runs them all. So
differences of two runs exist only where both ran the same jobs, to the last. Jobs that both runs rejected, by the
machine's own figures, are no work of either. Runs whose jobs truly draw or take something else (physics, rule 21) did
different work, too.

Everything that compares runs calls this module: the terminal, pages, the Python API, campaigns, ``whatif``, studies,
and what settles or designs payments. ``tests/architecture/test_comparisons.py`` looks for differences of metrics that
are formed elsewhere.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.schedule import (
    REJECTED,
    ROW,
    Schedule,
    never_ran_reasons,
    never_ran_text,
    reasons_of_text,
    reasons_text,
)

PER_WORK = frozenset({"energy_per_node_h_j"})
"""Metrics that stay comparable where runs did different work: they are divided by the work done."""
DIGEST = "work"
"""Column of tables with a row per run: the digest of the jobs that ran (``WorkDone.digest``)."""
OTHER_JOBS = "the runs are not of the same jobs"
OTHER_TRUTH = "the runs have different physics"


@dataclass(frozen=True, slots=True)
class WorkDone:
    """What a run did of its workload."""

    jobs: int
    never_ran: int
    reasons: str
    """Why, with numbers (``schedule.reasons_text``); empty where all jobs ran."""
    digest: str
    """Hash of names and submit times of the jobs that ran; empty where a job never ran that was not rejected."""
    truth: str = ""
    """Hash of the physics of the run; empty for the trace's own figures."""

    @classmethod
    def of(cls, jobs: Jobs, schedule: Schedule, truth: str = "") -> WorkDone:
        """Return the work of a schedule of these jobs."""
        return replace(cls.of_ran(jobs, schedule, schedule.ran), truth=truth)

    @classmethod
    def of_ran(cls, jobs: Jobs, schedule: Schedule, ran: NDArray[np.bool_]) -> WorkDone:
        """Return the work where another rule than that of the schedule says which jobs ran. Shape (n,)."""
        rejected = ~ran & np.isin(schedule.reason, REJECTED)
        digest = _digest(jobs, ran) if bool((ran | rejected).all()) else ""
        return cls(len(jobs), int((~ran).sum()), reasons_text(never_ran_reasons(schedule, ran)), digest)

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> WorkDone:
        """Return the work that a row of results states; a row without these columns is comparable with nothing."""
        never_ran = int(row.get("jobs_never_ran") or 0)
        return cls(int(row.get("jobs") or 0), never_ran, str(row.get(ROW) or ""), str(row.get(DIGEST) or ""))

    def row(self) -> dict[str, str]:
        """Return the columns from which ``of_row`` makes the work again, beside the metrics."""
        return {ROW: self.reasons, DIGEST: self.digest}

    @classmethod
    def total(cls, runs: Iterable[WorkDone]) -> WorkDone:
        """Return the numbers of several runs together, as one to be printed; it is comparable with nothing."""
        found, reasons = list(runs), Counter[str]()
        for work in found:
            reasons.update(reasons_of_text(work.reasons))
        ordered = dict(reasons.most_common())
        return cls(sum(w.jobs for w in found), sum(w.never_ran for w in found), reasons_text(ordered), "")

    @property
    def whole(self) -> bool:
        """Return whether all jobs ran that were not rejected."""
        return bool(self.digest)

    @property
    def text(self) -> str:
        """Return ``22,016 of 28,481 jobs never ran (still queued at the end)``; empty where all jobs ran."""
        return never_ran_text(self.jobs, self.never_ran, self.reasons)


def _digest(jobs: Jobs, ran: NDArray[np.bool_]) -> str:
    """Return a hash of the names and submit times of jobs."""
    names = "\n".join(map(str, jobs.job_id[ran].tolist()))
    times = np.ascontiguousarray(jobs.submit_s[ran], np.float64)
    return hashlib.sha256(names.encode() + b"\0" + times.tobytes()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Gate:
    """Whether figures of two runs, or of two groups of runs, may be compared."""

    open: bool
    why: str = ""
    """Why not, as a clause: ``adapt: 22,016 of 28,481 jobs never ran (still queued at the end)``."""

    def allows(self, metric: str) -> bool:
        """Return whether a metric may be compared."""
        return self.open or (metric in PER_WORK and self.why != OTHER_TRUTH)

    @property
    def sentence(self) -> str:
        """Return ``Not comparable: ...``; empty where the gate is open."""
        return "" if self.open else f"Not comparable: {self.why}."


OPEN = Gate(open=True)
_UNLIKE = Gate(open=False, why=OTHER_TRUTH)


def gate(base: WorkDone, other: WorkDone, names: tuple[str, str] = ("", "")) -> Gate:
    """Return whether two runs did the same work. ``names`` say in the reason which of them did not."""
    if base.truth != other.truth:
        return _UNLIKE
    if base.whole and base.digest == other.digest:
        return OPEN
    said = [f"{name}: {work.text}" if name else work.text for name, work in zip(names, (base, other), strict=True)]
    parts = [text for text, work in zip(said, (base, other), strict=True) if work.never_ran]
    return Gate(open=False, why="; ".join(parts) or OTHER_JOBS)


def gate_of_pairs(pairs: Sequence[tuple[WorkDone, WorkDone]], names: tuple[str, str] = ("", "")) -> Gate:
    """Return whether runs did the same work pair by pair; the reason is that of all pairs together."""
    if not pairs:
        return Gate(open=False, why=OTHER_JOBS)
    gates = [gate(base, other) for base, other in pairs]
    if _UNLIKE in gates:
        return _UNLIKE
    if all(each.open for each in gates):
        return OPEN
    return gate(WorkDone.total(base for base, _ in pairs), WorkDone.total(other for _, other in pairs), names)


def gate_of_groups(
    base: Mapping[Any, WorkDone], other: Mapping[Any, WorkDone], names: tuple[str, str] = ("", "")
) -> Gate:
    """Return whether two groups of runs did the same work: equal keys (workload, seed) in both, each pair alike."""
    if base.keys() != other.keys():
        lost = [work for work in (*base.values(), *other.values()) if not work.whole]
        return Gate(open=False, why=lost[0].text if lost else OTHER_JOBS)
    return gate_of_pairs([(work, other[key]) for key, work in base.items()], names)


def gate_of_draws(base: Sequence[WorkDone], other: Sequence[WorkDone], names: tuple[str, str] = ("", "")) -> Gate:
    """Return whether runs of the same draws, which may be cut at different times, all ran their own jobs."""
    if not base or not other:
        return Gate(open=False, why=OTHER_JOBS)
    if {work.truth for work in base} != {work.truth for work in other}:
        return _UNLIKE
    if all(work.whole for work in (*base, *other)):
        return OPEN
    return gate(WorkDone.total(base), WorkDone.total(other), names)


def alike(groups: Sequence[Mapping[Any, WorkDone]]) -> list[int]:
    """Return the positions of the groups that may be compared with each other where no base was named.

    They did the work of the first group that did all of its own. Empty where there are not two of them.
    """
    base = next((group for group in groups if all(work.whole for work in group.values())), None)
    found = [] if base is None else [k for k, group in enumerate(groups) if gate_of_groups(base, group).open]
    return found if len(found) > 1 else []


def change(metric: str, base: float, other: float, through: Gate) -> float | None:
    """Return ``other`` less ``base``; None where the two may not be compared."""
    return other - base if through.allows(metric) else None


def change_percent(metric: str, base: float, other: float, through: Gate) -> float | None:
    """Return the change in percent of ``base``; None where the two may not be compared, or ``base`` is 0."""
    if not through.allows(metric) or base == 0:
        return None
    return 100.0 * (other - base) / abs(base)


def factor(metric: str, base: float, other: float, through: Gate) -> float | None:
    """Return ``other`` over ``base``; None where the two may not be compared, or ``base`` is 0."""
    return other / base if through.allows(metric) and base > 0 else None


class HasWaits(Protocol):
    """Starts and submissions of one run, job by job."""

    @property
    def jobs(self) -> Jobs: ...
    @property
    def start_s(self) -> Floats: ...
    @property
    def end_s(self) -> Floats: ...


@dataclass(frozen=True, slots=True)
class CommonJobs:
    """The jobs that ran in both of two runs, and their mean waits. They are stated side by side, without a verdict."""

    jobs: int
    base_wait_s: float
    other_wait_s: float


def common_jobs(base: HasWaits, other: HasWaits) -> CommonJobs | None:
    """Return what two runs of one workload have in common; None where no job ran in both, or names are not unique."""
    rows = [{str(name): k for k, name in enumerate(run.jobs.job_id.tolist())} for run in (base, other)]
    if any(len(found) < len(run.jobs) for found, run in zip(rows, (base, other), strict=True)):
        return None
    there = [name for name in rows[0] if name in rows[1]]
    a, b = (np.array([found[name] for name in there], np.int64) for found in rows)
    both = np.isfinite(base.end_s[a]) & np.isfinite(other.end_s[b]) & (base.jobs.submit_s[a] == other.jobs.submit_s[b])
    if not both.any():
        return None
    waits = [(run.start_s - run.jobs.submit_s)[at[both]] for run, at in ((base, a), (other, b))]
    return CommonJobs(int(both.sum()), float(waits[0].mean()), float(waits[1].mean()))
