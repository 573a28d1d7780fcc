"""What the history estimators share: their state, their place in a simulation, their walk over a trace."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import PolicyError
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.past import Past
from wattqueue.parts.contracts import Asked, Ints
from wattqueue.parts.estimator._online import Completions, OnlineBase, Target
from wattqueue.parts.estimator._scale import Scale
from wattqueue.parts.timeline import Timeline, job_watts

if TYPE_CHECKING:
    from wattqueue.kernels.history import History


def new_history(jobs_of_user: NDArray[np.integer], *, alpha: float = 2.0, window_s: float = math.inf) -> History:
    """An empty state. ``jobs_of_user`` (users,): how many finished jobs of each a window must hold."""
    from wattqueue.kernels import history as k

    users = len(jobs_of_user)
    windowed = window_s != math.inf
    room = int(jobs_of_user.sum()) if windowed else 0
    slot = np.zeros((users, k.SLOT_COLUMNS), np.int64)
    if windowed and users:
        slot[:] = np.concatenate(([0], np.cumsum(jobs_of_user)[:-1]))[:, np.newaxis]
    return k.History(
        rule=np.array([alpha, window_s]),
        total=np.zeros(2),
        user=np.zeros((users, k.USER_COLUMNS)),
        slot=slot,
        time=np.zeros(room),
        watts=np.zeros(room),
        suffix=np.zeros((room, k.MOMENTS)),
        back=np.zeros((users if windowed else 0, k.MOMENTS)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class LoopState:
    """What a simulation's loop needs to ask and teach by itself: the state, and figures by option."""

    state: History
    scale: Scale


class HistoryBase(OnlineBase):
    """Watts from the finished jobs of the user who submits.

    ``alpha`` bends the weight of older jobs, ``window_s`` limits how old they may be (inf: never too
    old). A user without history (in the window) gets the mean of all jobs finished so far, then the
    unit's maximum. Jobs without measured watts, or with 0 W, teach nothing.

    Raises: PolicyError for a negative alpha or a window that is not above 0.

    Reference: paper 4, eq. 1-3.
    """

    column = 0

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
            raise PolicyError(f"alpha {alpha}", mend="use 0 or more; the paper has 0.5, 1 and 2")
        if not window_s > 0.0:
            raise PolicyError(f"window_s {window_s}", mend="use seconds above 0, or inf for the whole history")
        self.alpha, self.window_s = float(alpha), float(window_s)
        self._state: History | None = None
        self._user = np.zeros(0, np.int32)
        self._names: tuple[str, ...] = ()

    def state(self, jobs: Jobs) -> History:
        """An empty state for these jobs, for a loop that calls the kernels itself."""
        known = jobs.user.codes[jobs.user.codes >= 0]
        return new_history(np.bincount(known, minlength=len(jobs.user.names)), alpha=self.alpha, window_s=self.window_s)

    @property
    def in_loop(self) -> bool:
        """Whether a simulation's loop may answer in its place: nothing in it is a subclass's own."""
        own = type(self)
        plain = all(getattr(own, name) is getattr(HistoryBase, name) for name in ("watts", "take_in", "learn", "reset"))
        known = self._scale is not None and not np.isnan(self._scale.max_w).any()
        return self.asked == "at_submit" and plain and known and own.predict_rows is OnlineBase.predict_rows

    def loop_state(self) -> LoopState:
        """The state itself, not a copy: what the loop learns, this object knows.

        Raises: PolicyError before predict().
        """
        if self._scale is None:
            raise PolicyError("asked before it was given jobs and machine", where=type(self).__name__)
        return LoopState(self._known(), self._scale)

    def reset(self, jobs: Jobs) -> None:
        self._user, self._names = jobs.user.codes, jobs.user.names
        self._state = self.state(jobs)

    def lags(self, rows: Ints, now_s: float) -> Floats:
        """Prediction, spread and last watts for jobs that arrive now. Shape (k, 3)."""
        from wattqueue.kernels.history import WALK_COLUMNS, history_answer

        out = np.empty((len(rows), WALK_COLUMNS))
        history_answer(self._known(), self._user[rows], now_s, out)
        return out

    def watts(self, rows: Ints, now_s: float) -> Floats:
        return self._answer(self.lags(rows, now_s))

    def take_in(self, rows: Ints, end_s: Floats, watts: Floats) -> None:
        from wattqueue.kernels.history import history_teach

        history_teach(self._known(), self._user[rows], end_s, watts)

    def remember(self, past: Past) -> None:
        """Jobs that ended before this table's begin; to be called after predict() and before anything is learned.

        Users are the same where their names are.
        """
        from wattqueue.kernels.history import history_teach

        watts = np.ascontiguousarray(job_watts(past.jobs, self.target))
        history_teach(self._known(), past.user_codes(self._names), past.end_s, watts)

    def replay_watts(self, jobs: Jobs, line: Timeline, watts: Floats) -> Floats:
        return self._answer(history_columns(self.state(jobs), jobs, line, watts))

    def _known(self) -> History:
        if self._state is None:
            raise PolicyError("asked before it was given jobs and machine", where=type(self).__name__)
        return self._state

    def _answer(self, out: Floats) -> Floats:
        """The wanted column of what the kernel gives; a gap in it is a user without history."""
        return np.where(np.isnan(out[:, self.column]), out[:, 0], out[:, self.column])


def history_columns(state: History, jobs: Jobs, line: Timeline, watts: Floats) -> Floats:
    """Prediction, spread and last watts of every job at its submission. Shape (n, 3)."""
    from wattqueue.kernels.history import WALK_COLUMNS, history_walk

    out = np.empty((len(jobs), WALK_COLUMNS))
    history_walk(state, line.by_submit, line.by_end, jobs.submit_s, line.end_s, jobs.user.codes, watts, out)
    return out
