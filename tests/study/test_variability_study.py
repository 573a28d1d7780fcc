"""The study of policies on sockets that differ: what each policy knows, measures by hand, the report, the command."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("scipy", reason="needs scipy: pip install 'wattqueue[ml]'")

from wattqueue.errors import InputError
from wattqueue.model.jobs import Jobs, Labels
from wattqueue.parts.estimator.unit_watts import UnitWatts
from wattqueue.parts.oracles import is_oracle
from wattqueue.sim.engine import simulate
from wattqueue.study.frame.samples import Samples
from wattqueue.study.variability.knowledge import BASE, ORACLE, POLICIES, samples_of
from wattqueue.study.variability.study import EVERY, TOLD, VariabilityStudy, derived
from wattqueue.study.variability.trial import (
    BUDGETS_W,
    COMMON,
    TRAFFICS,
    BudgetCase,
    cases,
    full_percent,
    knowledge,
    machine,
    measured,
    setting,
)
from wattqueue.workload.variability.traffic import with_watts

pytestmark = pytest.mark.compiled
RUN = [sys.executable, "-W", "error", "-c", "from wattqueue.cli import main; main()", "study", "variability"]
APPS = ("ferret", "dedup", "bt-mz_D.8", "swaptions")
SIZES = (1, 1, 8, 1)


@cache
def jobs() -> Jobs:
    """24 jobs at once, of which a budget of 1 kW holds a third."""
    k = np.arange(24) % len(APPS)
    apps, sizes = np.array(APPS)[k], np.array(SIZES)[k]
    table = Jobs.build(np.zeros(24), sizes, np.full(24, 60.0), app=Labels.of(apps))
    return with_watts(table)


@cache
def figures(policy: str, budget_w: float = 2_000.0) -> dict[str, float]:
    return dict(BudgetCase(jobs(), budget_w).draw(1)(policy))


def test_what_each_policy_knows() -> None:
    policies = knowledge(1).policies(jobs())
    assert tuple(policies) == POLICIES
    oracles = {name for name, policy in policies.items() if is_oracle(policy.estimator)}
    assert oracles == {ORACLE}
    estimators = [policies[f"slurm-pe, {p}"].estimator for p in ("best", "median", "worst")]
    profiles = [e.profile_unit for e in estimators if isinstance(e, UnitWatts)]
    cholesky = knowledge(1).trial.kernels.mean_w("cholesky")
    assert profiles[0] == cholesky.argmin()
    assert profiles[2] == cholesky.argmax()
    assert cholesky[profiles[1]] == pytest.approx(np.median(cholesky), rel=0.01)


def test_the_truth_is_that_of_the_sockets() -> None:
    """Energy of one job alone: its samples times the factor of the socket that it got, the first one."""
    one = jobs().take(np.array([0]))
    factor = knowledge(1).true_factor(one)
    policy = knowledge(1).policies(one)[BASE]
    found = measured(one, policy, 1e4, factor)
    samples = samples_of(one)["ferret"]
    row = one.app.names.index("ferret")
    assert found["energy_j"] == pytest.approx(60.0 * samples[:600].mean() * factor[row, 0], rel=1e-3)
    assert found["power_w"] == pytest.approx(samples[:600].max() * factor[row, 0], rel=1e-4)
    assert factor[row].mean() == pytest.approx(1.0, abs=0.02)
    assert 0.03 < factor[row].std() < 0.08


def test_better_predictions_let_more_jobs_run() -> None:
    base, pe, vtp = (figures(p) for p in (BASE, "slurm-pe, median", "slurm-vtp"))
    assert vtp["turnaround_s"] < base["turnaround_s"]
    assert figures("slurm-pe, best")["power_w"] > figures("slurm-pe, worst")["power_w"]
    assert vtp["energy_j"] < min(base["energy_j"], pe["energy_j"])
    assert figures(ORACLE)["above"] == 0.0
    assert figures(ORACLE)["over_percent"] < 0.0
    assert base["dropped"] == vtp["dropped"] == 0.0


def test_jobs_that_slurm_extended_drops_are_left_out_of_the_common_set() -> None:
    narrow = BudgetCase(jobs(), 800.0)
    assert set(narrow.common().jobs.nodes) == {1}
    assert figures(BASE, 800.0)["dropped"] == 6.0
    assert figures(BASE, 800.0)["without_reservation"] == 0.0
    assert figures("slurm-vtp", 800.0)["without_reservation"] == 6.0
    assert narrow.common().draw(1)(BASE)["dropped"] == 0.0


def test_time_in_which_all_sockets_are_asked_for() -> None:
    table = Jobs.build(
        np.array([0.0, 10.0]), np.array([200, 56]), np.array([20.0, 20.0]), app=Labels.of(["ferret"] * 2)
    )
    table = with_watts(table)
    run = simulate(table, machine(), knowledge(1).policies(table)[BASE])
    assert full_percent(table, run.schedule, 0.0, 30.0) == pytest.approx(100.0 / 3.0)


def test_means_over_all_budgets_take_the_common_jobs() -> None:
    values = {}
    for traffic in TRAFFICS:
        for budget_w in BUDGETS_W:
            for ending in ("", f", {COMMON}") if budget_w == 5e3 else ("",):
                at = setting(traffic, budget_w) + ending
                for policy in POLICIES:
                    turnaround = 100.0 if policy == BASE else 80.0 if ending else 10.0 if budget_w == 5e3 else 90.0
                    values[at, policy, "turnaround_s"] = np.full(2, turnaround)
                    values[at, policy, "energy_j"] = values[at, policy, "full_percent"] = np.full(2, 50.0)
    found = derived(Samples(values))
    assert found.of(EVERY, "slurm-vtp", "turnaround_change_percent") == pytest.approx([-12.0, -12.0])
    assert found.of("heavy", "slurm-vtp", "turnaround_change_percent_growth") == pytest.approx([-10.0, -10.0])
    assert found.of(EVERY, "slurm-vtp", "energy_change_percent") == pytest.approx([0.0, 0.0])


def test_the_report_of_one_budget(data_dir: Path) -> None:
    study = VariabilityStudy(data_dir / "variability", 2, (20e3,), ("bursty",))
    found = study.run()
    lines = list(found.lines())
    assert max(map(len, lines)) <= 80
    text = " ".join(lines)
    assert "slurm-ivp (oracle" in text
    assert "generated" in found.html()
    document = json.loads(json.dumps(found.document(), allow_nan=False))
    assert document["oracles"] == [ORACLE]
    told = {c.claim.key for c in TOLD.claims if c.on == ("bursty, 20 kW",)}
    assert {row["key"] for row in document["claims"]} == told
    whole = {(r["policy"], r["metric"]): r["values"] for r in document["results"]}
    assert all(v < 0 for v in whole["slurm-vtp", "turnaround_change_percent"])
    assert whole[BASE, "turnaround_change_percent"] == [0.0, 0.0]


def test_names_of_claims_exist(data_dir: Path) -> None:
    known = {*cases(data_dir / "variability", TRAFFICS, BUDGETS_W), *TRAFFICS, EVERY}
    assert {s for c in TOLD.claims for s in c.on} <= known
    assert {c.policy for c in TOLD.claims} <= set(POLICIES)


def test_bad_options(tmp_path: Path) -> None:
    study = VariabilityStudy(tmp_path, 2)
    with pytest.raises(InputError):
        study.run()
    with pytest.raises(InputError) as caught:
        replace(study, budgets_w=(0.0,)).run()
    assert caught.value.where == "--budget"


def test_the_command(data_dir: Path, tmp_path: Path) -> None:
    out = tmp_path / "s.json"
    command = [*RUN, str(data_dir / "variability"), "--seeds", "1", "--budget", "20", "--json", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Figure 7, heavy" in done.stdout
    assert json.loads(out.read_text())["seeds"] == 1
