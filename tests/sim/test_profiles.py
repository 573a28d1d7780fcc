"""True power with phases: the compiled sum against the naive one, cuts, energies, speeds, what stays constant."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.reference.profile_power import ProfiledRun, moments, profile_series, run_uw
from wattqueue.errors import InputError
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, Partition, plain_machine
from wattqueue.model.profiles import PowerProfiles
from wattqueue.model.schedule import PowerSeries, Schedule
from wattqueue.model.signals import Cap
from wattqueue.parts.contracts import Prediction
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import Run, simulate
from wattqueue.sim.profiles import PROFILE_NOT_USED, power_windows, profile_power, profiled, with_profiles
from wattqueue.workload import marconi

COLUMNS = ("time_s", "jobs_w", "other_w", "busy_idle_w", "busy_units")


def workload(rng: np.random.Generator, n: int) -> Jobs:
    """Jobs over three patterns, one in five without a profile, times that do not fall on the samples' grid."""
    patterns = [[1.0, 3.0, 2.0], [5.0], [0.5, 0.5, 4.0, 1.0, 2.0]]
    level = np.concatenate([np.array(p, np.float32) for p in patterns])
    pattern = np.where(rng.random(n) < 0.2, -1, rng.integers(0, 3, n)).astype(np.int32)
    library = (level, np.array([0, 3, 4, 9]), np.array([1, 0, 2]))
    profiles = PowerProfiles(pattern, rng.uniform(20, 60, n), rng.uniform(5, 30, n), *library)
    submit = np.sort(rng.choice([0.0, 0.25, 7.3], n) + rng.integers(0, 300, n))
    runtime = rng.uniform(1, 400, n).round(2)
    walltime = runtime * rng.choice([0.6, 1.0, 3.0], n)
    mean = profiles.mean_power_w(np.minimum(runtime, walltime))
    mean = np.where(np.isnan(mean), 77.7, mean)
    return Jobs.build(submit, rng.integers(1, 5, n), runtime, walltime_s=walltime, mean_power_w=mean, profiles=profiles)


def twin_runs(run: Run, *, constant: bool = False) -> list[ProfiledRun]:
    """The runs of a schedule as the naive twin wants them; ``constant``: at mean watts, as the engine counts."""
    assert run.jobs.profiles is not None
    assert run.jobs.mean_power_w is not None
    patterns, out = run.jobs.profiles, []
    for j in np.flatnonzero(run.schedule.ran):
        q, nodes = int(patterns.pattern[j]), int(run.jobs.nodes[j])
        span = (float(run.schedule.start_s[j]), float(run.schedule.end_s[j]), nodes)
        if q < 0 or constant:
            out.append(ProfiledRun(*span, [1.0], 0, 0.0, float(run.jobs.mean_power_w[j])))
            continue
        levels = patterns.level[patterns.first[q] : patterns.first[q + 1]].tolist()
        scale = float(patterns.scale_w[j])
        out.append(ProfiledRun(*span, levels, int(patterns.resume[q]), float(patterns.base_w[j]), scale))
    return out


def finished(seed: int, n: int) -> Run:
    """A run in which each job starts at its submission, on a machine with room for all: no engine in between."""
    jobs = workload(np.random.default_rng(seed), n)
    assert jobs.mean_power_w is not None
    work = np.minimum(jobs.runtime_s, jobs.walltime_s)
    start = jobs.submit_s
    end = np.round((start + work) * 1e6) / 1e6
    none = np.zeros(n, np.int64)
    energy = (end - start) * jobs.nodes * np.rint(jobs.mean_power_w * 1e6) / 1e6
    schedule = Schedule(
        np.ones(n, np.int8), np.zeros(n, np.int8), start, end, np.zeros(n, np.int16), energy, energy,
        none, none.astype(np.int32), np.zeros(0, np.int32), np.zeros(0, np.int32),
    )  # fmt: skip
    idle = PowerSeries(np.zeros(1), np.zeros(1), np.zeros(1), np.zeros(1), np.zeros(1, np.int32))
    run = Run(jobs, plain_machine(4 * n), Cap.none(), schedule, idle)
    ends = sorted({*start.tolist(), *end.tolist()})
    rows = [uw for t, uw in profile_series(twin_runs(run, constant=True), ends) if t in set(ends)]
    busy = [int(jobs.nodes[(start <= t) & (t < end)].sum()) for t in ends]
    other = np.array([95.5 * (4 * n - b) for b in busy])
    watts = np.array([uw / 1e6 for uw in rows])
    return replace(run, power=PowerSeries(np.array(ends), watts, other, np.zeros(len(ends)), np.array(busy, np.int32)))


