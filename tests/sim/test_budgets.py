"""Budgets of energy in simulation: never exceeded in mode ``maximum``, kept as often as stated in ``quantile``."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.profiles import examples
from tests.sim.invariants import check_invariants, units_of
from wattqueue.errors import InputError, MachineError, PolicyError
from wattqueue.formats.budgets import read_budgets
from wattqueue.model.budget_books import BudgetBooks, JobDemand
from wattqueue.model.budgets import MICRO, MJ_PER_KWH, Amounts, Book, Budget
from wattqueue.model.jobs import Jobs, Labels
from wattqueue.model.machine import Machine, Partition, plain_machine
from wattqueue.model.signals import Cap, Series
from wattqueue.model.spare_hours import SpareHours
from wattqueue.model.supply import SupplyDomain
from wattqueue.parts.actions import Action, Resume, SetDeviceLimits, SetFrequency, Suspend
from wattqueue.parts.controls.energy_budgets import EnergyBudgets
from wattqueue.policy.policy import load_policy
from wattqueue.policy.view import View
from wattqueue.sim.engine import Run, simulate

DAY_S = 86_400.0
MACHINE = plain_machine(4, 20.0, 100.0)
MONTHS = np.arange(40) * 30 * DAY_S


def jobs_of(rows: Sequence[tuple[float, int, float, float, float, str]]) -> Jobs:
    """Jobs of (submit, nodes, run time, limit, watts of a node, user)."""
    submit, nodes, run_s, limit_s, watts, users = zip(*rows, strict=True)
    return Jobs.build(
        np.array(submit, float), np.array(nodes), np.array(run_s, float), walltime_s=np.array(limit_s, float),
        mean_power_w=np.array(watts, float), user=Labels.of(list(users)),
    )  # fmt: skip


RACKS = tuple(
    SupplyDomain(name=name, nodes=f"batch[{nodes}]", limit_s=(0.0, 2 * DAY_S), limits_w=watts)
    for name, nodes, watts in (("a", "1-2", (130.0, 205.0)), ("b", "3-4", (170.0, 200.0)))
)
"""Two racks that have too few watts for their nodes in the first two days."""


def run(
    jobs: Jobs,
    *budgets: Budget,
    policy: str = "easy",
    machine: Machine = MACHINE,
    others: Sequence[Any] = (),
    **parts: Any,
) -> tuple[Run, EnergyBudgets]:
    control = EnergyBudgets(budgets=budgets)
    chosen = load_policy(policy, **{axis: part for axis, part in parts.items() if part is not None})
    cap = Cap.constant(machine.cap_w or math.inf)
    done = simulate(jobs, machine, replace(chosen, controls=(control, *others)), cap=cap)
    check_invariants(done)
    return done, control


def budget(kwh: float, *users: str, edges: Any = MONTHS, **more: Any) -> Budget:
    return Budget("b", frozenset(users), round(kwh * MJ_PER_KWH), "kWh", np.asarray(edges, float), **more)


def used_of(done: Run, one: Budget) -> Amounts:
    """What jobs of a budget used of each period, from the schedule alone."""
    found: Amounts = {}
    jobs, times = done.jobs, done.schedule
    for k in np.flatnonzero(~np.isnan(times.start_s)).tolist():
        code = int(jobs.user.codes[k])
        if one.concerns(jobs.user.names[code] if code >= 0 else ""):
            watts = float(times.energy_j[k] / (times.end_s[k] - times.start_s[k]))
            for period, amount in one.used(watts, float(times.start_s[k]), float(times.end_s[k])).items():
                found[period] = found.get(period, 0) + amount
    return found


def test_a_job_over_the_budget_waits_until_it_renews_and_keeps_nobody_else() -> None:
    # each may use 4 nodes x 100 W x 1 h = 0.4 kWh at most, and uses 0.2: of 0.75 kWh the third's most is not left
    rows = [(10_000.0 * k, 4, 3600.0, 3600.0, 50.0, "ann") for k in range(4)]
    rows.append((30_500.0, 1, 100.0, 100.0, 50.0, "bob"))
    done, control = run(jobs_of(rows), budget(0.75, "ann"))
    starts = done.schedule.start_s
    assert starts[:2].tolist() == [0.0, 10_000.0]
    assert starts[2] >= MONTHS[1]
    assert starts[3] >= MONTHS[1]
    assert starts[4] == 30_500.0, "another user's job"
    assert control.books[0].used[0] == round(0.4 * MJ_PER_KWH), "what was measured replaces what was set aside"


def test_what_a_job_leaves_is_there_for_the_next_at_its_end() -> None:
    rows = [(0.0, 4, 600.0, 3600.0, 100.0, "ann"), (1.0, 4, 600.0, 3600.0, 100.0, "ann")]
    done, _ = run(jobs_of(rows), budget(0.48, "ann"))
    assert done.schedule.start_s.tolist() == [0.0, 600.0]


def test_jobs_that_could_start_in_one_instant_do_not_share_what_is_left() -> None:
    rows = [(0.0, 1, 3600.0, 3600.0, 100.0, "ann") for _ in range(4)]
    done, _ = run(jobs_of(rows), budget(0.25, "ann"))
    assert (done.schedule.start_s == 0.0).sum() == 2, "0.1 kWh each, of 0.25"
    assert used_of(done, budget(1.0))[0] <= 0.25 * MJ_PER_KWH


def test_a_job_that_fits_no_period_never_runs_and_others_do() -> None:
    rows = [(0.0, 4, 100.0, 36_000.0, 100.0, "ann"), (1.0, 1, 100.0, 3600.0, 100.0, "ann")]
    done, control = run(jobs_of(rows), budget(0.5, "ann"))
    assert not done.schedule.start_s[0] < MONTHS[-1], "no month has room for it; later ones have no budget"
    assert done.schedule.start_s[1] == 1.0
    assert control.books[0].held == {}


def test_jobs_of_an_account_and_of_a_project() -> None:
    """As the job table names them: account and wckey of Slurm."""
    rows = [(float(k), 1, 3600.0, 3600.0, 100.0, "ann") for k in range(6)]
    names = {
        "account": np.array(["phys", "phys", "phys", "chem", "chem", ""]),
        "wckey": np.array(["", "a", "", "a", "a", "a"]),
    }
    jobs = replace(jobs_of(rows), extra=names)
    done, control = run(jobs, budget(0.21, account="phys"), budget(0.11, project="a"))
    started = (done.schedule.start_s < MONTHS[1]).tolist()
    assert started == [True, True, False, False, False, False], "two of phys; of project a the second job alone"
    assert [book.used[0] for book in control.books] == [round(0.2 * MJ_PER_KWH), round(0.1 * MJ_PER_KWH)]


NIGHTS = SpareHours.of(["Mon-Fri 20:00-06:00", "Sat-Sun"], ZoneInfo("UTC"))


def test_what_has_no_budget_left_runs_in_spare_hours_alone() -> None:
    """The fifth of January 1970 was a Monday. A job that would reach out of the night waits for the weekend."""
    monday = 4 * DAY_S
    rows = [
        (monday + 9 * 3600.0 + k, 1, 7200.0, span_s, 100.0, "ann")
        for k, span_s in enumerate((7200.0, 7200.0, 40_000.0))
    ]
    rows.append((monday + 9 * 3600.0 + 9.0, 1, 7200.0, 3 * DAY_S, 100.0, "ann"))
    weeks = np.array([0.0, 11.0, 30.0]) * DAY_S
    done, control = run(jobs_of(rows), budget(0.25, "ann", edges=weeks, spare=NIGHTS))
    starts = done.schedule.start_s
    assert starts[0] == rows[0][0]
    assert monday + 20 * 3600.0 <= starts[1] < monday + 21 * 3600.0
    assert starts[2] == monday + 4 * DAY_S + 20 * 3600.0, "11 hours are longer than a night: Friday evening"
    assert starts[3] >= weeks[1], "three days are longer than the weekend: it waits for the budget"
    book = control.books[0]
    assert book.used[0] == round(0.2 * MJ_PER_KWH)
    assert book.beyond[0] == round(0.4 * MJ_PER_KWH)
    assert done.notes["budget b: used in spare hours beyond it, in thousandths of kWh"] == 400
    plain, _ = run(jobs_of(rows), budget(0.25, "ann", edges=weeks))
    assert plain.schedule.start_s[1] >= weeks[1], "a site that does not say so lets them wait"


def test_spare_hours_of_one_budget_leave_another_one_kept() -> None:
    monday = 4 * DAY_S
    rows = [(monday + 9 * 3600.0 + k, 1, 3600.0, 3600.0, 100.0, "ann") for k in range(3)]
    done, _ = run(jobs_of(rows), budget(0.15, "ann", spare=NIGHTS), replace(budget(0.25), name="centre"))
    starts = done.schedule.start_s
    assert starts[0] < monday + 10 * 3600.0
    assert monday + 20 * 3600.0 <= starts[1] < monday + 21 * 3600.0
    assert starts[2] >= MONTHS[1], "nothing is left of the centre's"


def test_spare_hours_follow_the_clock_of_the_zone() -> None:
    berlin = SpareHours.of(["Mon-Fri 20:00-06:00", "Sat-Sun"], ZoneInfo("Europe/Berlin"))
    assert berlin.weekly == ((1200, 1800), (2640, 3240), (4080, 4680), (5520, 6120), (6960, 10080))
    winter, summer = (
        datetime.fromisoformat(day).timestamp() for day in ("2026-03-27T12:00+01:00", "2026-10-23T12:00+02:00")
    )
    hours = [np.diff(berlin.span(at, 40 * 3600.0))[0] / 3600.0 for at in (winter, summer)]
    assert hours == [51.0, 53.0], "the weekend of a clock change, Friday 20:00 to midnight of Sunday"
    assert berlin.span(winter, 54 * 3600.0) == (math.inf, math.inf)


def test_a_long_queue_is_no_reason_to_wait_for_ever() -> None:
    """Each of 450 jobs takes a day's budget: the last ones were barred for ever by the periods that are looked at."""
    books = BudgetBooks([budget(0.1, "ann", edges=np.arange(1000) * DAY_S)], 600.0)
    jobs = {str(k): JobDemand("ann", "", 100.0, 3600.0) for k in range(450)}
    jobs["large"] = JobDemand("ann", "", 101.0, 3600.0)
    books.let_through(0.0, jobs)
    assert [name for name, one in books.barred.items() if math.isinf(one.until_s)] == ["large"]
    assert sorted(one.until_s for one in books.barred.values())[-2] >= 400 * DAY_S


