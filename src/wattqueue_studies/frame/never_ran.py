"""The table of a study that says which of its runs left jobs, and why: those are compared with nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from wattqueue.model.comparability import WorkDone
from wattqueue.report.document import Table
from wattqueue_studies.frame.samples import Samples

TITLE = "Jobs that never ran"
NOTE = "Sums over all draws. Figures of runs that did different work are not compared: – stands in their place."
DIFFERENT_WORK = "the runs did different work: see the table of jobs that never ran"
"""Reason of a claim whose figure does not exist."""


def never_ran_rows(simulated: Iterable[Samples]) -> list[dict[str, Any]]:
    """Return a row for each (setting, policy) with jobs that never ran, for JSON."""
    return [
        {
            "setting": setting,
            "policy": policy,
            "jobs": did.jobs,
            "jobs_never_ran": did.never_ran,
            "reasons": did.reasons,
        }
        for setting, policy, did in _left(simulated)
    ]


def never_ran_tables(simulated: Sequence[Samples]) -> list[Table]:
    """Return the table of jobs that never ran; none where all jobs of all runs did."""
    rows = [[f"{policy}, {setting}", did.text] for setting, policy, did in _left(simulated)]
    heads = ("policy, workload", "never ran")
    return [Table(heads, rows, TITLE, NOTE, words=(1,), key="never-ran")] if rows else []


def _left(simulated: Iterable[Samples]) -> Iterator[tuple[str, str, WorkDone]]:
    """Yield setting, policy and the work of all draws together where jobs never ran."""
    for samples in simulated:
        for (setting, policy), did in samples.work.items():
            whole = WorkDone.total(did)
            if whole.never_ran:
                yield setting, policy, whole
