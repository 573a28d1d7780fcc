"""The map of power domains over time: how much of its limit each carries.

A row is a domain that has a limit, those that feed others above; a column a stretch of time. Its colour is the greatest
input in the stretch over the lowest limit, so that no peak is lost; inputs are from the jobs' true mean watts.
"""

from __future__ import annotations

import numpy as np

from wattqueue.model.jobs import Floats
from wattqueue.report import words
from wattqueue.report.document import Table
from wattqueue.report.figure import Axis, Figure, span_of_time, time_axis
from wattqueue.report.run import RunData

CELLS = 12_000
"""Cells of the map at most, unless there are more than ``CELLS / LEAST`` domains."""
LEAST, MOST = 24, 240
"""Stretches of time."""
MOST_ROWS = 40
"""Domains that the table lists."""


def figure(run: RunData) -> Figure | None:
    """Return the map; None for a run without limits of domains.

    Columns, one row for each cell: ``time_s`` its begin, ``name`` of the domain, ``input_w``, ``limit_w``, ``share``.
    """
    if not run.domains:
        return None
    names = [one.name for one in run.domains]
    count = len(names)
    edge = np.linspace(*run.span_s, int(np.clip(CELLS // count, LEAST, MOST)) + 1)
    inputs = np.array([one.input.maxima(edge) for one in run.domains])
    limits = np.array([one.limit.minima(edge) for one in run.domains])
    columns = {
        "time_s": np.tile(edge[:-1] - run.first_s, count),
        "name": np.repeat(names, len(edge) - 1),
        "input_w": inputs.ravel(),
        "limit_w": limits.ravel(),
        "share": (inputs / limits).ravel(),
    }
    heads = dict(zip(columns, ("from", "domain", "greatest input", "limit", "of the limit"), strict=True))
    more = {"names": names, "step_s": float(edge[1] - edge[0]), **span_of_time(run)}
    said = says(run, inputs / limits)
    return Figure("domains", "Power domains", said, time_axis(run), Axis("power domain"), columns, heads, more)


def table(run: RunData) -> Table | None:
    """Return headroom, excess and the jobs held back by domain, those that held back longest first; None without any.

    The least headroom is that of the mean watts of jobs; phases may go below it.
    """
    if not run.domains:
        return None
    begin, end = run.span_s
    rows = []
    for one in sorted(run.domains, key=lambda domain: -domain.held_s)[:MOST_ROWS]:
        left, length = one.headroom.within(begin, end)
        limit = one.limit.minima(np.array([begin, end]))[0]
        over_s = float(length[left < -1e-6].sum())
        rows.append((
            one.name, words.watts(float(limit)), words.watts(one.headroom.integral(begin, end) / (end - begin)),
            words.watts(float(left.min())), words.span(over_s) if over_s else "never",
            words.span(one.held_s) if one.held_s else "never",
        ))  # fmt: skip
    further = len(run.domains) - len(rows)
    return Table(
        ("Domain", "Limit", "Mean headroom", "Least headroom", "Above the limit", "Held back the longest wait"),
        rows,
        "Power domains in figures",
        "The last column is for how long the domain held back the job that had waited longest at the time: it had "
        "units enough, and watts under the cap. `wattqueue why RUN JOB` says it of one job."
        + (f" {words.count(further, 'further domain')} held nothing back, or for less." if further else ""),
        key="domains-table",
    )


def says(run: RunData, share: Floats) -> str:
    """Return which domain is fullest, what it has left, and which are above their limits, exactly. Shape (D, bins)."""
    begin, end = run.span_s
    row = int(np.argmax(share.max(1)))
    fullest = run.domains[row]
    left = [one.limit.integral(begin, end) - one.input.integral(begin, end) for one in run.domains]
    least = int(np.argmin([w / one.limit.integral(begin, end) for w, one in zip(left, run.domains, strict=True)]))
    mean = words.watts(left[least] / (end - begin))
    said = [
        f"{fullest.name} is fullest: {words.percent(float(share[row].max()))} of its limit at most.",
        f"Least headroom on average has {run.domains[least].name}: {mean}.",
    ]
    over = []
    for one in run.domains:
        above, length = one.excess.within(begin, end)
        if (above > 0).any():
            over.append((float(length[above > 0].sum()), float(above.max()), one.name))
    if not over:
        return " ".join([*said, "No domain is above its limit by the mean watts of jobs."])
    longest, most_w, name = max(over)
    what = words.count(len(over), "domain is", "domains are")
    said.append(f"{what} above the limit, {name} for longest: {words.span(longest)}, by at most {words.watts(most_w)}.")
    return " ".join(said)
