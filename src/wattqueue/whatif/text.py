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

from wattqueue.model.comparability import factor
from wattqueue.model.energy_origin import energy_origin, origin_sentence
from wattqueue.model.quantities import quantity
from wattqueue.report import metric_table, words
from wattqueue.report.metric_table import at_least, is_bound
from wattqueue.whatif.analysis import Bill, CapAnalysis, Curve
from wattqueue.whatif.delayed_users import DelayedUsers, Hour
from wattqueue.whatif.recorded import RecordedWaits, recorded_waits
from wattqueue.whatif.run import RunSummary
from wattqueue.whatif.safe import Evidence, SafeCaps, percent

MARK = 2
"""Column of the marks, the only one whose text may be broken."""
WORDS = frozenset({0, MARK})
"""Columns of text, which are aligned left."""
ANSWER = (MARK, 3, 4)
"""Columns that answer what a cap does: its mark and the first two of ``WAITS``."""
SMALL_UNITS = {"g": (1e6, "t"), "kg": (1e3, "t")}
"""Divisor and unit in which emissions in grams and kilograms are shown."""
NOTEWORTHY = 0.005
"""Shares of the additional waiting below this are not listed: they would print as 0 %."""
WAITS = ("all_wait_s_mean", "wait_s_mean", "node_wait_s_mean", "wait_s_p95")
"""Waits of the table; the first is shown where jobs never ran."""
UNKNOWN = "If every job without watts draws the stated maximum of its nodes"
"""What the second answer assumes where the data know too few watts."""

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
    def of(cls, answer: CapAnalysis) -> Self:
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


def recorded(answer: CapAnalysis, curve: Curve) -> RecordedWaits | None:
    """Return the waits of the trace beside those of a configuration's run without a cap; None without start times."""
    return recorded_waits(answer.setup.jobs, curve.plain.start_s)


def column_titles(answer: CapAnalysis) -> tuple[str, ...]:
    """Return the titles of the table's columns with their units.

    "Energy billed" is that of the machine up to the run's own end (``Bill``).
    """
    prices, intensity, units = answer.setup.prices, answer.setup.intensity, DisplayUnits.of(answer)
    carbon = f" ({carbon_scale(intensity.source.amount)[1]})" if intensity else ""
    return (
        "Cap",
        units.power[1],
        "Mark",
        *(f"{quantity(name).label} ({units.wait[1]})" for name in WAITS),
        quantity("bounded_slowdown_mean").label,
        quantity("jobs_never_ran").label,
        f"Energy billed ({units.energy[1]})",
        f"Cost ({prices.source.amount})" if prices else "Cost",
        f"Carbon{carbon}",
        "Time above",
        "Upper bound",
        f"By at most ({units.excess[1]})",
    )


def table_rows(answer: CapAnalysis, curve: Curve) -> list[tuple[str, ...]]:
    """Return the cells of the table: recorded waits where known, no cap, then the highest cap down.

    All cells are text in the units of ``column_titles``; a cell without a value is empty, and the printers drop columns
    that are empty in every row (cost without a price series, jobs that never ran where all ran).
    """
    caps, units, seen = answer.setup.caps, DisplayUnits.of(answer), recorded(answer, curve)
    found: list[tuple[str, ...]] = []
    if seen is not None:
        mean, p95 = (_wait(value, units) for value in (seen.wait_s_mean, seen.wait_s_p95))
        found.append(("recorded", "", "", "", mean, "", p95, words.figures(seen.bounded_slowdown_mean), *[""] * 7))
    found.append(("none", "", "", *_run_waits(curve.plain, units), *_bill(answer, curve.plain_bill, units), *[""] * 3))
    for k in reversed(range(len(caps))):
        evidence, ran = curve.evidence[k], curve.ran[k]
        found.append(
            (
                caps[k].text,
                words.figures(caps[k].cap_w / units.power[0], 4),
                marks(curve, k),
                *_run_waits(ran, units),
                *_bill(answer, curve.bills[k], units),
                *_risk(evidence, ran, units),
            )
        )
    return found


