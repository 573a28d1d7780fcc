"""The report of one run.

Key figures, the table of metrics and where values come from are plain HTML that can be read without JavaScript. Every
text that comes from a file is escaped.
"""

from __future__ import annotations

from html import escape

from wattqueue.policy.oracles import marked
from wattqueue.report import metric_table, provenance, words
from wattqueue.report.document import Document, Figures, Table
from wattqueue.report.figure import Drawn
from wattqueue.report.figures import domains, gantt, power, prediction, queue, users, waiting
from wattqueue.report.html import Html, card, kind_mark
from wattqueue.report.run import RunData
from wattqueue.version import __version__

ACRONYMS = {"easy": "EASY", "fcfs": "FCFS"}
"""Policies whose names are acronyms, as they begin a title."""
TILES = (
    "jobs_never_ran",
    "all_wait_s_mean",
    "wait_s_mean",
    "bounded_slowdown_mean",
    "utilization",
    "makespan_s",
    "machine_energy_j",
    "job_energy_j",
)
"""Metrics of the tiles; their names are those of the table of metrics."""
QUIET = ("jobs_never_ran", "all_wait_s_mean")
"""Tiles that are shown only where some job never ran."""


def report(run: RunData) -> str:
    """Return the report of one run as HTML.

    The order is that of a reader's questions: key figures, power against the cap, where jobs ran, the queue, waits,
    the quality of predictions, users, all metrics, and where each value comes from.
    """
    made = f"Made by WattQueue {run.about.version or __version__}."
    return Document(
        title=title(run),
        eyebrow=eyebrow(run),
        lede=lede(run),
        top=tiles(run),
        blocks=[Figures(pictures(run)), *(one for one in [domains.table(run)] if one), metrics(run), sources(run)],
        footer=f"{made} `wattqueue rerun DIR` reproduces this run with identical files.",
        links=(("metrics", "Metrics"), ("sources", "Sources")),
    ).html()


def pictures(run: RunData) -> list[Drawn]:
    """Return all figures of a run with their kinds, in the order of the page; those without data are left out."""
    found: list[Drawn] = [(power.figure(run), "power")] if run.has_watts else []
    found.append((gantt.figure(run), "gantt"))
    limits = domains.figure(run)
    if limits is not None:
        found.append((limits, "domains"))
    found += [
        (queue.figure(run), "queue"),
        (waiting.wait(run), "cdf"),
        (waiting.slowdown(run), "cdf"),
    ]
    further = ((prediction.figure(run), "density"), (users.figure(run), "bars"))
    return found + [(figure, kind) for figure, kind in further if figure is not None]


def title(run: RunData) -> str:
    """Return the heading of a report: policy, cap and estimator.

    A cap that changes is given by its range.
    """
    name = policy_name(run.about.policy) if run.about.policy else "A run"
    # The estimator decides as much as the policy: with maximum, a cap counts every node at its maximum.
    estimator = f", estimator {run.about.estimator}" if run.about.estimator else ""
    return marked(f"{name}{_under(run)}{estimator}", run.about.oracle)


def _under(run: RunData) -> str:
    """Return the part of the heading that states the cap and load targets."""
    caps, targets = run.caps_w, "load targets" if len(run.targets_w) else ""
    if not len(caps):
        return f" under {targets}, no power cap" if targets else ", no power cap"
    most = "" if caps.min() == caps.max() else f" to {words.watts(float(caps.max()))}"
    return f" under a cap of {words.watts(float(caps.min()))}{most}{f' and {targets}' if targets else ''}"


def policy_name(key: str) -> str:
    """Return a policy's key as it begins a title: acronyms in capitals, else the first letter."""
    return ACRONYMS.get(key, key[:1].upper() + key[1:])


def eyebrow(run: RunData) -> str:
    """Return the line above the heading: workload, machine, seed."""
    about = run.about
    said = [about.workload, about.machine]
    if about.origin == "generated":
        said = [about.workload, "generated workload", about.machine]
        said += [] if about.seed is None else [f"seed {about.seed}"]
    return "  ·  ".join(word for word in said if word)


