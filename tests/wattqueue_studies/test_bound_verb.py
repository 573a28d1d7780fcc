"""The verb on small workloads: three numbers in their order, windows, certificates, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.program import wattqueue
from wattqueue.errors import InputError, PolicyError
from wattqueue.formats.rundir.bound_note import read_bound_note
from wattqueue.formats.rundir.folder import write_run
from wattqueue.formats.tariff import parse_source, read_tariff
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.signals import Cap
from wattqueue.model.supply import SupplyDomain
from wattqueue.runs.perform import RunInputs, load, perform
from wattqueue.runs.record import record
from wattqueue.runs.task import Task
from wattqueue.sim.engine import simulate
from wattqueue.workload.generated import generate
from wattqueue_studies.bound import prove, study
from wattqueue_studies.bound.assess import Search, assess, window_problem
from wattqueue_studies.bound.problem import instance_of
from wattqueue_studies.bound.store import ADMISSION, MEASURES, STRICT, TURNAROUND, proven_again, stored
from wattqueue_studies.bound.study import Windows
from wattqueue_studies.bound.windows import cut_window, whole_window

highspy = pytest.importorskip("highspy", reason="bounds need the package highspy (extra: bounds)")

QUICK = Search(tries=20, steps=20)
SMALL = ("--tries", 20, "--steps", 20)


@pytest.fixture(autouse=True)
def coarse_grids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every grid is a proof; fine ones take seconds with kernels as plain Python."""
    monkeypatch.setattr(prove, "FEW_INTERVALS", 16)


def crowd(n: int = 12) -> Jobs:
    """Jobs of 1 to 4 nodes that come faster than 8 nodes run them."""
    k = np.arange(n)
    return Jobs.build(
        submit_s=5.0 * k, nodes=1 + k * 5 % 4, runtime_s=40.0 + k * 17 % 60, walltime_s=200.0 + 0 * k,
        mean_power_w=150.0 + 10.0 * (k % 5), user=[f"u{i % 2}" for i in k], app=[f"a{i % 3}" for i in k],
    )  # fmt: skip


def busy_hours() -> Jobs:
    """Jobs of 1 to 4 nodes for ten hours, of which some wait at each full hour."""
    k = np.arange(60)
    return Jobs.build(
        submit_s=600.0 * k, nodes=1 + k % 4, runtime_s=1_700.0 + 0.0 * k, mean_power_w=200.0 + 0.0 * k
    )  # fmt: skip


def inputs_of(policy: str, cap: Cap | None = None, machine: Machine | None = None) -> RunInputs:
    machine = machine or Machine("m", (Partition("a", 8, idle_w=90.0, max_w=200.0),))
    read = load(Task("fugaku:jobs=2", nodes=8, policy=policy), machine=machine)
    return replace(read, jobs=crowd(), cap=cap or Cap.none())


POLICIES = ("fcfs", "easy", "easy-sjbf", "conservative", "first-fit", "easy+rt-true", "easy+pc-real-mean")
CAPS = {
    "none": Cap.none(),
    "constant": Cap.constant(1_500.0),
    "moving": Cap(np.array([-np.inf, 100.0, 300.0]), np.array([1_700.0, 1_000.0, 1_600.0])),
}


@pytest.mark.parametrize("cap", CAPS)
def test_no_policy_is_below_the_bound(cap: str) -> None:
    scopes = set()
    for policy in POLICIES:
        inputs = inputs_of(policy, CAPS[cap])
        found = assess(inputs, whole_window(inputs.jobs), QUICK, {"jobs": 12})
        assert found.bound[TURNAROUND] <= found.best[TURNAROUND] + 1e-9
        if found.undefined:
            assert cap != "none"
            continue
        scopes.add(found.scope)
        for measure in MEASURES:
            assert found.bound[measure] <= found.policy[measure] * (1 + 1e-12) + 1e-9, (policy, measure)
            assert found.bounds[STRICT][measure] <= found.best[measure] * (1 + 1e-12) + 1e-9
        assert found.gap is not None
        assert found.gap >= -1e-12
    assert scopes == {ADMISSION if cap == "moving" else STRICT}


def test_clocks_and_partitions_are_choices() -> None:
    parts = (
        Partition("a", 4, frequencies_hz=(2e9, 1e9), idle_w=50.0, max_w=300.0),
        Partition("b", 8, frequencies_hz=(2e9,), idle_w=50.0, max_w=300.0),
    )
    inputs = inputs_of("easy", Cap.constant(1_600.0), Machine("two", parts))
    window = whole_window(inputs.jobs)
    assert len(window_problem(inputs, window).jobs.run_s) == 3 * 12
    found = assess(inputs, window, QUICK, {"jobs": 12})
    assert {*found.proofs[0].certificates} == {TURNAROUND, "wait_s_mean"}
    assert all(found.bound[m] <= found.policy[m] * (1 + 1e-12) for m in MEASURES)


