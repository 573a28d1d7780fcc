"""PAS: windows of frequencies under a cap, and idle nodes whose watts start a waiting job."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from wattqueue.errors import InputError, PolicyError
from wattqueue.model.jobs import Jobs
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.signals import NO_SIGNALS, Cap
from wattqueue.parts.backfill.announced_caps import AnnouncedCaps
from wattqueue.parts.contracts import Entries, Prediction
from wattqueue.parts.frequency.frequency_window import FrequencyWindow
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import Run, simulate

HZ = (2.0e9, 1.5e9, 1.0e9)
"""With alpha 2 and no idle watts, 100 W become 56.25 W and 25 W; time is 1, 4/3 and 2."""
TRANSITIONS: dict[str, Any] = {"idle_w": 40.0, "shutdown_s": 10.0, "shutdown_w": 40.0, "boot_s": 20.0, "boot_w": 60.0}


def machine(**figures: Any) -> Machine:
    return Machine("small", (Partition("one", 4, frequencies_hz=HZ, **{"max_w": 100.0, **figures}),))


def run(jobs: Jobs, policy: str, cap_w: float, **figures: Any) -> Run:
    return simulate(jobs, machine(**figures), load_policy(policy), cap=Cap.constant(cap_w))


def jobs_of(nodes: list[int], **columns: Any) -> Jobs:
    n = len(nodes)
    return Jobs.build(np.arange(n) * 1.0, nodes, [100.0] * n, walltime_s=[200.0] * n, **columns)


def windows(low: list[float], high: list[float]) -> dict[str, Any]:
    return {"extra": {"frequency_min_hz": np.array(low), "frequency_max_hz": np.array(high)}}


def test_without_a_window_a_job_starts_at_the_highest_frequency_or_waits() -> None:
    done = run(jobs_of([2, 2]), "pas", 300.0)
    assert done.schedule.option.tolist() == [0, 0]
    assert done.schedule.start_s.tolist() == [0.0, 100.0]


def test_with_a_window_it_starts_at_the_highest_frequency_that_fits() -> None:
    policy = load_policy("pas", frequency={"part": "frequency-window", "lowest_hz": 0.0})
    done = simulate(jobs_of([2, 2]), machine(), policy, cap=Cap.constant(300.0))
    # 200 W run; 2 x 56.25 W do not fit into 100 W, 2 x 25 W do. The second job takes twice as long.
    assert done.schedule.option.tolist() == [0, 2]
    assert done.schedule.end_s.tolist() == [100.0, 201.0]


def test_each_job_keeps_to_its_own_window() -> None:
    nan = np.nan
    jobs = jobs_of([2, 1, 1], **windows([nan, 1.5e9, 1.0e9], [nan, 2.0e9, 1.6e9]))
    done = run(jobs, "pas", 260.0)
    # The second may go down to 1.5 GHz (56.25 W of the 60 W left), the third waits for watts, and never runs at 2 GHz.
    assert done.schedule.option.tolist() == [0, 1, 1]
    assert done.schedule.start_s.tolist() == [0.0, 1.0, 100.0]


def test_a_window_takes_the_options_between_its_ends() -> None:
    both = Machine("two", (*machine().partitions, Partition("fixed", 2, max_w=50.0)))
    jobs = jobs_of([1] * 6, **windows([0, 1.2e9, 3e9, 1.6e9, np.nan, 0], [9e9, 1.8e9, 4e9, 1.7e9, 1.5e9, 5e8]))
    entries = Entries(np.repeat(np.arange(6), 2).astype(np.int32), np.tile([0, 1], 6).astype(np.int32), np.zeros(12))
    prediction = Prediction(np.full((1, 4), 50.0), np.ones((1, 4)), np.zeros(6, np.int32))
    first, last = FrequencyWindow().window(KnownJobs.of(jobs), entries, prediction, both, NO_SIGNALS)
    assert first[::2].tolist() == [0, 1, 0, 1, 1, 2]
    assert last[::2].tolist() == [2, 1, 0, 1, 2, 2]
    assert (first[1::2] == 3).all()
    assert (last[1::2] == 3).all()


@pytest.mark.parametrize(("low", "high", "row"), [([1e9, 2e9], [2e9, 1e9], 2), ([-1.0, 0], [1e9, 1e9], 1)])
def test_an_empty_window_is_refused(low: list[float], high: list[float], row: int) -> None:
    with pytest.raises(InputError) as refused:
        run(jobs_of([1, 1], **windows(low, high)), "pas", 300.0)
    assert str(refused.value.where) == f"column frequency_min_hz, row {row}"
    with pytest.raises(PolicyError):
        FrequencyWindow(lowest_hz=2e9, highest_hz=1e9)


def test_idle_nodes_give_their_watts_to_a_waiting_job() -> None:
    """40 W idle, 100 W busy: with four nodes on, two busy ones leave 300 - 2 x 60 - 4 x 40 = 20 W."""
    jobs = jobs_of([2, 1])
    kept = simulate(jobs, machine(**TRANSITIONS), load_policy("pas", controls=[]), cap=Cap.constant(300.0))
    assert kept.schedule.start_s.tolist() == [0.0, 100.0]
    done = run(jobs, "pas", 300.0, **TRANSITIONS)
    # The node that the second job does not need is off after 10 s, and 60 W are free then.
    assert done.schedule.start_s.tolist() == [0.0, 11.0]


PAIR = Machine("pair", (Partition("a", 2, max_w=100.0, **TRANSITIONS), Partition("b", 4, max_w=90.0, **TRANSITIONS)))


def on_pair(jobs: Jobs, cap_w: float, order: str = "fcfs") -> Run:
    return simulate(jobs, PAIR, load_policy("pas", order=order), cap=Cap.constant(cap_w))


def test_idle_nodes_of_every_partition_give_their_watts() -> None:
    """240 W idle and 60 W for each busy node of a: 340 W lack 20 W, and a has no idle node to spare."""
    done = on_pair(jobs_of([2], partition=["a"]), 340.0)
    assert done.schedule.start_s.tolist() == [10.0]
    assert done.power.other_w.min() == 120.0  # one of b's four nodes is off


def test_a_job_that_may_run_elsewhere_starts_where_idle_nodes_make_room() -> None:
    """Partition a is full; in b the third job lacks 10 W, which one of b's idle nodes gives."""
    jobs = Jobs.build([0.0, 1.0], [2, 1], [500.0, 100.0])
    done = on_pair(jobs, 240.0 + 120.0 + 40.0, order="all-partitions")
    assert done.schedule.start_s.tolist() == [0.0, 11.0]
    assert done.schedule.unit_low.tolist()[1] >= 2