def test_a_job_too_large_for_any_period_starts_once_the_budget_has_ended() -> None:
    """It was barred for ever where the budget had more periods than are looked at."""
    books = BudgetBooks([budget(0.1, "ann", edges=np.arange(1000) * DAY_S)], 600.0)
    jobs = {"large": JobDemand("ann", "", 101.0, 3600.0)}
    books.let_through(0.0, jobs)
    assert books.barred["large"].until_s == math.inf
    books.let_through(999.5 * DAY_S, jobs)
    assert not books.barred


def test_without_a_budget_that_binds_nothing_changes() -> None:
    rng = np.random.default_rng(4)
    rows = random_rows(rng, 60)
    free = simulate(jobs_of(rows), MACHINE, load_policy("easy"))
    bound, _ = run(jobs_of(rows), budget(1e6))
    assert np.array_equal(free.schedule.start_s, bound.schedule.start_s)


def random_rows(rng: np.random.Generator, count: int) -> list[tuple[float, int, float, float, float, str]]:
    rows = []
    for _ in range(count):
        limit_s = float(rng.choice([600.0, 3600.0, 20_000.0, 5 * DAY_S]))
        submit_s = float(rng.integers(0, int(3 * DAY_S)))
        rows.append((
            submit_s, int(rng.integers(1, 5)), max(1.0, float(rng.random()) * limit_s), limit_s,
            20.0 + 80.0 * float(rng.random()), str(rng.choice(["ann", "bob"])),
        ))  # fmt: skip
    return rows


