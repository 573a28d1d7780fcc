"""The page of a campaign: groups, curves against the cap, what is left out where there is nothing to show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.report.chromium import Browser
from tests.report.test_browser import expect_clean, expect_drawn, look
from wattqueue.report.campaign import capped, curve, groups_of, html, lede, pictures, table
from wattqueue.report.metric_table import MAY_FALL


def rows(caps: tuple[str, ...] = ("none", "20%", "40%"), seeds: int = 3) -> list[dict[str, Any]]:
    """A grid of two policies; waits fall with the cap and differ by policy and seed."""
    found = []
    for factor, policy in ((1.0, "easy"), (40.0, "fcfs")):
        for cap in caps:
            share = 1.0 if cap == "none" else float(cap.rstrip("%")) / 100
            for seed in range(seeds):
                wait = factor * (60.0 + seed) / share
                found.append(
                    {
                        "workload": "marconi:days=1", "seed": seed, "machine": "marconi100", "policy": policy,
                        "estimator": "maximum", "cap": cap, "cap_w": None if cap == "none" else 1e6 * share,
                        "wait_s_mean": wait, "wait_s_p95": 3 * wait, "turnaround_s_mean": wait + 900.0,
                        "bounded_slowdown_mean": 1.0 + wait / 900, "machine_energy_j": 3.6e9 * (1.0 + 0.01 * factor),
                        "utilization": 0.5, "cap_over_s": None,
                        "all_wait_s_mean": wait, "jobs": 80, "jobs_never_ran": 0, "never_ran_reasons": "",
                        "work": f"{seed}",
                    }
                )  # fmt: skip
    return found


def test_groups_are_means_over_seeds() -> None:
    groups = groups_of(rows())
    assert [group.axes[1:] for group in groups][:3] == [("easy", "maximum", cap) for cap in ("none", "20%", "40%")]
    assert groups[0].mean("wait_s_mean") == 61.0
    assert np.isnan(groups[0].mean("cap_over_s"))
    assert np.isinf(groups[0].cap_w)


def test_curves_have_one_value_per_cap_and_a_line_without_one() -> None:
    groups = groups_of(rows())
    caps = capped(groups)
    assert caps is not None
    assert [cap.axes[3] for cap in caps] == ["20%", "40%"]
    figure = curve(groups, caps, "all_wait_s_mean", "wait", "span")
    assert figure is not None
    assert figure.extra["labels"] == ["easy", "fcfs"]
    np.testing.assert_allclose(figure.columns["value_1"], [40 * 61 / 0.2, 40 * 61 / 0.4])
    assert figure.extra["plain"] == [61.0, 40 * 61.0]
    assert figure.extra["log"] is True
    assert curve(groups, caps, "cap_over_s", "above", "span") is None  # no run has it


def test_one_cap_has_no_curve_and_few_runs_no_boxes() -> None:
    groups = groups_of(rows(("none", "20%"), seeds=1))
    assert capped(groups) is None
    assert [kind for _, kind in pictures(groups)] == ["pareto"]
    assert table(groups).html().count("<tr>") == 1 + 4


def with_jobs_left() -> list[dict[str, Any]]:
    """The same grid; under the lowest cap fcfs leaves 60 of 80 jobs in two of its three runs."""
    found = rows()
    for row in found:
        if (row["policy"], row["cap"]) == ("fcfs", "20%") and row["seed"]:
            row |= {"jobs_never_ran": 60, "never_ran_reasons": "still queued at the end: 60", "work": ""}
            row |= {"wait_s_mean": 1.0, "turnaround_s_mean": 2.0, "machine_energy_j": 1.0, "all_wait_s_mean": 9e5}
    return found


def test_a_configuration_that_left_jobs_is_not_ranked() -> None:
    groups = groups_of(with_jobs_left())
    said = lede(groups, 18)
    assert "fcfs, 20%: 120 of 240 jobs never ran (still queued at the end)" in said
    assert "of the 5 configurations that did the same work" in said
    drawn = {figure.key: figure for figure, _ in pictures(groups)}
    assert "fcfs, 20%" not in drawn["pareto"].columns["group"].tolist()
    assert drawn["wait"].extra["never_ran"] == [[0, 0], [120, 0]]
    assert np.isnan(drawn["energy"].columns["value_1"][0])
    shown = table(groups).html().replace("\u00a0", " ")
    assert "120 of 240" in shown
    assert "≥ " in shown


def test_a_configuration_that_rejected_jobs_is_in_no_picture_of_the_others() -> None:
    found = rows()
    for row in found:
        if row["cap"] == "20%":  # each of its runs is whole, but of fewer jobs
            row |= {"jobs_never_ran": 9, "never_ran_reasons": "too much power: 9", "work": f"less {row['seed']}"}
    groups = groups_of(found)
    drawn = {figure.key: figure for figure, _ in pictures(groups)}
    for key in ("slowdown", "energy"):
        values = [drawn[key].columns[f"value_{k}"] for k in range(2)]
        assert [np.isfinite(each).tolist() for each in values] == [[False, True]] * 2, key
    assert "20%" not in " ".join(drawn["spread"].columns["name"].tolist())
    assert np.isfinite(drawn["wait"].columns["value_0"]).all()  # over all jobs, with hollow points
    assert drawn["wait"].extra["never_ran"] == [[27, 0], [27, 0]]


@pytest.mark.parametrize(("plain_s", "by_nodes_s", "said"), [(30, 200, True), (30, 50, False), (70, 200, False)])
def test_a_mean_that_falls_under_a_cap_is_explained(plain_s: float, by_nodes_s: float, *, said: bool) -> None:
    found = [row | {"node_wait_s_mean": row["wait_s_mean"]} for row in rows(("none", "40%")) if row["policy"] == "easy"]
    for row in found:
        if row["cap"] == "40%":
            row |= {"wait_s_mean": plain_s, "node_wait_s_mean": by_nodes_s}
    assert (MAY_FALL in html(found, "c")) is said


@pytest.mark.browser
@pytest.mark.compiled
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_the_page_is_drawn(browser: Browser, tmp_path: Path, width: int, *, dark: bool) -> None:
    page = tmp_path / "report.html"
    page.write_text(html(rows(), "caps"), encoding="utf-8")
    browser.open(page, width=width, dark=dark)
    expect_clean(browser)
    charts = look(browser)
    assert [chart["key"] for chart in charts] == ["wait", "slowdown", "energy", "pareto", "spread"]
    expect_drawn([chart for chart in charts if chart["key"] != "spread"])
    assert browser.js("document.documentElement.scrollWidth") <= width
