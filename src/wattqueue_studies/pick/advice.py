"""The advice at an instant, and what following it over months would have gained beside a fixed row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wattqueue.errors import InputError, WattQueueError
from wattqueue.policy.oracles import oracles_of
from wattqueue.policy.policy import load_policy
from wattqueue.report.compare.stats import Estimate, estimate
from wattqueue_studies.pick.history import DAY_S, WEEK_DAYS, QueueHistory

ROWS = (
    *("fcfs", "first-fit", "easy", "easy-sjbf", "slurm-priority", "easy++", "easy+rt-last-two", "easy+rt-quantile"),
    *("easy-sjbf+rt-quantile", "easy+rt-alike", "easy-sjbf+rt-alike", "easy+pc", "easy+pc-mean", "easy+pc-max"),
    *("easy+pc-app", "easy+pc-naive", "easy+pc-even", "easy+pc-quantile-1", "easy+pc-adaptive-1", "easy+pc-chance-1"),
)
"""Rows of compiled parts that are forecast."""
LEFT_OUT = {"conservative": "plans every queued job: seconds for 10,000"}
"""Rows that are not, and why."""
Shown = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Advice:
    """Mean wait of the next day by row, the shortest first, and the rows that were left out, with the reason."""

    wait_s: dict[str, float]
    left_out: dict[str, str]

    @property
    def best(self) -> str:
        """Return the row of the shortest mean wait."""
        return next(iter(self.wait_s))


def advise(history: QueueHistory, now_s: float, rows: Sequence[str], seed: int, draws: int = 1) -> Advice:
    """Forecast the next day under rows, each with the same draws of arrivals. Raises: InputError where none can be."""
    rng = np.random.default_rng(seed)
    known, past = history.predicted(now_s), history.past(now_s)
    drawn = [history.drawn(now_s, rng) for _ in range(draws)]
    waits, left_out = {}, dict(LEFT_OUT)
    for row in rows:
        try:
            policies = [load_policy(row) for _ in drawn]  # what one has learned, the next must not know
            if oracles := oracles_of(policies[0]):
                left_out[row] = f"reads the future ({oracles})"
                continue
            found = [
                history.forecast(policy, now_s, known, past, one) for policy, one in zip(policies, drawn, strict=True)
            ]
            waits[row] = float(np.mean(found))
        except WattQueueError as error:
            left_out[row] = str(error)
    if not waits:
        raise InputError("no row can be forecast", where="--row", hint="; ".join(left_out.values()))
    return Advice(dict(sorted(waits.items(), key=lambda each: each[1])), left_out)


@dataclass(frozen=True, slots=True)
class Regret:
    """What following the advice costs beside a fixed row, over days that chose nothing.

    Attributes:
        fixed_s: Mean wait a job under each fixed row.
        chosen: The fixed row that was best on the days before.
        advised_s: Mean wait a job, following the advice.
        switches: How often the row changed.
        beside_chosen: Advised less chosen, seconds a job, over weeks.
        beside_best: The same beside the fixed row that turned out best.
    """

    fixed_s: dict[str, float]
    chosen: str
    advised_s: float
    switches: int
    beside_chosen: Estimate
    beside_best: Estimate

    @property
    def best(self) -> str:
        """Return the fixed row that turned out best."""
        return min(self.fixed_s, key=self.fixed_s.__getitem__)

    def values(self) -> dict[str, Any]:
        """Return plain values."""
        pairs = {"beside_chosen_s": self.beside_chosen.document(), "beside_best_s": self.beside_best.document()}
        return {"fixed_s": self.fixed_s, "chosen": self.chosen, "best": self.best, "advised_s": self.advised_s,
                "switches": self.switches, **pairs}  # fmt: skip


def regret(
    fresh: Callable[[], QueueHistory], rows: Sequence[str], last_days: int, *, seed: int, gain: float,
    told: Shown | None = None,
) -> Regret:  # fmt: skip
    """Follow the advice each midnight of the last days, and each row fixed; ``fresh`` returns an empty history.

    The row is changed where the forecast is shorter by the share ``gain``. A midnight begins every day anew for fixed
    rows as well, so that a switch costs what it costs the jobs. Raises: InputError for days that the record lacks.
    """
    jobs = fresh().jobs
    begin_s = float(np.floor(jobs.submit_s[0] / DAY_S)) * DAY_S
    days = int((jobs.submit_s[-1] - begin_s) // DAY_S)
    first_day = days - last_days
    if last_days < 2 * WEEK_DAYS or first_day < 1:
        raise InputError(f"{days} whole days of record", where="--regret", hint="two weeks at least after some days")
    fixed, good = {}, []
    for k, row in enumerate(rows):
        history, policy = fresh(), load_policy(row)
        try:
            fixed[row] = np.array([history.advance(load_policy(row), begin_s + d * DAY_S) for d in range(days)])
        except WattQueueError:
            continue
        if not oracles_of(policy):
            good.append(row)
        if told is not None:
            told(k + 1, len(rows) + 1)
    chosen = min(good, key=lambda row: float(fixed[row][:first_day].sum()))
    history, row, switches, advised = fresh(), chosen, 0, []
    for day in range(days):
        now_s = begin_s + day * DAY_S
        if day >= first_day:
            found = advise(history, now_s, good, seed + day, 3)
            if found.best != row and found.wait_s[found.best] < (1.0 - gain) * found.wait_s[row]:
                row, switches = found.best, switches + 1
        advised.append(history.advance(load_policy(row), now_s))
    seen = slice(first_day, days)
    low, high = np.searchsorted(jobs.submit_s, [begin_s + first_day * DAY_S, begin_s + days * DAY_S])
    count = max(int(high - low), 1)
    fixed_s = {name: float(fixed[name][seen].sum()) / count for name in good}
    best = min(fixed_s, key=fixed_s.__getitem__)

    def beside(name: str) -> Estimate:
        change = (np.array(advised) - fixed[name])[seen] * (days - first_day) / count
        weeks = len(change) // WEEK_DAYS
        return estimate(change[: weeks * WEEK_DAYS].reshape(weeks, WEEK_DAYS).mean(axis=1))

    return Regret(fixed_s, chosen, float(np.sum(advised[seen])) / count, switches, beside(chosen), beside(best))
