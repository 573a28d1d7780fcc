"""Months under a constant cap: how they are made, judged and counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.wattqueue_studies.equal_work import equal_work
from wattqueue.campaign.shared import Shared
from wattqueue.errors import InputError
from wattqueue.formats.machine.file import load_machine
from wattqueue.model.jobs import Jobs, Labels
from wattqueue.model.profiles import PowerProfiles
from wattqueue.model.signals import Cap
from wattqueue.model.steps import Steps
from wattqueue.policy.policy import load_policy
from wattqueue.workload.marconi import generate
from wattqueue_studies.powercap.guarantee import (
    MARGINS,
    ON_ALL_KINDS,
    RULES,
    GuaranteeStudy,
    Rule,
    clopper_pearson,
    judged,
    least,
    month_table,
)
from wattqueue_studies.powercap.month_cell import GENERATED, RAMPS, MonthCell, monthly
from wattqueue_studies.powercap.months import habits_break, habits_drift, joined, ramp_w, with_ramps


def few(submit_s: list[float], watts: float, user: str) -> Jobs:
    """Jobs of a node and a constant profile."""
    n = len(submit_s)
    profiles = PowerProfiles.from_samples([[watts]] * n)
    found = Jobs.build(
        submit_s, np.ones(n, int), np.full(n, 60.0), user=[user] * n, profiles=profiles, mean_power_w=np.full(n, watts),
        max_power_w=np.full(n, watts),
    )  # fmt: skip
    return replace(found, app=Labels(np.full(n, -1, np.int32), ()))


def test_tables_are_joined_in_order_of_submission() -> None:
    whole = joined([few([5.0, 30.0], 300.0, "b"), few([0.0, 10.0], 500.0, "a"), few([20.0], 700.0, "b")])
    assert whole.submit_s.tolist() == [0.0, 5.0, 10.0, 20.0, 30.0]
    assert [whole.user.names[code] for code in whole.user.codes] == ["a", "b", "a", "b", "b"]
    assert (whole.app.codes == -1).all()
    assert whole.profiles is not None
    assert [whole.profiles.samples_w(j, 20.0)[0] for j in range(5)] == [500.0, 300.0, 500.0, 700.0, 300.0]
    assert whole.job_id.tolist() == [1, 2, 3, 4, 5]


def test_ramps_are_shares_of_the_highest_power() -> None:
    # 40 s of half the power, then 20 s of all of it, sampled each 10 s: a node draws 1,050, 1,050 and 2,100 W.
    ramps = Steps(np.arange(0.0, 70.0, 10.0), np.array([5.0, 5.0, 5.0, 5.0, 10.0, 10.0, 10.0]))
    assert ramp_w(ramps).tolist() == [1_050.0, 1_050.0, 2_100.0]
    jobs = with_ramps(few([0.0], 300.0, "a"), ramps, days=1.0, nodes=256)
    wide = jobs.nodes == 256
    assert jobs.submit_s[wide].tolist() == [0.0, 43_200.0]
    assert jobs.max_power_w is not None
    assert jobs.max_power_w[wide].tolist() == [2_100.0, 2_100.0]
    with pytest.raises(InputError, match="ramps need two rows"):
        ramp_w(Steps(np.zeros(1), np.ones(1)))


def test_habits_break_in_the_middle() -> None:
    jobs = habits_break(7, 4.0, 0.3, 980, 2.0 * 86_400.0)
    assert jobs.mean_power_w is not None
    half = jobs.submit_s < 2.0 * 86_400.0
    changed = []
    for code in np.unique(jobs.app.codes):
        rows = jobs.app.codes == code
        if (rows & half).sum() > 4 and (rows & ~half).sum() > 4:
            changed.append(abs(jobs.mean_power_w[rows & half].mean() / jobs.mean_power_w[rows & ~half].mean() - 1.0))
    assert np.median(changed) > 0.1


def test_the_interval_of_a_count() -> None:
    """Clopper and Pearson's for 60 of 60 and 57 of 60, from tables of the beta distribution."""
    assert clopper_pearson(60, 60) == pytest.approx((0.025 ** (1 / 60), 1.0))
    assert clopper_pearson(0, 10) == pytest.approx((0.0, 1 - 0.025**0.1))
    assert clopper_pearson(57, 60) == pytest.approx((0.8608, 0.9896), abs=1e-3)


def test_months_are_counted_one_by_one() -> None:
    over = {
        ("generated", "easy+pc-max", f"over_time_percent {k}"): np.array(v)
        for k, v in ((1, [0.5, 2.0]), (2, [1.0, 0.0]))
    }
    samples = equal_work(over)
    assert judged(samples, "generated", "easy+pc-max").tolist() == [0.5, 2.0, 1.0, 0.0]