def value_at(series: PowerSeries, times: list[float]) -> list[int]:
    """Microwatts of jobs in force at each moment."""
    rows = np.searchsorted(series.time_s, times, side="right") - 1
    return [round(float(w) * 1e6) for w in series.jobs_w[rows]]


def energy_j(series: PowerSeries) -> float:
    return float(series.jobs_w[:-1] @ np.diff(series.time_s))


def assert_same(a: PowerSeries, b: PowerSeries) -> None:
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


@given(st.integers(0, 2**40), st.integers(1, 25))
def test_the_sum_is_the_naive_one_at_every_moment(seed: int, n: int) -> None:
    run = finished(seed, n)
    got = with_profiles(run).power
    want = profile_series(twin_runs(run), run.power.time_s.tolist())
    assert value_at(got, [t for t, _ in want]) == [uw for _, uw in want]
    changed = [t for k, (t, uw) in enumerate(want) if k == 0 or uw != want[k - 1][1]]
    assert set(got.time_s) == set(changed) | set(run.power.time_s)
    assert (np.diff(got.time_s) > 0).all()
    rows = np.searchsorted(run.power.time_s, got.time_s, side="right") - 1
    for name in COLUMNS[2:]:  # what is not the jobs' stays
        assert (getattr(got, name) == getattr(run.power, name)[rows]).all()


@given(st.integers(0, 2**40), st.integers(2, 20), st.integers(1, 60))
def test_windows_add_up_to_the_whole_wherever_they_are_cut(seed: int, n: int, steps: int) -> None:
    run = finished(seed, n)
    found = profiled(run)
    whole = profile_power(run)
    parts = list(power_windows(found, run.power, steps=steps))
    for a, b in itertools.pairwise(parts):
        assert a.time_s[-1] == b.time_s[0]
        assert a.jobs_w[-1] == b.jobs_w[0]
    assert sum(map(energy_j, parts)) == pytest.approx(energy_j(whole), rel=1e-12)
    assert max(float(p.jobs_w.max()) for p in parts) == float(whole.jobs_w.max())


@given(st.integers(0, 2**40), st.floats(0, 1), st.floats(0, 1))
@example(0, 0.0, 1 - 2**-53)
def test_a_window_is_a_piece_of_the_whole(seed: int, a: float, b: float) -> None:
    run = finished(seed, 12)
    whole = profile_power(run)
    first, last = float(whole.time_s[0]), float(whole.time_s[-1])
    begin, end = (first + (last - first) * x for x in sorted((a, b)))
    piece = profile_power(run, begin_s=begin, end_s=end)
    assert piece.time_s[0] == begin
    assert piece.time_s[-1] == end
    inside = whole.time_s[(whole.time_s > begin) & (whole.time_s <= end)].tolist()
    assert value_at(piece, [begin, *inside]) == value_at(whole, [begin, *inside])


@settings(max_examples=15)
@given(st.integers(0, 2**40))
def test_in_a_simulation_energies_stay_what_the_engine_counted(seed: int) -> None:
    run = simulate(workload(np.random.default_rng(seed), 20), plain_machine(8, 20.0), load_policy("easy"))
    got = with_profiles(run)
    want = profile_series(twin_runs(run), run.power.time_s.tolist())
    assert value_at(got.power, [t for t, _ in want]) == [uw for _, uw in want]
    ran = run.schedule.ran
    unit_s = run.jobs.nodes * (run.schedule.end_s - run.schedule.start_s)
    moved_j = np.abs(got.schedule.energy_j - run.schedule.energy_j)[ran]
    assert (moved_j <= 1e-6 * unit_s[ran]).all()  # a microwatt of each unit
    assert float(got.schedule.energy_j[ran].sum()) == pytest.approx(energy_j(got.power), rel=1e-12)
    assert PROFILE_NOT_USED not in got.notes