def test_a_partition_whose_first_job_waits_for_nodes_keeps_its_idle_nodes() -> None:
    """The second job waits for both nodes of a; the third takes b whole and lacks 30 W, which a's idle node would give.

    Behind it nobody waits in a: then that node is switched off.
    """
    jobs = Jobs.build([0.0, 1.0, 2.0], [1, 2, 4], [200.0, 50.0, 50.0], partition=["a", "a", "b"])
    assert on_pair(jobs, 240.0 + 60.0 + 170.0).schedule.start_s.tolist() == [0.0, 200.0, 250.0]
    alone = on_pair(jobs.take(np.array([0, 2])), 240.0 + 60.0 + 170.0)
    assert alone.schedule.start_s.tolist() == [0.0, 12.0]


@pytest.mark.parametrize(("cap_w", "runs"), [(219.0, False), (220.0, True)])
def test_a_job_that_fits_beside_nodes_that_are_off_is_not_rejected(cap_w: float, runs: bool) -> None:
    """Two nodes of a draw 200 W, and one of b that is off 5 W; with all nodes idle the machine alone draws 240 W."""
    figures = {**TRANSITIONS, "off_w": 5.0}
    pair = Machine("pair", (Partition("a", 2, max_w=100.0, **figures), Partition("b", 4, max_w=90.0, **figures)))
    done = simulate(jobs_of([2], partition=["a"]), pair, load_policy("pas"), cap=Cap.constant(cap_w))
    assert done.schedule.ran.tolist() == [runs]
    kept = simulate(jobs_of([2], partition=["a"]), pair, load_policy("pas", controls=[]), cap=Cap.constant(cap_w))
    assert not kept.schedule.ran.any()


def test_nodes_are_woken_for_a_job_that_needs_them() -> None:
    jobs = jobs_of([2, 1, 4], **windows([np.nan, np.nan, 1e9], [np.nan, np.nan, 2e9]))
    done = run(jobs, "pas", 300.0, **TRANSITIONS)
    # One node is off from 10 s on. The boot takes 60 W, which are there when the first job has ended, and 20 s.
    assert done.schedule.start_s.tolist() == [0.0, 11.0, 120.0]
    assert done.schedule.option.tolist() == [0, 0, 1]


