"""The night as text and page: the result in a sentence, the cap, other rows, the bound, and what was left out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from wattqueue.report import words
from wattqueue.report.compare.stats import Estimate, with_interval
from wattqueue.report.document import Document, Prose, Table
from wattqueue.version import __version__
from wattqueue.whatif.text import upper_first
from wattqueue_studies.nightly.night import Night, RowNight
from wattqueue_studies.nightly.nights import NIGHTS, NOTHING_SHOWN, RowVerdict

LEAST_S = 1.0
"""A mean wait that differs by less is the same."""
APART = (
    "The replay's waits and the recorded ones differ by more than a factor of two: what the replay says of waits is of "
    "little use for this day."
)
METHOD = (
    (
        "The day is replayed: the jobs that ran at midnight go on, those that waited or were submitted that day are "
        "scheduled again, to their ends. Waits count from midnight, or from the submission if that is later. A replay "
        "knows nodes, limits and the order of the queue; it knows neither dependencies and holds nor nodes that were "
        "down."
    ),
    (
        "A row is compared if it ran the same jobs as the site's own row and was not longer above the cap. One night "
        f"says nothing about a row: “better” and “worse” are said over {NIGHTS} nights and more, where the 95 % "
        "interval of the mean difference does not contain 0. Of twenty rows without any difference, one is called "
        "different by chance."
    ),
)


def document(night: Night, over: Sequence[RowVerdict], file: str = "") -> Document:
    """Return text and page of a night; ``file`` is where its certificates are."""
    seen = night.recorded
    apart = f" {APART}" if seen is not None and seen.disagree else ""
    blocks = [_cost(night, over[0]), _rows(night, over[1:]), _bound(night, file)]
    notes = [
        *(f"{upper_first(note)}." for note in night.notes),
        *(f"{row} was left out: {why}." for row, why in night.left_out.items()),
    ]
    return Document(
        title=f"The night report of {date_words(night.day)}",
        eyebrow=f"{night.machine}  ·  {night.policy}  ·  {words.count(night.jobs, 'job')}",
        lede=f"{sentence(night)} {others_sentence(night, over[1:])} {bound_sentence(night)}{apart}",
        blocks=[*blocks, Prose("How this was computed", [*METHOD, *notes], "method")],
        text=[sentence(night), others_sentence(night, over[1:]), bound_sentence(night) + apart, "", *blocks, *notes],
        footer=f"Made by WattQueue {__version__}: `wattqueue nightly`.",
        links=(("cost", "Cap"), ("rows", "Rows"), ("bound", "Bound"), ("method", "Method")),
    )


def date_words(day: str) -> str:
    """Return a date as people read it: ``Thursday, 26 November 2026``."""
    return f"{date.fromisoformat(day):%A, %-d %B %Y}"


def cap_words(night: Night) -> str:
    """Return the cap, or its range."""
    low, high = (words.watts(watts) for watts in night.cap_w)
    return low if low == high else f"{low} to {high}"


def sentence(night: Night) -> str:
    """Return what the cap cost."""
    day, cap, cost = date_words(night.day), cap_words(night), night.cost_s
    own, plain = (words.span(row.wait_s or 0.0) for row in (night.own, night.plain))
    if cost is None:
        return f"**What the power cap of {cap} cost on {day} cannot be said**: {night.plain.why}."
    if cost >= LEAST_S:
        return (
            f"On {day} the power cap of {cap} made jobs wait **{words.span(cost)} longer on average**: {own} with it, "
            f"{plain} without it."
        )
    also = f"they waited {own} on average with it" + ("" if abs(cost) < LEAST_S else f", and {plain} without it")
    return f"On {day} the power cap of {cap} **cost jobs no waiting time**: {also}."


def others_sentence(night: Night, over: Sequence[RowVerdict]) -> str:
    """Return the range of other rows, and which of them are better over many nights."""
    waits = [row.wait_s for row in night.fair() if row.wait_s is not None]
    if not waits:
        return "No other scheduling rule can be compared that night."
    least, most = words.span(min(waits)), words.span(max(waits))
    found = f"Under {words.count(len(waits), 'other scheduling rule')} the average wait of the same jobs is " + (
        f"{least}." if least == most else f"{least} to {most}."
    )
    better = [one.row for one in over if one.word == "better"]
    nights = max((one.nights for one in over), default=0)
    if better:
        return f"{found} Better over {NIGHTS} nights and more: {', '.join(better)}."
    return f"{found} Between these rules and the one in use: {NOTHING_SHOWN} ({words.count(nights, 'night')})."


def bound_sentence(night: Night) -> str:
    """Return how far the day was from the best possible."""
    bound = night.bound
    if bound is None:
        return f"No bound was proven: {night.no_bound}."
    first = "" if bound["jobs"] == night.jobs else f" of the first {bound['jobs']:,} jobs"
    least = words.span(bound["bound_s"])
    said = f"No schedule at all could have brought the average time from submission to end{first} below {least}"
    if bound["gap"] is None:
        return f"{said}, which is proven; the rule in use is not compared with it: {bound['undefined']}."
    more = f"{words.span(bound['policy_s'])} ({100 * bound['gap']:.1f} % more)"
    return f"{said}, which is proven; the rule in use needed {more} in the replay."


def _cost(night: Night, over: RowVerdict) -> Table:
    """Return what the cap cost."""
    heads, seen = ("", "with the cap", "without it"), night.recorded
    rows = [
        ("Average wait, in the replay", *(_wait(row) for row in (night.own, night.plain))),
        (
            "Average wait, recorded, of the jobs that had started",
            "–" if seen is None else words.span(seen.wait_s_mean),
            "–",
        ),
        ("Their average wait in the replay", "–" if seen is None else words.span(seen.replay_wait_s_mean), "–"),
        ("Energy of the jobs", *(words.si(row.energy_j / 3_600.0, "Wh") for row in (night.own, night.plain))),
        ("Time above the cap", words.span(night.own.above_s), "–"),
    ]
    many = f"Over {words.count(over.nights, 'night')} without the cap: {_change(over)}."
    note = night.plain.why and f"Not comparable: {night.plain.why}."
    return Table(
        heads, rows, f"What the cap of {cap_words(night)} cost", note or many, key="cost", kinds=["", "n", "n"]
    )


def _rows(night: Night, over: Sequence[RowVerdict]) -> Table:
    """Return the other rows."""
    fair = {row.row for row in night.fair()}
    heads = ("Row", "average wait", "above the cap", "that night", "over nights")
    rows = [(f"{night.own.row} (in use)", _wait(night.own), words.span(night.own.above_s), "–", "–")]
    for row, many in zip(night.others, over, strict=True):
        that = words.span(row.change_s) if row.row in fair and row.change_s is not None else "not comparable"
        rows.append(
            (
                row.row,
                _wait(row),
                words.span(row.above_s),
                that,
                f"{_change(many)}, {words.count(many.nights, 'night')}",
            )
        )
    why = [
        f"{row.row}: {row.why or 'longer above the cap than the row in use'}."
        for row in night.others
        if row.row not in fair
    ]
    return Table(
        heads, rows, "What other rows would have done", "Changes are those of the average wait; minus is shorter.",
        key="rows", kinds=["", "n", "n", "n", "wrap"], notes=why, answer=[1],
    )  # fmt: skip


def _bound(night: Night, file: str) -> Table | Prose:
    """Return the three numbers."""
    bound = night.bound
    if bound is None:
        return Prose("The best possible", [bound_sentence(night)], "bound")
    rows = [
        (name, "–" if bound[key] is None else words.span(bound[key]))
        for name, key in (
            ("Proven: no schedule is below", "bound_s"),
            ("Best schedule known", "best_known_s"),
            ("Row in use", "policy_s"),
        )
    ]
    proof = f"`wattqueue bound --verify {file}` proves the first number again." if file else ""
    return Table(
        ("Average time from submission to end", "of the same jobs"), rows,
        f"The best possible, with run times and watts known ({words.count(bound['jobs'], 'job')}, {bound['scope']})",
        proof, key="bound", kinds=["", "n"],
    )  # fmt: skip


def _wait(row: RowNight) -> str:
    return "–" if row.wait_s is None else words.span(row.wait_s)


def _change(over: RowVerdict) -> str:
    """Return the mean change in minutes with its interval, and the verdict."""
    found = over.change
    if found is None or found.low is None or found.high is None:
        return NOTHING_SHOWN
    minutes = Estimate(found.n, found.mean / 60.0, found.low / 60.0, found.high / 60.0)
    return f"{with_interval(minutes)} min: {over.word}"
