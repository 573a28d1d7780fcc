"""Estimators as one text: the same parts as in a row, in every verb that replaces a policy's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wattqueue as wq
from wattqueue.campaign.plan import plan_of
from wattqueue.errors import PolicyError
from wattqueue.model.jobs import Jobs
from wattqueue.policy.part_text import estimator_value

MARGIN = "history-mean+margin:factor=1.5"
ROW = ["history-mean", {"part": "margin", "factor": 1.5}]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("maximum", "maximum"),
        ("my.py:Mine", "my.py:Mine"),
        ("my.py:Mine:gain=2", {"part": "my.py:Mine", "gain": 2}),
        (MARGIN, ROW),
        ("ear+unit-factors:table=units.csv", ["ear", {"part": "unit-factors", "table": "units.csv"}]),
        ("history-mean:window_s=inf", {"part": "history-mean", "window_s": float("inf")}),
    ],
)
def test_a_text_is_the_value_of_a_row(text: str, value: Any) -> None:
    assert estimator_value(text) == value


@pytest.mark.parametrize("text", ["margin:1x=2", "history-mean+margin:factor=1:factor=2"])
def test_options_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(PolicyError):
        estimator_value(text)


def jobs() -> Jobs:
    n = 12
    return Jobs.build(
        np.arange(n) * 5.0, [1] * n, [40.0] * n, mean_power_w=150.0 + 5.0 * (np.arange(n) % 4), user=["ada"] * n
    )


def test_simulate_and_whatif_take_corrections() -> None:
    machine: Any = {"nodes": 8, "node_watts": "50:300"}
    plain, wider = (wq.simulate(jobs(), **machine, cap="900W", estimator=text) for text in ("history-mean", MARGIN))
    listed = wq.simulate(jobs(), **machine, cap="900W", policy=wq.load_policy("easy", estimator=ROW))
    assert wider.metrics["wait_s_mean"] == listed.metrics["wait_s_mean"] > plain.metrics["wait_s_mean"]
    study = wq.whatif(jobs(), **machine, cap="900W,1200W", estimator=f"history-mean,{MARGIN}")
    assert [each["estimator"] for each in study.conclusions] == ["history-mean", MARGIN]


def test_a_campaign_finds_the_files_of_a_correction_beside_its_own(tmp_path: Path) -> None:
    (tmp_path / "units.csv").write_text("app,unit,watts\na,0,100\na,1,110\n")
    text = 'workloads = ["marconi:days=1"]\nnodes = 2\nnode_watts = "50:300"\npolicies = ["easy"]\n'
    name = "history-mean+unit-factors:table=units.csv"
    (tmp_path / "c.toml").write_text(f'{text}estimators = ["{name}"]\n')
    (choice,) = plan_of(tmp_path / "c.toml").choices
    assert (choice.estimator, choice.row["estimator"][1]["table"]) == (name, str(tmp_path / "units.csv"))
    assert str(tmp_path / "units.csv") in choice.hashes
