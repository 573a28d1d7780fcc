"""No write lets jobs draw more than the pool and the accepted overshoot: any writes, in any order, with any failure."""

from __future__ import annotations

import random
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.live.fakeslurm import FakeJob, FakeSlurm
from wattqueue.live.apply import Applier
from wattqueue.live.cluster import (
    ChangeJob,
    ContinueJob,
    HoldJob,
    JobFields,
    JobKey,
    ReleaseJob,
    SetPool,
    StopJob,
    Write,
)
from wattqueue.live.watts.bound import ABOVE, HeldWatts, WattBound

WRITES = ("release", "change", "pool", "stop", "continue", "hold", "start")


class Notes:
    """A journal that records nothing."""

    def intend(self, writes: Sequence[Write]) -> list[int]:
        """Number the writes."""
        return list(range(len(writes)))

    def record_outcomes(self, outcomes: Sequence[tuple[int, str]]) -> None:
        """Take outcomes."""


def test_a_licence_that_counts_as_it_is_leaves_nothing_uncovered_when_it_falls() -> None:
    """Limits in force, or a promise, bound what its job draws; of another one the difference may be drawn."""
    key, other = JobKey("1", 1.0), JobKey("2", 2.0)
    held = {key: HeldWatts(260, 260, None, follows=True), other: HeldWatts(260, 260)}
    bound = WattBound(700.0, 700, {}, lambda: held)
    low, same = (ChangeJob(one.name, "", "", JobFields(watts=126), why="", key=one) for one in (key, other))
    assert bound.refusal(low) == ""
    assert bound.refusal(same) == ABOVE
    bound.note(low, "")
    assert (bound.sum_w, bound.uncovered_w) == (126 + 260, 0)
    bound.note(ChangeJob("1", "", "", JobFields(watts=200), why="", key=key), "")
    assert (bound.sum_w, bound.uncovered_w) == (200 + 260, 0)


def world(dice: random.Random) -> tuple[FakeSlurm, WattBound]:
    """Jobs that run, some with licences that were lowered, jobs that wait held, and a bound that holds for them."""
    slurm = FakeSlurm({"p1": [f"n{k}" for k in range(24)]}, 4800)
    start_w: dict[int, int] = {}
    for _ in range(dice.randint(0, 8)):
        job = slurm.submit(1, 1e6, watts=200, limit_s=2e6)
        slurm.release(job)
        slurm.reserved_w = 0
        slurm.schedule()
        start_w[job.id] = 200
        job.licences["watts"] = dice.choice([200, 200, 40, 120])
        if dice.random() < 0.2:
            job.stopped_s, job.licences["watts"] = slurm.now_s, dice.choice([0, 200])
    for _ in range(dice.randint(0, 6)):
        slurm.submit(1, 1e6, watts=dice.choice([100, 200]), limit_s=2e6)
    seen = slurm.observe()
    held = {}
    for job in slurm.running():
        watts = job.licences["watts"]
        stands = job.stopped_s >= 0
        held[key_of(job)] = HeldWatts(watts, watts, 200) if stands else HeldWatts(watts, start_w[job.id])
    uncovered = sum(one.uncovered_w for one in held.values())
    room = sum(one.bound_w for one in held.values()) + dice.choice([-200, 0, 100, 500])
    limit = max(room, uncovered)
    open_w = max(0, limit - uncovered - dice.choice([0, 0, 300]))
    slurm.reserved_w = slurm.total_w - min(open_w, slurm.total_w)
    return slurm, WattBound(limit, slurm.open_w, seen.by_key, lambda: held)


def key_of(job: FakeJob) -> JobKey:
    return JobKey(job.name, float(int(job.submit_s)))


def drawn(slurm: FakeSlurm, most: dict[int, int]) -> int:
    """What running jobs may draw: the most that they ever held while they ran, nothing while they stand still."""
    for job in slurm.running():
        if job.stopped_s < 0:
            most[job.id] = max(most.get(job.id, 0), job.licences["watts"])
    return sum(most[job.id] for job in slurm.running() if job.stopped_s < 0)


def some_writes(dice: random.Random, slurm: FakeSlurm, kinds: Sequence[str]) -> list[Write]:
    """Writes of these kinds to any job, as no planner would decide them."""
    found: list[Write] = []
    for kind in kinds:
        job = dice.choice(list(slurm.jobs.values())) if slurm.jobs else None
        if kind == "pool" or job is None:
            found.append(SetPool("watts", "", "", dice.choice([0, 400, 1200, 4800])))
            continue
        key, watts = key_of(job), dice.choice([0, 10, 100, 200, 400])
        change = ChangeJob(job.name, "", "", JobFields(watts=watts), key=key)
        release = ReleaseJob(job.name, "held", "released", key=key)
        made: dict[str, list[Write]] = {
            "release": [release], "change": [change], "start": [change, release],
            "stop": [StopJob(job.name, "running", "stopped", key=key), change],
            "continue": [change, ContinueJob(job.name, "stopped", "running", key=key)],
            "hold": [HoldJob(job.name, "released", "held", key=key)],
        }  # fmt: skip
        found += made[kind]
    return found


def greatest_excess(kinds: Sequence[str], seed: int, *, bounded: bool = True) -> int:
    """Carry random writes out, the resource manager starting what it can between any two; return the greatest excess.

    Over the bound, or over what jobs could draw before where that was more. A licence that was raised says what is
    drawn already, so what is found after a raise is left out.
    """
    dice = random.Random(seed)
    slurm, bound = world(dice)
    most = {int(key.name): one.resumed().bound_w for key, one in bound.held.items()}
    most |= {int(key.name): one.bound_w for key, one in bound.held.items() if one.resumes_w is None}
    allowed = max(bound.limit_w, drawn(slurm, most))
    faults = iter(dice.choices([None, None, None, "fail", "lost"], k=200))
    slurm.fault = lambda what: None if isinstance(what, str) else next(faults, None)
    begun_w, found = dict(most), [0]

    def after(when: str) -> None:
        slurm.schedule()
        raised = any(job.licences["watts"] > begun_w.get(job.id, 10**6) for job in slurm.running())
        if when == "done" and not raised:
            found.append(int(drawn(slurm, most) - allowed))

    writes = some_writes(dice, slurm, kinds)
    Applier(slurm, Notes(), boundary=after).apply(writes, bound if bounded else WattBound.none())
    return max(found)


@settings(max_examples=300, deadline=None)
@given(kinds=st.lists(st.sampled_from(WRITES), min_size=1, max_size=14), seed=st.integers(0, 10**9))
def test_no_writes_exceed_the_bound(kinds: list[str], seed: int) -> None:
    assert greatest_excess(kinds, seed) == 0


def test_without_the_bound_such_writes_exceed_it() -> None:
    assert max(greatest_excess(WRITES, seed, bounded=False) for seed in range(40)) > 0