def announced(jobs: Jobs, *, later_w: float, at_s: float = 50.0, now_w: float = np.inf, **options: Any) -> Run:
    """A cap of ``later_w`` comes at ``at_s`` and ends at 300 s."""
    cap = Cap(np.array([0.0, at_s, 300.0]), np.array([now_w, later_w, now_w]))
    policy = load_policy("pas", backfill=AnnouncedCaps(**options), controls=[])
    return simulate(jobs, machine(), policy, cap=cap)


def test_a_job_that_reaches_into_an_announced_cap_fits_it_or_waits() -> None:
    """Walltimes of 200 s reach into the 150 W from 50 s on; one unit draws 100 W."""
    done = announced(jobs_of([1, 1]), later_w=150.0)
    assert done.schedule.start_s.tolist() == [0.0, 100.0]
    assert run_without_looking_ahead(jobs_of([1, 1])).schedule.start_s.tolist() == [0.0, 1.0]


def run_without_looking_ahead(jobs: Jobs) -> Run:
    cap = Cap(np.array([0.0, 50.0, 300.0]), np.array([np.inf, 150.0, np.inf]))
    return simulate(jobs, machine(), load_policy("pas", controls=[]), cap=cap)


def test_a_job_that_ends_before_the_cap_does_not_count() -> None:
    jobs = Jobs.build([0.0, 1.0, 2.0], [1, 2, 1], [100.0, 30.0, 30.0], walltime_s=[200.0, 40.0, 60.0])
    done = announced(jobs, later_w=150.0)
    # The second is over at 41 s. The third may last until 62 s: 200 W would be planned where 150 W are allowed.
    assert done.schedule.start_s.tolist() == [0.0, 1.0, 100.0]


def test_a_lower_frequency_lets_a_job_into_an_announced_cap() -> None:
    jobs = jobs_of([1, 1], **windows([np.nan, 1e9], [np.nan, 2e9]))
    done = announced(jobs, later_w=160.0)
    assert done.schedule.start_s.tolist() == [0.0, 1.0]
    assert done.schedule.option.tolist() == [0, 1]


def test_only_with_overtake_does_a_later_job_pass() -> None:
    jobs = Jobs.build([0.0, 1.0, 2.0], [1, 1, 1], [100.0, 30.0, 30.0], walltime_s=[200.0, 60.0, 40.0])
    assert announced(jobs, later_w=150.0).schedule.start_s.tolist() == [0.0, 100.0, 130.0]
    assert announced(jobs, later_w=150.0, overtake=True).schedule.start_s.tolist() == [0.0, 100.0, 2.0]


def test_users_may_keep_their_jobs_out_of_capped_windows() -> None:
    jobs = jobs_of([1, 1], extra={"capped_windows": np.array([0.0, 1.0])})
    done = announced(jobs, later_w=1000.0, overtake=True)
    # The first waits until no cap is in force; the cap would allow it at any time.
    assert done.schedule.start_s.tolist() == [300.0, 1.0]
    wrong = jobs_of([1, 1], extra={"capped_windows": np.array([0.0, 2.0])})
    with pytest.raises(InputError) as refused:
        announced(wrong, later_w=1000.0)
    assert str(refused.value.where) == "column capped_windows, row 2"


def test_cores_of_a_node_are_switched_together() -> None:
    """Two nodes of two cores, 40 W idle each: the node that is not needed is off, and its 80 W start the second job."""
    transitions: Any = {"idle_w": 40.0, "shutdown_s": 10.0, "shutdown_w": 80.0, "boot_s": 20.0, "boot_w": 120.0}
    cores = Machine(
        "cores", (Partition("one", 3, unit="core", cores_per_socket=2, frequencies_hz=HZ, max_w=100.0, **transitions),)
    )
    jobs = jobs_of([2, 2])
    done = simulate(jobs, cores, load_policy("pas"), cap=Cap.constant(400.0))
    # 6 cores idle take 240 W; the first job adds 120 W, the second needs 120 W of the 40 W left. One node gives 80 W.
    assert done.schedule.start_s.tolist() == [0.0, 11.0]
