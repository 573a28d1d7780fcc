"""The study of policies on sockets that differ: what each policy knows, measures by hand, the report, the command."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("scipy", reason="needs scipy: pip install 'wattqueue[ml]'")

from tests.program import wattqueue
from tests.wattqueue_studies.equal_work import equal_work
from wattqueue.errors import InputError
from wattqueue.model.jobs import Jobs, Labels
from wattqueue.model.metrics import energies, span
from wattqueue.model.signals import Cap
from wattqueue.parts.backfill.cwm import Cwm
from wattqueue.parts.estimator.unit_watts import UnitWatts
from wattqueue.parts.oracles import is_oracle
from wattqueue.sim.engine import simulate
from wattqueue.sim.truth import actual_power
from wattqueue_studies.variability.bounds import PUBLISHED, bounds, stretch_table
from wattqueue_studies.variability.knowledge import BASE, ORACLE, POLICIES, samples_of
from wattqueue_studies.variability.nodes import node_jobs
from wattqueue_studies.variability.power_over_time import SHOWN, PowerOverTime
from wattqueue_studies.variability.study import EVERY, TOLD, VariabilityStudy, derived
from wattqueue_studies.variability.tables import idle_metric
from wattqueue_studies.variability.traffic import with_watts
from wattqueue_studies.variability.trial import (
    BUDGETS_W,
    COMMON,
    SOCKETS,
    TRAFFICS,
    BudgetCase,
    Variant,
    cases,
    full_percent,
    knowledge,
    machine,
    measured,
    setting,
)

pytestmark = pytest.mark.compiled
RUN = ("study", "variability")
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
    found = measured(*BudgetCase(one, 1e4).simulations(1)(BASE))
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
    assert full_percent(table, run.schedule, machine(), 0.0, 30.0) == pytest.approx(100.0 / 3.0)


NODES = Variant(whole_nodes=True)


def test_a_node_draws_what_the_sockets_draw_that_its_job_uses() -> None:
    """ferret runs on the first socket of node 0; bt-mz_D.8 on both sockets of nodes 1 to 4."""
    two = jobs().take(np.array([0, 2]))
    run, power = BudgetCase(two, 1e4, NODES).simulations(1)(BASE)
    factor, samples = knowledge(1).true_factor(two), samples_of(two)
    for job, (app, sockets) in enumerate((("ferret", [0]), ("bt-mz_D.8", list(range(2, 10))))):
        watts = samples[app][:600].mean() * factor[two.app.names.index(app), sockets].sum()
        assert run.schedule.energy_j[job] == pytest.approx(60.0 * watts, rel=1e-3)
    assert run.schedule.predicted_w.tolist() == [115.0, 8 * 115.0]
    found = measured(run, power)
    assert found["idle_socket_s"] == 60.0 * (256 - 9)
    assert found["busy_percent"] == pytest.approx(100.0 * 5 / 128)


def test_whole_nodes_serve_fewer_jobs_of_one_process_and_drop_the_same() -> None:
    case = BudgetCase(jobs(), 800.0, NODES)
    assert case.draw(1)(BASE)["dropped"] == 6.0
    many = jobs().take(np.repeat(np.flatnonzero(jobs().nodes == 1), 12))
    sockets, nodes = (BudgetCase(many, 1e5, v).draw(1)("slurm-vtp") for v in (SOCKETS, NODES))
    assert nodes["turnaround_s"] > sockets["turnaround_s"] == 60.0  # 216 jobs on 256 sockets, on 128 nodes


def test_a_job_that_does_not_fill_its_nodes_is_refused() -> None:
    odd = replace(jobs(), nodes=jobs().nodes | 1)
    with pytest.raises(InputError, match="fill"):
        node_jobs(odd)


def test_the_published_backfill_waits_for_its_minutes() -> None:
    policies = knowledge(1).policies(jobs(), "cwm")
    assert all(isinstance(p.backfill, Cwm) for p in policies.values())
    case = BudgetCase(jobs(), 2e4)
    published = replace(case, variant=Variant("published")).draw(1)("slurm-vtp")
    assert published["turnaround_s"] > case.draw(1)("slurm-vtp")["turnaround_s"] == 60.0  # ten of 24 a pass
    with pytest.raises(InputError) as caught:
        Variant("firstfit")
    assert caught.value.where == "--backfill"


def test_limits_hold_the_budget_that_a_wrong_prediction_breaks() -> None:
    """PE from the best socket counts too little everywhere; 115 W a socket are reached by no more than a phase."""
    draw = BudgetCase(jobs(), 2e3, Variant(rapl=True)).draw(1)
    best, base = draw("slurm-pe, best"), draw(BASE)
    assert (best["unlimited_above"], best["above"], best["over_j"]) == (100.0, 0.0, 0.0)
    without = figures("slurm-pe, best")
    assert best["unlimited_over_j"] == without["over_j"] > 0.0
    assert best["turnaround_s"] == pytest.approx(
        without["turnaround_s"] * (1.0 + best["rapl_turnaround_percent"] / 100.0)
    )
    assert best["rapl_turnaround_percent"] > 1.0 > abs(base["rapl_turnaround_percent"])
    assert best["energy_j"] < without["energy_j"]


def test_idle_watts_are_those_of_a_machine_that_has_them() -> None:
    """The engine, asked about a machine whose idle sockets draw 20 W, has the same schedule and energy."""
    known = knowledge(1)
    shown = (BASE, "slurm-vtp", ORACLE)
    values = {("a", p, m): np.array([v]) for p in shown for m, v in figures(p).items()}
    found = derived(equal_work(values), (20.0,))
    part = replace(machine().partitions[0], idle_w=20.0)
    idle = replace(machine(), partitions=(part,))
    actual = replace(actual_power(jobs(), idle), unit_factor=known.true_factor(jobs()))
    run = simulate(jobs(), idle, known.policies(jobs())[BASE], cap=Cap.constant(2e3), actual=actual)
    begin, end = span(jobs(), run.schedule)
    machine_j = energies(run.power, idle, begin, end)["machine_j"]
    assert found.of("a", BASE, idle_metric(20.0))[0] == pytest.approx(machine_j, rel=1e-6)
    assert found.of("a", BASE, idle_metric(20.0) + "_change_percent").tolist() == [0.0]


def test_figure_1_has_the_traces_of_its_policies() -> None:
    found = PowerOverTime.of(BudgetCase(jobs(), 15e3))
    assert list(found.traces) == list(SHOWN)
    base = found.traces[BASE]
    energy_j = float(base.mean_w.sum()) * found.end_s / len(base.mean_w)
    assert energy_j == pytest.approx(BudgetCase(jobs(), 15e3).draw(0)(BASE)["energy_j"], rel=1e-9)
    assert (base.highest_w >= base.mean_w - 1e-6).all()
    assert max(map(len, found.table().lines())) <= 80
    json.dumps(found.document(), allow_nan=False)


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
    found = derived(equal_work(values))
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


def test_nothing_wins_more_than_no_budget(data_dir: Path) -> None:
    """The bounds of the page: EASY on sockets, and the published backfilling on whole nodes."""
    folder = data_dir / "variability"
    easy, published = (bounds(cases(folder, ("bursty",), (20e3,), v)) for v in (SOCKETS, PUBLISHED))
    assert easy["bursty, 20 kW"] == pytest.approx(-16.2, abs=0.05)
    assert published["bursty, 20 kW"] == pytest.approx(-12.1, abs=0.05)
    at = "bursty, 5 kW"
    assert list(bounds({f"{at}, {COMMON}": BudgetCase(jobs(), 5e3), at: BudgetCase(jobs(), 5e3)})) == [
        f"{at}, {COMMON}"
    ]


def test_printed_figures_stand_beside_each_other_by_run_times() -> None:
    at = ("bursty, 20 kW", "slurm-vtp", "turnaround_change_percent")
    found = {f: equal_work({at: np.array([v - 1.0, v + 1.0])}) for f, v in ((1.0, -10.0), (1.09, -15.0))}
    table = stretch_table(found, {"bursty, 20 kW": at})
    assert [row[0] for row in table.rows] == ["1", "1.09"]
    assert [row[1].split()[0] for row in table.rows] == ["-10.0", "-15.0"]
    assert "fitted" in table.note


def test_run_times_are_stretched_and_known() -> None:
    table = Jobs.build(np.zeros(2), np.ones(2, int), np.full(2, 60.0), app=Labels.of(["ferret"] * 2))
    longer = with_watts(table, 1.09)
    assert longer.runtime_s.tolist() == longer.walltime_s.tolist() == [pytest.approx(65.4)] * 2
    assert "1.09 times the estimates" in Variant(stretch=1.09).says
    with pytest.raises(InputError):
        Variant(stretch=0.0)


def test_bad_options(tmp_path: Path) -> None:
    study = VariabilityStudy(tmp_path, 2)
    with pytest.raises(InputError):
        study.run()
    with pytest.raises(InputError) as caught:
        replace(study, budgets_w=(0.0,)).run()
    assert caught.value.where == "--budget"


def test_the_command(data_dir: Path, tmp_path: Path) -> None:
    chosen = ["--seeds", "1", "--budget", "15", "--whole-nodes", "--backfill", "published", "--idle", "25", "--rapl"]
    command = [*RUN, str(data_dir / "variability"), *chosen, "-o", str(tmp_path)]
    done = wattqueue(*command)
    assert done.returncode == 0, done.stderr
    assert "Figure 7, heavy" in done.stdout
    assert "Figure 1: power under 15 kW" in done.stdout
    assert "at 25 W an idle socket" in " ".join(done.stdout.split())
    found = json.loads((tmp_path / "study.json").read_text())
    assert (found["seeds"], found["backfill"], found["whole_nodes"], found["idle_w"]) == (1, "published", True, [25.0])
    assert len(found["figure_1"]["policies"]) == len(SHOWN)
    assert "kJ without limits / under them" in " ".join(done.stdout.split())
    over = [r["values"] for r in found["results"] if r["metric"] == "over_j"]
    assert found["rapl"]
    assert over == [[0.0]] * len(over)
