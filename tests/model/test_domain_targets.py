"""Load targets of single power domains: the series that a domain then has, and from when each limit is known."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import wattqueue as wq
from tests.sim.test_load_target_passes import jobs_of
from wattqueue.errors import InputError, MachineError, WattQueueError
from wattqueue.formats.load_target import read_load_targets, write_load_targets
from wattqueue.formats.machine.file import machine_of, machine_toml
from wattqueue.model.domain_targets import with_domain_targets
from wattqueue.model.load_target import OF_CAP, OF_MAXIMUM, LoadTarget, LoadTargets
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.signals import Cap
from wattqueue.model.supply import SupplyDomain
from wattqueue.policy.policy import load_policy

PART = Partition("p", 4, idle_w=10.0, max_w=100.0)
RACKS = (
    SupplyDomain(name="r1", nodes="p[1-2]", parent="feed", limit_w=200.0),
    SupplyDomain(name="r2", nodes="p[3-4]", parent="feed"),
    SupplyDomain(name="feed", limit_s=(0.0, 40.0, 80.0), limits_w=(400.0, 300.0, 350.0)),
)
MACHINE = Machine("m", (PART,), supply=RACKS)


def lowered(name: str, *targets: LoadTarget, machine: Machine = MACHINE) -> SupplyDomain:
    rows = LoadTargets.of(*(replace(one, domain=name) for one in targets), LoadTarget(0.0, 1.0, 400.0))
    made, left = with_domain_targets(machine, rows, 0.0)
    assert left.domain == ("",)
    return next(one for one in made.supply if one.name == name)


def test_a_target_is_a_lower_limit_from_its_start_to_its_end_known_from_its_notice_on() -> None:
    found = lowered("r1", LoadTarget(50.0, 90.0, 120.0, notice_s=20.0))
    assert (found.limit_w, found.limit_s, found.limits_w) == (None, (0.0, 50.0, 90.0), (200.0, 120.0, 200.0))
    assert found.known_s == (0.0, 30.0, 30.0)
    assert [one.tolist() for one in found.known_at(29.0)] == [[0.0], [200.0]]
    assert [one.tolist() for one in found.known_at(30.0)] == [[0.0, 50.0, 90.0], [200.0, 120.0, 200.0]]


def test_a_series_goes_on_beside_a_target_and_the_lower_of_both_holds() -> None:
    found = lowered("feed", LoadTarget(30.0, 60.0, 310.0, notice_s=np.inf))
    assert dict(zip(found.limit_s, found.limits_w, strict=True)) == {0.0: 400.0, 30.0: 310.0, 40.0: 300.0, 80.0: 350.0}


def test_after_a_target_the_limit_rises_at_its_ramp() -> None:
    found = lowered("r1", LoadTarget(50.0, 90.0, 100.0, ramp_w_per_s=1.0))
    after = [(t, w) for t, w in zip(found.limit_s, found.limits_w, strict=True) if t >= 90.0]
    assert after[-1] == (190.0, 200.0)
    assert all(watts <= 100.0 + (time - 90.0) + 1e-9 for time, watts in after)
    assert np.diff([w for _, w in after]).min() > 0


@pytest.mark.parametrize(("unit", "limit", "watts"), [(OF_CAP, 60.0, 120.0), (OF_MAXIMUM, 60.0, 120.0)])
def test_percentages_count_of_the_domain(unit: str, limit: float, watts: float) -> None:
    assert lowered("r1", LoadTarget(50.0, 90.0, limit, unit)).limits_w[1] == watts


def test_a_domain_without_a_limit_rises_to_its_maximum_and_needs_one() -> None:
    assert lowered("r2", LoadTarget(50.0, 90.0, 120.0)).limits_w == (200.0, 120.0, 200.0)
    bare = replace(MACHINE, partitions=(replace(PART, max_w=None),))
    with pytest.raises(MachineError, match="maximum watts"):
        lowered("r2", LoadTarget(50.0, 90.0, 120.0), machine=bare)


@pytest.mark.parametrize(
    ("target", "what"),
    [
        (LoadTarget(5.0, 9.0, 120.0, domain="rack9"), "rack9"),
        (LoadTarget(5.0, 9.0, 15.0, domain="r1"), "below its base and the idle watts"),
    ],
)
def test_a_domain_that_is_not_there_and_a_target_below_idle_are_refused(target: LoadTarget, what: str) -> None:
    with pytest.raises(WattQueueError, match=what):
        with_domain_targets(MACHINE, LoadTargets.of(target), 0.0)


def test_a_run_names_the_file_of_a_target_whose_domain_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "targets.csv"
    write_load_targets(path, LoadTargets.of(LoadTarget(5.0, 9.0, 120.0, domain="rack9")))
    with pytest.raises(InputError, match=r"targets\.csv: load target 1: limits 'rack9'.* \(one of"):
        wq.simulate(jobs_of((0, 1, 30)), MACHINE, policy="easy", estimator="maximum", targets=str(path))


def test_targets_of_two_domains_may_overlap_and_those_of_one_may_not() -> None:
    first = LoadTarget(0.0, 50.0, 120.0, domain="r1")
    assert len(LoadTargets.of(first, replace(first, domain="r2"), replace(first, domain=""))) == 3
    with pytest.raises(InputError, match="before the one"):
        LoadTargets.of(first, replace(first, start_s=40.0, end_s=60.0))


def test_a_file_of_targets_is_for_runs_alone_where_it_names_domains(tmp_path: Path) -> None:
    path, rows = tmp_path / "targets.csv", LoadTargets.of(LoadTarget(5.0, 9.0, 120.0, domain="r1"))
    write_load_targets(path, rows)
    assert read_load_targets(path, MACHINE, Cap.none(), domains=True).domain == ("r1",)
    with pytest.raises(InputError, match="limits 'r1'"):
        read_load_targets(path)


@pytest.mark.parametrize(
    ("target", "machine"),
    [
        (LoadTarget(6.0, 9.0, 1.0), MACHINE),
        (LoadTarget(6.0, 9.0, 300.0, ramp_w_per_s=1.0), replace(MACHINE, partitions=(replace(PART, max_w=None),))),
    ],
)
def test_an_error_of_a_target_of_the_machine_names_its_line_behind_targets_of_domains(
    tmp_path: Path, target: LoadTarget, machine: Machine
) -> None:
    path, of_rack = tmp_path / "targets.csv", LoadTarget(5.0, 9.0, 60.0, OF_MAXIMUM, ramp_w_per_s=1.0, domain="r1")
    write_load_targets(path, LoadTargets.of(of_rack, target))
    line = next(k for k, row in enumerate(path.read_text().splitlines(), 1) if row.startswith("6,"))
    with pytest.raises(MachineError, match=rf"targets\.csv:{line}: load target 2: "):
        read_load_targets(path, machine, Cap.none(), domains=True)


@pytest.mark.parametrize(("ahead", "starts"), [("nothing", [0.0, 30.0]), ("limits", [0.0, 90.0])])
def test_a_run_looks_ahead_to_a_target_of_a_rack_and_records_its_machine_with_it(
    ahead: str, starts: list[float]
) -> None:
    """The second job needs all nodes and would still run when the rack's target begins."""
    jobs = replace(jobs_of((0, 1, 30), (10, 4, 60)), mean_power_w=np.array([80.0, 80.0]))
    targets = LoadTargets.of(LoadTarget(50.0, 90.0, 120.0, notice_s=np.inf, domain="r1"))
    options = {} if ahead == "nothing" else {"ahead": ahead}
    policy = load_policy("easy", estimator="oracle-mean", backfill={"part": "easy", **options})
    run = wq.simulate(jobs, MACHINE, policy=policy, targets=targets)
    assert run.record.schedule.start_s.tolist() == starts
    assert run.machine.supply[0].limits_w == (200.0, 120.0, 200.0)
    assert machine_of(tomllib.loads(machine_toml(run.machine)), "again") == run.machine
