"""Draw the picture of docs/combined-study.md: ``python -m tools.study_picture FOLDER/study.json``.

The file is what ``wattqueue study combined -o FOLDER`` writes; the picture is ``docs/images/combined-study.svg``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from wattqueue_studies.combined.ingredients import ALL, BASE, INGREDIENTS

PICTURE = Path("docs/images/combined-study.svg")
NEAR_WAIT, NEAR_ENERGY = 0.08, 0.006
"""A row nearer to the first of its kind than both, relative, is drawn without its name."""


def against_papers(axes: Axes, verdicts: list[dict[str, Any]]) -> None:
    """Draw the change on each paper's metric with its interval, and the loss that is to be excluded."""
    for y, row in enumerate(reversed(verdicts)):
        change = row["change_percent"]
        axes.plot([change["low"], change["high"]], [y, y], color="#345", linewidth=2)
        axes.plot(change["mean"], y, "o", color="#345")
    axes.set_yticks(range(len(verdicts)), [row["scenario"].partition(":")[0] for row in reversed(verdicts)])
    axes.axvline(0.0, color="#888", linewidth=0.8)
    axes.axvline(1.0, color="#b33", linewidth=0.8, linestyle="--")
    axes.set_xlabel("change over the paper's row, % (dashed: +1 %)")


def by_ingredient(axes: Axes, means: Mapping[tuple[str, str], float]) -> None:
    """Draw mean wait against energy, for the base with one ingredient more and for all with one less."""
    families = {
        "base, and one more": [(BASE, BASE), *((each, each) for each in INGREDIENTS)],
        "all, and one less": [(ALL, ALL), *((f"all without {each}", f"- {each}") for each in INGREDIENTS)],
    }
    for (label, rows), mark in zip(families.items(), ("o", "s"), strict=True):
        at = [(means[name, "energy_j"] / 3.6e9, means[name, "wait_s"] / 3_600.0) for name, _ in rows]
        (drawn,) = axes.plot(*zip(*at, strict=True), mark, label=label)
        for k, ((x, y), (_, text)) in enumerate(zip(at, rows, strict=True)):
            if k and abs(y / at[0][1] - 1) < NEAR_WAIT and abs(x / at[0][0] - 1) < NEAR_ENERGY:
                continue  # names would lie upon each other
            axes.annotate(text, (x, y), xytext=(4, 2), textcoords="offset points", fontsize=7, color=drawn.get_color())
    axes.set_yscale("log")
    axes.margins(x=0.14)
    axes.set_xlabel("energy until day 6, MWh")
    axes.set_ylabel("mean wait, h")
    axes.legend(fontsize=8)


def draw(study: Mapping[str, Any], target: Path) -> None:
    """Write the picture of a study's figures."""
    means = {(row["policy"], row["metric"]): float(np.mean(row["values"])) for row in study["site"]}
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "combined", "font.size": 9}):
        figure = Figure(figsize=(10.0, 4.2), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(2, 3))
        against_papers(left, study["verdicts"])
        by_ingredient(right, means)
        figure.savefig(target, metadata={"Date": None})


def main() -> None:
    """Read the study, and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study", type=Path)
    draw(json.loads(parser.parse_args().study.read_text(encoding="utf-8")), PICTURE)


if __name__ == "__main__":
    main()
