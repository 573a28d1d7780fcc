"""Gradient boosting on features of the submission and on the user's recent run times, trained again each week."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wattqueue.errors import PolicyError
from wattqueue.model.jobs import Floats
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Asked, Correction, FinishedRuns, Ints
from wattqueue.parts.correction import checked_correction
from wattqueue.parts.runtime.last_two import LastTwo
from wattqueue.parts.runtime.recent_quantile import RecentQuantile
from wattqueue.parts.timeline import WEEK_S

if TYPE_CHECKING:
    from wattqueue.kernels.boosted_trees import BoostedTrees


class Boosted:
    """Plan a job at the quantile ``at`` of its run time by histogram gradient boosting.

    Features: hour of the day, nodes, requested time, number of the user and of the application, mean of the user's last
    two run times, and the median of the last ten of the user's jobs with the same requested time. The model predicts
    the logarithm of the run time. It is trained at the first submission after each ``period_s``, on at most the last
    ``most`` jobs that have ended; with fewer than ``fewest``, jobs are planned at their walltimes.

    Raises: PolicyError for options out of range; ImportError without the extra ``ml``.

    Reference: beyond the papers.
    """

    asked: Asked = "weekly"

    def __init__(
        self,
        *,
        at: float = 0.75,
        fewest: int = 200,
        most: int = 20_000,
        trees: int = 60,
        period_s: float = WEEK_S,
        seed: int = 0,
        correction: Correction = "start",
    ) -> None:
        if not 0.0 < at < 1.0 or not 1 <= fewest <= most or not trees >= 1 or not period_s > 0:
            raise PolicyError(
                f"{at=}, {fewest=}, {most=}, {trees=}, {period_s=}",
                where="at, fewest, most, trees, period_s",
                hint="use a quantile inside 0 to 1, 1 <= fewest <= most, a tree or more, and seconds above 0",
            )
        self.correction = checked_correction(correction)
        self.at, self.fewest, self.most, self.trees = at, fewest, most, trees
        self.period_s, self.seed = float(period_s), seed
        self._two, self._alike = LastTwo(), RecentQuantile(at=0.5, alike=("user walltime", "user"))
        self._trees: BoostedTrees | None = None
        self._asked = np.zeros((0, 7))
        self._ended: list[tuple[Ints, Floats]] = []
        self._origin_s, self._period = 0.0, 0

    def seconds(self, jobs: KnownJobs, machine: Machine) -> None:
        """Forget everything, and compute the features that are known before the run."""
        self._two.seconds(jobs, machine)
        self._alike.seconds(jobs, machine)
        hour = np.floor(jobs.submit_s / 3600.0) % 24.0
        unknown = np.full(len(jobs), np.nan)
        own = (hour, jobs.nodes, jobs.walltime_s, jobs.user.codes, jobs.app.codes)
        self._asked = np.column_stack((*own, unknown, unknown)).astype(np.float64)
        self._trees, self._ended, self._period = None, [], 0
        self._origin_s = float(jobs.submit_s.min()) if len(jobs) else 0.0

    def seconds_of(self, rows: Ints, now_s: float) -> Floats:
        """Return the predicted run times of the jobs that arrive now, training first where a period has ended."""
        from wattqueue.kernels.boosted_trees import boosted_rows

        period = int((now_s - self._origin_s) // self.period_s)
        if period > self._period:
            self._period = period
            self._train()
        table = self._asked[rows]
        table[:, 5], table[:, 6] = self._two.seconds_of(rows, now_s), self._alike.seconds_of(rows, now_s)
        self._asked[rows] = table
        out = np.full(len(rows), np.nan)
        if self._trees is not None:
            boosted_rows(self._trees, table, out)
            np.exp(out, out=out)
        return out

    def learn_runs(self, finished: FinishedRuns) -> None:
        """Take in jobs that ended, in order of their ends."""
        self._two.learn_runs(finished)
        self._alike.learn_runs(finished)
        self._ended.append((finished.rows, finished.run_s))

    def _train(self) -> None:
        """Train on the last jobs that have ended, with the features that they had at their submissions."""
        if not self._ended:
            return
        rows, run_s = (np.concatenate(each)[-self.most :] for each in zip(*self._ended, strict=True))
        self._ended = [(rows, run_s)]
        if len(rows) < self.fewest:
            return
        from sklearn.ensemble import HistGradientBoostingRegressor

        from wattqueue.parts.estimator._weekly import one_thread

        model = HistGradientBoostingRegressor(
            loss="quantile", quantile=self.at, max_iter=self.trees, early_stopping=False, random_state=self.seed
        )
        with one_thread():
            model.fit(self._asked[rows], np.log(np.maximum(run_s, 1.0)))
        self._trees = flat_trees(model)


def flat_trees(model: Any) -> BoostedTrees:
    """Return the trees of a fitted HistGradientBoostingRegressor as flat arrays.

    scikit-learn has no public access to them; a test compares what the arrays answer with ``predict``.
    """
    from wattqueue.kernels.boosted_trees import BoostedTrees

    nodes = [step[0].nodes for step in model._predictors]  # noqa: SLF001 - see above
    first = np.concatenate(([0], np.cumsum([len(each) for each in nodes])))[:-1]
    flat = np.concatenate(nodes)
    shift = np.repeat(first, [len(each) for each in nodes])
    leaf = flat["is_leaf"].astype(bool)
    return BoostedTrees(
        np.ravel(model._baseline_prediction).astype(np.float64),  # noqa: SLF001
        first.astype(np.int32),
        np.where(leaf, -1, flat["feature_idx"]).astype(np.int32),
        np.ascontiguousarray(flat["num_threshold"], np.float64),
        flat["missing_go_to_left"].astype(np.int8),
        (flat["left"] + shift).astype(np.int32),
        (flat["right"] + shift).astype(np.int32),
        np.ascontiguousarray(flat["value"], np.float64),
    )
