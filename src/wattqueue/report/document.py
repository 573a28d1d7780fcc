"""The page: one self-contained HTML file from a run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from importlib.resources import files

import numpy as np

from wattqueue import __version__
from wattqueue.model.schedule import State
from wattqueue.report import words
from wattqueue.report.figure import Figure
from wattqueue.report.figures import gantt, power, prediction, queue, users, waiting
from wattqueue.report.payload import encode, script_json
from wattqueue.report.run import Run
from wattqueue.report.sections import metrics, sources, tiles

SCRIPTS = ("core.js", "charts.js", "boxes.js", "gantt.js", "compare.js", "whatif.js", "page.js")
TIMED = ("power", "gantt", "queue", "overlay", "hours")
HALF = ("cdf", "density", "bars", "cdfs", "payers", "capcurve-small")
ECHARTS_VERSION = re.compile(r"Apache ECharts\]\(.*?\) (\S+),")

ACRONYMS = {"easy": "EASY", "fcfs": "FCFS"}

Drawn = tuple[Figure, str]
"""A figure and the kind of picture that shows it (a function of charts.js)."""


def report(run: Run) -> str:
    """The report of one run as HTML that opens without a network."""
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


def pictures(run: Run) -> list[Drawn]:
    """All pictures of a run, in the order of the page."""
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
    """The frame around pictures and tables. ``body`` and ``lede`` are HTML, the others text."""
    nav = [(f"fig-{f.key}", f.key.capitalize()) for f, _ in drawn] + list(links)
    parts = {
        "version": __version__,
        "title": escape(title),
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
    return re.sub(r"\{\{(\w+)\}\}", lambda hit: parts[hit[1]], part("page/report.html"))


def findings(*, title: str, eyebrow: str, lede: str, drawn: Sequence[Drawn], cards: Sequence[str]) -> str:
    """A page of pictures and below them cards: a table (``#table``), and notes (``#notes``). ``lede`` is HTML."""
    return page(
        title=title,
        eyebrow=eyebrow,
        lede=lede,
        body="\n".join(['<div class="figures">', figures_html(drawn), *cards, "</div>"]),
        drawn=drawn,
        footer=f"Made by WattQueue {escape(__version__)}.",
        links=(("table", "Figures"), ("notes", "Reading them")),
    )


def part(name: str) -> str:
    """A file of the package that becomes part of the page."""
    return files("wattqueue.report").joinpath(name).read_text(encoding="utf-8")


def echarts_version() -> str:
    """Version of the vendored ECharts, from the note beside it."""
    hit = ECHARTS_VERSION.search(part("vendor/README.md"))
    return hit[1] if hit else ""


def title(run: Run) -> str:
    """Policy and cap."""
    name = policy_name(run.about.policy) if run.about.policy else "A run"
    if not run.series.limited:
        return f"{name}, no power cap"
    caps = run.series.cap_w[np.isfinite(run.series.cap_w)]
    if caps.min() == caps.max():
        return f"{name} under a cap of {words.watts(float(caps.min()))}"
    return f"{name} under a cap of {words.watts(float(caps.min()))} to {words.watts(float(caps.max()))}"


def policy_name(key: str) -> str:
    """A policy's key as it begins a title."""
    return ACRONYMS.get(key, key[:1].upper() + key[1:])


def together(text: str) -> str:
    """No line break between a number and its unit."""
    return re.sub(r"(\d) (?=[A-Za-z%])", "\\1\u00a0", text)


def eyebrow(run: Run) -> str:
    """Workload, machine, seed."""
    about = run.about
    said = [about.workload, about.machine]
    if about.origin == "generated":
        said = [about.workload, "generated workload", about.machine]
        said += [] if about.seed is None else [f"seed {about.seed}"]
    return "  ·  ".join(word for word in said if word)


def lede(run: Run) -> str:
    """The run in one sentence (HTML)."""
    wait = run.wait_s
    ran = len(wait)
    if not ran:
        return f"None of {words.count(len(run.jobs), 'job')} ran."
    lost = ((State.REJECTED, "rejected"), (State.NOT_STARTED, "never started"))
    counts = [(int((run.state == state).sum()), what) for state, what in lost]
    stuck = "".join(f" <strong>{words.count(n, 'job')}</strong> {what}." for n, what in counts if n)
    over = power.Excess.of(run.series)
    kept = ""
    if run.series.limited:
        held = "was never exceeded" if over.over_s == 0 else f"was exceeded for {words.span(over.over_s)}"
        kept = f" The cap <strong>{held}</strong>."
    return (
        f"<strong>{words.count(ran, 'job')}</strong> on {words.count(run.units, run.unit)} over "
        f"{words.span(run.last_s - run.first_s)} waited <strong>{words.span(float(wait.mean()))}</strong> in the mean."
        f"{kept}{stuck}"
    )


ZOOM = (
    '<div class="zoom" role="group" aria-label="Zoom in time">'
    '<button type="button" data-key="-" aria-label="Zoom out" title="Zoom out (−)">−</button>'
    '<button type="button" data-key="+" aria-label="Zoom in" title="Zoom in (+)">+</button>'
    '<button type="button" data-key="ArrowLeft" aria-label="Earlier" title="Earlier (←)">←</button>'
    '<button type="button" data-key="ArrowRight" aria-label="Later" title="Later (→)">→</button>'
    '<button type="button" data-key="0" aria-label="All of it" title="All of it (0)">↺</button></div>'
)


def figures_html(drawn: Sequence[Drawn]) -> str:
    """All pictures; the small ones stand in pairs, one without a partner takes the whole width."""
    small = [kind in HALF for _, kind in drawn]
    if sum(small) % 2:
        small[max(k for k, is_small in enumerate(small) if is_small)] = False
    return "".join(figure_html(f, kind, half=half) for (f, kind), half in zip(drawn, small, strict=True))


def figure_html(figure: Figure, kind: str, *, half: bool) -> str:
    """Heading, tools, the place of the chart, the sentence, and the table behind it."""
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
        f"<details><summary>Data of this picture</summary></details></figure>"
    )


def choice(figure: Figure) -> str:
    """Which of several configurations a picture shows; on paper the chosen one's name stands instead."""
    names = [figure.called, *(other.called for other in figure.others)]
    options = "".join(f"<option>{escape(name)}</option>" for name in names)
    return f'<label class="choose">Configuration <select>{options}</select></label>' if figure.others else ""


def colour_switch(figure: Figure) -> str:
    """Which of power, user and frequency the Gantt can be coloured by; a switch where there is a choice."""
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


def _footer(run: Run) -> str:
    version = run.about.version or __version__
    return f"Made by WattQueue {escape(version)}. <code>wattqueue rerun DIR</code> repeats this run to the same bytes."