def on_grid(seed: int, n: int, period_s: float) -> Run:
    """A run whose jobs start, end and change their watts at multiples of a period alone."""
    run = finished(seed, n)
    rng = np.random.default_rng(seed)
    jobs = run.jobs
    assert jobs.profiles is not None
    profiles = replace(jobs.profiles, period_s=period_s)
    submit, work = (period_s * rng.integers(low, 40, n) for low in (0, 1))
    jobs = Jobs.build(submit, jobs.nodes, work, mean_power_w=jobs.mean_power_w, profiles=profiles)
    mean = np.where(profiles.pattern < 0, 77.7, profiles.mean_power_w(jobs.runtime_s))
    return simulate(replace(jobs, mean_power_w=mean), plain_machine(4 * n, 20.0), load_policy("easy"))


@given(st.integers(0, 2**40), st.integers(1, 25), st.sampled_from([0.1, 0.3, 20.0]))
@example(333366240287, 4, 0.3)  # more points than steps
def test_on_a_grid_the_sum_is_the_naive_one_between_its_points(seed: int, n: int, period_s: float) -> None:
    """Multiples of 0.1 are no float64: the twin is asked in the middle, where no rounding can matter."""
    run = on_grid(seed, n, period_s)
    got = profile_power(run)
    cells = np.arange(round(got.time_s[0] / period_s), round(got.time_s[-1] / period_s))
    middle = ((cells + 0.5) * period_s).tolist()
    runs = [replace(r, period_s=period_s) for r in twin_runs(run)]
    assert value_at(got, middle) == [sum(run_uw(r, t) for r in runs) for t in middle]
    point = np.rint(got.time_s / period_s)
    np.testing.assert_allclose(got.time_s, point * period_s, rtol=1e-14)
    steps = sum(round((r.end_s - r.start_s) / period_s) + 3 for r in runs if len(r.levels) > 1)
    if len(cells) < steps - 1:  # else steps are summed in order of time, and may stand a rounding error apart
        assert (np.diff(point) > 0).all()  # one row a point
    at_own = np.searchsorted(run.power.time_s, got.time_s, side="right") - 1
    np.testing.assert_array_equal(got.other_w, run.power.other_w[at_own])


@given(st.integers(0, 2**40), st.floats(0, 1), st.floats(0, 1))
@example(0, 0.0, 1 - 2**-53)
@example(0, 1.0, 1 - 2**-53)
@example(0, 1 - 2**-53, 1 - 2**-53)
def test_a_window_on_a_grid_is_a_piece_of_the_whole(seed: int, a: float, b: float) -> None:
    run = on_grid(seed, 12, 0.1)
    whole = profile_power(run)
    first, last = float(whole.time_s[0]), float(whole.time_s[-1])
    begin, end = (first + (last - first) * x for x in sorted((a, b)))
    piece = profile_power(run, begin_s=begin, end_s=end)
    assert (piece.time_s[0], piece.time_s[-1]) == (begin, end)
    inside = whole.time_s[(whole.time_s > begin + 1e-6) & (whole.time_s <= end)].tolist()
    assert value_at(piece, [begin, *inside]) == value_at(whole, [begin, *inside])


def test_many_cuts_give_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    run = finished(5, 40)
    whole = with_profiles(run).power
    monkeypatch.setattr(power_windows, "__kwdefaults__", {"begin_s": None, "end_s": None, "steps": 7})
    assert_same(with_profiles(run).power, whole)


@pytest.mark.compiled
def test_a_marconi_day_holds_its_maxima() -> None:
    jobs = marconi.generate(np.random.default_rng(2), jobs=120, load=0.5, nodes=64)
    machine = Machine("m", (Partition("batch", 64, idle_w=200.0, max_w=2100.0),), cap_scope="dynamic")
    run = simulate(jobs, machine, load_policy("easy"))
    got = with_profiles(run).power
    assert energy_j(got) == pytest.approx(energy_j(run.power), rel=1e-9)
    assert jobs.max_power_w is not None
    alone = jobs.take(np.array([int(np.argmax(jobs.runtime_s))]))
    single = with_profiles(simulate(alone, machine, load_policy("easy"))).power
    assert alone.profiles is not None
    highest = alone.profiles.max_power_w(alone.runtime_s)
    assert single.jobs_w.max() == pytest.approx(alone.nodes[0] * highest[0], abs=1e-3)
    assert len(single.time_s) > alone.runtime_s[0] / 20


