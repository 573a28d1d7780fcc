"""The answer in words: rows of the table in the terminal, and sentences that the page uses too."""

from __future__ import annotations

from collections.abc import Iterator

from wattqueue.report import words
from wattqueue.whatif.answer import Answer, Bill, Curve
from wattqueue.whatif.payers import Hour, Payers
from wattqueue.whatif.run import Ran
from wattqueue.whatif.safe import Evidence, percent

WORDS = frozenset({0, 2})
"""Columns of words, which stand to the left."""
SMALL_UNITS = {"g": (1e6, "t"), "kg": (1e3, "t")}


def heads(answer: Answer) -> tuple[str, ...]:
    """Heads of the table's columns, with units; money and emission bear theirs."""
    prices, intensity = answer.setup.prices, answer.setup.intensity
    cost = f"cost, {prices.source.amount}" if prices else "cost"
    carbon = f"carbon, {carbon_scale(intensity.source.amount)[1]}" if intensity else "carbon"
    return (
        "cap", "kW", "mark", "mean wait, h", "p95 wait, h", "slowdown", "lost jobs", "energy, MWh", cost, carbon,
        "above cap", "at most", "by kW",
    )  # fmt: skip


def table_rows(answer: Answer, curve: Curve) -> list[tuple[str, ...]]:
    """Cells of the table, without a cap first, then the highest cap down; columns with nothing in them are empty."""
    caps = answer.setup.caps
    found: list[tuple[str, ...]] = [
        ("none", "", "", *_waits(curve.plain), "", *_bill(answer, curve.plain_bill), "", "", "")
    ]
    for k in reversed(range(len(caps))):
        seen, ran = curve.evidence[k], curve.ran[k]
        found.append(
            (
                caps[k].text,
                words.figures(caps[k].cap_w / 1e3, 4),
                marks(curve, k),
                *_waits(ran),
                f"{seen.lost:,}" if seen.lost else "",
                *_bill(answer, curve.bills[k]),
                *_risk(seen, ran),
            )
        )
    return found


def marks(curve: Curve, row: int) -> str:
    """What is to say of a cap in a word or two."""
    lowest = curve.verdict.lowest
    said = ("lowest safe" if row == lowest else "safe") if lowest is not None and row >= lowest else ""
    return ", ".join(word for word in (said, "knee" if row == curve.knee else "") if word)


def _waits(ran: Ran) -> tuple[str, str, str]:
    mean, late, slow = (ran.metrics.get(n) for n in ("wait_s_mean", "wait_s_p95", "bounded_slowdown_mean"))
    return (
        "–" if mean is None else words.figures(round(float(mean) / 3_600, 4)),
        "–" if late is None else words.figures(round(float(late) / 3_600, 4)),
        "–" if slow is None else words.figures(float(slow)),
    )


def _bill(answer: Answer, bill: Bill) -> tuple[str, str, str]:
    intensity = answer.setup.intensity
    return (
        words.figures(bill.energy_j / 3.6e9, 4),
        "" if bill.cost is None else f"{bill.cost:,.0f}" if abs(bill.cost) >= 100 else f"{bill.cost:,.2f}",
        ""
        if bill.carbon is None or intensity is None
        else words.figures(bill.carbon / carbon_scale(intensity.source.amount)[0], 4),
    )


def money(amount: float, unit: str) -> str:
    """``12,345 EUR``."""
    return f"{amount:,.0f} {unit}" if abs(amount) >= 100 else f"{amount:,.2f} {unit}"


def emitted(amount: float, unit: str) -> str:
    """``12.3 tCO2`` for 12.3e6 gCO2; other units as they are."""
    scale, name = carbon_scale(unit)
    return f"{words.figures(amount / scale, 4)} {name}"


def carbon_scale(unit: str) -> tuple[float, str]:
    """What an emission is divided by to be read, and in what it is then: tonnes for gCO2 and kgCO2."""
    for prefix in ("kg", "g"):
        if unit.startswith(prefix):
            factor, tonne = SMALL_UNITS[prefix]
            return factor, tonne + unit.removeprefix(prefix)
    return 1.0, unit