LOW = {"part": "frequency-window", "lowest_hz": 1e9}
TWO_CLOCKS = Machine(
    "clocks", (Partition("batch", 4, idle_w=60.0, max_w=100.0, frequencies_hz=(2e9, 1e9)),), cap_w=350.0
)
"""At the lower clock a job takes twice as long, and more energy: 70 W of a node in place of 100."""


def check_month(
    seed: int, machine: Machine = MACHINE, frequency: dict[str, Any] | None = None,
    hostile: Callable[[np.random.Generator], Any] | None = None,
) -> Run:  # fmt: skip
    """One random world: no period of any budget is exceeded, what is booked is what was used, and jobs run."""
    rng = np.random.default_rng((seed, 36))
    days = float(rng.choice([0.5, 1.0, 3.0]))
    edges = float(rng.integers(0, 40_000)) + np.arange(40) * days * DAY_S
    chosen = [
        budget(float(rng.uniform(0.1, 20.0)), "ann", edges=edges),
        budget(float(rng.uniform(1.0, 40.0)), edges=np.arange(20) * 2 * DAY_S),
    ]
    if rng.random() < 0.3:
        steps = np.arange(0.0, 2_000 * 7_200.0, 7_200.0, dtype=np.float64)
        prices = Series(steps, np.array(rng.uniform(-1.0, 3.0, len(steps)) / 3.6e6, np.float64))
        chosen.append(replace(chosen[0], amount=round(rng.uniform(1.0, 20.0) * MICRO), unit="EUR", series=prices))
    policy = str(rng.choice(["easy", "fcfs", "conservative"]))
    rows = random_rows(rng, int(rng.integers(1, 25)))
    others = () if hostile is None else (hostile(rng),)
    done, control = run(jobs_of(rows), *chosen, policy=policy, machine=machine, frequency=frequency, others=others)
    for one, book in zip(chosen, control.books, strict=True):
        used = used_of(done, one)
        for period, amount in used.items():
            assert amount <= one.limit(period), (seed, one.name, period)
        assert min(min(held.values(), default=0) for held in [{}, *book.held.values()]) >= 0
    starts = done.schedule.start_s
    assert not np.isnan(starts).any(), (seed, "liveness: behind its last period a budget has no limit")
    for k in range(len(starts)):
        until_s = must_start(done, k, chosen, control.period_s)
        assert starts[k] < until_s, (seed, k, "liveness")
    return done


