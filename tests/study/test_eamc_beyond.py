"""What goes beyond paper 1, on small workloads: built right, compared right, said right."""

import numpy as np
import pytest

from wattqueue.study.eamc.beyond import (
    METRICS,
    OURS,
    V,
    beyond,
    beyond_lines,
    binned,
    compare,
    history_profiles,
    three_partitions,
    verdicts,
)
from wattqueue.study.eamc.sweep import Case, SeedValues, sweep
from wattqueue.study.eamc.systems import profiles_from, systems
from wattqueue.workload.cirne import DAY_S, CirneModel

BOTH = systems(profiles_from(None, None))
SMALL = CirneModel(jobs=80, span_s=0.1 * DAY_S)


def samples_of(policy: str, response: list[float], energy: list[float]) -> list[SeedValues]:
    values = dict(zip(METRICS, (response, energy, [1.0] * len(energy)), strict=True))
    return [SeedValues("s", 13, policy, metric, np.array(v, float)) for metric, v in values.items()]


def test_better_in_both_means_certain_in_both() -> None:
    base = samples_of(V, [10.0, 11.0, 12.0, 13.0], [100.0, 110.0, 120.0, 130.0])
    sure = samples_of("eamc-regret", [9.0, 10.1, 10.9, 12.0], [98.0, 108.1, 117.9, 128.0])
    noise = samples_of("eamc-wait-aware", [9.0, 10.1, 10.9, 12.0], [90.0, 120.0, 110.0, 139.0])
    lines = compare("", [*base, *sure, *noise], [("eamc-regret", V), ("eamc-wait-aware", V)])
    assert [line.dominates for line in lines] == [True, False]
    assert lines[0].change["turnaround_s_mean"] == pytest.approx(100 * (42.0 / 46.0 - 1))
    assert lines[1].change["job_energy_j"] < 0
    said = list(verdicts(lines))
    assert said[0].startswith("eamc-wait-aware is better than eamc-priority-inc-v in energy and response in 0 of 1")
    assert said[3].endswith("in 1 of 1 workloads: s, 13 %")


def test_three_partitions_are_those_of_both_machines() -> None:
    three = three_partitions(BOTH)
    assert three.partitions == ("p1", "p2", "p3")
    samples = sweep([Case(three, 33)], ["eamc-priority-inc", "eamc-wait-aware"], [0], model=SMALL)
    best = {s.policy: s.values[0] for s in samples if s.metric == "best_partition_percent"}
    assert best["eamc-priority-inc"] > 50


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
    lines = beyond(BOTH, range(2), model=SMALL)
    settings = {line.setting.partition(":")[0] for line in lines}
    assert {"cap 60%", "history for appDB", "node factors", "p1/p2/p3, 13 %", "p1/p3, 13 %"} <= settings
    assert all(np.isfinite(list(line.change.values())).all() for line in lines)
    text = list(beyond_lines(lines))
    assert len(text) == len(lines) + 3
    assert {line.policy for line in lines} >= set(OURS)