def lede(run: RunData) -> str:
    """Return the run in a few sentences: size, wait, the cap, jobs that never ran, and the bound where one is known."""
    wait = run.wait_s
    ran = len(wait)
    stuck = f" **{run.work.text}.**" if run.work.text else ""
    if not ran:
        return f"None of {words.count(len(run.jobs), 'job')} ran.{stuck}"
    kept = ""
    limits = (
        ("The cap **was", run.caps_w, run.kept.cap_over_s),
        ("Load targets **were", run.targets_w, run.kept.target_over_s),
    )
    for what, watts, over_s in limits:
        if len(watts):
            kept += f" {what} {f'exceeded for {words.span(over_s)}' if over_s else 'never exceeded'}**."
    return (
        f"**{words.count(ran, 'job')}** on {words.count(run.units, run.unit)} over "
        f"{words.span(run.last_s - run.first_s)} waited **{words.span(float(wait.mean()))}** on average"
        f"{_over_all(run)}."
        f"{kept}{stuck}{f' {run.about.bound}' if run.about.bound else ''}"
    )


def _over_all(run: RunData) -> str:
    """Return the mean wait over all jobs as the end of a sentence; empty where all jobs ran."""
    name = "all_wait_s_mean"
    if not metric_table.is_bound(name, run.metrics) or run.metrics.get(name) is None:
        return ""
    return f" ({metric_table.readable_of(name, run.metrics)} over all jobs)"


def tiles(run: RunData) -> str:
    """Return the values that a reader looks for first, as a row of tiles (HTML).

    The energy of jobs has a second line that says how much of it is measured; time above the cap or load targets is
    red where it is not 0.
    """
    notes = {"job_energy_j": provenance.energy_note(run)}
    shown = [
        (metric_table.label(key), metric_table.readable_of(key, run.metrics), notes.get(key, ""))
        for key in TILES
        if run.metrics.get(key) is not None and not (key in QUIET and metric_table.says_nothing(key, run.metrics))
    ]
    kept = run.kept
    limits = (("Above the cap", run.caps_w, kept.cap_over_s, kept.cap_overshoot_w),
              ("Above load targets", run.targets_w, kept.target_over_s, kept.target_overshoot_w))  # fmt: skip
    bad = set()
    for name, watts, over_s, most_w in limits:
        if len(watts):
            value, note = (
                ("never", "") if not over_s else (words.span(over_s), f"by {words.watts(most_w or 0.0)} at most")
            )
            shown.append((name, value, note))
            bad |= {name} if over_s else set()
    cells = [
        f'<div class="tile{" bad" if name in bad else ""}"><dt>{name}</dt><dd>{escape(value)}'
        f"{f'<small>{escape(note)}</small>' if note else ''}</dd></div>"
        for name, value, note in shown
    ]
    return f'<dl class="tiles">{"".join(cells)}</dl>'


def metrics(run: RunData) -> Html:
    """Return all metrics in groups, each with its name in metrics.json (HTML).

    The names are printed so that a reader can find the figure in the files, in ``compare.csv`` or in a campaign's
    table.
    """
    sections = []
    found = metric_table.rows(run.metrics)
    for group in (*metric_table.GROUPS, metric_table.FURTHER):
        rows = "".join(_metric(row) for row in found if row.group == group)
        if rows:
            sections.append(f"<section><h3>{group}</h3><table><tbody>{rows}</tbody></table></section>")
    return Html(card("metrics", "Metrics", f'<div class="metrics">{"".join(sections)}</div>'))


def sources(run: RunData) -> Table:
    """Return which values were measured, generated, simulated, predicted or stated."""
    found = provenance.sources(run)
    kinds = dict.fromkeys(each.kind for each in found)
    return Table(
        ("Figure", "Kind", "Source"),
        [(each.what, kind_mark(each.kind), each.where) for each in found],
        "What was measured, generated, predicted",
        "; ".join(f"**{kind}**: {provenance.KINDS[kind]}" for kind in kinds) + ".",
        words=(1, 2),
        key="sources",
    )


def _metric(row: metric_table.MetricRow) -> str:
    """Return one row of the table of metrics (HTML)."""
    what = f'<td title="{escape(row.meaning)}">{escape(row.label)}<code>{escape(row.name)}</code></td>'
    return f'<tr>{what}<td class="n">{escape(row.value)}</td></tr>'
