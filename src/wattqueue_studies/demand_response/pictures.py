"""Pictures of the study: Figures 6 and 7 of paper 5."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from wattqueue.report.figure import Axis, Drawn
from wattqueue.report.figures import boxes
from wattqueue.report.figures.boxes import Box
from wattqueue_studies.demand_response.trial import DAY_S, KW, PLAIN, SavingCase, named, watts, without_saving
from wattqueue_studies.frame.figures import curves
from wattqueue_studies.frame.samples import Samples

SEED = 0
"""Draw that Figure 6 shows."""
BINS = 300
"""Values of a line; power is the mean over each part of the time."""
SHOWN_S = 1.25 * DAY_S
"""Time that Figure 6 shows: the day of the submissions, and what runs on."""


def figure_6(case: SavingCase) -> Drawn:
    """Return the power of one draw without saving, by DVFS with full consent and with nodes idle, and the limit."""
    run = case.runs(SEED)
    found = {
        "(a) no saving": without_saving(case.experiment, SEED),
        "(b) DVFS, 100 % consent": run(PLAIN, 1.0),
        "(b) nodes idle": run(PLAIN, 0.0),
    }
    times = np.linspace(0.0, SHOWN_S, BINS + 1)
    lines = {name: watts(each).means(times) for name, each in found.items()}
    within = (times[:-1] >= case.begin_s) & (times[:-1] < case.end_s)
    lines["limit"] = np.where(within, case.limit_w, np.nan)
    axes = (Axis("time", "s"), Axis("power", "kW", KW))
    title = f"Figure 6: response to power saving, {case.name}"
    return curves("figure-6", title, "Generated, one seed.", axes, lines, SHOWN_S), "overlay"


def figure_7(samples: Samples, cases: Sequence[SavingCase], rule: str, shares: Sequence[float]) -> Iterator[Drawn]:
    """Yield the added wait by share of consent over the draws, one picture a setting."""
    for number, case in enumerate(cases):
        of = {f"{100 * s:g} %": (case.name, named(rule, s), "added_wait_s") for s in shares}
        found = {share: Box.of(samples.of(*key)) for share, key in of.items() if key in samples.values}
        says = "Generated. The paper's falls up to 75 % and rises between 75 and 100 %."
        title, axis = f"Figure 7: added wait by share of consent, {case.name}", Axis("added wait", "s")
        picture = boxes.figure(f"figure-7-{number}", title, says, axis, found, rows="share of consent")
        yield picture, "boxes"
