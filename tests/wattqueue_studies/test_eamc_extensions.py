"""What goes beyond paper 1, on small workloads: built right, compared right, said right."""

from dataclasses import replace

import numpy as np
import pytest

from tests.wattqueue_studies.equal_work import equal_work
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.parts.contracts import Prediction
from wattqueue.policy.policy import load_policy
from wattqueue_studies.eamc.cirne import DAY_S, CirneModel
from wattqueue_studies.eamc.extensions import (
    BASES,
    JUDGED,
    METRICS,
    OURS,
    PAIRS,
    V,
    binned,
    extensions,
    history_profiles,
    three_partitions,
)
from wattqueue_studies.eamc.workloads import Case, profiles_from, systems, workload
from wattqueue_studies.frame.compare import ComparisonTable, compare
from wattqueue_studies.frame.samples import Samples, sweep

BOTH = systems(profiles_from(None, None))
SMALL = CirneModel(jobs=80, span_s=0.1 * DAY_S)


def samples_of(**metrics: tuple[list[float], list[float]]) -> Samples:
    """Response and energy by policy, with a dash for each underscore."""
    found = {}
    for name, (response, energy) in metrics.items():
        known = dict(zip(METRICS, (response, energy), strict=False))
        for metric in METRICS:
            values = known.get(metric, [1.0] * len(energy))
            found["s", name.replace("_", "-"), metric] = np.array(values, float)
    return equal_work(found)


def test_better_in_both_means_certain_in_both() -> None:
    samples = samples_of(
        eamc_priority_inc_v=([10.0, 11.0, 12.0, 13.0], [100.0, 110.0, 120.0, 130.0]),
        eamc_regret=([9.0, 10.1, 10.9, 12.0], [98.0, 108.1, 117.9, 128.0]),
        eamc_wait_aware=([9.0, 10.1, 10.9, 12.0], [90.0, 120.0, 110.0, 139.0]),
    )
    rows = compare(samples, [("eamc-regret", V), ("eamc-wait-aware", V)], METRICS)
    found = ComparisonTable.of(rows, METRICS, JUDGED, "t").rows
    assert [row.better(JUDGED) for row in found] == ["yes", "not significant"]
    assert found[0].changes["turnaround_s_mean"].size.mean == pytest.approx(100 * (42.0 / 46.0 - 1))
    assert found[1].changes["job_energy_j"].size.mean < 0


def test_three_partitions_are_those_of_both_machines() -> None:
    three = three_partitions(BOTH)
    assert three.partitions == ("p1", "p2", "p3")
    case = {"c": Case(three, 33, model=SMALL)}
    samples = sweep(Case.draw, case, ["eamc-priority-inc", "eamc-wait-aware"], [0])
    assert samples.of("c", "eamc-priority-inc", "best_partition_percent")[0] > 50


def test_halves_keep_nodes_and_mean_watts() -> None:
    whole, halves = BOTH["p1/p2"], binned(BOTH["p1/p2"])
    assert halves.machine.units == whole.machine.units
    low, high = (halves.estimator.profiles.on(f"p1-{side}").power_w for side in ("low", "high"))
    np.testing.assert_allclose((low + high) / 2, whole.estimator.profiles.on("p1").power_w)
    # The mean of the upper half of a normal distribution is 0.798 deviations away.
    np.testing.assert_allclose(high / low, (1 + 0.034 * 0.79788) / (1 - 0.034 * 0.79788), rtol=1e-5)


def test_history_finds_watts_and_ratios_of_run_times() -> None:
    exact = CirneModel(jobs=400, span_s=0.5 * DAY_S, lowest_accuracy=1.0)
    found, truth = history_profiles(BOTH["p1/p2"], exact), BOTH["p1/p2"].estimator.profiles
    assert found.apps == truth.apps
    for name in ("p1", "p2"):
        np.testing.assert_allclose(found.on(name).power_w[:, 0], truth.on(name).power_w[:, 0], rtol=1e-3)
    ratio = found.on("p2").time_s[:, 0] / found.on("p1").time_s[:, 0]
    # Requested times are whole minutes, so short jobs use less than all of theirs.
    np.testing.assert_allclose(ratio, truth.on("p2").time_s[:, 0] / truth.on("p1").time_s[:, 0], rtol=0.05)


def test_every_row_beyond_the_paper_runs() -> None:
    table = extensions(BOTH, range(2), range(1), model=CirneModel(jobs=40, span_s=0.05 * DAY_S))
    settings = {row.setting.partition(":")[0] for row in table.rows}
    assert {"cap 60%", "history for appDB", "node factors", "p1/p2/p3, 13 %", "p1/p3, 13 %", "conservative"} <= settings
    assert all(np.isfinite(row.changes[metric].size.mean) for row in table.rows for metric in JUDGED)
    assert {row.policy for row in table.rows} >= set(OURS)
    assert max(map(len, table.lines())) <= 80
    assert "corrected by Holm's method for" in table.table().note


def test_a_base_with_the_same_order_differs_in_energy_alone() -> None:
    """By time only, an order ranks entries as if joules did not exist; by end, both rows share the inner order."""
    assert {base for policy, base in PAIRS if policy in {"eamc-wait-aware", "eamc-regret"}} == {
        V, "wait-aware by time only", "regret by time only",
    }  # fmt: skip
    system = BOTH["p1/p2"]
    jobs = workload(13, 0, SMALL)
    found = system.predict(jobs)
    dear = found.power_w.copy()
    dear[:, system.machine.option_partition == 1] *= 3.0
    known = KnownJobs.of(jobs)

    def priorities(name: str, prediction: Prediction) -> np.ndarray:
        return load_policy(BASES[name][0], **BASES[name][1]).order.entries(known, prediction, system.machine).priority

    for name in ("regret by time only", "wait-aware by time only"):
        np.testing.assert_allclose(
            priorities(name, found), priorities(name, replace(found, power_w=dear)), atol=1e-6
        )  # fmt: skip
    assert (priorities("regret by end", found) != priorities("regret by end", replace(found, power_w=dear))).any()
    by_end, plain = (load_policy(name, **parts).order.entries(known, found, system.machine) for name, parts in (
        BASES[f"{V} by end"], (V, {}),
    ))  # fmt: skip
    done = (jobs.submit_s + jobs.walltime_s)[plain.job]
    np.testing.assert_array_equal(np.argsort(-by_end.priority), np.lexsort((done, -plain.priority)))