def test_each_window_has_a_policy_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """An estimator that the whole run has taught would know what comes after a window."""
    inputs = replace(inputs_of("easy"), jobs=busy_hours())
    policies = [inputs.policy]

    def noted(given: RunInputs, *_: Any) -> None:
        policies.append(given.policy)

    monkeypatch.setattr(study, "assess", noted)
    study.bound_windows(inputs, Windows(20, [3, 4]), QUICK, "jobs")
    assert len({id(policy.estimator) for policy in policies}) == len(policies) == 3
    assert [policy.row for policy in policies] == [inputs.policy.row] * 3


def test_windows_are_what_had_not_started_and_what_runs_goes_on() -> None:
    inputs = replace(inputs_of("easy"), jobs=busy_hours())
    ((facts, window),) = Windows(20, [3]).cut(inputs)
    assert facts["jobs"] == 20
    assert len(window.jobs) == window.running + 20
    assert window.running > 0
    problem = window_problem(inputs, window)
    assert (problem.busy_until_s > 0).all()
    assert problem.busy_units.sum() <= 8
    found = assess(inputs, window, QUICK, facts)
    assert found.undefined == ""
    assert found.bound[TURNAROUND] <= found.best[TURNAROUND] <= found.policy[TURNAROUND]


@pytest.mark.parametrize("cap", CAPS)
def test_no_policy_is_below_the_bound_where_wide_jobs_wait_for_what_runs(cap: str) -> None:
    """Jobs of 5 of 8 nodes among others: their earliest starts depend on what runs as the window begins."""
    jobs = crowd(16)
    wide = replace(jobs, nodes=np.where(np.arange(16) % 4 == 3, 5, jobs.nodes))
    inputs = replace(inputs_of("fcfs", CAPS[cap]), jobs=wide)
    run = simulate(wide, inputs.machine, inputs.policy, cap=inputs.cap).schedule
    begin_s = float(np.sort(run.start_s)[4]) + 1.0
    window = cut_window(wide, run, begin_s, 6, np.ones(16))
    assert window.running > 0
    later = compared = 0
    for policy in ("fcfs", "easy", "first-fit", "conservative"):
        given = replace(inputs_of(policy, CAPS[cap]), jobs=wide)
        instance = instance_of(window_problem(given, window))
        later += (instance.release > instance.release_up).sum()
        found = assess(given, window, QUICK, {"jobs": 6})
        assert found.bounds[STRICT][TURNAROUND] <= found.best[TURNAROUND] + 1e-9
        if not found.undefined:
            compared += 1
            assert all(found.bound[name] <= found.policy[name] * (1 + 1e-12) + 1e-9 for name in MEASURES)
    assert later > 0
    assert compared > 0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A finished run, as simulate writes it."""
    outcome = perform(load(Task("fugaku:jobs=12", nodes=800, node_watts="90:300", cap="70%")))
    write_run(tmp_path / "run", record(outcome))
    return tmp_path


def test_a_run_is_bounded_and_its_certificate_proven_again(folder: Path) -> None:
    told = wattqueue("bound", folder / "run", *SMALL, "--out", folder / "proof.json", "--json")
    assert (told.returncode, told.stderr.count("Traceback")) == (0, 0)
    (window,) = json.loads(told.stdout)["windows"]
    numbers = [window[who][TURNAROUND] for who in ("bound", "best_known", "policy")]
    assert numbers == sorted(numbers)
    again = wattqueue("bound", "--verify", folder / "proof.json", "--json")
    assert json.loads(again.stdout)["proven"][0][TURNAROUND] == window["bound"][TURNAROUND]
    same = wattqueue("bound", folder / "run", "--verify", folder / "proof.json")
    assert same.returncode == 0
    other = wattqueue("bound", "fugaku:jobs=12", "--seed", 1, "--nodes", 800, "--verify", folder / "proof.json")
    assert (other.returncode, "another instance" in other.stderr) == (2, True)
    damaged = json.loads((folder / "proof.json").read_text())
    damaged["proofs"][0]["certificates"][TURNAROUND]["value"] += 1
    (folder / "damaged.json").write_text(json.dumps(damaged))
    assert wattqueue("bound", "--verify", folder / "damaged.json").returncode == 2


def test_a_report_says_how_far_its_run_is_from_the_bound(folder: Path) -> None:
    told = wattqueue("bound", folder / "run", *SMALL)
    assert "of the proven bound on mean turnaround." in told.stdout
    assert wattqueue("report", folder / "run").returncode == 0
    assert "of the proven bound on mean turnaround." in (folder / "run" / "report.html").read_text()
    with (folder / "run" / "jobs.csv").open("a") as jobs:
        jobs.write("\n")
    assert read_bound_note(folder / "run") == ""


def test_people_read_three_numbers_and_what_they_mean(folder: Path) -> None:
    told = wattqueue("bound", folder / "run", *SMALL)
    assert told.returncode == 0
    for text in ("best", "policy", "wait", "of the proven bound", "need not be the best possible"):
        assert text in told.stdout
    assert "optimal" not in told.stdout


@pytest.mark.parametrize(
    ("words", "where"),
    [
        ((), "RUN|JOBS"),
        (("fugaku:jobs=2500", "--nodes", 800), "fugaku:jobs=2500"),
        (("fugaku:jobs=20", "--nodes", 800, "--window", 30), "--window"),
        (("marconi:days=0.01", "--nodes", 2), "job"),
        (("run", "--cap", "50%"), "run"),
    ],
)
def test_what_cannot_be_bounded_is_refused(folder: Path, words: tuple[Any, ...], where: str) -> None:
    told = wattqueue("bound", *words, *SMALL, cwd=folder)
    assert told.returncode == 2
    assert told.stderr.startswith("wattqueue: ")
    assert where in told.stderr


def test_a_job_without_watts_under_a_cap_and_one_above_it_are_named() -> None:
    plain = Machine("m", (Partition("a", 8),))
    inputs = inputs_of("easy", Cap.constant(500.0), plain)
    unknown = replace(inputs, jobs=replace(crowd(), mean_power_w=np.where(np.arange(12) == 4, np.nan, 1.0)))
    with pytest.raises(InputError) as caught:
        window_problem(unknown, whole_window(unknown.jobs))
    assert caught.value.where == "job 5"
    with pytest.raises(InputError) as caught:
        window_problem(inputs, whole_window(inputs.jobs))
    assert str(caught.value.where).startswith("job ")


def test_a_proof_needs_neither_the_solver_nor_numba(folder: Path) -> None:
    """In a process of its own, since this one has imported both."""
    wattqueue("bound", folder / "run", *SMALL, "--out", folder / "proof.json")
    code = (
        "import sys; from wattqueue.cli import main; sys.argv[1:] = ['bound', '--verify', 'proof.json', '--quiet']\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        "print({'numba', 'highspy', 'scipy', 'polars'} & set(sys.modules))"
    )
    told = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert told.stdout.strip() == "set()", told.stderr


def test_generated_jobs_have_no_whole_seconds_and_are_bounded_all_the_same() -> None:
    jobs = generate("marconi:days=0.02,load=0.9", np.random.default_rng(1)).take(slice(0, 10))
    inputs = replace(
        inputs_of("easy", machine=Machine("m", (Partition("a", 400, idle_w=200.0, max_w=2_100.0),))), jobs=jobs
    )
    found = assess(inputs, whole_window(jobs), QUICK, {"jobs": len(jobs)})
    assert found.bound[TURNAROUND] <= found.best[TURNAROUND] <= found.policy[TURNAROUND] + 1e-6


def test_the_front_is_below_every_schedule_and_meets_both_ends() -> None:
    parts = (Partition("a", 8, frequencies_hz=(2e9, 1e9), idle_w=50.0, max_w=300.0, dvfs_beta=0.3),)
    inputs = inputs_of("easy", machine=Machine("clocks", parts))
    found = assess(inputs, whole_window(inputs.jobs), replace(QUICK, front=4), {"jobs": 12})
    rates = [row.as_json()["s_per_j"] for row in found.front]
    assert rates == sorted(rates)
    assert rates[0] > 0.0
    energy_j = found.bound["job_energy_j"] / 12
    for row, rate in zip(found.front, rates, strict=True):
        bound_s, known_s, policy_s = (each or 0.0 for each in (row.bound_s, row.best_s, row.policy_s))
        assert 0.0 < bound_s <= known_s <= policy_s
        # Two bounds add up to a bound of the sum, from which a coarse grid may fall short.
        assert bound_s >= 0.97 * (found.bound[TURNAROUND] + rate * energy_j)
    again = proven_again(json.loads(json.dumps(stored(found.proofs))), "file")
    assert {f"front_{k}" for k in range(4)} <= set(again[0].certificates)


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    """Two prices that take turns each hour, for two days and a half."""
    rows = [f"{3600 * h},{20 + 60 * (h % 2)}" for h in range(60)]
    (tmp_path / "prices.csv").write_text("time_s,price\n" + "\n".join(rows) + "\n")
    return tmp_path / "prices.csv"


def test_a_bill_is_bounded_within_a_limit_of_waiting_and_proven_again(folder: Path, prices: Path) -> None:
    given = ("--prices", prices, "--wait-limit", 6)
    told = wattqueue("bound", folder / "run", *SMALL, *given, "--out", folder / "proof.json", "--json")
    assert told.returncode == 0, told.stderr
    (window,) = json.loads(told.stdout)["windows"]
    (bill,) = window["bills"]
    assert (bill["unit"], bill["wait_limit_s"]) == ("EUR/MWh", 6 * 3600.0)
    assert 0.0 < bill["bound"] <= bill["best_known"] <= bill["policy"]
    assert bill["idle"] > 0.0
    again = wattqueue("bound", folder / "run", "--verify", folder / "proof.json", *given, "--json")
    assert json.loads(again.stdout)["proven"][1]["bill"] == bill["bound"]
    for other in ((), ("--prices", prices, "--wait-limit", 7)):
        refused = wattqueue("bound", folder / "run", "--verify", folder / "proof.json", *other)
        assert (refused.returncode, "--wait-limit" in refused.stderr) == (2, True)
    shown = wattqueue("bound", folder / "run", *SMALL, *given)
    assert "Bill above idle in EUR" in shown.stdout
    assert "the same for every" in shown.stdout


def test_a_series_that_does_not_cover_the_waits_is_refused(folder: Path, prices: Path) -> None:
    told = wattqueue("bound", folder / "run", *SMALL, "--prices", prices, "--wait-limit", 100)
    assert (told.returncode, "not covered" in told.stderr) == (2, True)


def test_a_policy_that_lets_a_job_wait_too_long_has_no_gap(prices: Path) -> None:
    inputs = inputs_of("easy")
    tariff = read_tariff(parse_source(prices, None, "--prices"), None, repair=False)
    for limit_s, kept in ((3_600.0, True), (200.0, False)):
        search = replace(QUICK, tariffs=[(tariff, limit_s)])
        (bill,) = assess(inputs, whole_window(inputs.jobs), search, {"jobs": 12}).bills
        assert bill.policy is not None
        assert (bill.undefined == "") == kept
        assert not kept or bill.best <= bill.policy
        assert kept or "more than" in bill.undefined
        assert (bill.limit.limit_s, bill.limit.remarks()) == (limit_s, [])
    capped = inputs_of("easy", CAPS["moving"])
    (bill,) = assess(capped, whole_window(capped.jobs), search, {"jobs": 12}).bills
    assert (bill.policy, bill.undefined) == (None, "the run was above a fallen cap")


def test_a_job_at_a_lower_clock_has_as_much_left_in_its_window_as_it_ran_on() -> None:
    parts = (Partition("a", 8, frequencies_hz=(2e9, 1e9), idle_w=50.0, max_w=300.0),)
    machine = Machine("clocks", parts)
    inputs = replace(inputs_of("easy", machine=machine), jobs=crowd())
    schedule = perform(inputs).run.schedule
    option = np.ones(len(schedule.option), np.int16)  # as if each had run at the lower clock, twice as long
    slow = replace(schedule, option=option, end_s=schedule.start_s + 2.0 * (schedule.end_s - schedule.start_s))
    begin_s = float(np.sort(slow.start_s)[5]) + 1.0
    window = cut_window(inputs.jobs, slow, begin_s, 3, np.full(12, 2.0))
    problem = window_problem(inputs, window)
    busy = (slow.start_s < begin_s) & (slow.end_s > begin_s)
    assert window.running == busy.sum() > 0
    assert problem.busy_until_s == pytest.approx(slow.end_s[busy] - begin_s)


def test_domains_that_can_hold_jobs_back_are_refused() -> None:
    """The bound would be valid; the best schedule known would not be one. Domains that never bind change nothing."""
    part = Partition("a", 8, idle_w=90.0, max_w=200.0)
    other = SupplyDomain(name="r2", nodes="a[5-8]")
    racks = [(SupplyDomain(name="r1", nodes="a[1-4]", limit_w=watts), other) for watts in (700.0, 9_000.0)]
    tight, wide = (inputs_of("easy", machine=Machine("m", (part,), supply=supply)) for supply in racks)
    assert len(window_problem(wide, whole_window(wide.jobs)).jobs.names) == len(crowd())
    with pytest.raises(PolicyError, match="r1 is one; not combined with them yet: a bound"):
        window_problem(tight, whole_window(tight.jobs))
