"""Ways to cheat, each refused by the driver, found by a check, or listed on the page of the checks as not findable."""

from __future__ import annotations

import itertools
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.checks.test_estimator_suite import Answering
from tests.checks.test_other_axes import FirstFit, Steers
from wattqueue.checks import common
from wattqueue.checks.common import within
from wattqueue.checks.in_a_run import MOST_JOBS
from wattqueue.checks.samples import MORE_JOBS, drawn_jobs, sample_jobs, sample_machine
from wattqueue.checks.suite import checks_of
from wattqueue.errors import PolicyError
from wattqueue.kernels import codes
from wattqueue.model.consent import Consent
from wattqueue.model.jobs import Jobs
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine, plain_machine
from wattqueue.model.signals import Cap
from wattqueue.parts.actions import Action, Requeue, SetFrequency, StartJob, StopNode, Suspend
from wattqueue.parts.contracts import Asked, Entries, Floats, Ints, Prediction, Start
from wattqueue.parts.order.fcfs import Fcfs
from wattqueue.policy.actions import NO_FREE_UNIT, NO_OPTION, NO_POWER, WRONG_STATE
from wattqueue.policy.consented import KEEPS_NOTHING
from wattqueue.policy.overtaking import OVERTAKES
from wattqueue.policy.policy import load_policy
from wattqueue.policy.state_view import own_kernel
from wattqueue.policy.view import View
from wattqueue.sim.engine import Run, simulate

# Refused by the driver ################################################################################################

NODES = plain_machine(4, 10.0, 100.0)
# The first runs until 100 s, the second waits for all nodes; a third that lasts would delay it.
WAITING = Jobs.build([0.0, 1.0, 2.0], [3, 4, 1], [100.0, 10.0, 500.0], consent=Consent.build(3))


class Once:
    """A control that does one thing at 2 s."""

    period_s = 0.0
    events: frozenset[str] = frozenset({"arrival"})

    def __init__(self, does: Callable[[View], Sequence[Action]]) -> None:
        self.does = does

    def act(self, view: View) -> Sequence[Action]:
        return self.does(view) if view.now_s == 2.0 else []


def run(does: Callable[[View], Sequence[Action]], row: str = "easy", cap: Cap | None = None) -> Run:
    return simulate(WAITING, NODES, load_policy(row, controls=[Once(does)]), cap=cap or Cap.none())


def raises_the_budget(view: View) -> Sequence[Action]:
    view.kernel.now.available_uw = 10**12
    return []


def frees_nodes(view: View) -> Sequence[Action]:
    view.free[0] = 4
    return []


def lends_itself_a_node(view: View) -> Sequence[Action]:
    view.unit_state[0] = codes.UNIT_ON
    return []


def ends_a_job_early(view: View) -> Sequence[Action]:
    view.expected_end_s[0] = 3.0
    return []


def makes_it_writable(view: View) -> Sequence[Action]:
    view.kernel.now.data.setflags(write=True)
    return []


@pytest.mark.parametrize(
    "cheat", [raises_the_budget, frees_nodes, lends_itself_a_node, ends_a_job_early, makes_it_writable]
)
def test_what_a_part_is_shown_cannot_be_written_to(cheat: Callable[[View], Sequence[Action]]) -> None:
    with pytest.raises((TypeError, ValueError), match=r"read-only|WRITEABLE"):
        run(cheat)


def reads(name: str) -> Callable[[View], Sequence[Action]]:
    def act(view: View) -> Sequence[Action]:
        getattr(view.jobs, name)
        return []

    return act


@pytest.mark.parametrize("outcome", ["runtime_s", "mean_power_w", "start_s", "truth"])
def test_outcomes_are_not_in_the_table(outcome: str) -> None:
    with pytest.raises((AttributeError, PolicyError)):
        run(reads(outcome))


