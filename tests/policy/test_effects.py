"""Parts that cannot act are named with the reason: each need, each stock part, outputs of a run, documents."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.program import wattqueue
from wattqueue.errors import PolicyError
from wattqueue.model.budgets import Budget
from wattqueue.model.consent import Consent
from wattqueue.model.jobs import Jobs
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.load_target import LoadTarget, LoadTargets
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.signals import Cap, Series, Signals
from wattqueue.parts.contracts import SITE_PRIORITY
from wattqueue.parts.controls.delay_consenting import DelayConsenting
from wattqueue.parts.controls.energy_budgets import EnergyBudgets
from wattqueue.policy.consent_windows import Window
from wattqueue.policy.effects import NEEDS, Situation, without_effect
from wattqueue.policy.interfaces import AXES
from wattqueue.policy.policy import load_policy
from wattqueue.policy.registry import Policy, part_class, part_names
from wattqueue.sim.engine import simulate

PAGE = Path(__file__).parents[2] / "docs" / "no-effect.md"
BARE = Machine("bare", (Partition("only", 1, max_w=100.0),))
FULL = Machine(
    "full", tuple(Partition(name, 4, frequencies_hz=(2e9, 1e9), idle_w=20.0, max_w=100.0) for name in ("one", "two"))
)


def policy_of(axis: str, name: str) -> Policy:
    """EASY with one part."""
    chosen: dict[str, Any] = {axis: [name] if axis == "controls" else name}
    return load_policy("easy", **chosen)


def stated(axis: str, name: str) -> tuple[str, ...]:
    """What a stock part states that it acts on, by its class or, where that depends on its options, by an object."""
    found = getattr(part_class(axis, name), "acts_on", ())
    return tuple(found if isinstance(found, tuple) else getattr(policy_of(axis, name), axis).acts_on)


STATED = {(axis, name): stated(axis, name) for axis in AXES for name in part_names(axis)}
PARTS = {key: needs for key, needs in STATED.items() if needs}


def jobs(**columns: Any) -> Jobs:
    return Jobs.build([0.0, 1.0], [1, 1], [10.0, 10.0], **columns)


def bare(policy: Policy) -> Situation:
    one = np.zeros(2, np.int32)
    return Situation(policy, BARE, KnownJobs.of(jobs()), Signals(Cap.none()), Window(one, one))


def full(policy: Policy) -> Situation:
    consent = Consent.build(2, allowed=[1.0, 0.0])
    table = jobs(consent=consent, extra={SITE_PRIORITY: np.zeros(2), "capped_windows": np.zeros(2)})
    targets = LoadTargets.of(LoadTarget(0.0, 5.0, 300.0, ramp_w_per_s=1.0))
    window = Window(np.zeros(2, np.int32), np.ones(2, np.int32))
    return Situation(policy, FULL, KnownJobs.of(table), Signals(Cap.constant(500.0), targets), window)


def test_the_bare_situation_lacks_everything_and_the_full_one_nothing() -> None:
    exact = policy_of("estimator", "oracle-mean")
    budget = Budget("b", frozenset(), 1, "kWh", np.arange(3, dtype=np.float64))
    controls = [DelayConsenting(prices=Series(np.zeros(1), np.ones(1))), EnergyBudgets(budgets=(budget,))]
    plain = load_policy("easy", controls=controls)
    assert [name for name, need in NEEDS.items() if not need.lacks(bare(exact))] == []
    assert [name for name, need in NEEDS.items() if need.lacks(full(plain))] == []
    assert not any(need.lacks(Situation(plain, FULL)) for need in NEEDS.values()), "what is not known is not lacking"


@pytest.mark.parametrize("key", PARTS, ids=" ".join)
def test_a_part_without_what_it_acts_on_is_named_with_the_reason(key: tuple[str, str]) -> None:
    axis, name = key
    policy = policy_of(axis, name)
    lacking = [NEEDS[need] for need in PARTS[key] if NEEDS[need].lacks(bare(policy))]
    assert lacking
    if any(need.error for need in lacking):
        with pytest.raises(PolicyError, match=f"{axis} {name} has no effect"):
            without_effect(bare(policy))
        return
    (said,) = without_effect(bare(policy))
    assert said.startswith(f"{axis} {name} has no effect: ")
    assert all(need.reason in said and need.remedy in said for need in lacking)
    assert without_effect(full(policy)) == []


@pytest.mark.parametrize(
    ("ahead", "limit"), [("limits", "no limit is announced"), ("target", "there is no load target")]
)
def test_of_a_pass_only_the_look_ahead_is_without_effect(ahead: str, limit: str) -> None:
    """The pass itself starts jobs whatever is announced."""
    (said,) = without_effect(bare(load_policy("easy", backfill={"part": "easy-sjbf", "ahead": ahead})))
    assert said.startswith(f"the look-ahead of backfill easy-sjbf has no effect: {limit}")


def test_elements_of_a_list_are_named_one_by_one() -> None:
    policy = load_policy("easy", frequency=["least-distance", "consent"])
    assert [said.split(" has ")[0] for said in without_effect(bare(policy))] == [
        "frequency least-distance", "frequency consent",
    ]  # fmt: skip


def test_a_need_that_does_not_exist_is_an_error() -> None:
    policy = policy_of("controls", "idle-off")
    policy.controls[0].acts_on = ("nosuch",)  # type: ignore[attr-defined]
    with pytest.raises(PolicyError, match="acts_on names 'nosuch'"):
        without_effect(bare(policy))


def test_a_control_that_may_slow_nobody_for_its_windows_is_named() -> None:
    table = jobs(consent=Consent.build(2, allowed=[1.0, 1.0]))
    targets = LoadTargets.of(LoadTarget(0.0, 5.0, 300.0))
    policy = load_policy("easy", frequency="least-energy", controls=["slow-consenting"])
    done = simulate(table, FULL, policy, targets=targets)
    assert [said.split(":")[0] for said in done.without_effect] == ["controls slow-consenting has no effect"]
    wider = load_policy("easy", frequency=["least-energy", "consent"], controls=["slow-consenting"])
    assert len(simulate(table, FULL, wider, targets=targets).without_effect) in (0, 1)


def test_a_run_prints_them_once_and_its_folder_keeps_them(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("submit_s,nodes,runtime_s\n0,1,10\n")
    done = wattqueue("simulate", "jobs.csv", "--nodes", 2, "--policy", "pas", "-o", "run", cwd=tmp_path)
    text = done.stdout + done.stderr
    assert text.count("frequency frequency-window has no effect: no partition has two frequencies") == 1
    kept = tomllib.loads((tmp_path / "run" / "run.toml").read_text())["without_effect"]
    assert [text.split(" has ")[0] for text in kept] == ["frequency frequency-window", "controls idle-off"]


def test_campaigns_and_whatif_say_so_as_well(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("submit_s,nodes,runtime_s,mean_power_w\n0,1,10,90\n0,1,20,95\n")
    said = "no partition has two frequencies"
    machine = ("--nodes", 2, "--node-watts", "20:100")
    done = wattqueue("whatif", "jobs.csv", *machine, "--policy", "pas", "--cap", "150W", "-o", "found", cwd=tmp_path)
    assert (done.stdout + done.stderr).count(f"frequency frequency-window has no effect: {said}") == 1
    grid = 'workloads = ["jobs.csv"]\nnodes = 2\nnode_watts = "20:100"\npolicies = ["easy", "pas"]\n'
    (tmp_path / "c.toml").write_text(grid + 'caps = ["none", "150W"]\n')
    done = wattqueue("campaign", "c.toml", "--workers", 1, cwd=tmp_path)
    text = " ".join((done.stdout + done.stderr).split())
    assert text.count(f"pas, maximum: frequency frequency-window has no effect: {said}") == 1
    assert text.count("controls idle-off has no effect: there is neither a cap nor a load target") == 1
    assert text.count("in 1 of 2 runs") == 1


def test_the_table_of_the_documents_is_that_of_the_code() -> None:
    rows = [line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines() if line.count(" | ") == 4]
    found = {row[0].strip("`"): (row[1], row[2], row[3] == "refused") for row in rows if row[0].startswith("`")}
    named = {name: [] for name in NEEDS}  # type: dict[str, list[str]]
    for (_, part), needs in PARTS.items():
        for need in needs:
            named[need].append(f"`{part}`")
    stated = {name: (", ".join(named[name]), need.reason, need.error) for name, need in NEEDS.items()}
    assert found == stated
