"""The answer in words: cells of the table, and the sentences that terminal and page share.

Names of figures are the labels of the table of quantities (``model.quantities``), as in the report, in ``compare`` and
in campaigns. Units are chosen once per answer from its largest values (``DisplayUnits``): a table of a small cluster
and one of an exascale machine both show three significant digits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from wattqueue.model.energy_origin import energy_origin, origin_sentence
from wattqueue.model.quantities import quantity
from wattqueue.report import words
from wattqueue.whatif.answer import Answer, Bill, Curve
from wattqueue.whatif.payers import Hour, Payers
from wattqueue.whatif.recorded import RecordedWaits, recorded_waits
from wattqueue.whatif.run import RunSummary
from wattqueue.whatif.safe import Evidence, percent

MARK = 2
"""Column of the marks, the only one whose text may be broken."""
WORDS = frozenset({0, MARK})
"""Columns of text, which are aligned left."""
SMALL_UNITS = {"g": (1e6, "t"), "kg": (1e3, "t")}
"""Divisor and unit in which emissions in grams and kilograms are shown."""
NOTEWORTHY = 0.005
"""Shares of the additional waiting below this are not listed: they would print as 0 %."""

Scale = tuple[float, str]
"""SI units per printed unit, and the unit's name."""


@dataclass(frozen=True, slots=True)
class DisplayUnits:
    """Units of the table's columns, chosen from the largest value of each over all configurations.

    Attributes:
        power: Of the caps.
        excess: Of the greatest excess.
        energy: Of the billed energy; joules per unit.
        wait: Of all waits.
    """

    power: Scale
    excess: Scale
    energy: Scale
    wait: Scale

    @classmethod
    def of(cls, answer: Answer) -> Self:
        """Choose the units of an answer."""
        runs = [run for curve in answer.curves for run in (curve.plain, *curve.ran)]
        waits = [float(r.metrics.get("wait_s_p95") or 0.0) for r in runs]
        waits += [seen.wait_s_p95 for curve in answer.curves if (seen := recorded(answer, curve)) is not None]
        bills = [bill.energy_j for curve in answer.curves for bill in (*curve.bills, curve.plain_bill)]
        factor, prefix = words.prefix_of(max(bills) / 3_600.0)
        return cls(
            _watts(max(cap.cap_w for cap in answer.setup.caps)),
            _watts(max(float(r.metrics.get("cap_overshoot_w") or 0.0) for r in runs)),
            (3_600.0 * factor, f"{prefix}Wh"),
            words.wait_unit(max(waits)),
        )


def _watts(value: float) -> Scale:
    """Return the unit that suits a power."""
    factor, prefix = words.prefix_of(value)
    return factor, f"{prefix}W"


def recorded(answer: Answer, curve: Curve) -> RecordedWaits | None:
    """Return the waits of the trace beside those of a configuration's run without a cap; None without start times."""
    return recorded_waits(answer.setup.jobs, curve.plain.start_s)


def heads(answer: Answer) -> tuple[str, ...]:
    """Return the heads of the table's columns with their units.

    "Energy billed" is not the metric "Energy of the machine": it reaches to the latest end of all runs (``Bill``).
    """
    prices, intensity, units = answer.setup.prices, answer.setup.intensity, DisplayUnits.of(answer)
    carbon = f" ({carbon_scale(intensity.source.amount)[1]})" if intensity else ""
    return (
        "Cap",
        units.power[1],
        "Mark",
        f"{quantity('wait_s_mean').label} ({units.wait[1]})",
        f"{quantity('wait_s_p95').label} ({units.wait[1]})",
        quantity("bounded_slowdown_mean").label,
        "Lost jobs",
        f"Energy billed ({units.energy[1]})",
        f"Cost ({prices.source.amount})" if prices else "Cost",
        f"Carbon{carbon}",
        "Above cap",
        "At most",
        f"Greatest excess ({units.excess[1]})",
    )