def must_start(done: Run, k: int, budgets: Sequence[Budget], ahead_s: float) -> float:
    """The end of the last period if a job fits alone wherever one begins, with periods for all jobs in turn; else inf.

    While it waits, each other job keeps something at most in the periods from its own place on that it may run in.
    """
    jobs = done.jobs
    user = jobs.user.names[int(jobs.user.codes[k])]
    mine = [one for one in budgets if one.concerns(user)]
    if not mine:
        return np.inf
    slowest = float(done.machine.option_time_factor.max())
    watts, span_s = 100.0 * int(jobs.nodes[k]), float(jobs.walltime_s[k]) * slowest
    last_s = min(float(one.edge_s[-1]) for one in mine)
    begins = sorted({float(at) for one in mine for at in one.edge_s if jobs.submit_s[k] <= at < last_s})
    alone = [
        all(
            amount <= one.limit(period)
            for one in mine
            for period, amount in one.most(watts, span_s, at, at + ahead_s).items()
        )
        for at in begins
    ]
    longest_s = max(float(np.diff(one.edge_s).max()) for one in mine)
    others_s = float((jobs.walltime_s * slowest + ahead_s + 2.0 * longest_s).sum())
    return last_s if all(alone) and len(alone) > 0 and last_s - float(jobs.submit_s[k]) > others_s else np.inf