def marks(curve: Curve, row: int) -> str:
    """Return what to say of a cap in a word or two: ``safe``, ``lowest safe``, ``knee``, or both."""
    lowest = curve.best.lowest
    if_maximum = "" if curve.assumed is None else " (unknown at maximum)"
    safety = f"{'lowest safe' if row == lowest else 'safe'}{if_maximum}" if lowest is not None and row >= lowest else ""
    return ", ".join(word for word in (safety, "knee" if row == curve.knee else "") if word)


def _run_waits(ran: RunSummary, units: DisplayUnits) -> tuple[str, ...]:
    """Return the waits of ``WAITS``, the mean bounded slowdown and the jobs that never ran as text."""
    every, *others = (_wait(_number(ran, name), units) for name in WAITS)
    slowdown = _number(ran, "bounded_slowdown_mean")
    bound = is_bound(WAITS[0], ran.metrics)
    never = ran.work.never_ran
    return (
        at_least(every, bound=True) if bound else "",
        *others,
        "–" if slowdown is None else words.figures(slowdown),
        f"{never:,}" if never else "",
    )


def _number(ran: RunSummary, name: str) -> float | None:
    """Return a metric of a run, None where it has none."""
    value = ran.metrics.get(name)
    return None if value is None else float(value)


def _wait(value_s: float | None, units: DisplayUnits) -> str:
    """Return a wait in the table's unit; a dash for None."""
    return "–" if value_s is None else words.figures(round(value_s / units.wait[0], 3))


def _bill(answer: CapAnalysis, bill: Bill, units: DisplayUnits) -> tuple[str, str, str]:
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


def sentences(answer: CapAnalysis, curve: Curve) -> Iterator[str]:
    """Yield what the table does not show about one configuration.

    The headline, recorded waits, knee, lowest safe cap, worst hours, users and partitions that wait longer. Lines that
    begin with two blanks continue the one before; the printer keeps the indent when it breaks them.
    """
    caps = answer.setup.caps
    yield headline(answer, curve)
    if mean_falls(curve):
        yield metric_table.MAY_FALL
    seen = recorded(answer, curve)
    if seen is not None:
        yield recorded_sentence(seen)
    yield knee_sentence(answer, curve)
    yield safe_sentence(answer, curve)
    hours = answer.hours(curve, curve.detail_row)
    if hours:
        yield f"Worst hours to submit in under {caps[curve.detail_row].text}, against no cap:"
        yield from (f"  {hour_sentence(answer, hour)}" for hour in hours)
    for group in answer.delayed_users(curve, curve.detail_row):
        yield delay_sentence(group, caps[curve.detail_row].text)


def headline(answer: CapAnalysis, curve: Curve) -> str:
    """Return what the cap that is examined closely does to waits, or why it does not hold.

    A cap that does not hold is never stated with its waits alone.
    """
    cap = answer.setup.caps[curve.detail_row]
    named = f"{cap.text} ({words.watts(cap.cap_w)})"
    if not curve.gates[curve.detail_row].open or not curve.holds(curve.detail_row):
        none = not any(curve.holds(row) for row in range(len(curve.ran)))
        return (
            f"{'No cap that was tried holds. ' if none else ''}{named} does not hold: {fails(curve, curve.detail_row)}."
        )
    return f"Under {named}, with {curve.label}, {waits_under(curve, curve.detail_row).removeprefix('under which ')}."


def fails(curve: Curve, row: int) -> str:
    """Return why a cap does not hold: power above it, or jobs that never ran; empty where it holds."""
    seen, through = curve.evidence[row], curve.gates[row]
    above = f"power is above it {percent(seen.share)} of the time" if seen.share > curve.risk else ""
    return ", and ".join(filter(None, (above, "" if through.open else through.why)))


def mean_falls(curve: Curve) -> bool:
    """Return whether the mean wait under some cap is below that without one, while the one by nodes is above it."""
    runs = zip(curve.ran, curve.gates, strict=True)
    return any(metric_table.mean_falls(curve.plain.metrics, ran.metrics, through) for ran, through in runs)


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


