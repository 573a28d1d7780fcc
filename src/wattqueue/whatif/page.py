"""The answer as one HTML file in the manner of the report: verdicts, pictures, tables, what safe means."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from wattqueue import __version__
from wattqueue.report import words
from wattqueue.report.document import figures_html, page, together
from wattqueue.whatif import safe, text
from wattqueue.whatif.answer import Answer, Curve
from wattqueue.whatif.figures import pictures


def html(answer: Answer) -> str:
    """One self-contained page."""
    drawn = pictures(answer)
    body = [
        '<div class="figures">',
        verdicts(answer),
        figures_html(drawn),
        *(table(answer, curve) for curve in answer.curves),
        closely(answer),
        meaning(),
        sources(answer),
        "</div>",
    ]
    return page(
        title="What would a cap do?",
        eyebrow=_eyebrow(answer),
        lede=lede(answer),
        body="\n".join(body),
        drawn=drawn,
        footer=f"Made by WattQueue {escape(__version__)}: <code>wattqueue whatif</code>.",
        links=(("caps", "Table"), ("meaning", "Safe?"), ("sources", "Sources")),
    )


def _eyebrow(answer: Answer) -> str:
    setup = answer.setup
    said = [Path(setup.task.workload).name, setup.machine.name, words.count(len(setup.jobs), "job")]
    if setup.jobs.origin == "generated":
        said.insert(1, "generated workload")
    return "  ·  ".join(said)


def lede(answer: Answer) -> str:
    """The first configuration in two sentences (HTML)."""
    curve, caps = answer.curves[0], answer.setup.caps
    cap, ran = caps[curve.at], curve.ran[curve.at]
    before, after = (r.metrics.get("wait_s_mean") for r in (curve.plain, ran))
    if before is None or after is None:
        return "No job ran."
    lowest = curve.verdict.lowest
    called = (
        f"The lowest cap that these data call safe at a risk of {safe.percent(answer.setup.question.risk)} is "
        f"<strong>{escape(caps[lowest].text)}</strong>."
        if lowest is not None
        else "These data call <strong>no cap safe</strong>; why stands below."
    )
    return (
        f"Under {escape(cap.text)} ({words.watts(cap.cap_w)}), with {escape(curve.label)}, jobs wait "
        f"<strong>{words.span(float(after))}</strong> in the mean instead of "
        f"<strong>{words.span(float(before))}</strong> without a cap. {called}"
    )


def verdicts(answer: Answer) -> str:
    """Knee, lowest safe cap and why, a configuration a row (HTML)."""
    caps = answer.setup.caps

    def name(row: int | None) -> str:
        return "none" if row is None else f"{caps[row].text} ({words.watts(caps[row].cap_w)})"

    rows = [(c.label, name(c.knee), name(c.verdict.lowest), text.upper_first(c.verdict.why)) for c in answer.curves]
    heads = (
        "configuration",
        "knee of the wait",
        f"lowest safe cap at {safe.percent(answer.setup.question.risk)}",
        "why",
    )
    return _card("verdicts", "What the data say", _table(heads, rows, wrap={3}))


COLUMNS = (
    "<em>energy</em>: the whole machine over the time that all runs are billed for; <em>above cap</em>: share of time "
    "with true power above the cap, from the first submission to the last start; <em>at most</em>: its upper bound; "
    "<em>by kW</em>: the greatest excess. <em>lost jobs</em> run without a cap and never start under this one; they do "
    "not count in the waits."
)


def table(answer: Answer, curve: Curve) -> str:
    """All caps of one configuration, the cells of the terminal (HTML)."""
    found = text.table_rows(answer, curve)
    names = text.heads(answer)
    keep = [k for k in range(len(names)) if any(row[k] for row in found)]
    rows = [tuple(row[k] or ("" if k in text.WORDS else "–") for k in keep) for row in found]
    heads = [names[k] for k in keep]
    first = curve is answer.curves[0]
    return _card(
        "caps" if first else f"caps-{answer.curves.index(curve) + 1}",
        f"Every cap: {curve.label}",
        _table(heads, rows, right=True) + f'<p class="note">{COLUMNS}</p>',
    )


def closely(answer: Answer) -> str:
    """Worst hours and payers of every configuration under the cap looked at (HTML)."""
    parts = []
    for curve in answer.curves:
        cap = answer.setup.caps[curve.at].text
        hours = [
            (
                answer.setup.words(h.begin_s), f"{h.wait_node_h:,.0f}", f"{h.jobs:,}", f"{h.delayed:,}",
                words.span(h.plain_wait_mean_s), words.span(h.plain_wait_mean_s + h.wait_mean_s),
            )
            for h in answer.hours(curve, curve.at)
        ]  # fmt: skip
        parts.append(f"<h3>{escape(curve.label)} under {escape(cap)}</h3>")
        heads = (
            "hour of submission",
            "extra node-hours of wait",
            "jobs",
            "delayed",
            "mean wait, no cap",
            "mean wait, cap",
        )
        parts.append(_table(heads, hours, right=True) if hours else '<p class="note">Nobody waits longer.</p>')
        parts += [
            f'<p class="note">{escape(together(text.payer_sentence(g, cap)))}</p>'
            for g in answer.payers(curve, curve.at)
        ]
    note = (
        '<p class="note">An hour is as bad as the jobs submitted in it have node-hours to wait longer than without a '
        "cap. payers.csv has every user and partition under every cap.</p>"
    )
    return _card("closely", "The three worst hours, and who pays", "".join(parts) + note)


LIMITS = """It is said of the simulated workload. Next year's jobs may be other jobs: a new application or a fuller
machine is not in the data.