@examples(40)
@given(st.integers(0, 2**31))
def test_the_budget_is_never_exceeded(seed: int) -> None:
    check_month(seed)


def test_the_budget_is_kept_at_clocks_that_make_jobs_longer() -> None:
    """Under a cap starts are at the lower clock; each may run twice as long, and two use all that they may."""
    low = sum(int((check_month(seed, TWO_CLOCKS, LOW).schedule.option == 1).sum()) for seed in (2, 3))
    assert low > 5
    rows = [(float(k), 4, 3600.0, 3600.0, 100.0, "ann") for k in range(2)]
    for kwh, fits in ((0.79, 0), (0.81, 1), (1.37, 2)):  # 0.8 at most, 0.56 used
        one = budget(kwh, edges=MONTHS[:2])
        done, _ = run(jobs_of(rows), one, machine=TWO_CLOCKS, frequency=LOW)
        assert (done.schedule.start_s < MONTHS[1]).sum() == fits
        assert used_of(done, one).get(0, 0) == fits * round(0.56 * MJ_PER_KWH)


@pytest.mark.compiled
class Hostile:
    """Suspends, slows down and limits whatever runs, without asking anybody; it lets go of all of it later."""

    period_s: float = 20_000.0
    events: frozenset[str] = frozenset({"arrival", "start"})

    def __init__(self, rng: np.random.Generator, *names: str) -> None:
        self.rng, self.names, self.refused = rng, names, Counter[str]()

    def act(self, view: View) -> list[Action]:
        self.refused.update(type(one.action).__name__ for one in view.refusals)
        found: list[Action] = []
        for row in view.running.tolist():
            name = view.job_id(row)
            if self.names and name not in self.names:
                continue
            if row in view.suspended:
                found += [Resume(name)] * int(self.rng.random() < 0.1)
            elif self.rng.random() < 0.3:
                found.append(Suspend(name))
            elif len(view.machine.option_partition) > 1:
                found.append(SetFrequency(name, int(self.rng.integers(0, 2))))
        if not self.names and self.rng.random() < 0.3:
            caps = self.rng.choice([61.0, 75.0, np.inf], view.machine.devices)
            found.append(SetDeviceLimits(np.arange(view.machine.devices), caps))
        return found


@pytest.mark.parametrize("machine", [MACHINE, replace(TWO_CLOCKS, cap_w=None)])
def test_no_other_control_makes_jobs_use_more_than_is_set_aside(machine: Machine) -> None:
    """A suspended job draws idle watts for as long as it takes; one that is limited or slowed runs longer."""
    refused = Counter[str]()

    def hostile(rng: np.random.Generator) -> Hostile:
        found = Hostile(rng)
        found.refused = refused
        return found

    for seed in (1, 3, 5):
        check_month(seed, machine, hostile=hostile)
    assert refused["Suspend"] > 5
    assert refused["SetDeviceLimits"] > 5
    assert (refused["SetFrequency"] > 5) == (len(machine.option_partition) > 1)


@pytest.mark.parametrize("more", [{"mode": "quantile", "quantile": 0.9}, {}])
def test_jobs_of_no_maximum_are_suspended_and_slowed_as_before(more: dict[str, Any]) -> None:
    """The liveness twin: a job of a quantile, and one of nobody's budget."""
    rows = [(0.0, 1, 4e5, 5e5, 50.0, user) for user in ("ann", "bob")]
    mine = "2" if not more else "1"
    other = Hostile(np.random.default_rng(1), mine)
    done, _ = run(jobs_of(rows), budget(50.0, "ann", **more), machine=TWO_CLOCKS, others=[other])
    assert not other.refused
    assert done.schedule.parked_s is not None
    assert (done.schedule.parked_s > 0.0).tolist() == [mine == "1", mine == "2"]