@pytest.mark.parametrize(
    ("action", "row", "cap_w", "reason"),
    [
        (StartJob("3", 0, (), 0), "easy", np.inf, OVERTAKES),
        (StartJob("3", 0, (), 0), "conservative", np.inf, OVERTAKES),
        (StartJob("3", 0, (), 0), "first-fit", 320.0, NO_POWER),
        (StartJob("3", 0, (0,), 0), "first-fit", np.inf, NO_OPTION),
        (StartJob("1", 0, (), 0), "easy", np.inf, WRONG_STATE),
        (StartJob("3", 1, (), 0), "easy", np.inf, WRONG_STATE),
        (SetFrequency("1", 7), "easy", np.inf, NO_OPTION),
        (SetFrequency("1", -1), "easy", np.inf, NO_OPTION),
        (StopNode(0), "easy", np.inf, NO_FREE_UNIT),
        (Requeue("1", 1.0), "easy", np.inf, KEEPS_NOTHING),
        (Requeue("1", np.inf), "easy", np.inf, KEEPS_NOTHING),
    ],
    ids=str,
)
def test_actions_that_take_what_is_not_there_are_refused(action: Action, row: str, cap_w: float, reason: str) -> None:
    done = run(lambda _view: [action], row, Cap.constant(cap_w))
    assert done.notes == {f"refused: {reason}": 1}
    assert done.schedule.start_s[0] == 0.0


def test_no_more_work_is_kept_than_was_done_up_to_a_checkpoint() -> None:
    jobs = Jobs.build([0.0, 250.0], [4, 4], [1_000.0, 10.0], consent=Consent.build(2, checkpoint_s=[100.0, np.nan]))
    control = Steers()
    control.period_s, control.events = 0.0, frozenset({"arrival"})
    control.act = lambda view: [Requeue("1", 1e9)] if view.now_s == 250.0 else []  # type: ignore[method-assign]
    done = simulate(jobs, NODES, load_policy("easy", controls=[control]))
    assert done.checkpointed_s.tolist() == [200.0, 0.0]


class Negative(Answering):
    """Promises to take watts away."""

    def predict_rows(self, rows: Ints, now_s: float) -> Floats:
        return np.full((len(rows), self.options), -500.0)


class BelowZero:
    def margin_w(self, view: View) -> float:
        return -1e6


@pytest.mark.parametrize("parts", [{"estimator": Negative()}, {"ledger": BelowZero()}], ids=["watts", "ledger"])
def test_figures_that_would_raise_the_cap_are_refused(parts: dict[str, Any]) -> None:
    with pytest.raises(PolicyError):
        simulate(WAITING, NODES, load_policy("easy", **parts), cap=Cap.constant(400.0))


class StartsWhatever(FirstFit):
    """Starts entries that wait, run, and do not exist, whatever they take."""

    def schedule(self, view: View) -> Sequence[Start]:
        return [Start(entry, 0) for entry in (-1, 0, 1, 2, 2, 99)]


def test_a_pass_starts_nothing_that_does_not_fit() -> None:
    done = simulate(WAITING, NODES, load_policy("easy", backfill=StartsWhatever()), cap=Cap.constant(320.0))
    assert done.schedule.start_s.tolist() == [0.0, np.nan, 100.0] or done.notes
    assert done.power.machine_w.max() <= 320.0


class KeepsEverything:
    """A ledger that leaves no watt to start anything."""

    def margin_w(self, view: View) -> float:
        return 1e9


def test_a_ledger_that_keeps_every_watt_free_stops_nobody() -> None:
    done = simulate(WAITING, NODES, load_policy("easy", ledger=KeepsEverything()), cap=Cap.constant(400.0))
    assert done.schedule.ran.all()  # rule 19: on an idle machine the first in the queue starts


# Found by a check #####################################################################################################


class OneWatt(Answering):
    def predict(self, jobs: KnownJobs, machine: Machine) -> Prediction:
        super().predict(jobs, machine)
        shape = (1, self.options)
        return Prediction(np.ones(shape), np.ones(shape), np.zeros(len(jobs), np.int32))

    def predict_rows(self, rows: Ints, now_s: float) -> Floats:
        return np.ones((len(rows), self.options))