def knee_sentence(answer: CapAnalysis, curve: Curve) -> str:
    """Return where waits begin to rise.

    Three cases: no cap makes any job wait longer (the caps tried are too high), the curve has no knee (``knee``), or
    the knee with its watts.
    """
    if not any(e.never_ran or (x.wait_s > 0).any() for e, x in zip(curve.evidence, curve.extra, strict=True)):
        return "No job waits longer under any cap that was tried: try lower ones."
    if curve.knee is None:
        return "No knee: the mean wait has no bend within these caps."
    cap = answer.setup.caps[curve.knee]
    broken = "" if curve.holds(curve.knee) else f" It does not hold: {fails(curve, curve.knee)}."
    return f"Knee at {cap.text} ({words.watts(cap.cap_w)}); below it waits rise steeply.{broken}"


def safe_sentence(answer: CapAnalysis, curve: Curve) -> str:
    """Return the lowest safe cap with its risk and its wait in one sentence, or why there is none.

    A cap can be safe and useless: the risk is that of power, not that of users. So the wait always stands beside it.
    The second sentence says what fails under the next lower cap, which tells how much room is left.
    """
    said = f"Lowest safe cap at a risk of {percent(answer.setup.question.risk)}"
    if curve.assumed is None:
        return f"{said}: {_verdict_words(answer, curve, curve.verdict)}"
    return (
        f"{said} by the data alone: none: {curve.verdict.why}.  {UNKNOWN}: "
        f"{_verdict_words(answer, curve, curve.assumed)}"
    )


def _verdict_words(answer: CapAnalysis, curve: Curve, verdict: SafeCaps) -> str:
    """Return the lowest safe cap of a verdict with its reason, its wait and what fails below it, or why none is."""
    lowest = verdict.lowest
    if lowest is None:
        return f"none. No cap can be certified with this data: {verdict.why}."
    cap = answer.setup.caps[lowest]
    kind, _, below = verdict.why.partition("; ")
    return (
        f"{cap.text} ({words.watts(cap.cap_w)}), which {kind}, and {waits_under(curve, lowest)}.  {upper_first(below)}."
    )


def waits_under(curve: Curve, row: int) -> str:
    """Return the mean wait under a cap against none as the end of a sentence, with the factor where it is above 1.1.

    Where the two runs did other work, why they are not compared.
    """
    through, runs = curve.gates[row], (curve.plain, curve.ran[row])
    before, after = (_number(r, "wait_s_mean") for r in runs)
    if before is None or after is None:
        return "under which no job runs"
    if not through.open:
        return f"whose waits are not comparable ({through.why})"
    times = factor("wait_s_mean", before, after, through) or 0.0
    nodes = [_number(r, "node_wait_s_mean") or 0.0 for r in runs]
    return (
        f"under which jobs wait {words.span(after)} on average instead of {words.span(before)} without a cap"
        f"{f', {words.figures(times, 2)} times as long' if times > 1.1 else ''}"
        f" (weighted by nodes {words.span(nodes[1])} instead of {words.span(nodes[0])})"
    )


def upper_first(text: str) -> str:
    """Return text with a capital first letter."""
    return text[:1].upper() + text[1:]


def hour_sentence(answer: CapAnalysis, hour: Hour) -> str:
    """Return one of the worst hours as text.

    Its means are over the jobs that wait longer, its node-hours over all jobs of the hour; both are named, because a
    wide job's loss can stand beside the gain of many narrow ones.
    """
    return (
        f"{answer.setup.words(hour.begin_s)}: {hour.delayed:,} of {words.count(hour.jobs, 'job')} wait longer: "
        f"{words.span(hour.delayed_wait_mean_s)} on average instead of {words.span(hour.delayed_plain_wait_mean_s)} "
        f"({words.figures(hour.wait_node_h)} node-hours more waiting of all jobs in that hour)"
    )


def delay_sentence(group: DelayedUsers, cap: str) -> str:
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


def energy_sentence(answer: CapAnalysis) -> str:
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


def remarks(answer: CapAnalysis) -> Iterator[str]:
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
    if setup.widened:
        yield f"Jobs with more nodes than they ask for, for their memory: {setup.widened:,}."
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
        yield from (f"{curve.label}: {said}." for said in curve.without_effect)
