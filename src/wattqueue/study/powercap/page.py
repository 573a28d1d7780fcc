"""Figures 4 and 5 of paper 4 from our runs, and the tables, in one HTML file without external resources."""

from __future__ import annotations

from html import escape

import numpy as np

from wattqueue.model.jobs import Floats
from wattqueue.report.document import Drawn, findings
from wattqueue.report.figure import Axis, Figure
from wattqueue.report.figures import boxes
from wattqueue.report.figures.boxes import Box
from wattqueue.study.powercap.cell import QUANTILES
from wattqueue.study.powercap.published import HIGHEST_DYNAMIC_W
from wattqueue.study.powercap.results import Groups
from wattqueue.study.powercap.study import PowercapStudyResult
from wattqueue.study.powercap.text import ASSUMPTIONS, EXPLAINED, HEADS, average_cells, named, study_lines

PERCENT = "%"
SHARES = np.linspace(0.005, 0.995, 100)
"""Probabilities at which a run's distribution over time is evaluated when runs are pooled with equal weights."""


def study_html(result: PowercapStudyResult) -> str:
    """Return the study as one self-contained page: pictures, the table of averages, and the whole text."""
    drawn = [*power_pictures(result), *performance_pictures(result)]
    return findings(
        title="Which prediction makes the best use of a capped window",
        eyebrow=f"paper 4, section 6.5  ·  generated workload  ·  {len(result.rows):,} simulations",
        lede=lede(result),
        drawn=drawn,
        cards=[table(result), notes(result)],
    )


def lede(result: PowercapStudyResult) -> str:
    """Return the result in one sentence (HTML)."""
    parts = [
        f"<strong>{escape(g.policy)}</strong> leaves {g.mean('unused_percent'):.0f} % of the cap unused and costs "
        f"{g.mean('turnaround_change_percent'):+.0f} % of turnaround"
        for g in list(result.groups.values())[:3]
    ]
    return "Under a cap on the first three hours, " + "; ".join(parts) + "."


def power_pictures(result: PowercapStudyResult) -> list[Drawn]:
    """Return Figure 4, one picture per policy: power over the capped hours by cap, the cap marked.

    A box left of its mark leaves power unused; the part of a box right of it is above the cap.
    """
    found: list[Drawn] = []
    for policy, group in result.groups.items():
        figure = boxes.figure(
            f"power-{policy.replace('+', '-')}",
            f"Power under {policy}",
            "Power above idle over the capped hours of all workloads, by cap; the triangle is the cap.",
            Axis("power", "% of the highest dynamic power"),
            {f"cap {cap:g} %": Box.of(pooled_percent(result, policy, cap)) for cap in group.caps},
            published=list(group.caps),
            mark="cap",
            rows="cap",
        )
        found.append((figure, "boxes"))
    return found


def pooled_percent(result: PowercapStudyResult, policy: str, cap: float) -> Floats:
    """Return power of all workloads at one cap, in percent of the highest dynamic power. Shape (k,).

    Each run contributes the same number of values, interpolated from the quantiles that its row keeps.
    """
    runs = [r for r in result.rows if r["policy"] == policy and r["cap_percent"] == cap]
    read = [np.interp(SHARES, QUANTILES, np.array(r["power_w_quantiles"], np.float64)) for r in runs]
    return 100.0 * np.concatenate(read) / HIGHEST_DYNAMIC_W


def performance_pictures(result: PowercapStudyResult) -> list[Drawn]:
    """Return Figure 5 without the workloads left out and with them, then the highest excess."""
    kept = {p: g.without(result.left_out) for p, g in result.groups.items()}
    turnaround = "Mean turnaround of a workload under a cap against the same workload under EASY without one"
    gone = f", {named(result.left_out)} left out as in the paper"
    change, excess = "turnaround_change_percent", "excess_percent"
    return [
        (_metric("turnaround-29", "Cost in turnaround", f"{turnaround}{gone}.", kept, change), "boxes"),
        (_metric("turnaround", "All workloads", f"{turnaround}.", result.groups, change), "boxes"),
        (_metric("excess", "Highest excess", "Greatest power above the cap in a run.", result.groups, excess), "boxes"),
    ]


# Axis of each metric that has a picture.
AXES = {
    "turnaround_change_percent": Axis("change of mean turnaround", PERCENT),
    "excess_percent": Axis("highest excess", "% of the cap"),
}


def _metric(key: str, title: str, says: str, groups: dict[str, Groups], metric: str) -> Figure:
    """Return box plots of one metric over all groups, one row per policy.

    Args:
        key: Key of the figure in the page.
        title: Title.
        says: Text below the title.
        groups: Figures by policy.
        metric: A name of ``results.METRICS``.
    """
    shown = {p: Box.of(g.values[metric].ravel()) for p, g in groups.items()}
    return boxes.figure(key, title, says, AXES[metric], shown, rows="policy", from_zero=False)


def table(result: PowercapStudyResult) -> str:
    """Return the table of averages over groups (HTML)."""
    head = "".join(f'<th scope="col"{" class=n" if i else ""}>{escape(h)}</th>' for i, h in enumerate(HEADS))
    rows = "".join(
        "<tr>"
        + "".join(f"<td{' class=n' if i else ''}>{escape(c)}</td>" for i, c in enumerate(average_cells(g)))
        + "</tr>"
        for g in result.groups.values()
    )
    return (
        '<section class="card" id="table"><h2>Averages over (workload, cap)</h2><div class="wide"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div></section>"
    )


def notes(result: PowercapStudyResult) -> str:
    """Return how to read the figures, and the whole text report (HTML)."""
    paragraphs = "".join(f'<p class="note">{escape(" ".join(part))}</p>' for part in (EXPLAINED, ASSUMPTIONS))
    text = escape("\n".join(study_lines(result)))
    whole = f'<div class="wide"><pre>{text}</pre></div>'
    return f'<section class="card" id="notes"><h2>How to read the figures</h2>{paragraphs}{whole}</section>'