def test_a_control_that_limits_devices_is_refused_beside_a_maximum() -> None:
    for more in ({"mode": "quantile", "quantile": 0.9}, {}):
        control = EnergyBudgets(budgets=(budget(1.0, **more),))
        with (
            nullcontext()
            if more
            else pytest.raises(PolicyError, match="energy-budgets in mode maximum beside rapl-at-counted")
        ):
            load_policy("easy", controls=[control, "rapl-at-counted"])


def test_budgets_beside_power_domains() -> None:
    """Both are kept, and every job runs; the domains have to delay some."""
    delayed = 0
    for seed in range(8):
        free, bound = check_month(seed), check_month(seed, replace(MACHINE, supply=RACKS))
        times = bound.schedule
        delayed += int((times.start_s > free.schedule.start_s).sum())
        node_w = np.asarray(bound.jobs.mean_power_w)
        for at_s in times.start_s:
            drawn = np.full(4, 20.0)
            for k in np.flatnonzero((times.start_s <= at_s) & (at_s < times.end_s)).tolist():
                drawn[units_of(times, k)] = node_w[k]
            limits = [domain.limits_w[int(at_s >= 2 * DAY_S)] for domain in RACKS]
            assert (drawn.reshape(2, 2).sum(1) <= np.array(limits) + 1e-6).all()
    assert delayed > 5


@pytest.mark.slow
def test_the_budget_is_never_exceeded_at_full_length() -> None:
    for seed in range(int(os.environ.get("WATTQUEUE_MONTHS", "10000"))):
        check_month(seed)


def test_a_job_that_fits_and_does_not_start_would_be_found() -> None:
    """The twin of the liveness assertion: it demands a start of jobs that fit, and none of one that is too large."""
    rows = [(float(k), 1, 600.0, 600.0, 50.0, "ann") for k in range(3)] + [(9.0, 4, 100.0, 36_000.0, 50.0, "ann")]
    one = budget(0.3, "ann")
    done, control = run(jobs_of(rows), one)
    found = [must_start(done, k, [one], control.period_s) for k in range(4)]
    assert found == [MONTHS[-1]] * 3 + [np.inf]
    assert done.schedule.start_s[3] >= MONTHS[-1]


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.integers(0, 10**15), st.integers(0, 3)), max_size=60))
def test_what_is_booked_is_what_is_set_aside_and_used(steps: list[tuple[int, bool, int, int]]) -> None:
    book = Book(budget(1.0))
    held: dict[str, Amounts] = {}
    used = dict.fromkeys(range(4), 0)
    for job, ends, amount, period in steps:
        name = str(job)
        if ends:
            book.settle(name, {period: amount})
            held.pop(name, None)
            used[period] += amount
        else:
            book.hold(name, {period: amount})
            held[name] = {period: amount}
        for p in range(4):
            assert book.booked(p) == used[p] + sum(one.get(p, 0) for one in held.values())


def test_a_quantile_lets_more_through_and_keeps_most_periods() -> None:
    rng = np.random.default_rng(7)
    rows = []
    for k in range(800):
        run_s = float(rng.uniform(100.0, 1_800.0))
        rows.append((k * 3_000.0, 2, run_s, 3_600.0, float(rng.uniform(40.0, 90.0)), "ann"))
    edges = np.arange(120) * DAY_S
    kept, waits = {}, {}
    for mode in ("maximum", "quantile"):
        one = budget(1.1, "ann", edges=edges, mode=mode, quantile=0.9)
        done, _ = run(jobs_of(rows), one)
        used = used_of(done, one)
        kept[mode] = np.mean([amount <= one.amount for amount in used.values()])
        waits[mode] = float(np.nanmean(done.schedule.start_s - done.jobs.submit_s))
    assert kept["maximum"] == 1.0
    n = len(used)
    assert kept["quantile"] >= 0.9 - 1.64 * np.sqrt(0.9 * 0.1 / n)
    assert waits["quantile"] < waits["maximum"]