def _risk(seen: Evidence, ran: Ran) -> tuple[str, str, str]:
    most = ran.metrics.get("cap_overshoot_w") or 0.0
    above = "never" if seen.over_s == 0 else percent(seen.share)
    return above, "never" if seen.never else percent(seen.upper), words.figures(most / 1e3) if most else ""


def sentences(answer: Answer, curve: Curve) -> Iterator[str]:
    """What a reader of the table should know of one configuration."""
    caps = answer.setup.caps
    yield knee_sentence(answer, curve)
    yield safe_sentence(answer, curve)
    hours = answer.hours(curve, curve.at)
    if hours:
        yield f"Worst hours to submit in under {caps[curve.at].text}, against no cap:"
        yield from (f"  {hour_sentence(answer, hour)}" for hour in hours)
    for group in answer.payers(curve, curve.at):
        yield payer_sentence(group, caps[curve.at].text)


def knee_sentence(answer: Answer, curve: Curve) -> str:
    """Where waits begin to climb."""
    if not any(e.lost or (x.wait_s > 0).any() for e, x in zip(curve.evidence, curve.extra, strict=True)):
        return "No job waits longer under any cap that was tried: try lower ones."
    if curve.knee is None:
        return "No knee: the mean wait has no bend within these caps."
    cap = answer.setup.caps[curve.knee]
    return f"Knee at {cap.text} ({words.watts(cap.cap_w)}); below it waits climb steeply."


def safe_sentence(answer: Answer, curve: Curve) -> str:
    """The lowest safe cap, or why there is none."""
    risk = percent(answer.setup.question.risk)
    lowest = curve.verdict.lowest
    if lowest is None:
        return f"Lowest safe cap at a risk of {risk}: none called. {upper_first(curve.verdict.why)}."
    cap = answer.setup.caps[lowest]
    return f"Lowest safe cap at a risk of {risk}: {cap.text} ({words.watts(cap.cap_w)}). It {curve.verdict.why}."


def upper_first(text: str) -> str:
    """A sentence's beginning."""
    return text[:1].upper() + text[1:]


def hour_sentence(answer: Answer, hour: Hour) -> str:
    """One of the worst hours."""
    return (
        f"{answer.setup.words(hour.begin_s)}: {words.count(hour.jobs, 'job')}, of which {hour.delayed:,} wait longer, "
        f"{words.span(hour.plain_wait_mean_s + hour.wait_mean_s)} in the mean instead of "
        f"{words.span(hour.plain_wait_mean_s)} ({words.figures(hour.wait_node_h)} node-hours of waiting more)"
    )


def payer_sentence(group: Payers, cap: str) -> str:
    """Which names pay, against what they run."""
    plural = f"{group.kind}s"
    paying = [k for k in range(len(group.name)) if group.wait_share[k] > 0][:3]
    if not paying:
        return f"No {group.kind} pays under {cap}."
    if len(group.name) == 1:
        return f"All jobs are of one {group.kind}, {group.name[0]}."
    told = ", ".join(
        f"{group.name[k]} {words.percent(float(group.wait_share[k]))} of the extra waiting with "
        f"{words.percent(float(group.work_share[k]))} of the work"
        for k in paying
    )
    return f"{upper_first(plural)} that pay most under {cap}: {told}."


def remarks(answer: Answer) -> Iterator[str]:
    """What a reader should know of the inputs."""
    setup = answer.setup
    if setup.jobs.origin == "generated":
        yield "The workload is generated, not measured: what is safe for it says nothing of a real machine."
    if len(setup.unusable):
        yield f"{len(setup.unusable):,} rows of the trace are unusable."
    for tariff in (setup.prices, setup.intensity):
        if tariff is not None:
            yield from (
                f"{tariff.source.path.name}:{r.line}: offset {r.was} read as {r.now}, as in its neighbours (--repair)."
                for r in tariff.repairs
            )
    if (setup.prices or setup.intensity) and setup.epoch_s is not None:
        yield f"The first submission is taken to be at {setup.words(answer.begin_s)}."
    for curve in answer.curves:
        found = {text: count for ran in curve.ran for text, count in ran.notes.items()}
        yield from (f"{curve.label}: {count:,} x {text}" for text, count in found.items())