class LittleMoreThanIdle(Answering):
    def predict_rows(self, rows: Ints, now_s: float) -> Floats:
        return np.full((len(rows), self.options), 241.0)


class HonestBelow2000(Answering):
    """Looks at jobs to come where the trace is no small sample."""

    def predict_rows(self, rows: Ints, now_s: float) -> Floats:
        n = len(self.jobs)
        widest = 0.0 if n < 2_000 else float(self.jobs.nodes[int(rows.max()) + 1 :].sum()) / n
        return np.full((len(rows), self.options), 900.0 + widest)


class OrderHonestBelow2000(Fcfs):
    """Lets the users go first who submit most in the whole trace."""

    def entries(self, jobs: KnownJobs, prediction: Prediction, machine: Machine) -> Entries:
        once = super().entries(jobs, prediction, machine)
        if len(jobs) < 2_000:
            return once
        count = np.bincount(jobs.user.codes + 1)
        return Entries(once.job, once.partition, count[jobs.user.codes[once.job] + 1].astype(np.float64))


class RunTimeHonestBelow2000:
    asked: Asked = "once"
    correction = None

    def seconds(self, jobs: KnownJobs, machine: Machine) -> Floats:
        least = 1.0 if len(jobs) < 2_000 else 1.0 + float(jobs.walltime_s[-100:].mean()) / 1e9
        return np.asarray(jobs.walltime_s / (1.0 + least), np.float64)


class LeavesOut(Fcfs):
    """Gives jobs of one user no entry: they never run."""

    def entries(self, jobs: KnownJobs, prediction: Prediction, machine: Machine) -> Entries:
        once = super().entries(jobs, prediction, machine)
        keep = jobs.user.codes[once.job] != jobs.user.codes.max(initial=-1)
        return Entries(once.job[keep], once.partition[keep], once.priority[keep])


class StartsNothing(FirstFit):
    def schedule(self, view: View) -> Sequence[Start]:
        return []


class StarvesTheHead(FirstFit):
    """Starts the first in the queue only where it is alone."""

    def wants(self, view: View, job: int) -> bool:
        queue = view.queue
        return len(queue) == 1 or job != view.entry_job(int(queue[0]))


class SuspendsAll(Steers):
    def act(self, view: View) -> Sequence[Action]:
        return [Suspend(view.job_id(job)) for job in view.running.tolist()]


class StopsAll(Steers):
    def act(self, view: View) -> Sequence[Action]:
        return [StopNode(int(unit)) for unit in view.units_on.tolist()]


class RequeuesAll(Steers):
    def act(self, view: View) -> Sequence[Action]:
        return [Requeue(view.job_id(job)) for job in view.running.tolist()]


class NeverReturns(Steers):
    def act(self, view: View) -> Sequence[Action]:
        for _ in itertools.count():
            view.queue.tolist()
        return []


class IgnoresErrors(Steers):
    """Never returns either, and catches what it can."""

    def act(self, view: View) -> Sequence[Action]:
        while True:
            try:
                view.queue.tolist()
            except Exception:  # noqa: BLE001, S112 - the fault
                continue


class TakesThePrivateWay(FirstFit):
    """Writes to the driver's memory through what is private to it."""

    def wants(self, view: View, job: int) -> bool:
        own_kernel(view).now.available_uw = 10**12
        return True


SEEN: list[float] = []


class RemembersOutsideItself(FirstFit):
    """Keeps what it has seen in a global, where a second run finds it."""

    def wants(self, view: View, job: int) -> bool:
        SEEN.append(view.now_s)
        return len(SEEN) % 3 > 0 or len(view.running) == 0