def test_habits_drift_farther_than_the_generators() -> None:
    def spread(jobs: Jobs) -> float:
        """Median over users with enough jobs of the change from the first to the last third."""
        assert jobs.mean_power_w is not None
        rows = [np.flatnonzero(jobs.user.codes == code) for code in np.unique(jobs.user.codes)]
        watts = [jobs.mean_power_w[r] for r in rows if len(r) >= 30]
        return float(np.median([abs(w[: len(w) // 3].mean() / w[-len(w) // 3 :].mean() - 1.0) for w in watts]))

    nodes, days = 980, 40.0
    plain = generate(np.random.default_rng(3), days=days, load=0.3, nodes=nodes)
    assert spread(habits_drift(3, days, 0.3, nodes)) > 1.2 * spread(plain)


def test_the_least_margin_that_keeps_is_found() -> None:
    asked: list[int] = []

    def keeps(margin: int) -> bool:
        asked.append(margin)
        return margin >= 30

    assert MARGINS[least(MARGINS, keeps)] == 30
    assert len(asked) <= 5
    assert least(MARGINS, lambda _: False) == len(MARGINS) - 1


def test_a_kind_in_which_hardly_a_ramp_began_is_not_tested() -> None:
    kind, (adaptive, *_) = next(iter(RAMPS)), ON_ALL_KINDS

    def table(ramps: list[float]) -> str:
        figures = {
            "over_time_percent 1": [0.5, 0.5], "under_percent": [20.0, 21.0], "excess_percent": [3.0, 4.0],
            "not_started": [1.0, 0.0], "not_started_fit": [0.0, 0.0], "ramps": ramps,
        }  # fmt: skip
        waits = {adaptive: [30.0, 30.0], "constant": [20.0, 20.0]}
        values = {(kind, rule, m): np.array(v) for rule in waits for m, v in figures.items()}
        values |= {(kind, rule, "wait_h"): np.array(v) for rule, v in waits.items()}
        rules = {adaptive: RULES[adaptive], "constant": Rule("easy+pc-mean", 1.0, margin_percent=40.0)}
        samples = equal_work(values)
        kept = {rule: judged(samples, kind, rule) for rule in rules}
        return "\n".join(map(str, month_table(samples, kind, kept, rules).rows))

    assert "not tested" in table([4.0, 5.0])
    tested = table([4.0, 6.0])
    assert "2 of 2" in tested
    assert "1.50" in tested
    assert "≥ 30" in tested


def test_a_constant_margin_is_not_told_to_the_policy() -> None:
    jobs, machine = few([0.0] * 4, 1_208.0, "a"), load_machine("marconi100")
    cap = Cap.constant(2_500.0)
    with_margin = monthly(jobs, machine, load_policy("easy", estimator="oracle-mean"), cap, 1, 30.0)
    without = monthly(jobs, machine, load_policy("easy", estimator="oracle-mean"), cap, 1)
    # 1,000 W a job above idle: two fit beside each other, or one under 1,750 W. Jobs take 60 s.
    assert without["wait_h"] == pytest.approx(30.0 / 3_600.0)
    assert with_margin["wait_h"] == pytest.approx(90.0 / 3_600.0)
    assert with_margin["not_started"] == 0.0


@pytest.mark.compiled
def test_a_study_of_a_few_days(tmp_path: Path) -> None:
    study = GuaranteeStudy(
        tmp_path, traces=1, months=1, load=0.02, rules=("easy+pc-adaptive-1", "easy+pc-max"), choice=1, workers=1
    )
    report = study.run()
    text = "\n".join(report.lines())
    assert "easy+pc-adaptive-1" in text
    assert "1 of 1" in text
    months = report.document()["months"]
    assert months["generated"]["easy+pc-adaptive-1"] == [0.0]
    assert set(months["habits break"]) == {"easy+pc-adaptive-1", "constant margin, 1 %"}
    assert set(report.document()["constant_margin_percent"]) == {
        f"{kind}: constant margin, 1 %" for kind in ("generated", "habits drift", "habits break")
    }
    with pytest.raises(InputError, match="a trace and a month"):
        GuaranteeStudy(tmp_path, traces=0).simulate()


def over_percent(folder: Path, seeds: range, **ledger: float) -> list[float]:
    """Per cent of the time above the cap under ``easy+pc-chance-1`` in the judged months of generated traces."""
    found = []
    for seed in seeds:
        options = tuple(ledger.items())
        row = MonthCell(GENERATED, seed, "chance", "easy+pc-chance-1", 3, 40.0, 0.8, options).perform(Shared(folder))
        found += [float(str(row[f"over_time_percent {month}"])) for month in (1, 2, 3)]
    return found


@pytest.mark.slow
@pytest.mark.compiled
def test_a_chance_ledger_keeps_its_probability_on_average(tmp_path: Path) -> None:
    """On traces that had no part in the choice of its variances; single months may miss it (powercap-frontier.md)."""
    assert np.mean(over_percent(tmp_path, range(1_001, 1_005))) <= 1.0
    assert np.mean(over_percent(tmp_path, range(1, 2), own=0.11, common=0.002)) > 5.0, "the variances of before"
