"""Base of the history estimators: state, use inside a simulation, replay of a whole trace.

All of them predict from the finished jobs of the submitting user by the weighted mean of paper 4::

    eq. 1   prediction = sum(weight x watts) / sum(weight)    over the user's finished jobs
    eq. 2   only jobs that ended within a window s before the submission
    eq. 3   weight = (1 - age / s) ** alpha                   age: seconds from that end to the submission

The compiled kernel (``kernels/history.py``) keeps moments per user, so an answer costs O(1) with an unbounded window,
and amortised O(1) with a finite one (a ring of the user's recent jobs with suffix sums). The same state serves the
event loop without a call of Python per job (``loop_state``), ``predict_rows`` and ``replay``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import PolicyError
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.known_jobs import KnownJobs, Past
from wattqueue.parts.contracts import Asked, Ints
from wattqueue.parts.online import OnlineBase
from wattqueue.parts.scale import Scale

if TYPE_CHECKING:
    from wattqueue.kernels.history import History
    from wattqueue.parts.estimator._pairs import Pairs
    from wattqueue.parts.online import Completions, Target
    from wattqueue.parts.timeline import Timeline

LoopKernel = Literal["history"]
"""Kernels that may answer for an estimator inside the compiled loop: ``kernels/history_prediction.py``."""


@dataclass(frozen=True, slots=True, eq=False)
class LoopState:
    """What the compiled event loop needs to predict and learn without calling Python."""

    state: History
    """History of each user."""
    scale: Scale
    """The machine's figures by option."""
    by_app: History
    """History of each (user, application); of size 0 where the estimator does not use it."""
    pair: NDArray[np.int32]
    """Number of each job's (user, application). Shape (n,), or (0,)."""
    rule: NDArray[np.int64]
    """Choices by slot (``kernels/history_prediction.py``)."""
    knob: Floats
    """Figures by slot."""