@pytest.mark.parametrize("quantile", [0.5, 0.8, 0.95])
@pytest.mark.parametrize("most_jobs", [1, 3, 12])
def test_the_share_of_periods_kept_is_the_quantile_at_least(quantile: float, most_jobs: int) -> None:
    """Over 1,000 random days, each with a budget that a few jobs fill; what was set aside for nothing is counted."""
    rng, days = np.random.default_rng((round(100 * quantile), most_jobs)), 1_000
    past = np.sort(rng.beta(4.0, 4.0, 5_000)).tolist()
    kwh = most_jobs * 0.1 * (float(np.quantile(past, quantile)) + 0.001)
    books = BudgetBooks([budget(kwh, edges=np.arange(days + 2) * DAY_S, mode="quantile", quantile=quantile)], 600.0)
    job, idle = JobDemand("ann", "", 100.0, 3600.0), 0.0
    for day in range(days):
        now_s, books.shares = (
            day * DAY_S + 60.0,
            {"": list(past)},
        )  # as known from many jobs, so that none is stuck above it
        waiting = {f"{day}-{k}": job for k in range(3 * most_jobs)}
        books.let_through(now_s, waiting)
        for name in waiting.keys() - books.barred.keys():
            books.begin(name, job, now_s)
            run_s = 3600.0 * float(rng.beta(4.0, 4.0))
            idle += max(0, books.books[0].held[name][day] - round(100.0 * run_s * 1e3)) * run_s
            books.end(name, job, now_s, now_s + run_s, 100.0)
        books.barred.clear()
    kept, over = books.books[0].kept_periods(days * DAY_S)
    assert over > 0.9 * days
    assert kept / over >= quantile - 1.64 * np.sqrt(quantile * (1.0 - quantile) / over)
    found = books.books[0].idle_share(0.0, days * DAY_S)
    assert found == pytest.approx(idle / (kwh * MJ_PER_KWH * days * DAY_S), rel=1e-3)


def test_a_job_whose_quantile_is_above_the_budget_waits_until_shorter_ones_have_taught_less() -> None:
    """It was barred for ever by what was learned before. To let it run at once would break the share that is kept."""
    books = BudgetBooks([budget(0.1, "ann", edges=np.arange(1000) * DAY_S, mode="quantile", quantile=0.9)], 600.0)
    books.shares = {"ann": [1.0] * 20}
    large, short = JobDemand("ann", "", 100.0, 7_200.0), JobDemand("ann", "", 100.0, 1_800.0)
    for k in range(30):
        now_s = k * DAY_S
        books.let_through(now_s, {"large": large, "short": short})
        assert "short" not in books.barred, "shorter limits go on"
        if "large" not in books.barred:
            break
        assert books.barred["large"].until_s == math.inf, "not once in this file of budgets, as far as is known"
        books.begin("short", short, now_s)
        books.end("short", short, now_s, now_s + 180.0, 100.0)
        books.shares["ann"] = books.shares["ann"][-20:]  # as after 200 jobs
    assert 15 <= k <= 20


# -- the file ----------------------------------------------------------------------------------------------
FILE = """
time_zone = "Europe/Berlin"
[accounts]
phys = ["ann", "bob"]
[[budgets]]
name = "phys"
account = "phys"
amount = 12.5
period = "month"
begin = "2026-01-01"
end = "2027-01-01"
"""