def table_rows(answer: Answer, curve: Curve) -> list[tuple[str, ...]]:
    """Return the cells of the table: recorded waits where known, no cap, then the highest cap down.

    All cells are text in the units of ``heads``; a cell without a value is empty, and the printers drop columns that
    are empty in every row (cost without a price series, lost jobs where none are lost).
    """
    caps, units, seen = answer.setup.caps, DisplayUnits.of(answer), recorded(answer, curve)
    found: list[tuple[str, ...]] = []
    if seen is not None:
        waits = _waits(seen.wait_s_mean, seen.wait_s_p95, seen.bounded_slowdown_mean, units)
        found.append(("recorded", "", "", *waits, *[""] * 7))
    found.append(
        ("none", "", "", *_run_waits(curve.plain, units), "", *_bill(answer, curve.plain_bill, units), *[""] * 3)
    )
    for k in reversed(range(len(caps))):
        evidence, ran = curve.evidence[k], curve.ran[k]
        found.append(
            (
                caps[k].text,
                words.figures(caps[k].cap_w / units.power[0], 4),
                marks(curve, k),
                *_run_waits(ran, units),
                f"{evidence.lost:,}" if evidence.lost else "",
                *_bill(answer, curve.bills[k], units),
                *_risk(evidence, ran, units),
            )
        )
    return found


def marks(curve: Curve, row: int) -> str:
    """Return what to say of a cap in a word or two: ``safe``, ``lowest safe``, ``knee``, or both."""
    lowest = curve.verdict.lowest
    safety = ("lowest safe" if row == lowest else "safe") if lowest is not None and row >= lowest else ""
    return ", ".join(word for word in (safety, "knee" if row == curve.knee else "") if word)


def _run_waits(ran: RunSummary, units: DisplayUnits) -> tuple[str, str, str]:
    """Return mean and p95 wait and mean bounded slowdown of a run as text."""
    mean, p95, slowdown = (_number(ran, name) for name in ("wait_s_mean", "wait_s_p95", "bounded_slowdown_mean"))
    return _waits(mean, p95, slowdown, units)


def _number(ran: RunSummary, name: str) -> float | None:
    """Return a metric of a run, None where it has none."""
    value = ran.metrics.get(name)
    return None if value is None else float(value)


def _waits(
    mean_s: float | None, p95_s: float | None, slowdown: float | None, units: DisplayUnits
) -> tuple[str, str, str]:
    """Return waits in the table's unit, and a slowdown; a dash for None."""
    mean, p95 = ("–" if v is None else words.figures(round(v / units.wait[0], 3)) for v in (mean_s, p95_s))
    return mean, p95, "–" if slowdown is None else words.figures(slowdown)


def _bill(answer: Answer, bill: Bill, units: DisplayUnits) -> tuple[str, str, str]:
    """Return energy, cost and emission as text, empty where there is no price or intensity series."""
    intensity = answer.setup.intensity
    return (
        words.figures(bill.energy_j / units.energy[0], 4),
        "" if bill.cost is None else f"{bill.cost:,.0f}" if abs(bill.cost) >= 100 else f"{bill.cost:,.2f}",
        ""
        if bill.carbon is None or intensity is None
        else words.figures(bill.carbon / carbon_scale(intensity.source.amount)[0], 4),
    )


def money(amount: float, unit: str) -> str:
    """Return an amount of money as text: ``12,345 EUR``."""
    return f"{amount:,.0f} {unit}" if abs(amount) >= 100 else f"{amount:,.2f} {unit}"


def emitted(amount: float, unit: str) -> str:
    """Return an emission as text: ``12.3 tCO2`` for 12.3e6 gCO2. Units without a known prefix stay as they are."""
    scale, name = carbon_scale(unit)
    return f"{words.figures(amount / scale, 4)} {name}"


def carbon_scale(unit: str) -> tuple[float, str]:
    """Return divisor and unit in which an emission is shown: tonnes for gCO2 and kgCO2, else the unit itself."""
    for prefix in ("kg", "g"):  # the longer prefix first: "kgCO2" does not begin with "g", but "g" alone must not win
        if unit.startswith(prefix):
            factor, tonne = SMALL_UNITS[prefix]
            return factor, tonne + unit.removeprefix(prefix)
    return 1.0, unit


