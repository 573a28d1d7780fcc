"""The demo's cap binds, and the README prints what the demo computes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from wattqueue.cli import demo

pytestmark = pytest.mark.compiled  # two weeks of jobs are too slow with kernels as plain Python
README = Path(__file__).parents[2] / "README.md"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Metrics of the three runs: uncapped; capped, every node at its maximum; capped, watts known."""
    out = tmp_path_factory.mktemp("demo")
    demo.run(out)
    share = demo.CAP.removesuffix("%")
    names = ("uncapped", f"cap-{share}", f"cap-{share}-watts-known")
    return [json.loads((out / name / "metrics.json").read_text()) for name in names]


def test_the_cap_binds_even_with_known_watts(runs: list[dict[str, Any]]) -> None:
    """Each of the three runs shows something that the others do not."""
    uncapped, naive, known = (run["wait_s_mean"] for run in runs)
    assert known > 1.1 * uncapped
    assert naive > 5 * known
    assert all(run["cap_over_s"] in (None, 0.0) for run in runs)


def test_the_readme_prints_the_demos_figures(runs: list[dict[str, Any]]) -> None:
    """Its first table, number by number."""
    waits = " | ".join(f"{run['wait_s_mean'] / 60:,.0f}" for run in runs)
    used = " | ".join(f"{100 * run['utilization']:.1f}" for run in runs)
    power = " | ".join(f"{100 * run['power_utilization']:.1f}" for run in runs[1:])
    text = README.read_text(encoding="utf-8")
    for row in (
        f"| mean wait, min | {waits} |",
        f"| utilization, % | {used} |",
        f"| mean power / cap, % | – | {power} |",
    ):
        assert row in text
