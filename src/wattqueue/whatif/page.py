"""The answer as text and page: verdicts, figures, tables, and what "safe" means.

Order of the page: a notice where the replay does not reproduce the recorded waits, knee and lowest safe cap per
configuration, figures, one table of all caps per configuration, the worst hours and the users that wait longer, the
definition of safe, and the inputs. The text has the tables with the conclusions of each.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

from wattqueue.report import metric_table, words
from wattqueue.report.document import Block, Document, Figures, Prose, Table, rows_csv
from wattqueue.report.html import Html, card, paragraph, together
from wattqueue.version import __version__
from wattqueue.whatif import safe, text
from wattqueue.whatif.analysis import CapAnalysis, Curve
from wattqueue.whatif.document import delayed_user_rows, rows, to_json
from wattqueue.whatif.figures import pictures
from wattqueue.whatif.run import RunSummary


def document(answer: CapAnalysis) -> Document:
    """Return the answer as text and page."""
    tables = [table(answer, curve) for curve in answer.curves]
    on = f"{Path(answer.setup.task.workload).name} on {answer.setup.machine.name}"
    said: list[Block | str] = []
    for curve, shown in zip(answer.curves, tables, strict=True):
        said += [f"**{on}: {curve.label}**", shown, *text.sentences(answer, curve)]
    return Document(
        title="What would a cap do?",
        eyebrow=_eyebrow(answer),
        lede=lede(answer),
        top=notice(answer),
        blocks=[
            verdicts(answer),
            Figures(pictures(answer)),
            *tables,
            *(_closely(answer, curve) for curve in answer.curves),
            meaning(),
            sources(answer),
        ],
        text=[*said, *text.remarks(answer)],
        footer=f"Made by WattQueue {__version__}: `wattqueue whatif`.",
        links=(("caps", "Table"), ("meaning", "Safe?"), ("sources", "Sources")),
        folds=True,
    )


def files(answer: CapAnalysis, shown: Document) -> dict[str, str]:
    """Return the text of every file by its name: two CSV tables, one JSON document, one self-contained page."""
    return {
        "whatif.csv": rows_csv(rows(answer)),
        "delayed_users.csv": rows_csv(list(delayed_user_rows(answer))),
        "whatif.json": to_json(answer),
        "report.html": shown.html(),
    }


def _eyebrow(answer: CapAnalysis) -> str:
    """Return the line above the title: workload, machine, number of jobs."""
    setup = answer.setup
    said = [Path(setup.task.workload).name, setup.machine.name, words.count(len(setup.jobs), "job")]
    if setup.jobs.origin == "generated":
        said.insert(1, "generated workload")
    return "  ·  ".join(said)


def lede(answer: CapAnalysis) -> str:
    """Return the answer for the first configuration in two sentences.

    The first gives the wait under the cap that is examined closely against none, or why that cap does not hold. The
    second names the lowest safe cap and, where that is another cap, its wait: a safe cap without its wait says nothing
    to users.
    """
    curve, caps = answer.curves[0], answer.setup.caps
    lowest = curve.best.lowest
    condition = "" if curve.assumed is None else f"{text.UNKNOWN}, the"
    risk = safe.percent(answer.setup.question.risk)
    called = (
        f"{condition or 'The'} lowest safe cap at a risk of {risk} is **{caps[lowest].text}**"
        f"{'' if lowest == curve.detail_row else f', {text.waits_under(curve, lowest)}'}."
        if lowest is not None
        else f"**This data certifies no cap**: {curve.best.why}."
    )
    said = text.headline(answer, curve)
    falls = f" {metric_table.MAY_FALL}" if text.mean_falls(curve) else ""
    return f"{said if curve.holds(curve.detail_row) else f'**{said}**'} {called}{falls}"


def notice(answer: CapAnalysis) -> str:
    """Return the warning that the replay does not reproduce the recorded waits (HTML), empty where it does.

    It stands above all figures, because it limits what every one of them says about users.
    """
    seen = text.recorded(answer, answer.curves[0])
    if seen is None or not seen.disagree:
        return ""
    return f'<p class="notice" role="note">{escape(together(text.recorded_sentence(seen)))}</p>'


def verdicts(answer: CapAnalysis) -> Table:
    """Return knee, lowest safe cap with their mean waits, and the reason, one row per configuration."""
    caps = answer.setup.caps

    def name(curve: Curve, row: int | None) -> str:
        if row is None:
            return "none"
        broken = "" if curve.holds(row) else "; it does not hold"
        return f"{caps[row].text} ({words.watts(caps[row].cap_w)}): {wait_of(curve.ran[row])}{broken}"

    rows = [
        (label, wait_of(c.plain), name(c, c.knee), name(c, verdict.lowest), text.upper_first(verdict.why))
        for c in answer.curves
        for label, verdict in _answers(c)
    ]
    column_titles = (
        "Configuration",
        "Mean wait without a cap",
        "Cap below which waits climb, mean wait",
        f"Lowest safe cap at {safe.percent(answer.setup.question.risk)}, mean wait",
        "Reason",
    )
    return Table(column_titles, rows, "Knee and lowest safe cap", key="verdicts", kinds=["", *["wrap"] * 4])


def _answers(curve: Curve) -> list[tuple[str, safe.SafeCaps]]:
    """Return the verdicts of a configuration with its label: by the data, and where they know too little, assumed."""
    if curve.assumed is None:
        return [(curve.label, curve.verdict)]
    return [
        (f"{curve.label}, by the data alone", curve.verdict),
        (f"{curve.label}, jobs without watts at the stated maximum", curve.assumed),
    ]


def wait_of(ran: RunSummary) -> str:
    """Return the mean wait of a run as text."""
    value = ran.metrics.get("wait_s_mean")
    return "–" if value is None else words.span(float(value))


COLUMNS = (
    "**Energy billed**: the whole machine from the first submission to the end of the run. **Time above**: share of "
    "time with true power above the cap, from the first submission to the last start. **Upper bound**: of that "
    "share, at the stated risk. **By nodes**: each job weighted by its nodes. **Jobs that never ran** count in the "
    "waits over all jobs only, up to the end of the run (≥). **recorded**: waits that users really had, where the "
    "trace has start times."
)
"""Explanation of the columns, below the last table."""
HOURS = (
    "Hour of submission", "Additional node-hours of wait", "Jobs", "Delayed jobs", "Their mean wait, no cap",
    "Their mean wait, cap",
)  # fmt: skip
"""Heads of the worst hours; the two waits are means over the jobs that wait longer, not over all jobs of the hour."""
RANKED = (
    "Hours are ranked by the additional node-hours of wait of the jobs submitted in them, against no cap. "
    "delayed_users.csv lists every user and partition under every cap."
)
"""What is said below the last of them."""


def table(answer: CapAnalysis, curve: Curve) -> Table:
    """Return all caps of one configuration; columns that are empty in every row are left out.

    Costs are empty without prices, for example. Only the marks may be broken.
    """
    found, names = text.table_rows(answer, curve), text.column_titles(answer)
    keep = [k for k in range(len(names)) if any(row[k] for row in found)]
    place = answer.curves.index(curve)
    column_titles = [names[k] for k in keep]
    return Table(
        column_titles,
        [[row[k] for k in keep] for row in found],
        f"Every cap: {curve.label}",
        COLUMNS if curve is answer.curves[-1] else "",
        key=f"caps-{place + 1}" if place else "caps",
        short=column_titles,
        words=[k for k, column in enumerate(keep) if column == text.MARK],
        kinds=["" if k in text.WORDS else "n" for k in keep],
        answer=[keep.index(k) for k in text.ANSWER if k in keep],
    )


def _closely(answer: CapAnalysis, curve: Curve) -> Table | Prose:
    """Return the worst hours and the delayed users of a configuration, under the cap shown in detail."""
    cap, place = answer.setup.caps[curve.detail_row].text, answer.curves.index(curve)
    title = f"The three worst hours, and who waits longer: {curve.label} under {cap}"
    key = f"closely-{place + 1}" if place else "closely"
    hours = [
        (
            answer.setup.words(h.begin_s), f"{h.wait_node_h:,.0f}", f"{h.jobs:,}", f"{h.delayed:,}",
            words.span(h.delayed_plain_wait_mean_s), words.span(h.delayed_wait_mean_s),
        )
        for h in answer.hours(curve, curve.detail_row)
    ]  # fmt: skip
    said = [text.delay_sentence(group, cap) for group in answer.delayed_users(curve, curve.detail_row)]
    said += [RANKED] if curve is answer.curves[-1] else []
    if not hours:
        return Prose(title, [curve.gates[curve.detail_row].sentence or "No job waits longer.", *said], key)
    return Table(HOURS, hours, title, key=key, notes=said, kinds=["", *["n"] * 5])


LIMITS = """The statement is about the simulated workload. Next year's jobs may differ: a new application or a higher
load is not in the data.

