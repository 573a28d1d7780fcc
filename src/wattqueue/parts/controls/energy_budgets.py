"""Let no job start that its budget of energy, money or carbon has no room for: it waits until the period ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError, MachineError
from wattqueue.model.budget_books import BudgetBooks, JobDemand
from wattqueue.model.budgets import Book, Budget
from wattqueue.parts.actions import Action, DelayStart, SetDeviceLimits, SetFrequency, Suspend

if TYPE_CHECKING:
    from wattqueue.model.machine import Machine
    from wattqueue.policy.view import View

DAY_S, SPARE_S = 86_400.0, 1_800.0
"""How often it looks again where nothing happened: more often where jobs run in spare hours."""
BEYOND = "a budget of mode maximum has set nothing aside for it"
"""Why an action on a running job is refused: it could use more than was set aside at its start."""


class EnergyBudgets:
    """Set aside what each job may use at most, and bar those for which that is not left.

    See ``model.budget_books``: a job is let through in order of submission, and what it may use at most is booked on
    every period in which it may run, wherever it then starts until this control looks again. Accounts that the file
    does not list are those of the job table's column ``account``, projects those of its column ``wckey``.

    Args:
        budgets: A TOML file of budgets (``formats.budgets``).

    Reference: WattQueue's own.
    """

    reads: ClassVar[tuple[str, ...]] = ("budgets",)
    acts_on: ClassVar[tuple[str, ...]] = ("budgets",)
    delays: bool = True
    forgets: ClassVar[bool] = True
    """Its books are in memory alone: no live controller takes it."""
    period_s: float = DAY_S
    events: frozenset[str] = frozenset({"arrival", "completion"})

    def __init__(self, *, budgets: tuple[Budget, ...] | None = None) -> None:
        self.budgets = budgets or ()
        if any(one.spare is not None for one in self.budgets):
            self.period_s = SPARE_S
        self.begin()

    def begin(self) -> None:
        """Forget the jobs of a run before."""
        self.shared = BudgetBooks(self.budgets, self.period_s)
        self._known: dict[str, JobDemand] = {}
        """Jobs that waited or ran at the last call."""
        self._running: dict[str, float] = {}
        """Starts of running jobs."""
        self._span_s = np.inf, -np.inf
        """Times of the first and the last call."""
        self._columns: dict[str, NDArray[Any]] = {}

    @property
    def books(self) -> list[Book]:
        """What is booked on each budget."""
        return self.shared.books

    @property
    def keeps_maximum(self) -> bool:
        """Whether a budget may never be exceeded."""
        return any(one.mode == "maximum" for one in self.budgets)

    def refuses(self, view: View, action: Action) -> str:
        """Return why an action on a running job is refused: it could use more of a budget than is set aside for it."""
        if isinstance(action, SetDeviceLimits):  # also of idle devices: jobs start under their limits
            return BEYOND if self.keeps_maximum and np.isfinite(np.asarray(action.caps_w, np.float64)).any() else ""
        job = self._known.get(action.job) if isinstance(action, Suspend | SetFrequency) else None
        if job is None or all(book.budget.mode != "maximum" for _, book, _ in self.shared.of(job)):
            return ""
        if isinstance(action, SetFrequency):
            row = view.job_row(action.job)
            factor = view.time_factors_of(np.array([row], np.int32), np.array([action.option]))[0]
            return BEYOND if float(view.jobs.walltime_s[row]) * factor > job.span_s else ""
        return BEYOND

    def act(self, view: View) -> Sequence[Action]:
        """Return what bars jobs that wait beyond what budgets reach, and what lets them through again."""
        if not self.books:
            return []
        if not self._columns:
            _require_maxima(view.machine)
            self._columns = self._columns_of(view)
        self._span_s = min(self._span_s[0], view.now_s), view.now_s
        waiting = self._waiting(view)
        running = {view.job_id(row): row for row in view.running.tolist()}
        for name, row in (waiting | running).items():
            if name not in self._known:
                self._known[name] = self._demand(view, row)
        self._settle(view, waiting, running)
        for name, row in running.items():
            start_s = float(view.jobs.observed.start_s[row])
            if self._running.get(name) != start_s:
                self._running[name] = start_s
                self.shared.begin(name, self._known[name], start_s)
        changed = self.shared.let_through(view.now_s, {name: self._known[name] for name in waiting})
        return [DelayStart(name, until_s, by_site=True) for name, until_s in changed.items()]

    def _waiting(self, view: View) -> dict[str, int]:
        """Return the jobs that wait, barred ones too, which stand in no queue: in the order of their submission."""
        rows = {view.entry_job(entry) for entry in view.queue.tolist()}
        end_s = view.jobs.observed.end_s
        for name in self.shared.barred:
            row = view.job_row(name)
            if np.isnan(end_s[row]) and view.job_option(row) < 0:
                rows.add(row)
        order = sorted(rows, key=lambda row: (float(view.jobs.submit_s[row]), row))
        return {view.job_id(row): row for row in order}

    # -- running and ended jobs -------------------------------------------------------------------
    def _settle(self, view: View, waiting: dict[str, int], running: dict[str, int]) -> None:
        """Book what jobs used that run no more: as measured, or at most where they are to run again.

        A job that began since the last call may have ended already.
        """
        seen = view.jobs.observed
        for name in list(self._known):
            row, start_s = view.job_row(name), self._running.get(name)
            if name in running and start_s in (None, float(seen.start_s[row])):
                continue
            if start_s is None and name in waiting:
                continue
            job = self._known[name]
            end_s, drawn_w = float(seen.end_s[row]), float(seen.mean_power_w[row]) * float(view.jobs.nodes[row])
            begun_s = float(seen.start_s[row]) if start_s is None else start_s
            self._running.pop(name, None)
            if name not in waiting and name not in running:
                del self._known[name]
            if np.isnan(begun_s):  # it was cancelled
                continue
            if np.isnan(end_s) or np.isnan(drawn_w):  # requeued, or nothing measured it
                drawn_w, end_s = job.watts, min(view.now_s, begun_s + job.span_s) if np.isnan(end_s) else end_s
            self.shared.end(name, job, begun_s, end_s, drawn_w)

    def notes(self) -> dict[str, int]:
        """Return how many periods of each budget were kept, and which part of it was set aside and never used."""
        found = {}
        for k, book in enumerate(self.books):
            name, (kept, over) = f"budget {book.budget.name}", book.kept_periods(self._span_s[1])
            found[f"{name}: periods kept, of {over} that are over and of which something was used"] = kept
            idle = f"{name}: per mille of it that was set aside and never used, mean over time"
            found[idle] = round(1e3 * book.idle_share(*self._span_s))
            if not any(k in numbers for numbers in self.shared.owners.values()):
                found[f"{name}: jobs that it concerns"] = 0
            if book.budget.spare is not None:
                found[f"{name}: used in spare hours beyond it, in thousandths of {book.budget.unit}"] = round(
                    sum(book.beyond.values()) * 1e3 / book.budget.whole
                )
        return found

    def _columns_of(self, view: View) -> dict[str, NDArray[Any]]:
        """Return account and project of all jobs. Raises: InputError where a budget names one, and jobs have none."""
        found: dict[str, NDArray[Any]] = {}
        for kind, column in (("account", "account"), ("project", "wckey")):
            found[kind] = view.jobs.extra.get(column, np.full(len(view.jobs), ""))
            one = next((one for one in self.budgets if getattr(one, kind)), None)
            if one is not None and column not in view.jobs.extra:
                text = f"{kind} {getattr(one, kind)!r} is unknown: the job table has no column {column}"
                hint = "list its users in [accounts] of the file of budgets"
                raise InputError(text, where=f"budget {one.name}", hint=hint)
        return found

    def _demand(self, view: View, row: int) -> JobDemand:
        code = int(view.jobs.user.codes[row])
        user = view.jobs.user.names[code] if code >= 0 else ""
        account, project = (str(self._columns[kind][row]) for kind in ("account", "project"))
        return JobDemand(user, account, *self._most(view, row), project=project)

    def _most(self, view: View, row: int) -> tuple[float, float]:
        """Return the most watts of a job's units together, and the most seconds that it runs."""
        machine, entry = view.machine, view.kernel.entries
        entries = [int(e) for e in entry.of_job[row] if e >= 0]
        watts = max(float(machine.partitions[view.entry_partition(e)].max_w or 0.0) for e in entries)
        last = np.maximum(entry.last[entries], view.kernel.consent.last[entries])
        factor = float(view.time_factors_of(np.full(len(last), row, np.int32), last).max())
        return watts * float(view.jobs.nodes[row]), float(view.jobs.walltime_s[row]) * max(1.0, factor)


def _require_maxima(machine: Machine) -> None:
    """Raise MachineError for a partition without a stated maximum: of that the watts are that are set aside."""
    for part in machine.partitions:
        if part.max_w is None:
            hint = "budgets need it: so much is set aside"
            raise MachineError("max_w is not stated", where=f"partition {part.name}", hint=hint)