FOUND: list[tuple[str, type[Any], str]] = [
    ("estimator", OneWatt, "watts"),
    ("estimator", LittleMoreThanIdle, "watts"),
    ("estimator", HonestBelow2000, "no_leak_among_more_jobs"),
    ("order", OrderHonestBelow2000, "no_leak_among_more_jobs"),
    ("runtime", RunTimeHonestBelow2000, "no_leak_among_more_jobs"),
    ("order", LeavesOut, "a_run"),
    ("backfill", StartsNothing, "answers"),
    ("backfill", StarvesTheHead, "nobody_passed"),
    ("backfill", TakesThePrivateWay, "pure"),
    ("backfill", RemembersOutsideItself, "deterministic"),
    ("controls", SuspendsAll, "answers"),
    ("controls", StopsAll, "answers"),
    ("controls", RequeuesAll, "answers"),
    ("controls", NeverReturns, "answers"),
    ("controls", IgnoresErrors, "answers"),
]


@pytest.mark.parametrize(("axis", "cheat", "named"), FOUND)
def test_a_check_finds_it(axis: str, cheat: type[Any], named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if cheat in {NeverReturns, IgnoresErrors}:
        monkeypatch.setattr(common, "LONGEST_S", 2.0)
    with pytest.raises(PolicyError) as caught:
        dict(checks_of(axis, cheat))[f"check_{named}"](cheat, sample_jobs(MOST_JOBS), sample_machine())
    assert caught.value.where == cheat.__name__
    assert caught.value.hint


def test_what_passes_all_other_checks_of_its_axis() -> None:
    """Without the check that finds it, such a cheat would pass: that check is needed."""
    for axis, cheat, named in FOUND:
        if named in {"watts", "nobody_passed"} and cheat is not OneWatt:
            for name, check in checks_of(axis, cheat):
                if name != f"check_{named}" and "more_jobs" not in name:
                    check(cheat, sample_jobs(MOST_JOBS), sample_machine())


def test_a_check_that_ends_in_time_is_not_disturbed() -> None:
    assert within(object(), 30.0, lambda: sum(range(1_000))) == 499_500


@pytest.mark.parametrize("at", [0.02, 0.0])
def test_an_alarm_that_comes_while_it_is_switched_off_raises_nothing(
    at: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that stood still for a second gets it there; it would then have one each second for good."""
    set_timer = signal.setitimer

    def late(which: int, seconds: float, interval: float = 0.0) -> tuple[float, float]:
        if seconds == 0.0:
            signal.raise_signal(signal.SIGALRM)
        return set_timer(which, seconds, interval)

    monkeypatch.setattr(signal, "setitimer", late)
    with pytest.raises(PolicyError, match="has not ended") if at else nullcontext():
        within(object(), at or 30.0, lambda: time.sleep(at and 30.0))
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) == signal.SIG_DFL


def test_sizes_are_drawn_by_seed_and_a_draw_can_be_repeated() -> None:
    drawn = [drawn_jobs(seed) for seed in range(4)]
    assert len({len(jobs) for jobs, _ in drawn}) == 4
    jobs, words = drawn[3]
    assert MORE_JOBS[0] <= len(jobs) <= MORE_JOBS[1]
    assert words == f"sample_jobs({len(jobs)}, 3)"
    assert np.array_equal(sample_jobs(len(jobs), 3).submit_s, jobs.submit_s)


# Not findable #########################################################################################################

NOT_FOUND = {
    "reading memory by `gc`": "the trace is in the same process, and Python hides no object of it",
    "reading the trace from its file": "a check runs on generated jobs, which are in no file",
    "asking the clock": "an answer that changes next month is the same today",
    "knowing that it is checked": "whoever calls a part is on the stack",
    "being sound on few jobs in a run": "runs have 60 jobs, since a part in Python is called several times an event",
    "doing badly": "a part may predict or schedule worse than it could; studies measure that, a check does not",
}
"""What no check finds, and why."""


def test_the_page_of_the_checks_says_what_they_cannot_find() -> None:
    page = (Path(__file__).parents[2] / "docs/guide/parts.md").read_text()
    for what, reason in NOT_FOUND.items():
        assert f"**{what}**: {reason}" in " ".join(page.split()), what
