"""Choices that live does not carry out are refused by name, not ignored."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.live.drive import lab_machine
from tests.live.fakeslurm import FakeSlurm
from tests.live.site import eamc_machine
from wattqueue.errors import InputError, PolicyError
from wattqueue.kernels import codes
from wattqueue.live.assemble import assemble
from wattqueue.live.config import load_config
from wattqueue.live.decision import require_live
from wattqueue.parts.controls.energy_budgets import EnergyBudgets
from wattqueue.parts.ledger.measured import Measured
from wattqueue.policy.policy import load_policy


class Ranked:
    """A placement of one's own."""

    def rank(self, apps: int, machine: Any, prediction: Any) -> Any:
        return np.zeros((apps, machine.units))


@pytest.mark.parametrize(
    ("change", "site"),
    [({"placement": Ranked()}, {"names_nodes": False}), ({"ledger": Measured()}, {"measures": False})],
)
def test_what_live_does_not_drive_is_refused(change: dict[str, Any], site: dict[str, bool]) -> None:
    with pytest.raises(PolicyError) as caught:
        require_live(replace(load_policy("easy"), **change), lab_machine(), **site)
    assert caught.value.where == "easy"
    assert caught.value.hint


def test_an_oracle_is_refused_by_name() -> None:
    with pytest.raises(PolicyError) as caught:
        require_live(load_policy("easy", estimator="oracle-mean"), lab_machine())
    assert "oracle-mean" in caught.value.what


def test_run_times_that_are_trained_by_the_week_are_refused_by_name() -> None:
    with pytest.raises(PolicyError, match="boosted are trained by the week") as caught:
        require_live(load_policy("easy+runtime=boosted"), lab_machine())
    assert "recent-quantile" in str(caught.value.hint)
    with pytest.raises(PolicyError, match="true-runtime"):
        require_live(load_policy("easy+runtime=true-runtime"), lab_machine())


LEAST_ENERGY = "easy+estimator=ear+order=all-partitions+frequency=least-energy"
DRIVEN = (
    "easy", "conservative", "easy+pc-mean", "easy+pc-chance-1", LEAST_ENERGY, "easy++", "easy-sjbf+runtime=nearest",
)  # fmt: skip


@pytest.mark.parametrize("name", DRIVEN)
def test_rows_of_the_table_are_driven(name: str) -> None:
    policy = load_policy(name)
    assert require_live(policy, lab_machine()).pass_code != codes.CUSTOM


@pytest.mark.parametrize("policy", ["eamc-priority-inc", "easy"])
def test_frequencies_that_nothing_sets_are_refused_in_control_mode(policy: str, tmp_path: Path) -> None:
    (tmp_path / "machine.toml").write_text(eamc_machine())
    (tmp_path / "live.toml").write_text(
        f'machine = "machine.toml"\ncap = "4000 W"\npolicy = "{policy}"\nmode = "control"\n'
    )
    config = load_config(tmp_path / "live.toml")
    nodes = {"p1": [f"n{i}" for i in range(1, 5)], "p2": [f"m{i}" for i in range(1, 5)]}
    if policy == "easy":
        assemble(config, FakeSlurm(nodes, 1600), lambda: 1e6).run_dir.release()
        return
    with pytest.raises(InputError, match="chooses frequencies, and nothing sets them"):
        assemble(config, FakeSlurm(nodes, 1600), lambda: 1e6)


def test_budgets_whose_books_a_restart_would_lose_are_refused() -> None:
    with pytest.raises(PolicyError, match="energy-budgets keeps its books in memory"):
        require_live(replace(load_policy("easy"), controls=(EnergyBudgets(),)), lab_machine())