True power is each job's mean watts, or its power profile where the trace has one. Peaks within a job are invisible
where there is no profile: leave a margin for them.

Only node power is counted: no switches, storage or cooling, unless the trace's watts include them.

The bound counts time above the cap, however small the excess; the column "Greatest excess" shows its size. A breaker
may trip within a second, a contract may count quarter hours.

The number of independent observations is estimated from the correlation of hourly power. An event that occurs once a
year may be missing from a shorter trace."""
"""What the certificate does not cover, one paragraph per limit."""


def meaning() -> Html:
    """Return the definition of "safe" and its limits.

    The definition is the docstring of ``safe``, the limits are LIMITS below it on the page: what the bound cannot
    know.
    """
    # The docstring of the module is the definition: page, whatif.json and documentation cannot drift apart.
    said = (safe.__doc__ or "").partition("**Definition.** ")[2].partition("\n\nReferences")[0]
    blocks = [
        " ".join(block.split()).replace("**The bound.** ", "").replace("**Unknown watts.** ", "")
        for block in said.split("\n\n")
    ]
    items = "".join(f"<li>{escape(line.split('. ', 1)[1])}</li>" for line in _items(said))
    shown = [b for b in blocks if b[:2] not in {"1.", "2.", "3."}]
    paragraphs = f'{paragraph(shown[0])}<ol class="note">{items}</ol>{"".join(map(paragraph, shown[1:]))}'
    limits = "".join(f"<li>{escape(line)}</li>" for line in LIMITS.split("\n\n"))
    title = "What “safe” means here, and what it does not"
    return Html(card("meaning", title, f'{paragraphs}<h3>Limits</h3><ul class="note">{limits}</ul>'))


def _items(said: str) -> list[str]:
    """Return the numbered items of the definition, one line each."""
    block = next(b for b in said.split("\n\n") if b.startswith("1."))
    items: list[str] = []
    for line in block.splitlines():
        if line[:2] in {"1.", "2.", "3."}:
            items.append(line)
        else:
            items[-1] += " " + line.strip()
    return items


def sources(answer: CapAnalysis) -> Table:
    """Return what went in: workload, machine, series, and remarks about them.

    Series are named with the begin of their hash; whatif.json has it in full.
    """
    setup = answer.setup
    rows = [("workload", setup.task.workload, setup.jobs.origin), ("machine", setup.machine.name, setup.machine.source)]
    for name, tariff in (("prices", setup.prices), ("intensity", setup.intensity)):
        if tariff is not None:
            rows.append((name, f"{tariff.source.path.name} ({tariff.source.unit})", f"SHA-256 {tariff.sha256[:12]}…"))
    said, kinds = list(text.remarks(answer)), ["", "wrap", "wrap"]
    return Table(("input", "what", "origin"), rows, "Inputs", key="sources", notes=said, kinds=kinds)