def test_at_a_lower_frequency_samples_stretch_and_their_dynamic_share_shrinks() -> None:
    slow = Partition("slow", 4, frequencies_hz=(2e9, 1e9), idle_w=50.0, max_w=300.0, dvfs_alpha=2.0, dvfs_beta=1.0)
    jobs = Jobs.build(
        [0.0], [2], [40.0], mean_power_w=[150.0], profiles=PowerProfiles.from_samples([[100.0, 200.0]])
    )  # fmt: skip
    run = simulate(jobs, Machine("m", (slow,)), load_policy("easy"))
    halved = replace(run.schedule, option=np.array([1], np.int16), end_s=run.schedule.start_s + 80.0)
    halved = replace(halved, energy_j=np.array([2 * 75.0 * 80.0]))
    time, jobs_w, other, idle = (np.array(c, np.float64) for c in ([0, 80], [150, 0], [100, 200], [100, 0]))
    own = PowerSeries(time, jobs_w, other, idle, np.array([2, 0], np.int32))
    got = profile_power(replace(run, schedule=halved, power=own))
    assert got.time_s.tolist() == [0.0, 40.0, 80.0]
    assert got.jobs_w.tolist() == [2 * 62.5, 2 * 87.5, 0.0]


def test_a_run_that_changed_its_speed_keeps_its_constant_watts_and_is_counted() -> None:
    jobs = workload(np.random.default_rng(4), 10)
    run = simulate(jobs, plain_machine(8), load_policy("easy"))
    assert jobs.profiles is not None
    j = int(np.flatnonzero(jobs.profiles.pattern >= 0)[0])
    end = run.schedule.energy_j.copy()
    end[j] *= 1.01
    odd = replace(run, schedule=replace(run.schedule, energy_j=end))
    assert profiled(odd).left == 1
    assert j not in profiled(odd).rows
    assert with_profiles(odd).notes[PROFILE_NOT_USED] == 1


@pytest.mark.parametrize(("idle_w", "true_w"), [(90.0, 60.0), (90.0, 120.0), (70.0, 60.0), (70.0, 120.0)])
def test_samples_have_the_true_mean_whatever_idle_units_draw(idle_w: float, true_w: float) -> None:
    """The job's samples of 60 and 100 W have the mean 80 W; in truth it draws another one here."""
    profiles = PowerProfiles.from_samples([[60.0, 100.0]])
    jobs = Jobs.build([0.0], [2], [40.0], mean_power_w=[80.0], profiles=profiles)
    actual = Prediction(np.array([[true_w]]), np.ones((1, 1)))
    machine = plain_machine(2, idle_w)
    energy = 2 * true_w * 40.0
    after = with_profiles(simulate(jobs, machine, load_policy("easy"), actual=actual))
    within = simulate(jobs, machine, load_policy("easy"), actual=actual, phases_s=20.0)
    for run in (after, within):
        assert run.schedule.energy_j[0] == pytest.approx(energy)
        assert run.power.jobs_w[0] < 2 * true_w < run.power.jobs_w[1]


def test_a_window_or_a_profile_that_is_missing_is_refused() -> None:
    plain = simulate(Jobs.build([0], [1], [10]), plain_machine(2), load_policy("easy"))
    with pytest.raises(InputError) as caught:
        with_profiles(plain)
    assert caught.value.hint
    run = simulate(workload(np.random.default_rng(1), 3), plain_machine(8), load_policy("easy"))
    with pytest.raises(InputError) as caught:
        profile_power(run, begin_s=10.0, end_s=5.0)
    assert "5.0" in caught.value.what


def test_the_twin_itself_knows_the_edges() -> None:
    run = ProfiledRun(0.0, 50.0, 2, [1.0, 2.0], 1, 10.0, 5.0)
    assert sorted(moments(run)) == [0.0, 20.0, 40.0, 50.0]
    assert profile_series([run]) == [(0.0, 30_000_000), (20.0, 40_000_000), (40.0, 40_000_000), (50.0, 0)]
