"""Base of the regressions that are trained again at the end of every week, on the jobs that had finished by then.

A part implements ``model()``: a new, untrained estimator in scikit-learn's sense. This class keeps the table of
features (Table 1) as jobs arrive, trains at the first prediction after the end of a week, and falls back to the history
prediction while there is no model. ``answer_trace`` does the same for a whole trace, week by week.

Training runs on one thread: sums are then in one order, so results are identical on every machine with the same
libraries, and campaigns can use the other cores.
"""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import PolicyError
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.known_jobs import KnownJobs, Past
from wattqueue.parts.contracts import Ints
from wattqueue.parts.features import ASKED, FEATURES, asked_features, lagged_features
from wattqueue.parts.history import HistoryBase, history_columns
from wattqueue.parts.online import Completions, Target, measured
from wattqueue.parts.timeline import WEEK_S, Timeline


class Model(Protocol):
    """What a part trains: any regressor with scikit-learn's two methods."""

    def fit(self, X: Floats, y: Floats) -> object:
        """Train on features (k, 7), further ones behind them, and watts (k,)."""
        ...

    def predict(self, X: Floats) -> Floats:
        """Return watts. Shapes (k, 7) -> (k,)."""
        ...


class WeeklyBase(HistoryBase):
    """Regression on the features of Table 1, retrained at t(w) on the jobs with C_j < t(w).

    t(w) counts weeks from the first submission. A model needs ``fewest`` measured jobs to train on; with fewer, the
    history prediction is used for another week. ``seed`` seeds the model's random draws; ``period_s`` is the length
    of a "week", for traces that last only days.

    Raises: PolicyError for a period that is not above 0.

    Reference: paper 4, section 4.2, eq. 4-6.
    """

    def __init__(
        self,
        *,
        target: Target = "mean",
        completions: Completions = "simulated",
        seed: int = 0,
        fewest: int = 50,
        period_s: float = WEEK_S,
    ) -> None:
        super().__init__(target=target, completions=completions, asked="weekly")
        if not period_s > 0:
            raise PolicyError(
                f"is {period_s}", where="period_s", hint="use seconds above 0; the paper retrains every 604800"
            )
        self.seed, self.fewest, self.period_s = seed, fewest, float(period_s)
        self._trained: Model | None = None
        self._origin_s, self._weeks = 0.0, 0
        self._asked: Floats = np.zeros((0, ASKED))
        """Features 1 to 4 of every job. Shape (n, 4)."""
        self._table: Floats = np.zeros((0, len(FEATURES)))
        """All features, as they were at each submission; NaN rows have not arrived yet. Shape (n, 7 + further)."""
        self._further: Floats = np.zeros((0, 0))
        """Columns of ``further``."""
        self._done: list[tuple[Ints, Floats, Floats]] = []
        """Finished jobs in batches: rows, ends, watts. Joined only when a week ends."""

    width = 1
    """Figures that the model returns for a job: 1, or the number of quantiles."""

    @abstractmethod
    def model(self) -> Model:
        """Return a new model, untrained."""

    def further(self, jobs: KnownJobs) -> Floats:
        """Return further columns of the table of features, known at submission: none. Shape (n, c)."""
        return np.zeros((len(jobs), 0))

    def ask(self, model: Model, table: Floats) -> Floats:
        """Return a trained model's figures for jobs with these features. Shapes (k, 7) -> (k, width)."""
        return model.predict(table)[:, np.newaxis]

    def reset(self, jobs: KnownJobs) -> None:
        """Forget model and history; compute the features that are known before the run."""
        super().reset(jobs)
        self._trained, self._weeks, self._done = None, 0, []
        self._origin_s = float(jobs.submit_s.min()) if len(jobs) else 0.0
        self._asked = asked_features(jobs)
        self._further = self.further(jobs)
        self._table = np.full((len(jobs), len(FEATURES) + self._further.shape[1]), np.nan)

    def remember(self, past: Past) -> None:
        """Raise: a model trains on features as they were at each submission, which a past does not have.

        Raises: PolicyError, always.
        """
        raise PolicyError(
            "learns from features at submission and cannot start with jobs that ended before the run",
            where=type(self).__name__,
            hint="use a history estimator, or a run that begins with the trace",
        )

    def watts(self, rows: Ints, now_s: float) -> Floats:
        """Return the first of the figures. Shape (k,)."""
        return self.answer_rows(rows, now_s)[:, 0]

    def answer_rows(self, rows: Ints, now_s: float) -> Floats:
        """Return the figures for jobs that arrive now, training first where a week has ended. Shape (k, width).

        Stores the lagged features of these jobs: they are needed again when the jobs become training data.
        """
        self._retrain(now_s)
        lagged = lagged_features(self.lags(rows, now_s))
        self._table[rows] = np.column_stack((self._asked[rows], lagged, self._further[rows]))
        if self._trained is None:
            return self._apply(None, self._table[rows])
        with one_thread():
            return self._apply(self._trained, self._table[rows])

    def take_in(self, rows: Ints, end_s: Floats, watts: Floats) -> None:
        """Add finished jobs to the history and to the training data. Shapes (k,)."""
        super().take_in(rows, end_s, watts)
        self._done.append((rows, end_s, watts))

    def replay_watts(self, jobs: Jobs, line: Timeline, watts: Floats) -> Floats:
        """Return the first of the figures of every job of a trace. Shape (n,)."""
        return self.answer_trace(jobs, line, watts)[:, 0]

    def answer_trace(self, jobs: Jobs, line: Timeline, watts: Floats) -> Floats:
        """Return the figures for every job of a trace at its submission, one model per week. Shape (n, width)."""
        known = KnownJobs.of(jobs)
        lags = history_columns(self.state(known), jobs, line, watts)
        table = np.column_stack((asked_features(known), lagged_features(lags), self.further(known)))
        ended = line.by_end
        answer = np.empty((len(jobs), self.width))
        with one_thread():
            for rows, until_s in weeks(jobs, line, self.period_s):
                before = int(np.searchsorted(line.end_s[ended], until_s, side="left"))
                answer[rows] = self._apply(self._fit(table, ended[:before], watts[ended[:before]]), table[rows])
        return answer

    def _retrain(self, now_s: float) -> None:
        """Train, at the first call after the end of a week, on the jobs that had ended before that end."""
        week = int((now_s - self._origin_s) // self.period_s)
        if week <= self._weeks:
            return
        self._weeks = week
        if not self._done:
            return
        rows, end_s, watts = (np.concatenate(part) for part in zip(*self._done, strict=True))
        self._done = [(rows, end_s, watts)]
        before = int(np.searchsorted(end_s, self._origin_s + week * self.period_s, side="left"))
        with one_thread():
            self._trained = self._fit(self._table, rows[:before], watts[:before])

    def _fit(self, table: Floats, rows: NDArray[np.integer], watts: Floats) -> Model | None:
        """Return a trained model; None where there is too little to train on. ``watts`` are those of ``rows``."""
        good = measured(watts) & ~np.isnan(table[rows]).any(axis=1)
        if int(good.sum()) < max(self.fewest, 1):
            return None
        model = self.model()
        model.fit(table[rows[good]], watts[good])
        return model

    def _apply(self, model: Model | None, table: Floats) -> Floats:
        """Return the model's figures; the history prediction where there is no model, or no history yet."""
        answer = np.repeat(table[:, ASKED : ASKED + 1], self.width, axis=1)
        known = ~np.isnan(table).any(axis=1)
        if model is not None and known.any():
            answer[known] = self.ask(model, table[known])
        return answer


def one_thread() -> AbstractContextManager[object]:
    """Return a context in which scikit-learn's libraries use one thread: sums keep one order, other cores stay free."""
    limit: AbstractContextManager[object] = _libraries().limit(limits=1)
    return limit


@cache
def _libraries() -> Any:
    """Return the thread pools of this process, looked up once, after scikit-learn has loaded its own."""
    import sklearn.ensemble  # noqa: F401 - brings its OpenMP library
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def weeks(jobs: Jobs, line: Timeline, period_s: float = WEEK_S) -> list[tuple[NDArray[np.int64], float]]:
    """Return the rows submitted in each week that has any, and when that week began."""
    if len(jobs) == 0:
        return []
    submit = jobs.submit_s[line.by_submit]
    week = ((submit - submit[0]) // period_s).astype(np.int64)
    first = np.flatnonzero(np.diff(week, prepend=-1))
    rows = np.split(line.by_submit, first[1:])
    return [(r, float(submit[0] + week[f] * period_s)) for r, f in zip(rows, first, strict=True)]