True power is each job's mean watts, or its power profile where the trace has one. Peaks within a job are invisible
where there is no profile: leave a margin for them.

Node watts alone are counted: no switches, storage or cooling, unless the trace's watts include them.

The bound counts time above the cap, however small the excess; the column "by kW" says how large it was. A breaker may
trip at the first second, a contract may count quarter hours.

Independent looks are estimated from the correlation of hourly power. What comes once a year, a shorter trace has not
seen."""


def meaning() -> str:
    """The definition of safe, and its limits (HTML)."""
    said = (safe.__doc__ or "").partition("**Definition.** ")[2].partition("\n\nReferences")[0]
    blocks = [" ".join(block.split()).replace("**The bound.** ", "") for block in said.split("\n\n")]
    items = "".join(f"<li>{escape(line.split('. ', 1)[1])}</li>" for line in _items(said))
    shown = [b for b in blocks if b[:2] not in {"1.", "2.", "3."}]
    paragraphs = f'<p class="note">{escape(shown[0])}</p><ol class="note">{items}</ol>'
    paragraphs += "".join(f'<p class="note">{escape(b)}</p>' for b in shown[1:])
    limits = "".join(f"<li>{escape(line)}</li>" for line in LIMITS.split("\n\n"))
    return _card(
        "meaning",
        "What “safe” means here, and what it does not",
        f'{paragraphs}<h3>Limits</h3><ul class="note">{limits}</ul>',
    )


def _items(said: str) -> list[str]:
    """Numbered items of the definition, each in one line."""
    block = next(b for b in said.split("\n\n") if b.startswith("1."))
    items: list[str] = []
    for line in block.splitlines():
        if line[:2] in {"1.", "2.", "3."}:
            items.append(line)
        else:
            items[-1] += " " + line.strip()
    return items


def sources(answer: Answer) -> str:
    """What went in (HTML)."""
    setup = answer.setup
    rows = [("workload", setup.task.workload, setup.jobs.origin), ("machine", setup.machine.name, setup.machine.source)]
    for name, tariff in (("prices", setup.prices), ("intensity", setup.intensity)):
        if tariff is not None:
            rows.append((name, f"{tariff.source.path.name} ({tariff.source.unit})", f"SHA-256 {tariff.sha256[:12]}…"))
    said = "".join(f'<p class="note">{escape(together(line))}</p>' for line in text.remarks(answer))
    return _card("sources", "What went in", _table(("input", "what", "origin"), rows, wrap={1, 2}) + said)


def _card(key: str, title: str, inner: str) -> str:
    return f'<section class="card" id="{key}"><h2>{escape(title)}</h2>{inner}</section>'


def _table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], *, right: bool = False, wrap: set[int] | None = None
) -> str:
    """A table; ``right`` aligns all but the first column, ``wrap`` names columns that may break lines."""
    look = [_look(i, h, right, wrap) for i, h in enumerate(heads)]
    head = "".join(f'<th scope="col"{look[i] if i else ""}>{escape(h)}</th>' for i, h in enumerate(heads))
    body = ""
    for row in rows:
        cells = "".join(
            f'<td data-label="{escape(heads[i])}"{look[i]}><span>{escape(together(cell))}</span></td>'
            for i, cell in enumerate(row)
            if i
        )
        body += f'<tr><th scope="row">{escape(row[0])}</th>{cells}</tr>'
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(heads[0])}"><table class="side">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _look(column: int, head: str, right: bool, wrap: set[int] | None) -> str:
    if wrap and column in wrap:
        return ' class="wrap"'
    return ' class="n"' if right and head != "mark" else ""