class HistoryBase(OnlineBase):
    """Watts from the finished jobs of the user who submits.

    ``alpha`` is the exponent of the weight of older jobs, ``window_s`` limits how old they may be (inf: no limit). A
    user without history (in the window) gets the mean of all jobs finished so far, and before any has finished the
    unit's maximum. Jobs without measured watts, or with 0 W, are not learned from.

    The compiled loop may answer for a class only if the class *itself* states which kernel does (``loop_kernel``). A
    subclass does not inherit the statement: it is called through Python, whatever it overrides, until it states the
    kernel, too.

    Raises: PolicyError for a negative alpha or a window that is not above 0.

    Reference: paper 4, eq. 1-3.
    """

    loop_kernel: ClassVar[LoopKernel]
    """The kernel that predicts and learns exactly as this class does; stated in the body of the class it is true of."""
    last_job = False
    """Whether the user's last job is the prediction, where there is one, instead of the weighted mean."""
    by_app = False
    """Whether only the user's jobs of the same application count, where there are any."""
    spreads = 0.0
    """Standard deviations of those jobs' watts that are added to the mean."""
    least_spread = 0.0
    """A standard deviation counts as at least this share of the prediction."""

    def __init__(
        self,
        *,
        target: Target = "mean",
        alpha: float = 2.0,
        window_s: float = math.inf,
        completions: Completions = "simulated",
        asked: Asked = "at_submit",
    ) -> None:
        super().__init__(target=target, completions=completions, asked=asked)
        if not (0.0 <= alpha < math.inf):
            raise PolicyError(f"is {alpha}", where="alpha", hint="use 0 or more; the paper has 0.5, 1 and 2")
        if not window_s > 0.0:
            raise PolicyError(
                f"is {window_s}", where="window_s", hint="use seconds above 0, or inf for the whole history"
            )
        self.alpha, self.window_s = float(alpha), float(window_s)
        self._state: History | None = None
        self._user = np.zeros(0, np.int32)
        self._names: tuple[str, ...] = ()
        self._pairs: Pairs | None = None
        self._apps: History | None = None

    def state(self, jobs: KnownJobs) -> History:
        """Return an empty state for these jobs, for a loop that calls the kernels itself."""
        from wattqueue.kernels.history import new_history

        known = jobs.user.codes[jobs.user.codes >= 0]
        return new_history(np.bincount(known, minlength=len(jobs.user.names)), alpha=self.alpha, window_s=self.window_s)

    @property
    def in_loop(self) -> bool:
        """Return whether the compiled loop may predict in its place.

        True where the object's own class states a kernel, and every partition has a maximum to fall back on.
        """
        known = self._scale is not None and not np.isnan(self._scale.max_w).any()
        return self.asked == "at_submit" and known and "loop_kernel" in vars(type(self))

    def loop_state(self) -> LoopState:
        """Return the state itself, not a copy: what the loop learns is seen by later calls of this object.

        Raises: PolicyError before predict().
        """
        if self._scale is None:
            raise PolicyError("asked before it was given jobs and machine", where=type(self).__name__)
        from wattqueue.kernels.history import new_history

        by_app = (new_history(np.zeros(0, np.int32)), np.zeros(0, np.int32))
        if self._pairs is not None and self._apps is not None:
            by_app = (self._apps, self._pairs.code)
        return LoopState(self._known(), self._scale, *by_app, *self._rule())

    def _rule(self) -> tuple[NDArray[np.int64], Floats]:
        """Return choices and figures of this estimator by slot, as its kernels take them."""
        from wattqueue.kernels import in_loop as k

        rule, knob = np.zeros(k.RULE_SLOTS, np.int64), np.zeros(k.KNOB_SLOTS)
        rule[[k.ON, k.PREVIOUS_JOB, k.GREATEST, k.BY_APP]] = 1, self.last_job, self.target == "max", self.by_app
        knob[[k.SPREADS, k.LEAST_SPREAD, k.MARGIN]] = self.spreads, self.least_spread, 1.0
        return rule, knob

    def reset(self, jobs: KnownJobs) -> None:
        """Forget all history and take the users and applications of ``jobs``."""
        from wattqueue.parts.estimator._pairs import Pairs

        self._user, self._names = jobs.user.codes, jobs.user.names
        self._state = self.state(jobs)
        if self.by_app:
            self._pairs = Pairs.of(jobs)
            self._apps = self._app_state(self._pairs)

    def lags(self, rows: Ints, now_s: float) -> Floats:
        """Return weighted mean, spread and last watts for jobs that arrive now. Shape (k, 3)."""
        from wattqueue.kernels.history import WALK_COLUMNS, history_predict_rows

        out = np.empty((len(rows), WALK_COLUMNS))
        history_predict_rows(self._known(), self._user[rows], now_s, out)
        return out

    def watts(self, rows: Ints, now_s: float) -> Floats:
        """Return the predicted watts of one unit at the reference frequency. Shape (k,)."""
        from wattqueue.kernels.history import WALK_COLUMNS, history_predict_rows

        of_user, of_app = self.lags(rows, now_s), None
        if self._pairs is not None and self._apps is not None:
            of_app = np.empty((len(rows), WALK_COLUMNS))
            history_predict_rows(self._apps, self._pairs.code[rows], now_s, of_app)
        return self._answer(of_user, of_app)

    def take_in(self, rows: Ints, end_s: Floats, watts: Floats) -> None:
        """Add finished jobs to the history of their users (and of their applications). Shapes (k,)."""
        from wattqueue.kernels.history import history_learn_rows

        # columns of a table would have the kernel compiled once more, for strided arrays
        end_s, watts = np.ascontiguousarray(end_s), np.ascontiguousarray(watts)
        history_learn_rows(self._known(), self._user[rows], end_s, watts)
        if self._pairs is not None and self._apps is not None:
            history_learn_rows(self._apps, self._pairs.code[rows], end_s, watts)

    def remember(self, past: Past) -> None:
        """Add jobs that ended before the run; called after predict() and before anything is learned.

        Users and applications are matched by name.
        """
        from wattqueue.kernels.history import history_learn_rows
        from wattqueue.parts.timeline import job_watts

        watts = np.ascontiguousarray(job_watts(past.jobs, self.target))
        history_learn_rows(self._known(), past.user_codes(self._names), past.end_s, watts)
        if self._pairs is not None and self._apps is not None:
            history_learn_rows(self._apps, self._pairs.of_past(past), past.end_s, watts)

    def replay_watts(self, jobs: Jobs, line: Timeline, watts: Floats) -> Floats:
        """Return what ``watts`` would answer at every submission. Shape (n,)."""
        from wattqueue.parts.estimator._pairs import Pairs

        known = KnownJobs.of(jobs)
        of_user = history_columns(self.state(known), jobs, line, watts)
        if not self.by_app:
            return self._answer(of_user)
        pairs = Pairs.of(known)
        return self._answer(of_user, history_columns(self._app_state(pairs), jobs, line, watts, pairs.code))

    def _app_state(self, pairs: Pairs) -> History:
        """Return an empty state with one row per (user, application)."""
        from wattqueue.kernels.history import new_history

        known = pairs.code[pairs.code >= 0]
        return new_history(np.bincount(known, minlength=len(pairs.known)), alpha=self.alpha, window_s=self.window_s)

    def _known(self) -> History:
        """Return the state. Raises: PolicyError before predict()."""
        if self._state is None:
            raise PolicyError("asked before it was given jobs and machine", where=type(self).__name__)
        return self._state

    def _answer(self, of_user: Floats, of_app: Floats | None = None) -> Floats:
        """Return the prediction from lags by user and by application (k, 3), NaN for a user without history."""
        from wattqueue.kernels.history_prediction import combine_rows

        watts = np.empty(len(of_user))
        combine_rows(*self._rule(), of_user, np.empty((0, of_user.shape[1])) if of_app is None else of_app, watts)
        return watts


def history_columns(
    state: History, jobs: Jobs, line: Timeline, watts: Floats, who: NDArray[np.int32] | None = None
) -> Floats:
    """Return weighted mean, spread and last watts of every job at its submission, in one compiled walk. Shape (n, 3).

    ``who`` (n,) numbers the groups whose jobs share a history, -1 for none; None means by user.
    """
    from wattqueue.kernels.history import WALK_COLUMNS, history_replay

    out = np.empty((len(jobs), WALK_COLUMNS))
    who = jobs.user.codes if who is None else who
    history_replay(state, line.by_submit, line.by_end, jobs.submit_s, line.end_s, who, watts, out)
    return out
