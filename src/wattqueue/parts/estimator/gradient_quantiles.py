"""Quantiles of a job's watts by histogram gradient boosting, with a conformal correction per user.

A model's p90 need not be exceeded by 10 % of a given user's jobs. The correction compares each finished job with the
raw quantile it was given (its conformity score) and shifts later quantiles by the matching quantile of recent scores,
which holds the coverage without assumptions on the distribution, as long as recent jobs resemble the next ones.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from wattqueue.errors import PolicyError
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Ints, Prediction
from wattqueue.parts.estimator._weekly import Model, WeeklyBase
from wattqueue.parts.online import Completions, Target
from wattqueue.parts.timeline import WEEK_S, Timeline, job_watts, trace_timeline

if TYPE_CHECKING:
    from wattqueue.kernels.conformal import ConformityScores
    from wattqueue.parts.regressors import QuantilePower


class GradientQuantiles(WeeklyBase):
    """Watts that a job stays below with each probability of ``quantiles``; ``at`` selects the prediction.

    Models are trained every week on the features of Table 1; before the first training every quantile is the history
    prediction. Each is shifted by the conformal correction of the user's last ``own_scores`` jobs, or of all users'
    last ``all_scores`` jobs where the user has too few: fewer than ``own_fewest``, or fewer than the quantile needs
    (9 for p90, 99 for p99: with fewer, no score is that extreme).

    Raises: PolicyError for quantiles outside (0, 1), or an ``at`` that is none of them.

    Reference: beyond paper 4; Romano, Patterson and Candes, Conformalized quantile regression (2019).
    """

    def __init__(
        self,
        *,
        target: Target = "mean",
        completions: Completions = "simulated",
        seed: int = 0,
        fewest: int = 50,
        period_s: float = WEEK_S,
        quantiles: tuple[float, ...] = (0.5, 0.9, 0.99),
        at: float = 0.5,
        own_scores: int = 128,
        own_fewest: int = 20,
        all_scores: int = 2_048,
    ) -> None:
        super().__init__(target=target, completions=completions, seed=seed, fewest=fewest, period_s=period_s)
        if not quantiles or list(quantiles) != sorted(set(quantiles)) or not all(0.0 < q < 1.0 for q in quantiles):
            raise PolicyError(f"{quantiles=}", where="quantiles", hint="use rising figures between 0 and 1")
        if at not in quantiles:
            raise PolicyError(f"is {at}", where="at", hint=f"use one of {', '.join(map(str, quantiles))}")
        if min(own_scores, own_fewest, all_scores) < 1:
            raise PolicyError(
                f"{own_scores=}, {own_fewest=}, {all_scores=}",
                where="own_scores, own_fewest, all_scores",
                hint="use 1 or more of each",
            )
        self.quantiles, self.at, self.all_scores = tuple(quantiles), at, all_scores
        self.own_scores, self.own_fewest = own_scores, own_fewest
        self._scores: ConformityScores | None = None
        self._raw: Floats = np.zeros((0, len(quantiles)))
        self.width = len(quantiles)

    def model(self) -> Model:
        """Return an untrained model of all quantiles."""
        from wattqueue.parts.regressors import QuantilePower

        return QuantilePower(quantiles=self.quantiles, random_state=self.seed)

    def ask(self, model: Model, table: Floats) -> Floats:
        """Return the raw quantiles. Shape (k, quantiles)."""
        return cast("QuantilePower", model).predict_quantiles(table)

    def reset(self, jobs: KnownJobs) -> None:
        """Forget model, history, scores and the raw quantiles of each job."""
        super().reset(jobs)
        self._scores = self._new_scores(len(jobs.user.names))
        self._raw = np.full((len(jobs), len(self.quantiles)), np.nan)

    def predict(self, jobs: KnownJobs, machine: Machine) -> Prediction:
        """Return the prediction before any job has ended, as every online estimator does, with ``quantiles``."""
        start = super().predict(jobs, machine)
        if self.asked == "once":
            found = self.replay_quantiles(jobs.truth, trace_timeline(jobs.truth))
            return replace(start, quantiles=self._by_quantile(found))
        return replace(start, quantiles=dict.fromkeys(self.quantiles, start.power_w))

    def predict_quantiles(self, rows: Ints, now_s: float) -> dict[float, Floats]:
        """Watts of one unit by quantile for the jobs that arrive now. Shapes (k, O)."""
        return self._by_quantile(self._corrected(rows, now_s))

    def replay_quantiles(self, jobs: Jobs, line: Timeline) -> Floats:
        """Every job's corrected quantiles at its submission. Shape (n, Q)."""
        return self._replay(jobs, line, job_watts(jobs, self.target))

    def watts(self, rows: Ints, now_s: float) -> Floats:
        return self._corrected(rows, now_s)[:, self.quantiles.index(self.at)]

    def take_in(self, rows: Ints, end_s: Floats, watts: Floats) -> None:
        """Learn finished jobs, and score the raw quantiles that they were given. Shapes (k,)."""
        from wattqueue.kernels.conformal import conformal_learn_rows

        super().take_in(rows, end_s, watts)
        conformal_learn_rows(self._known_scores(), self._user[rows], self._raw[rows], watts)

    def replay_watts(self, jobs: Jobs, line: Timeline, watts: Floats) -> Floats:
        """Return the quantile ``at`` of every job of a trace. Shape (n,)."""
        return self._replay(jobs, line, watts)[:, self.quantiles.index(self.at)]

    def _replay(self, jobs: Jobs, line: Timeline, watts: Floats) -> Floats:
        """Return all corrected quantiles of every job of a trace. Shape (n, quantiles)."""
        from wattqueue.kernels.conformal import ReplayOrder, conformal_replay

        raw = self.answer_trace(jobs, line, watts)
        out = np.empty_like(raw)
        walk = ReplayOrder(line.by_submit, line.by_end, jobs.submit_s, line.end_s, jobs.user.codes, watts)
        conformal_replay(self._new_scores(len(jobs.user.names)), walk, raw, out)
        return out

    def _corrected(self, rows: Ints, now_s: float) -> Floats:
        """Return corrected quantiles of jobs that arrive now; keeps the raw ones for scoring. Shape (k, quantiles)."""
        from wattqueue.kernels.conformal import conformal_correct_rows

        raw = self.answer_rows(rows, now_s)
        self._raw[rows] = raw
        out = np.empty_like(raw)
        conformal_correct_rows(self._known_scores(), self._user[rows], raw, out)
        return out

    def _by_quantile(self, watts: Floats) -> dict[float, Floats]:
        """Return the columns of ``watts`` by probability, spread over options. Shapes (k, O)."""
        return {q: self.apply(watts[:, i]) for i, q in enumerate(self.quantiles)}

    def _new_scores(self, users: int) -> ConformityScores:
        """Return empty rings of scores: one per user, and one for all users together at the end."""
        from wattqueue.kernels.conformal import ConformityScores

        # Ring u of user u has own_scores places, the last ring, of all users, all_scores; start holds their offsets.
        start = np.append(np.arange(users + 1) * self.own_scores, users * self.own_scores + self.all_scores)
        ring = np.zeros((int(start[-1]), len(self.quantiles)))
        seen = np.zeros(users + 1, np.int64)
        fewest = np.array([self.own_fewest])
        return ConformityScores(np.array(self.quantiles), fewest, start.astype(np.int64), seen, ring, ring.copy())

    def _known_scores(self) -> ConformityScores:
        """Return the scores. Raises: PolicyError before predict()."""
        if self._scores is None:
            raise PolicyError("asked before it was given jobs and machine", where=type(self).__name__)
        return self._scores