def test_months_of_a_zone_have_their_hours(tmp_path: Path) -> None:
    (tmp_path / "b.toml").write_text(FILE)
    (one,) = read_budgets(tmp_path / "b.toml")
    hours = np.diff(one.edge_s) / 3600.0
    assert hours.tolist() == [744, 672, 743, 720, 744, 720, 744, 744, 720, 745, 720, 744]
    assert one.users == {"ann", "bob"}
    assert one.amount == round(12.5 * MJ_PER_KWH)
    assert (one.limit(3), one.limit(-1), one.limit(12)) == (one.amount, np.inf, np.inf)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("amount = 12.5", "amount = -1", "amount"),
        ("amount = 12.5", "amount = nan", "amount"),
        ('account = "phys"', 'account = "phys"\nproject = "x"', "states account and project"),
        ('account = "phys"', 'account = ""', "account is empty"),
        ('period = "month"', 'over = "spare-hours"', "no spare hours"),
        ("[accounts]", 'spare_hours = ["Sun-Sat"]\n[accounts]', "spare_hours: 'Sun-Sat' states no hours"),
        ("[accounts]", 'spare_hours = ["20:00-25:00"]\n[accounts]', "states no hours"),
        ("[accounts]", 'spare_hours = ["Mon-Sun"]\n[accounts]', "every hour of the week is spare"),
        ('account = "phys"', 'account = "phys"\nuser = "ann"', "states user and account"),
        ('begin = "2026-01-01"', 'begin = "2028-01-01"', "ends before it begins"),
        ('begin = "2026-01-01"', 'begin = "2026-1-41"', "is no day"),
        ('end = "2027-01-01"', 'end = "9999-12-31"', "outside 1970 to 2100"),
        ('begin = "2026-01-01"', 'begin = "0026-01-01"', "outside 1970 to 2100"),
        ("Europe/Berlin", "Mars/Olympus", "time_zone"),
        ('period = "month"', 'period = "year"', "period"),
        ('period = "month"', 'unit = "EUR"', "do not fit"),
        ('name = "phys"\n', "", "name"),
        ("[[budgets]]", "[[budget]]", "budget"),
        ("[[budgets]]", '[[budgets]]\nname = "phys"\namount = 1\nbegin = "2026-06-01"\n[[budgets]]', "overlap"),
        ('period = "month"', 'unit = "EUR"\nprices = "gap.csv"', "gap"),
        ('period = "month"', 'unit = "gCO2"\nprices = "gap.csv"', "prices in EUR/MWh"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, old: str, new: str, says: str) -> None:
    hours = [h for h in range(200) if not 50 <= h < 60]
    (tmp_path / "gap.csv").write_text("time_s,price\n" + "".join(f"{1_767_225_600 + 3600 * h},50\n" for h in hours))
    (tmp_path / "b.toml").write_text(FILE.replace(old, new))
    with pytest.raises(InputError, match=says) as found:
        read_budgets(tmp_path / "b.toml")
    assert "b.toml" in str(found.value)


def test_an_account_that_neither_the_file_nor_the_jobs_name_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "b.toml").write_text(FILE.replace('account = "phys"', 'account = "fys"'))
    control = {"part": "energy-budgets", "budgets": str(tmp_path / "b.toml")}
    jobs = jobs_of([(0.0, 1, 10.0, 10.0, 50.0, "ann")])
    with pytest.raises(InputError, match=r"budget phys: account 'fys' is unknown: .* no column account"):
        simulate(jobs, MACHINE, load_policy("easy", controls=[control]))
    named = replace(jobs, extra={"account": np.array(["phys"])})
    notes = simulate(named, MACHINE, load_policy("easy", controls=[control])).notes
    assert notes["budget phys: jobs that it concerns"] == 0


def test_a_partition_without_a_maximum_is_named() -> None:
    """Whole numbers of what a job may use at most were asked of infinite watts."""
    machine = Machine("m", (Partition("open", 4, idle_w=20.0),))
    with pytest.raises(MachineError, match=r"partition open: max_w is not stated .*budgets need it"):
        run(jobs_of([(0.0, 1, 10.0, 10.0, 50.0, "ann")]), budget(1.0), machine=machine)


def test_a_row_names_its_file(tmp_path: Path) -> None:
    (tmp_path / "b.toml").write_text(FILE)
    control = {"part": "energy-budgets", "budgets": str(tmp_path / "b.toml")}
    done = simulate(jobs_of([(0.0, 1, 10.0, 10.0, 50.0, "ann")]), MACHINE, load_policy("easy", controls=[control]))
    assert done.schedule.start_s.tolist() == [0.0]
    with pytest.raises(PolicyError, match="no budget is known"):
        simulate(done.jobs, MACHINE, load_policy("easy", controls=["energy-budgets"]))
