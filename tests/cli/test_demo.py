"""The demo's cap binds, and the README prints what the demo computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tools.readme_demo import figures_of, folders, metrics_of, shown, table
from wattqueue.cli import demo

pytestmark = pytest.mark.compiled  # two weeks of jobs are too slow with kernels as plain Python
ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PICTURE = ROOT / "docs" / "images" / "report.png"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Metrics of the three runs: uncapped; capped, every node at its maximum; capped, watts known."""
    out = tmp_path_factory.mktemp("demo")
    demo.run(out)
    return [metrics_of(folder) for folder in folders(out)]


def test_the_cap_binds_even_with_known_watts(runs: list[dict[str, Any]]) -> None:
    """Each of the three runs shows something that the others do not."""
    uncapped, naive, known = (run["wait_s_mean"] for run in runs)
    assert known > 1.1 * uncapped
    assert naive > 5 * known
    assert all(run["cap_over_s"] in (None, 0.0) for run in runs)


def test_the_readme_shows_the_demos_figures(runs: list[dict[str, Any]]) -> None:
    """Its table, and the run in its picture; ``python -m tools.readme_demo`` renews both."""
    assert table(runs) in README.read_text(encoding="utf-8")
    assert figures_of(PICTURE) == shown(runs[2])
