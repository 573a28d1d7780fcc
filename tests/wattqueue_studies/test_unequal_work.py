"""Studies in which one row leaves jobs: none of its figures is compared, and the report says which jobs and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("scipy", reason="needs scipy: pip install 'wattqueue[ml]'")

from tests.report.cases import unfinished
from tests.wattqueue_studies.equal_work import WHOLE
from wattqueue.campaign.cell import Row
from wattqueue.errors import EngineError
from wattqueue.model.comparability import WorkDone
from wattqueue.model.jobs import Jobs, Labels
from wattqueue.model.machine import plain_machine
from wattqueue.model.signals import Cap
from wattqueue.model.steps import Steps
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import Run, simulate
from wattqueue_studies.chips import limits, placement_tables
from wattqueue_studies.chips.extensions.policies import BY_NUMBER, MOVING, OWN, STILL, TELEMETRY
from wattqueue_studies.chips.extensions.tables import moving_table
from wattqueue_studies.demand_response import trial as demand_response
from wattqueue_studies.epas.gains import gains_table, variants_table
from wattqueue_studies.epas.trial import BASE, E_PAS, EspRun
from wattqueue_studies.frame.claim import Claim, Verdict
from wattqueue_studies.frame.published import SampledClaim
from wattqueue_studies.frame.samples import Samples, TrialFigures, never_ran_rows, never_ran_tables, sweep
from wattqueue_studies.powercap import frontier as powercap_frontier
from wattqueue_studies.powercap.frontier import FAMILIES, Frontier
from wattqueue_studies.powercap.guarantee import RULES, Rule, judged, month_samples, month_table
from wattqueue_studies.powercap.runs import ALL
from wattqueue_studies.replay import study as replay
from wattqueue_studies.runtimes.choice import EASY, Choice, settings
from wattqueue_studies.variability import trial as variability
from wattqueue_studies.variability.study import derived

LEFT = WorkDone(10, 3, "still queued at the end: 3", "")
TEXT = "3 of 10 jobs never ran (still queued at the end)"


def samples(rows: Mapping[tuple[str, str], Mapping[str, float]], left: set[str]) -> Samples:
    """Two draws of each (setting, policy); the policies of ``left`` left jobs in the second one."""
    values = {(s, p, m): np.array([v, 1.01 * v]) for (s, p), row in rows.items() for m, v in row.items()}
    return Samples(values, {key: (WHOLE, LEFT if key[1] in left else WHOLE) for key in rows})


def text_of(found: Samples, tables: list[object]) -> str:
    rows = [cell for table in (*tables, *never_ran_tables([found])) for row in table.rows for cell in row]  # type: ignore[attr-defined]
    return "\n".join(rows)


def small_run(cap: Cap | None = None) -> Run:
    jobs = Jobs.build([0.0, 10.0, 20.0], [1, 2, 1], [100.0] * 3, app=Labels.of(["a"] * 3), mean_power_w=[150.0] * 3)
    return simulate(jobs, plain_machine(2, 100.0, 200.0), load_policy("easy"), cap=cap)


def lost(run: Run) -> Run:
    return replace(run, schedule=unfinished(run.schedule, 1))


def test_a_demand_response_trial_compares_nothing_with_a_run_that_left_jobs() -> None:
    case = demand_response.SavingCase("1", 0.0, 0.02, 1e3, 3.0)
    base = small_run()
    whole = demand_response.measured(case, base, base, base, base)
    assert not np.isnan(list(whole.values())).any()
    gone = demand_response.measured(case, lost(base), base, base, base)
    differences = {"added_wait_s", "added_run_s", "added_turnaround_s", "bound_fallback_s", "allowed_wait_s",
                   "allowed_turnaround_s", "freed_kwh", "depth_percent", "rebound_kw"}  # fmt: skip
    assert {name for name, value in gone.items() if np.isnan(value)} == differences
    assert gone.work.text == "1 of 3 jobs never ran (still queued at the end)"
    by_limit = demand_response.measured(case, base, base, lost(base), base)
    assert {n for n, v in by_limit.items() if np.isnan(v)} == {"bound_cap_s", "bound_fallback_s"}


def test_a_replay_of_fewer_jobs_is_not_compared_with_its_run() -> None:
    run = small_run()
    assert replay.compared(run, run)["energy_change_percent"] == 0.0
    found = replay.compared(lost(run), run)
    assert np.isnan([found[f"{name}_change_percent"] for name in ("time", "energy", "power")]).all()
    assert found.work.text


def test_what_limits_cost_is_not_stated_where_they_leave_jobs() -> None:
    figures = {"turnaround_s": 10.0, "energy_j": 5.0, "above": 0.0, "over_percent": 0.0, "over_j": 0.0}
    cheap = {**figures, "turnaround_s": 5.0}
    found = variability.with_limits(TrialFigures(figures, WHOLE), TrialFigures(cheap, LEFT))
    assert np.isnan(found["rapl_turnaround_percent"])
    assert np.isnan(found["rapl_energy_percent"])
    both = variability.with_limits(TrialFigures(figures, WHOLE), TrialFigures(cheap, WHOLE))
    assert both["rapl_turnaround_percent"] == pytest.approx(-50.0)


def test_a_trial_states_the_work_of_its_run() -> None:
    found = EspRun(lost(small_run(Cap.constant(400.0))), Steps(np.zeros(1), np.ones(1)), None).measured()
    assert found.work.text == "1 of 3 jobs never ran (still queued at the end)"


def test_a_trial_without_work_is_a_defect() -> None:
    with pytest.raises(EngineError, match="without its work"):
        sweep(lambda _case, _seed: lambda _name: {"m": 1.0}, {"s": 0}, ("a",), (0,))


def test_e_pas_gains_nothing_where_it_leaves_jobs() -> None:
    setting, name = "bull, idle 30 %", E_PAS["bull"]
    metrics = {"utilization_percent": 90.0, "makespan_s": 10.0, "energy_j": 5.0, "wait_s": 3.0, "gap_percent": 1.0,
               "over_s": 0.0, "over_w": 0.0}  # fmt: skip
    better = {**metrics, "utilization_percent": 99.0, "makespan_s": 1.0, "energy_j": 0.5, "wait_s": 0.1}
    policies = [name + v for v in ("", "-no-backfill", "-no-reset", "-busy-share", "-ledger-only")]
    rows = {(setting, p): better for p in policies} | {(setting, p): metrics for p in (BASE, "pas-no-backfill")}
    found = samples(rows, {name})
    own, *_ = gains_table(found, found.settings).rows
    assert own[1:] == ["–"] * 6
    assert variants_table(found, setting).rows[0][1:5] == ["–"] * 4
    assert variants_table(found, setting).rows[2][1] != "–"
    assert "10.0" not in text_of(found, [])
    assert "3 of 20 jobs never ran (still queued at the end)" in text_of(found, [])
    assert never_ran_rows([found]) == [
        {"setting": setting, "policy": name, "jobs": 20, "jobs_never_ran": 3, "reasons": "still queued at the end: 3"}
    ]


def test_chips_compare_no_placement_that_leaves_jobs() -> None:
    row = {"turnaround_s": 10.0, "energy_j": 5.0, "run_s": 4.0}
    one = {("a + b, limit 60 %, load 0.8", p): row for p in limits.POLICIES}
    found = samples(one, {"own time"})
    (settings_of,) = placement_tables.grouped(found).values()
    table = placement_tables.changes(found, settings_of, "run_s", limits.BY_NUMBER, "t")
    assert [cells[1] for cells in table.rows] == ["+0.0 ±0.0", "–", "+0.0 ±0.0", "+0.0 ±0.0"]
    simulated = SimpleNamespace(limits=found)
    picture, _ = next(iter(placement_tables.pictures(simulated)))  # type: ignore[arg-type]
    assert picture is not None
    sites = {(f"site, {kind}", p): row for kind in (STILL, MOVING) for p in (BY_NUMBER, OWN, TELEMETRY)}
    beyond = SimpleNamespace(policies=samples(sites, {OWN}))
    assert moving_table(beyond).rows[0][1:] == ["–", "+0.00 ±0.00"]  # type: ignore[arg-type]


def test_variability_compares_no_policy_that_drops_jobs() -> None:
    row = {"turnaround_s": 10.0, "energy_j": 5.0, "idle_socket_s": 1.0}
    rows = {("a", p): row for p in ("slurm-extended", "slurm-vtp", "slurm-ivp", "slurm-prvp")}
    found = derived(samples(rows, {"slurm-prvp"}), (20.0,))
    for metric in ("turnaround_change_percent", "energy_change_percent", "machine_20w_j_change_percent"):
        assert np.isnan(found.of("a", "slurm-prvp", metric)).all()
        assert found.of("a", "slurm-vtp", metric).tolist() == [0.0, 0.0]


def test_a_claim_about_a_row_that_leaves_jobs_is_not_judged() -> None:
    found = samples({("s", p): {"m": v} for p, v in (("base", 10.0), ("left", 1.0), ("good", 9.0))}, {"left"})
    claim = Claim("k", "t", "s", published=-90.0)
    judged_claim = SampledClaim(claim, "left", "m", over="base").judge(found)
    assert judged_claim.verdict is Verdict.NOT_COMPARABLE
    assert "Left: 3 of 20 jobs never ran" in judged_claim.reason
    assert judged_claim.document()["ours"] is None
    assert judged_claim.difference is None
    good = SampledClaim(claim, "good", "m", over="base").judge(found)
    assert good.ours.mean == pytest.approx(-10.0)


def test_up_to_is_said_of_the_workloads_in_which_all_jobs_ran() -> None:
    values = {("1", "base"): {"m": 10.0}, ("2", "base"): {"m": 10.0}, ("1", "p"): {"m": 9.0}, ("2", "p"): {"m": 1.0}}
    both = samples(values, set())
    found = Samples(both.values, {**both.work, ("2", "p"): (LEFT, LEFT)})
    assert SampledClaim(Claim("k", "t", "s", published=-5.0), "p", "m", over="base").judge(
        found
    ).ours.mean == pytest.approx(-10.0)


def test_no_setting_of_the_quantile_is_chosen_by_fewer_jobs() -> None:
    row = {f"wait_s_{m}": 100.0 for m in ("mean", "p95", "p99", "max")}
    low = {name: value / 2 for name, value in row.items()}
    names = list(settings())
    rows = {(half, EASY): row for half in "12"} | {(half, name): row for half in "12" for name in names}
    for half in "12":
        rows[half, names[5]] = low
    assert Choice("t", samples(rows, set()), "1", "2").chosen == names[5]
    assert Choice("t", samples(rows, {names[5]}), "1", "2").chosen != names[5]
    only_second = samples(rows, set())
    left = Samples(only_second.values, {**only_second.work, ("2", names[5]): (LEFT, LEFT)})
    note = Choice("t", left, "1", "2").table().note
    assert "not comparable" in note
    assert "changes" not in note


def test_months_of_a_rule_that_leaves_jobs_have_no_factor() -> None:
    kind, rule = "generated", "easy+pc-adaptive-1"

    def table(left: WorkDone) -> list[list[str]]:
        made: list[Row] = [
            {"kind": kind, "rule": name, "over_time_percent 1": 0.5, "under_percent": 20.0, "excess_percent": 3.0,
             "wait_h": wait, "not_started": float(did.never_ran), "not_started_fit": 0.0, "ramps": 0.0,
             "jobs": did.jobs, "jobs_never_ran": did.never_ran, **did.row()}
            for name, wait, did in ((rule, 30.0, left), ("constant", 20.0, WHOLE))
        ]  # fmt: skip
        found = month_samples(made)
        rules = {rule: RULES[rule], "constant": Rule("easy+pc-mean", 1.0, margin_percent=40.0)}
        return [list(row) for row in month_table(found, kind, {r: judged(found, kind, r) for r in rules}, rules).rows]

    assert table(WHOLE)[0][9] == "1.50"
    assert table(LEFT)[0][8:10] == ["≥ 30", "–"]


def test_a_frontier_compares_no_rule_that_leaves_jobs() -> None:
    names = [*powercap_frontier.RULES, *(name for f in powercap_frontier.MARGINS for name in FAMILIES[f])]
    row = {"under_percent": 15.0, "over_percent": 3.0, "excess_percent": 5.0}
    lines = {(ALL, name): {**row, "under_percent": 10.0 + k % 7} for k, name in enumerate(names)}
    rule, line = powercap_frontier.RULES[0], FAMILIES["in flight"][3]
    for left, family, other in (({rule}, "in flight", rule), ({line}, "in flight", powercap_frontier.RULES[1])):
        found = Frontier([], samples(lines, left))
        compared, outside = found.at_equal_left()
        assert not any((row.policy, row.base) == (family, other) for row in compared.rows)
        assert any("3 of " in text and text.startswith(f"{family} and {other} (") for text in outside)
        drawn = "".join(str(picture) for picture, _ in found.pictures())
        assert f"'{next(iter(left))}'" not in drawn
