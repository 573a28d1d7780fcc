"""``predict``: how well estimators predict the power of jobs, as ``wattqueue predict eval`` does.

The evaluation is ``study.evaluation.evaluation``: every job is predicted at its submission, from the jobs that had
ended by then. This module turns arguments into its inputs and its result into frames.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wattqueue.api.inputs import PathLike, machine_arguments, of_options
from wattqueue.api.jobs import job_table
from wattqueue.evaluation.evaluation import Evaluation, evaluate_workload, evaluation_machine
from wattqueue.evaluation.options import PredictOptions
from wattqueue.formats.atomic_folder import write_text
from wattqueue.formats.results import predictions_frame, results_frame, write_evaluation

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, eq=False)
class PredictionScores:
    """Estimators scored on one workload; in a notebook one row per estimator."""

    evaluation: Evaluation
    """Scores, predictions and remarks."""

    def __repr__(self) -> str:
        return f"<{', '.join(e.name for e in self.evaluation.found)} on {self.evaluation.name}>"

    @cached_property
    def frame(self) -> pl.DataFrame:
        """Return the figures of scores.json as a polars frame, one row per estimator; ``coverage_p90`` and the like."""
        return results_frame([_row(e.score.figures()) for e in self.evaluation.found])

    @cached_property
    def predictions(self) -> pl.DataFrame:
        """Return the columns of predictions.csv as a polars frame: watts of one node, predicted and actual."""
        found = self.evaluation
        ids, actual = found.workload.jobs.job_id, found.actual_w
        import polars as pl

        return pl.concat(predictions_frame(ids, e.name, e.predicted_w, actual) for e in found.found)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Return remarks on the data, and warnings of estimators that read the future."""
        return self.evaluation.remarks

    def report(self, path: PathLike) -> Path:
        """Write the page with figures and table, one HTML file; return its path. Raises: OutputError."""
        write_text(Path(path), self.evaluation.document.html())
        return Path(path)

    def save(self, folder: PathLike) -> Path:
        """Write predictions.csv, scores.json and report.html, as the command line does. Raises: OutputError."""
        found = self.evaluation
        watts = {e.name: e.predicted_w for e in found.found}
        write_evaluation(Path(folder), found.workload.jobs.job_id, found.actual_w, watts, found.pages())
        return Path(folder)

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        from wattqueue.api.notebook import document_html

        return document_html(self.evaluation.document)


@of_options(PredictOptions)
def predict(options: PredictOptions) -> PredictionScores:
    """Predict every job at its submission from the jobs that had ended by then, and score the predictions.

    Some jobs must have measured watts.

    Raises:
        WattQueueError: One line that says what is wrong, where, and how to correct it.

    Example::

        wq.predict("jobs.parquet", "maximum,last-job,history-mean", node_watts="95:190").frame
    """
    o = options
    table = job_table(o.jobs, default_walltime=o.default_walltime)
    made, named = machine_arguments(o.machine, None, o.node_watts)
    workload = table.workload
    where = made or evaluation_machine(workload, named["machine"], named["node_watts"])
    return PredictionScores(
        evaluate_workload(
            workload, where, name=table.name, estimators=o.estimators, target=o.target, seed=o.seed,
            clock=time.process_time, physics=o.truth_on(where),
        )
    )  # fmt: skip


def _row(figures: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of a score with one column per quantile in place of the mapping of coverages."""
    coverage = figures.pop("coverage")
    return {**figures, **{f"coverage_{quantile}": share for quantile, share in coverage.items()}}
