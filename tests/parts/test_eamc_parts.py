"""EAMC's frequencies and orders on figures small enough to check by hand."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattqueue.errors import InputError, PolicyError
from wattqueue.model.app_profiles import AppProfiles, HardwareProfile
from wattqueue.model.eamc_table1 import POWER_W, RUNTIME_S, table1_profiles
from wattqueue.model.jobs import Jobs
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.signals import NO_SIGNALS
from wattqueue.parts.contracts import Entries, Prediction
from wattqueue.parts.efficiency import choose, distance2, part_eff, positions
from wattqueue.parts.estimator.ear import Ear, with_configurations
from wattqueue.parts.frequency.fastest import Fastest
from wattqueue.parts.frequency.least_distance import LeastDistance
from wattqueue.parts.frequency.least_energy import LeastEnergy
from wattqueue.parts.order.all_partitions import AllPartitions
from wattqueue.parts.order.best_only import BestOnly
from wattqueue.parts.order.priority_inc import PriorityInc
from wattqueue.parts.order.priority_inc_v import PriorityIncV
from wattqueue.parts.order.reorder import Reorder

INF = np.inf
TWO = Machine(
    "two",
    (
        Partition("a", 8, frequencies_hz=(3e9, 2e9, 1e9)),
        Partition("b", 4, frequencies_hz=(2e9, 1e9)),
    ),
)
# Row 0: on a 3 GHz is not the fastest (as STREAM), 1 GHz not offered; row 1 is twice as good on b.
POWER = np.array([[400.0, 300.0, INF, 350.0, 200.0], [400.0, 300.0, 250.0, 150.0, 120.0]])
TIME = np.array([[1.02, 1.00, 1.0, 1.5, 2.0], [1.0, 1.3, 2.0, 1.0, 1.4]])
NOBODY = KnownJobs.build([], [], [])
PREDICTION = Prediction(POWER, TIME, np.array([0, 1, 0], np.int32))


def three_jobs(**more: object) -> Jobs:
    return Jobs.build([0.0, 5.0, 5.0], [2, 2, 6], [100.0] * 3, **more)


def brute_force(energy: list[float], time: list[float], weight: float) -> int:
    offered = [i for i, e in enumerate(energy) if np.isfinite(e)]
    e0, t0 = min(energy[i] for i in offered), min(time[i] for i in offered)
    return min(offered, key=lambda i: ((energy[i] / e0) ** 2 + weight * (time[i] / t0) ** 2, i))


def test_frequencies_by_hand() -> None:
    entries = AllPartitions().entries(KnownJobs.of(three_jobs()), PREDICTION, TWO)
    pairs = list(zip(entries.job.tolist(), entries.partition.tolist(), strict=True))
    assert pairs == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]  # job 2 is too wide for b
    fastest, same = Fastest().window(NOBODY, entries, PREDICTION, TWO, NO_SIGNALS)
    assert fastest.tolist() == [1, 3, 0, 3, 1]
    assert (fastest == same).all()
    # Joules of row 0: 408, 300 on a; 525, 400 on b. Of row 1: 400, 390, 500; 150, 168.
    assert LeastEnergy().window(NOBODY, entries, PREDICTION, TWO, NO_SIGNALS)[0].tolist() == [1, 4, 1, 3, 1]
    # Row 0 on b: (525/400)^2 + 1 = 2.72 at 2 GHz, 1 + (2/1.5)^2 = 2.78 at 1 GHz.
    assert LeastDistance().window(NOBODY, entries, PREDICTION, TWO, NO_SIGNALS)[0].tolist() == [1, 3, 0, 3, 1]
    by_half = LeastDistance(t_weight=0.5).window(NOBODY, entries, PREDICTION, TWO, NO_SIGNALS)[0]
    assert by_half.tolist() == [1, 4, 0, 3, 1]


@given(st.integers(0, 10_000), st.sampled_from([0.1, 1.0, 1.5, 10.0]))
def test_least_distance_is_the_brute_force_minimum(seed: int, weight: float) -> None:
    rng = np.random.default_rng(seed)
    power, time = rng.uniform(100, 400, (4, 5)), rng.uniform(0.5, 3, (4, 5))
    power[rng.random((4, 5)) < 0.2] = INF
    power[:, [0, 3]] = np.where(np.isinf(power[:, [0, 3]]), 300.0, power[:, [0, 3]])
    best = choose(Prediction(power, time), TWO, "distance", weight).option
    for row in range(4):
        for p, (low, high) in enumerate(((0, 3), (3, 5))):
            own = slice(low, high)
            joules = (power[row, own] * time[row, own]).tolist()
            assert best[row, p] == low + brute_force(joules, time[row, own].tolist(), weight)


def test_the_published_code_weighs_inside_the_square() -> None:
    energy, time = np.array([[2.0, 1.0]]), np.array([[1.0, 1.3]])
    text = distance2(energy, time, 1.5)
    code = distance2(energy, time, 1.0, "published-code")
    np.testing.assert_allclose(text, [[4 + 1.5, 1 + 1.5 * 1.69]])
    np.testing.assert_allclose(code, [[4 + 2.25, 1 + (1.5 * 1.3) ** 2]])


def test_partition_efficiency_by_hand() -> None:
    best = choose(PREDICTION, TWO, "distance")
    # Row 0: 300 J in 1.0 on a, 525 J in 1.5 on b. Row 1: 400 J in 1.0 on a, 150 J in 1.0 on b.
    text = part_eff(best, 1.0)
    np.testing.assert_allclose(text[0], [np.sqrt(2), np.sqrt(1.75**2 + 1.5**2)])
    np.testing.assert_allclose(text[1], [np.sqrt((400 / 150) ** 2 + 1), np.sqrt(2)])
    code = part_eff(best, 1.0, "published-code")
    np.testing.assert_allclose(code[0], [2.5, 1.75 + 1.5 * 1.5])
    assert positions(text).tolist() == [[0, 1], [1, 0]]


def table_of(entries: Entries) -> dict[tuple[int, int], float]:
    pairs = zip(entries.job.tolist(), entries.partition.tolist(), strict=True)
    return dict(zip(pairs, entries.priority.tolist(), strict=True))


def test_orders_by_hand() -> None:
    jobs = three_jobs()
    best = BestOnly().entries(KnownJobs.of(jobs), PREDICTION, TWO)
    assert table_of(best) == {(0, 0): 0, (1, 1): 0, (2, 0): 0}
    inc = table_of(PriorityInc().entries(KnownJobs.of(jobs), PREDICTION, TWO))
    assert inc == {(0, 0): 0, (0, 1): -1, (1, 0): -1, (1, 1): 0, (2, 0): 0}
    reorder = table_of(Reorder().entries(KnownJobs.of(jobs), PREDICTION, TWO))
    assert sorted(reorder, key=lambda k: -reorder[k]) == [(0, 0), (0, 1), (1, 1), (1, 0), (2, 0)]


def test_the_threshold_sends_bad_entries_below_all_others() -> None:
    # Row 0 on b is 1.63 times as bad as on a, row 1 on a 2.01 times as bad as on b.
    jobs = three_jobs()
    both = table_of(PriorityIncV().entries(KnownJobs.of(jobs), PREDICTION, TWO))
    assert both == {(0, 0): 0, (0, 1): -2, (1, 0): -2, (1, 1): 0, (2, 0): 0}
    one = table_of(PriorityIncV(threshold=0.7).entries(KnownJobs.of(jobs), PREDICTION, TWO))
    assert (one[0, 1], one[1, 0]) == (-1, -2)
    absolute = table_of(PriorityIncV(threshold=1.0, distance="absolute").entries(KnownJobs.of(jobs), PREDICTION, TWO))
    assert (absolute[0, 1], absolute[1, 0]) == (-1, -2)


def test_a_user_may_name_his_partition_and_a_job_without_any_has_no_entry_elsewhere() -> None:
    jobs = three_jobs(partition=["b", None, "somewhere"])
    pairs = set(table_of(PriorityInc().entries(KnownJobs.of(jobs), PREDICTION, TWO)))
    assert pairs == {(0, 1), (1, 0), (1, 1), (2, 0)}
    assert table_of(BestOnly().entries(KnownJobs.of(jobs), PREDICTION, TWO)).keys() == {(0, 1), (1, 1), (2, 0)}


def test_a_partition_that_offers_nothing_has_no_entry() -> None:
    power = POWER.copy()
    power[1, 3:] = INF  # no binary of that application for b
    nothing = Prediction(power, TIME, PREDICTION.row)
    jobs = three_jobs()
    assert set(table_of(AllPartitions().entries(KnownJobs.of(jobs), nothing, TWO))) == {(0, 0), (0, 1), (1, 0), (2, 0)}
    assert set(table_of(BestOnly().entries(KnownJobs.of(jobs), nothing, TWO))) == {(0, 0), (1, 0), (2, 0)}


@pytest.mark.parametrize("make", [lambda: LeastDistance(t_weight=0.0), lambda: LeastDistance(reading="guess")])
def test_frequency_options_are_checked(make: Callable[[], LeastDistance]) -> None:
    with pytest.raises(PolicyError):
        make()


def test_order_options_are_checked() -> None:
    for options in ({"distance": "far"}, {"threshold": 0.0}):
        with pytest.raises(PolicyError) as caught:
            PriorityIncV(**options)
        assert caught.value.where == f"priority_inc_v: {next(iter(options))}"


def eamc_machine() -> Machine:
    profiles = table1_profiles()
    return Machine(
        "p1p3",
        tuple(Partition(p, 512, frequencies_hz=tuple(profiles.on(p).frequency_hz.tolist())) for p in ("p1", "p3")),
    )


def test_ear_from_table_1_gives_the_printed_figures_at_the_highest_frequency() -> None:
    machine = eamc_machine()
    jobs = Jobs.build([0.0, 1.0], [1, 1], [60.0, 60.0], app=["8", "2"])
    got = Ear().predict(KnownJobs.of(jobs), machine)
    assert got.row is not None
    first = machine.option_start[:-1]
    np.testing.assert_allclose(got.power_w[got.row][:, first], POWER_W[[7, 1]][:, [0, 2]])
    ratio = RUNTIME_S[[7, 1]][:, [0, 2]] / RUNTIME_S[[7, 1]][:, :1]
    np.testing.assert_allclose(got.time_factor[got.row][:, first], ratio)
    # delta t / delta f is exact between the ends: ep.D on p1 loses 5.67 s per 0.1 GHz over 1.5 GHz.
    lowest = machine.option_start[1] - 1
    assert got.time_factor[got.row[1], lowest] * 64.20 == pytest.approx(64.20 + 5.67 * 15)


def test_an_unknown_application_runs_at_the_highest_frequency_only() -> None:
    machine = eamc_machine()
    stated = {"user_power_w": np.array([1.0, 250.0, np.nan])}
    jobs = Jobs.build([0, 1, 2], [1, 1, 1], [60] * 3, app=["1", None, "new"], mean_power_w=[9.0] * 3, extra=stated)
    got = Ear().predict(KnownJobs.of(jobs), machine)
    assert got.row is not None
    assert got.row.tolist() == [0, 8, 9]
    first = machine.option_start[:-1]
    offered = ~np.isinf(got.power_w[got.row])
    assert offered[1].nonzero()[0].tolist() == first.tolist()
    assert got.power_w[8, first[0]] == 250.0
    assert np.isnan(got.power_w[9, first[0]])  # no maximum is stated: unknown, not made up


def holes() -> AppProfiles:
    """Application x ran on both, y only on a; b also as configuration b-avx, faster and hungrier."""
    hz = np.array([2e9, 1e9])
    nan = np.nan
    a = HardwareProfile(hz, np.array([[300.0, 200.0], [310.0, 210.0]]), np.array([[10.0, 15.0], [20.0, 30.0]]))
    b = HardwareProfile(hz, np.array([[200.0, 150.0], [nan, nan]]), np.array([[20.0, 30.0], [nan, nan]]))
    avx = HardwareProfile(hz[:1], np.array([[260.0], [nan]]), np.array([[12.0], [nan]]))
    return AppProfiles(("x", "y"), {"a": a, "b": b, "b-avx": avx}, "test")


def test_new_hardware_is_skipped_or_tried() -> None:
    hz = (2e9, 1e9)
    machine = Machine("m", (Partition("a", 4, frequencies_hz=hz), Partition("b", 4, frequencies_hz=hz, max_w=400.0)))
    jobs = Jobs.build([0.0], [1], [60.0], app=["y"])
    assert np.isinf(Ear(profiles=holes()).predict(KnownJobs.of(jobs), machine).power_w[1, 2:]).all()
    trial = Ear(profiles=holes(), on_new_hardware="trial").predict(KnownJobs.of(jobs), machine)
    assert trial.power_w[1].tolist() == [310.0, 210.0, 400.0, INF]
    with pytest.raises(PolicyError) as caught:
        Ear(on_new_hardware="guess")
    assert caught.value.where == "ear: on_new_hardware"


def test_configurations_of_one_node_are_options() -> None:
    """Each frequency twice: plain, and with the vector unit, which has coefficients at 2 GHz only."""
    machine = Machine(
        "m",
        (
            Partition("a", 4, frequencies_hz=(2e9, 1e9)),
            with_configurations(Partition("b", 4), holes(), ("b", "b-avx")),
        ),
    )
    assert machine.partitions[1].frequencies_hz == (2e9, 2e9, 1e9, 1e9)
    ear = Ear(profiles=holes(), configurations={"b": ("b", "b-avx")})
    assert ear.option_configuration(machine) == ("a", "a", "b", "b-avx", "b", "b-avx")
    got = ear.predict(KnownJobs.of(Jobs.build([0.0], [1], [60.0], app=["x"])), machine)
    assert got.power_w[0].tolist() == [300.0, 200.0, 200.0, 260.0, 150.0, INF]
    np.testing.assert_allclose(got.time_factor[0, 2:5], [2.0, 1.2, 3.0])
    best = choose(got, machine, "distance").option
    assert best[0].tolist() == [0, 3]  # the vector unit: (3120/3120)^2 + 1 against (4000/3120)^2 + (20/12)^2


def test_a_partition_without_a_profile_is_named() -> None:
    with pytest.raises(InputError) as caught:
        Ear().predict(KnownJobs.of(three_jobs()), Machine("m", (Partition("batch", 4),)))
    assert caught.value.where == "hardware 'batch'"
    assert caught.value.hint
