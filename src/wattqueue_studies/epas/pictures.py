"""Pictures of the study: Figures 3 to 14 of paper 3, of one draw, and the limits on sockets over time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from wattqueue.model.jobs import Floats
from wattqueue.model.metrics import job_figures
from wattqueue.model.steps import Steps
from wattqueue.report.figure import Axis, Drawn
from wattqueue.workload.lightesp import APPS, time_by_option, watts_by_option
from wattqueue_studies.epas.trial import BASE, CAPS_W, E_PAS, EspCase, EspRun, paper_machine
from wattqueue_studies.frame.figures import curves

SEED = 0
"""Draw that the pictures show."""
BINS = 300
"""Values of a line; power is the mean over each part of the time."""
NUMBERS = {"bull": (4, 5, 7, 6, 8, 9), "montblanc": (3, 10, 12, 11, 13, 14)}
"""Numbers of the paper's figures: trade-offs, utilization (PAS, E-PAS), power (PAS, E-PAS), waits."""
POWER = Axis("power", "kW", 1e3)


def pictures(case: EspCase) -> Iterator[Drawn]:
    """Yield the figures of one machine."""
    run, numbers = case.traced(SEED), NUMBERS[case.machine]
    pair = {BASE: run(BASE), E_PAS[case.machine]: run(E_PAS[case.machine])}
    end = max(each.span_s[1] - each.span_s[0] for each in pair.values())
    yield trade_offs(case, numbers[0])
    busy = {
        name: _means(each, Steps(each.run.power.time_s, each.run.power.busy_units), end) for name, each in pair.items()
    }
    title = f"Figures {numbers[1]} and {numbers[2]}: cores in use, {case.machine}"
    yield _over_time(f"cores-{case.machine}", title, "Generated, one seed.", Axis("cores"), busy, end)
    for number, (name, each) in zip(numbers[3:5], pair.items(), strict=True):
        yield power(case, number, name, each, end)
    yield waits(case, numbers[5], pair)
    limits = pair[E_PAS[case.machine]].limits
    if limits is not None:
        sums = _means(pair[E_PAS[case.machine]], limits, end)
        lines = {"sum of the limits": sums, "reserve": CAPS_W[case.machine] - sums}
        says = "Algorithm 1, corrected, each 4 s: what no socket asks for stays in the reserve."
        yield _over_time(f"limits-{case.machine}", "Limits on sockets and reserve", says, POWER, lines, end)


def trade_offs(case: EspCase, number: int) -> Drawn:
    """Return the watts of a core against its run time, for each application (Figures 3 and 4)."""
    machine = paper_machine(case.machine, case.idle_share)
    times = {app.name: time_by_option(machine, app) for app in APPS}
    x = np.linspace(0.0, max(float(each.max()) for each in times.values()), BINS)
    lines = {
        app.name: np.interp(x, times[app.name], watts_by_option(machine, app), left=np.nan, right=np.nan)
        for app in APPS
    }
    title = f"Figure {number}: trade-offs between time and watts, {case.machine}"
    says = "Assumed curves, between the highest and the lowest frequency of the window."
    axes = (Axis("run time relative to the highest frequency"), Axis("power of a core", "W"))
    return curves(f"trade-{case.machine}", title, says, axes, lines, float(x[-1])), "overlay"


def power(case: EspCase, number: int, name: str, run: EspRun, end: float) -> Drawn:
    """Return what was estimated and what was drawn under the cap (Figures 6, 8, 11 and 13)."""
    series, (begin, last) = run.run.power, run.span_s
    real = _means(run, Steps(series.time_s, series.jobs_w + series.other_w), end)
    within = np.arange(BINS) * (end / BINS) < last - begin
    lines = {
        "estimated": np.where(within, _means(run, run.counted, end), np.nan),
        "real": np.where(within, real, np.nan),
        "cap": np.full(BINS, CAPS_W[case.machine]),
    }
    title = f"Figure {number}: power, {name} on {case.machine}"
    says = f"Generated, one seed. Gap: {run.figures()['gap_percent']:.1f} % of the cap on average."
    return _over_time(f"power-{name}", title, says, POWER, lines, end)


def waits(case: EspCase, number: int, pair: Mapping[str, EspRun]) -> Drawn:
    """Return the distribution of waits (Figures 9 and 14)."""
    found = {name: job_figures(each.run.jobs, each.run.schedule).wait_s for name, each in pair.items()}
    longest = max(float(np.nanmax(each)) for each in found.values())
    x = longest / BINS * np.arange(BINS)
    lines = {name: (np.sort(w[~np.isnan(w)])[:, np.newaxis] <= x).mean(axis=0) for name, w in found.items()}
    axes = (Axis("wait", "s"), Axis("share of jobs that wait no longer"))
    title = f"Figure {number}: distribution of waits, {case.machine}"
    return curves(f"waits-{case.machine}", title, "Generated, one seed.", axes, lines, longest), "overlay"


def _means(run: EspRun, steps: Steps, end: float) -> Floats:
    """Return the means of a series over equal parts of a time that begins with the first submission. Shape (BINS,)."""
    return steps.means(run.span_s[0] + np.linspace(0.0, end, BINS + 1))


def _over_time(key: str, title: str, says: str, y: Axis, lines: Mapping[str, Floats], end: float) -> Drawn:
    x = Axis("time since first submission", "s")
    return curves(key, title, says, (x, y), lines, end), "overlay"
