"""Every row of paper 1 builds, and its parts are those that the row names."""

import pytest

from wattqueue.parts.frequency.least_distance import LeastDistance
from wattqueue.parts.order.priority_inc_v import PriorityIncV
from wattqueue.policy.policy import load_policy
from wattqueue.policy.rows import published_rows

OURS = [name for name, row in published_rows().items() if "paper 1" in row["source"].lower()]


@pytest.mark.parametrize("name", OURS)
def test_a_row_builds(name: str) -> None:
    policy = load_policy(name)
    assert policy.name == name
    assert type(policy.estimator).__name__ == "Ear"


def test_the_rows_of_the_paper_are_there() -> None:
    eamc = ["eamc-reorder", "eamc-priority-inc", "eamc-priority-inc-v"]
    assert {"base-slurm", "min-runtime", "min-energy", *eamc, *(f"{n}-1.5" for n in eamc)} <= set(OURS)


def test_weights_and_readings_reach_both_parts() -> None:
    heavy = load_policy("eamc-priority-inc-v-1.5")
    assert isinstance(heavy.order, PriorityIncV)
    assert isinstance(heavy.frequency, LeastDistance)
    assert heavy.order.t_weight == heavy.frequency.t_weight == 1.5
    assert (heavy.order.distance, heavy.order.threshold) == ("relative", 0.35)
    code = load_policy("eamc-priority-inc-v-code")
    assert isinstance(code.order, PriorityIncV)
    assert (code.order.reading, code.order.distance) == ("published-code", "absolute")
