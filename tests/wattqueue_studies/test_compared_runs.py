"""A study compares two runs that did different work: it states no winner and no difference."""

from __future__ import annotations

import numpy as np

from tests.api.test_unequal_work import WINNER, runs
from wattqueue.api.run import RunResult
from wattqueue_studies.frame.compare import NOT_COMPARABLE, ComparisonTable, compare
from wattqueue_studies.frame.samples import Samples

__all__ = ["runs"]


def test_a_study_names_no_winner(runs: dict[str, RunResult]) -> None:
    values = {
        ("s", name, metric): np.array([float(run.record.metrics[metric] or 0.0)] * 2)
        for name, run in runs.items()
        for metric in ("wait_s_mean", "machine_energy_j")
    }
    work = {("s", name): (run.work,) * 2 for name, run in runs.items()}
    found = compare(Samples(values, work), [("65%", "none")], ["wait_s_mean", "machine_energy_j"])
    heads = {"wait_s_mean": "wait", "machine_energy_j": "energy"}
    made = ComparisonTable.of(found, heads, list(heads), "table").table()
    assert made.rows[0][1:] == ["–", "–", NOT_COMPARABLE]
    said = "\n".join(" ".join(row) for row in made.rows)
    assert not WINNER.search(said), WINNER.search(said)
