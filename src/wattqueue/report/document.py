"""Write the report of one run as one self-contained HTML file, and the frame that other pages share.

``page`` fills ``page/report.html``: style, scripts, ECharts and the data of all figures become part of the file, so
that it opens without a network and can be sent by mail. The content security policy of the frame forbids any request.
Figures are (Figure, kind) pairs; the kind names a function of ``page/*.js``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from importlib.resources import files

from wattqueue.policy.oracles import marked
from wattqueue.report import metric_table, words
from wattqueue.report.cards import together
from wattqueue.report.figure import Figure
from wattqueue.report.figures import gantt, power, prediction, queue, users, waiting
from wattqueue.report.payload import encode, script_json
from wattqueue.report.run import RunData
from wattqueue.report.sections import metrics, sources, tiles
from wattqueue.version import __version__

SCRIPTS = ("core.js", "charts.js", "boxes.js", "gantt.js", "compare.js", "points.js", "whatif.js", "page.js")
"""Scripts of the page in the order in which they depend on each other; ``page.js`` starts the charts."""
TIMED = ("power", "gantt", "queue", "overlay", "hours")
"""Kinds with a time axis: they have zoom buttons and move together."""
SMALL = ("cdf", "density", "bars", "cdfs", "payers", "capcurve-small")
"""Kinds that take half of the width, in pairs."""
MOST_LINKED = 9
"""Figures in the navigation of a page; a page with more links its other parts only."""
ECHARTS_VERSION = re.compile(r"Apache ECharts\]\(.*?\) (\S+),")
"""Where the vendored README states the version of ECharts."""

ACRONYMS = {"easy": "EASY", "fcfs": "FCFS"}
"""Policies whose names are acronyms, as they begin a title."""

Drawn = tuple[Figure, str]
"""A figure and the kind of picture that shows it (a function of charts.js)."""


def report(run: RunData) -> str:
    """Return the report of one run as HTML.

    The order is that of a reader's questions: key figures, power against the cap, where jobs ran, the queue, waits,
    the quality of predictions, users, all metrics, and where each value comes from.
    """
    drawn = pictures(run)
    body = [tiles(run), '<div class="figures">', figures_html(drawn), metrics(run)]
    body += [sources(run), "</div>"]
    return page(
        title=title(run),
        eyebrow=eyebrow(run),
        lede=lede(run),
        body="\n".join(body),
        drawn=drawn,
        footer=_footer(run),
        links=(("metrics", "Metrics"), ("sources", "Sources")),
    )


def pictures(run: RunData) -> list[Drawn]:
    """Return all figures of a run with their kinds, in the order of the page; those without data are left out."""
    found: list[Drawn] = [(power.figure(run), "power")] if run.has_watts else []
    found += [
        (gantt.figure(run), "gantt"),
        (queue.figure(run), "queue"),
        (waiting.wait(run), "cdf"),
        (waiting.slowdown(run), "cdf"),
    ]
    further = ((prediction.figure(run), "density"), (users.figure(run), "bars"))
    return found + [(figure, kind) for figure, kind in further if figure is not None]


def page(
    *,
    title: str,
    eyebrow: str,
    lede: str,
    body: str,
    drawn: Sequence[Drawn],
    footer: str,
    links: Sequence[tuple[str, str]],
) -> str:
    """Return a whole page: the frame around figures and tables.

    Args:
        title: Heading and window title, plain text.
        eyebrow: Line above the heading, plain text.
        lede: First sentence, HTML.
        body: Everything below it, HTML; it must contain the elements of ``figures_html`` for each figure of
            ``drawn``.
        drawn: Figures and their kinds; their data is embedded as JSON.
        footer: Last line, HTML.
        links: Further entries of the navigation as (element id, text).
    """
    linked = drawn if len(drawn) <= MOST_LINKED else ()  # more entries would not fit the bar
    nav = [(f"fig-{f.key}", f.key.capitalize().replace("-", " ")) for f, _ in linked] + list(links)
    parts = {
        "version": __version__,
        "title": escape(together(title)),
        "eyebrow": escape(eyebrow),
        "lede": together(lede),
        "nav": "".join(f'<a href="#{key}">{escape(name)}</a>' for key, name in nav),
        "body": body,
        "footer": footer,
        "echarts": echarts_version(),
        "css": part("page/report.css"),
        "data": script_json({"figures": [encode(f, kind) for f, kind in drawn]}),
        "library": part("vendor/echarts.min.js"),
        "script": "\n".join(part(f"page/{name}") for name in SCRIPTS),
    }
    # A function as replacement: text with backslashes or group references in it must not be interpreted.
    return re.sub(r"\{\{(\w+)\}\}", lambda hit: parts[hit[1]], part("page/report.html"))


TABLE_AND_NOTES = (("table", "Table"), ("notes", "Notes"))
"""Entries of the navigation of a page with one table."""


def findings(
    *,
    title: str,
    eyebrow: str,
    lede: str,
    drawn: Sequence[Drawn],
    cards: Sequence[str],
    links: Sequence[tuple[str, str]] = TABLE_AND_NOTES,
) -> str:
    """Return a page of figures and cards below them; ``links`` names cards in the navigation.

    ``lede`` is HTML.
    """
    return page(
        title=title,
        eyebrow=eyebrow,
        lede=lede,
        body="\n".join(['<div class="figures">', figures_html(drawn), *cards, "</div>"]),
        drawn=drawn,
        footer=f"Made by WattQueue {escape(__version__)}.",
        links=links,
    )


def part(name: str) -> str:
    """Return a file of this package that becomes part of the page."""
    return files("wattqueue.report").joinpath(name).read_text(encoding="utf-8")


def echarts_version() -> str:
    """Return the version of the vendored ECharts, read from the README beside it; empty if it is not stated."""
    hit = ECHARTS_VERSION.search(part("vendor/README.md"))
    return hit[1] if hit else ""


def title(run: RunData) -> str:
    """Return the heading of a report: policy, cap and estimator.

    A cap that changes is given by its range.
    """
    name = policy_name(run.about.policy) if run.about.policy else "A run"
    # The estimator decides as much as the policy: with naive, a cap counts every node at its maximum.
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
    """Return the run in one or two sentences (HTML): size, wait, the cap, and jobs that never ran."""
    wait = run.wait_s
    ran = len(wait)
    stuck = f" <strong>{escape(run.work.text)}.</strong>" if run.work.text else ""
    if not ran:
        return f"None of {words.count(len(run.jobs), 'job')} ran.{stuck}"
    kept = ""
    limits = (
        ("The cap <strong>was", run.caps_w, run.kept.cap_over_s),
        ("Load targets <strong>were", run.targets_w, run.kept.target_over_s),
    )
    for what, watts, over_s in limits:
        if len(watts):
            kept += f" {what} {f'exceeded for {words.span(over_s)}' if over_s else 'never exceeded'}</strong>."
    return (
        f"<strong>{words.count(ran, 'job')}</strong> on {words.count(run.units, run.unit)} over "
        f"{words.span(run.last_s - run.first_s)} waited <strong>{words.span(float(wait.mean()))}</strong> on average"
        f"{_over_all(run)}."
        f"{kept}{stuck}"
    )


def _over_all(run: RunData) -> str:
    """Return the mean wait over all jobs as the end of a sentence; empty where all jobs ran."""
    name = "all_wait_s_mean"
    if not metric_table.is_bound(name, run.metrics) or run.metrics.get(name) is None:
        return ""
    return f" ({metric_table.readable_of(name, run.metrics)} over all jobs)"


ZOOM = (
    '<div class="zoom" role="group" aria-label="Zoom in time">'
    '<button type="button" data-key="-" aria-label="Zoom out" title="Zoom out (−)">−</button>'
    '<button type="button" data-key="+" aria-label="Zoom in" title="Zoom in (+)">+</button>'
    '<button type="button" data-key="ArrowLeft" aria-label="Earlier" title="Earlier (←)">←</button>'
    '<button type="button" data-key="ArrowRight" aria-label="Later" title="Later (→)">→</button>'
    '<button type="button" data-key="0" aria-label="All of it" title="All of it (0)">↺</button></div>'
)
"""Buttons of a chart over time (HTML); ``data-key`` is the key that does the same."""


def figures_html(drawn: Sequence[Drawn]) -> str:
    """Return the elements of all figures (HTML).

    Small figures (``SMALL``) are placed in pairs; if their number is odd, the last one takes the whole width. The
    charts themselves are drawn by ``page/*.js`` into the empty elements.
    """
    small = [kind in SMALL for _, kind in drawn]
    if sum(small) % 2:
        # An odd number: the last small figure would stand alone beside a gap.
        small[max(k for k, narrow in enumerate(small) if narrow)] = False
    return "".join(figure_html(f, kind, half=half) for (f, kind), half in zip(drawn, small, strict=True))


def figure_html(figure: Figure, kind: str, *, half: bool) -> str:
    """Return the element of one figure (HTML): heading, buttons, chart, sentence, and the table of its data.

    The chart can be focused and has a label with its axes; the sentence is its description. Charts over time react to
    arrow keys, plus, minus and 0, which the label says.
    """
    key, name = figure.key, escape(figure.title)
    tools = choice(figure) + (colour_switch(figure) if kind == "gantt" else "") + (ZOOM if kind in TIMED else "")
    chosen = f'<span class="chosen">{escape(figure.called)}</span>' if figure.others else ""
    keys = " Arrow keys move in time, plus and minus zoom, 0 shows all." if kind in TIMED else ""
    label = f"{name}. {escape(figure.x.label)} across, {escape(figure.y.label)} up.{keys}"
    return (
        f'<figure class="fig{" half" if half else ""}" id="fig-{key}" data-kind="{kind}">'
        f'<header><h2 id="h-{key}">{name}</h2>{chosen}{f"<div class=tools>{tools}</div>" if tools else ""}</header>'
        '<div class="key"></div>'
        '<div class="chart" tabindex="0" role="group" aria-roledescription="chart" '
        f'aria-label="{label}" aria-describedby="s-{key}"></div>'
        f'<figcaption class="says" id="s-{key}">{escape(together(figure.says))}</figcaption>'
        f"<details><summary>Data of this figure</summary></details></figure>"
    )


def choice(figure: Figure) -> str:
    """Return the list of configurations a figure can show (HTML), empty where there is only one."""
    names = [figure.called, *(other.called for other in figure.others)]
    options = "".join(f"<option>{escape(name)}</option>" for name in names)
    return f'<label class="choose">Configuration <select>{options}</select></label>' if figure.others else ""


def colour_switch(figure: Figure) -> str:
    """Return the buttons that colour the Gantt chart by power, user or frequency (HTML).

    Empty where only one is known.
    """
    extra = figure.extra
    found = [
        name
        for name, there in (("power", extra["power"]), ("user", extra["has_users"]), ("frequency", extra["frequency"]))
        if there
    ]
    checked = [" checked", *[""] * len(found)]
    options = "".join(
        f'<label><input type="radio" name="colour" value="{name}"{mark}><span>{name}</span></label>'
        for name, mark in zip(found, checked, strict=False)
    )
    return f"<fieldset><legend>Colour by</legend>{options}</fieldset>" if len(found) > 1 else ""


def _footer(run: RunData) -> str:
    """Return the last line of a report: version, and how to repeat the run."""
    version = run.about.version or __version__

    again = "<code>wattqueue rerun DIR</code> reproduces this run with identical files."
    return f"Made by WattQueue {escape(version)}. {again}"