def _risk(seen: Evidence, ran: RunSummary, units: DisplayUnits) -> tuple[str, str, str]:
    """Return time above the cap, its upper bound, and the greatest excess as text."""
    most = ran.metrics.get("cap_overshoot_w") or 0.0
    above = "never" if seen.over_s == 0 else percent(seen.share)
    excess = words.figures(most / units.excess[0]) if most else ""
    return above, "never" if seen.never else percent(seen.upper), excess


def sentences(answer: Answer, curve: Curve) -> Iterator[str]:
    """Yield what the table does not show about one configuration.

    Recorded waits, knee, lowest safe cap, worst hours, users and partitions that wait longer. Lines that begin with
    two blanks continue the one before; the printer keeps the indent when it breaks them.
    """
    caps = answer.setup.caps
    seen = recorded(answer, curve)
    if seen is not None:
        yield recorded_sentence(seen)
    yield knee_sentence(answer, curve)
    yield safe_sentence(answer, curve)
    hours = answer.hours(curve, curve.at)
    if hours:
        yield f"Worst hours to submit in under {caps[curve.at].text}, against no cap:"
        yield from (f"  {hour_sentence(answer, hour)}" for hour in hours)
    for group in answer.payers(curve, curve.at):
        yield payer_sentence(group, caps[curve.at].text)


def recorded_sentence(seen: RecordedWaits) -> str:
    """Return the waits of the trace beside those of the replay, as a warning where they disagree.

    Shared nodes, reservations, priorities and downtime are not in a trace. Where they decide the waits, a replay is
    worthless as a forecast, and only this comparison shows it.
    """
    both = (
        f"users waited {words.span(seen.wait_s_mean)} on average (p95 {words.span(seen.wait_s_p95)}) according to the "
        f"trace, and wait {words.span(seen.replay_wait_s_mean)} (p95 {words.span(seen.replay_wait_s_p95)}) in the "
        f"replay without a cap, over {words.count(seen.jobs, 'job')}"
    )
    if not seen.disagree:
        return f"{upper_first(both)}."
    return (
        f"Warning: {both}: they differ by a factor of {words.figures(seen.factor, 2)}. The replay does not reproduce "
        "this machine (shared nodes, reservations, priorities or downtime are not in the trace): do not take its waits "
        "for those of your users; compare caps with each other only."
    )


def knee_sentence(answer: Answer, curve: Curve) -> str:
    """Return where waits begin to rise.

    Three cases: no cap makes any job wait longer (the caps tried are too high), the curve has no knee (``knee``), or
    the knee with its watts.
    """
    if not any(e.lost or (x.wait_s > 0).any() for e, x in zip(curve.evidence, curve.extra, strict=True)):
        return "No job waits longer under any cap that was tried: try lower ones."
    if curve.knee is None:
        return "No knee: the mean wait has no bend within these caps."
    cap = answer.setup.caps[curve.knee]
    return f"Knee at {cap.text} ({words.watts(cap.cap_w)}); below it waits rise steeply."


def safe_sentence(answer: Answer, curve: Curve) -> str:
    """Return the lowest safe cap with its risk and its wait in one sentence, or why there is none.

    A cap can be safe and useless: the risk is that of power, not that of users. So the wait always stands beside it.
    The second sentence says what fails under the next lower cap, which tells how much room is left.
    """
    risk = percent(answer.setup.question.risk)
    lowest = curve.verdict.lowest
    if lowest is None:
        return (
            f"Lowest safe cap at a risk of {risk}: none. No cap can be certified with this data: {curve.verdict.why}."
        )
    cap = answer.setup.caps[lowest]
    kind, _, below = curve.verdict.why.partition("; ")
    return (
        f"Lowest safe cap at a risk of {risk}: {cap.text} ({words.watts(cap.cap_w)}), which {kind}, and "
        f"{waits_under(curve, lowest)}.  {upper_first(below)}."
    )


def waits_under(curve: Curve, row: int) -> str:
    """Return the mean wait under a cap against none as the end of a sentence, with the factor where it is above 1.1."""
    before, after = (r.metrics.get("wait_s_mean") for r in (curve.plain, curve.ran[row]))
    if before is None or after is None:
        return "under which no job runs"
    factor = float(after) / float(before) if float(before) > 0 else np.inf
    times = f", {words.figures(factor, 2)} times as long" if 1.1 < factor < np.inf else ""
    return (
        f"under which jobs wait {words.span(float(after))} on average instead of {words.span(float(before))} "
        f"without a cap{times}"
    )


def upper_first(text: str) -> str:
    """Return text with a capital first letter."""
    return text[:1].upper() + text[1:]


def hour_sentence(answer: Answer, hour: Hour) -> str:
    """Return one of the worst hours as text.

    Its means are over the jobs that wait longer, its node-hours over all jobs of the hour; both are named, because a
    wide job's loss can stand beside the gain of many narrow ones.
    """
    return (
        f"{answer.setup.words(hour.begin_s)}: {hour.delayed:,} of {words.count(hour.jobs, 'job')} wait longer: "
        f"{words.span(hour.delayed_wait_mean_s)} on average instead of {words.span(hour.delayed_plain_wait_mean_s)} "
        f"(over all jobs of the hour {words.figures(hour.wait_node_h)} additional node-hours of waiting)"
    )


def payer_sentence(group: Payers, cap: str) -> str:
    """Return which names wait longer, against what they run. Waiting is weighted by nodes.

    Shares below ``NOTEWORTHY`` are left out: rounding would print them as 0 %.
    """
    plural = f"{group.kind}s"
    paying = [k for k in range(len(group.name)) if group.wait_share[k] > NOTEWORTHY][:3]
    if not paying:
        return f"No {group.kind} waits longer under {cap}."
    if len(group.name) == 1:
        return f"All jobs are of one {group.kind}, {group.name[0]}."
    listed = ", ".join(
        f"{group.name[k]} {words.percent(float(group.wait_share[k]))} with "
        f"{words.percent(float(group.work_share[k]))} of the work"
        for k in paying
    )
    return f"{upper_first(plural)} with most additional node-hours of waiting under {cap}: {listed}."


def energy_sentence(answer: Answer) -> str:
    """Return how much of the energy of jobs is measured, empty where no energy is known.

    Jobs without watts are simulated with the machine's maximum, and their energy counts as assumed.
    """
    plain, jobs = answer.curves[0].plain, answer.setup.jobs
    watts = jobs.mean_power_w if jobs.mean_power_w is not None else jobs.max_power_w
    most = max(p.max_w or 0.0 for p in answer.setup.machine.partitions)
    unit_w = np.full(len(jobs), most) if watts is None else np.where(np.isfinite(watts), watts, most)
    shares = energy_origin(
        jobs, np.where(np.isfinite(plain.start_s), jobs.nodes * (plain.end_s - plain.start_s), 0.0) * unit_w
    )
    return f"Energy of jobs: {origin_sentence(shares)}." if shares else ""


def remarks(answer: Answer) -> Iterator[str]:
    """Yield what a reader should know about the inputs.

    Origin of workload and energy, unusable rows, corrected UTC offsets, the assumed date of the first submission, and
    what the simulator reported during the runs with its counts.
    """
    setup = answer.setup
    if setup.jobs.origin == "generated":
        yield "The workload is generated, not measured: a cap that is safe for it need not be safe for a real machine."
    else:
        yield from filter(None, [energy_sentence(answer)])
    if len(setup.unusable):
        yield f"{len(setup.unusable):,} rows of the trace are unusable."
    for tariff in (setup.prices, setup.intensity):
        if tariff is not None:
            yield from (
                f"{tariff.source.path.name}:{r.line}: offset {r.was} read as {r.now}, as in its neighbours (--repair)."
                for r in tariff.repairs
            )
    if (setup.prices or setup.intensity) and setup.epoch_s is not None:
        yield f"The first submission is assumed to be at {setup.words(answer.begin_s)}."
    for curve in answer.curves:
        found = {text: count for ran in curve.ran for text, count in ran.notes.items()}
        yield from (f"{curve.label}: {text}: {count:,} times" for text, count in found.items())
