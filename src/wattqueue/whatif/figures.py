"""Build the figures of the answer: everything against the cap, the hours that pay, the users that pay.

Each function returns a ``Figure``: columns in SI units, axes with units, and one sentence. ``page/whatif.js`` draws
them. A figure against the cap has one column per configuration (``value_0``, ``value_1``, ...) and one line per cap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import Floats
from wattqueue.model.quantities import quantity
from wattqueue.report import words
from wattqueue.report.figure import SCOPE_WORDS, Axis, Drawn, Figure, axis_of_time, equal_sentence, finite_max
from wattqueue.whatif import text
from wattqueue.whatif.analysis import Bill, CapAnalysis, Curve
from wattqueue.whatif.delayed_users import DelayedUsers
from wattqueue.whatif.safe import percent

LOG_RATIO = 20.0
"""Waits of several configurations that span more than this factor are drawn on a logarithmic axis."""
HOLLOW = (
    "Hollow points: some jobs never ran under that cap; those that were not rejected count up to the end of the run, "
    "at least."
)
MOST = 12
"""Names in the figure of delayed users."""


def pictures(answer: CapAnalysis) -> list[Drawn]:
    """Return all figures with the name of the JavaScript function that draws each, in the order of the page.

    Cost and carbon need their series. Users and partitions appear where there is more than one of them; of several
    configurations a reader chooses one, and the choice applies to all such figures. They have configurations alone
    whose run under the cap may be compared with that without one.
    """
    found: list[Drawn] = [
        (wait(answer), "capcurve"),
        (risk(answer), "capcurve"),
        (slowdown(answer), "capcurve-small"),
        (energy(answer), "capcurve-small"),
    ]
    same = [curve for curve in answer.curves if curve.gates[curve.detail_row].open]
    if same:
        found.insert(2, (_choice(same, [hours(answer, curve) for curve in same]), "hours"))
    if answer.setup.prices is not None:
        found.append((cost(answer), "capcurve-small"))
    if answer.setup.intensity is not None:
        found.append((carbon(answer), "capcurve-small"))
    by_kind = zip(*(answer.delayed_users(curve, curve.detail_row) for curve in same), strict=True)
    for groups in by_kind:
        if max(len(group.name) for group in groups) > 1:
            drawn = [delayed_users(answer, curve, group) for curve, group in zip(same, groups, strict=True)]
            found.append((_choice(same, drawn), "delayed_users"))
    return found


def _choice(curves: Sequence[Curve], drawn: Sequence[Figure]) -> Figure:
    """Combine the figures of several configurations into one, of which the page shows one configuration at a time."""
    if len(drawn) == 1:
        return drawn[0]
    called = [replace(figure, called=curve.label) for figure, curve in zip(drawn, curves, strict=True)]
    return replace(called[0], others=tuple(called[1:]))


def wait(answer: CapAnalysis) -> Figure:
    """Return mean wait against the cap, with the knee and the lowest safe cap marked.

    Where the trace records waits their mean is a further line, so that nobody takes the replay's level for the users'.
    """
    values, plain = _metric(answer, "all_wait_s_mean", whole=False)
    seen = text.recorded(answer, answer.curves[0])
    levels = [*values, plain] if seen is None else [*values, plain, np.array([seen.wait_s_mean])]
    scale, unit = words.wait_unit(finite_max(np.concatenate(levels)))
    said = [_knees(answer), _hollow(answer)]
    if seen is not None and not seen.disagree:  # a disagreement is a notice at the top of the page
        said.append(text.recorded_sentence(seen))
    more = {
        "reads": "span",
        "marks": _marks(answer),
        "log": logarithmic(values),
        "recorded": None if seen is None else seen.wait_s_mean,
    }
    y = Axis(_named("wait_s_mean", log=more["log"] is True), unit, scale)
    return _figure(answer, "wait", "Wait against the cap", _joined(said), y, values, plain, more)


def _knees(answer: CapAnalysis) -> str:
    """Return the knee of one configuration as a sentence, those of several as a list."""
    if len(answer.curves) == 1:
        return text.knee_sentence(answer, answer.curves[0])
    caps = answer.setup.caps
    found = [f"{c.label}: {'none' if c.knee is None else caps[c.knee].text}" for c in answer.curves]
    return f"Below the knee waits rise steeply. Knee of {'; '.join(found)}."


def _safe_caps(answer: CapAnalysis) -> str:
    """Return the lowest safe cap of one configuration with its reason, those of several as a list."""
    if len(answer.curves) == 1:
        return text.safe_sentence(answer, answer.curves[0])
    found = [f"{c.label}: {_lowest(answer, c)}" for c in answer.curves]
    risk = percent(answer.setup.question.risk)
    return f"Lowest safe cap at a risk of {risk}, with the mean wait under it. {'; '.join(found)}."


def _lowest(answer: CapAnalysis, curve: Curve) -> str:
    """Return the lowest safe cap of a configuration and its mean wait."""
    row = curve.best.lowest
    if row is None:
        return "none"
    wait_s = curve.ran[row].metrics.get("wait_s_mean")
    if_maximum = "" if curve.assumed is None else " if unknown watts are the stated maximum"
    return answer.setup.caps[row].text + if_maximum + ("" if wait_s is None else f" ({words.span(float(wait_s))})")


def logarithmic(values: Sequence[Floats]) -> bool:
    """Return whether several configurations are drawn on a logarithmic axis.

    Under a low cap waits are hundreds of times those under a high one. On a linear axis the curves of all
    configurations would then lie on each other wherever a cap is usable. A single curve keeps the linear axis on which
    its knee is defined. Values below 1 (a second, or a slowdown, which is never less) are drawn at 1.
    """
    every = np.concatenate(values)
    good = np.maximum(every[np.isfinite(every)], 1.0)
    return len(values) > 1 and len(good) > 0 and float(good.min()) < float(good.max()) / LOG_RATIO


def _named(metric: str, *, log: bool) -> str:
    """Return the label of a metric as the name of an axis."""
    label = quantity(metric).label
    return f"{label[:1].lower()}{label[1:]}{', logarithmic' if log else ''}"


def _joined(parts: Sequence[str]) -> str:
    """Return sentences as one text, empty ones left out."""
    return " ".join(part for part in parts if part)


def slowdown(answer: CapAnalysis) -> Figure:
    """Return mean bounded slowdown against the cap.

    The slowdown complements the wait: it weights the wait of short jobs, which the mean wait hides behind long ones.
    """
    values, plain = _metric(answer, "bounded_slowdown_mean")
    every = np.concatenate(values)
    best = float(every.min(where=np.isfinite(every), initial=np.inf)) if np.isfinite(every).any() else None
    says = (
        f"Turnaround divided by run time (runs below 10 s count as 10 s), at least 1, mean over jobs: "
        f"{words.figures(float(plain[0]))} without a cap{f', {words.figures(best)} at the best cap' if best else ''}."
    )
    log = logarithmic(values)
    return _figure(
        answer, "slowdown", "Bounded slowdown against the cap", says,
        Axis(_named("bounded_slowdown_mean", log=log)), values, plain,
        {"reads": "number", "marks": _marks(answer), "log": log},
    )  # fmt: skip


def risk(answer: CapAnalysis) -> Figure:
    """Return the share of time above the cap and its upper bound, with the accepted risk as a line.

    The area between a curve and its bound is what the data leave open: it shrinks with the length of the trace.
    """
    values = [np.array([e.share for e in c.evidence]) for c in answer.curves]
    upper = {f"upper_{k}": np.array([e.upper for e in c.evidence]) for k, c in enumerate(answer.curves)}
    stated = answer.setup.question.risk
    said = [_safe_caps(answer)]
    figure = _figure(
        answer, "risk", "Time above the cap", " ".join(said), Axis("time above the cap", "%", 0.01), values, None,
        {"reads": "percent", "marks": _marks(answer, knees=False), "limit": stated, "limit_name": "stated risk"},
    )  # fmt: skip
    titles = {f"upper_{k}": f"{c.label}, upper bound" for k, c in enumerate(answer.curves)}
    return Figure(
        figure.key, figure.title, figure.says, figure.x, figure.y, figure.columns | upper, figure.heads | titles,
        figure.extra,
    )  # fmt: skip


def energy(answer: CapAnalysis) -> Figure:
    """Return the energy of the machine up to the end of each run.

    Without changes of frequency a cap shifts energy in time, and a run that ends later idles longer. Energy falls only
    where controls switch nodes off or frequencies down.
    """
    values, plain = _billed(answer, lambda bill: bill.energy_j)
    scale, prefix = words.prefix_of(finite_max(np.concatenate(values)) / 3_600)
    says = (
        f"The whole machine from the first submission to the end of each run, idle nodes too: "
        f"{words.energy(float(plain[0]))} without a cap. Where the same work is done at the same frequencies, a cap "
        "shifts energy in time and saves none; a run that ends later idles longer."
    )
    return _figure(
        answer, "energy", "Energy against the cap", says, Axis("energy billed", f"{prefix}Wh", scale * 3_600),
        values, plain, {"reads": "energy", "marks": [], "amount": True},
    )  # fmt: skip


def cost(answer: CapAnalysis) -> Figure:
    """Return the cost at the price in force.

    Money beyond 100,000 is drawn in thousands. Negative prices are valid and lower the cost of energy used at their
    time.
    """
    values, plain = _billed(answer, lambda bill: bill.cost)
    unit = answer.setup.prices.source.amount if answer.setup.prices else ""
    factor, prefix = (1e3, "k") if finite_max(np.concatenate(values)) >= 1e5 else (1.0, "")
    says = f"{_spread(values, plain, lambda v: text.money(v, unit))} Exact integral of power times price."
    return _figure(
        answer, "cost", "Cost against the cap", says, Axis("cost", f"{prefix}{unit}", factor), values, plain,
        {"reads": "amount", "unit": unit, "marks": [], "amount": True},
    )  # fmt: skip


def carbon(answer: CapAnalysis) -> Figure:
    """Return the emission at the intensity in force."""
    values, plain = _billed(answer, lambda bill: bill.carbon)
    unit = answer.setup.intensity.source.amount if answer.setup.intensity else ""
    scale, name = text.carbon_scale(unit)
    said = _spread(values, plain, lambda v: text.emitted(v, unit))
    says = f"{said} Exact integral of power times intensity."
    return _figure(
        answer, "carbon", "Carbon against the cap", says, Axis("emission", name, scale), values, plain,
        {"reads": "amount", "unit": name, "divide": scale, "marks": [], "amount": True},
    )  # fmt: skip


def hours(answer: CapAnalysis, curve: Curve) -> Figure:
    """Return additional node-hours of wait by hour of submission, under the cap that the page shows in detail.

    Time is counted from the whole hour of the first submission (``Setup.origin_s``), as bars begin at whole hours.
    Values below 0 are hours whose jobs wait less: a cap moves jobs forward too.
    """
    begin, cost_h = answer.hour_costs(curve, curve.detail_row)
    worst = answer.hours(curve, curve.detail_row)
    since = begin - answer.setup.origin_s
    end = float(since[-1]) + 3_600.0
    epoch = answer.setup.epoch_s
    factor, prefix = (1e3, "1,000 ") if finite_max(np.abs(cost_h)) >= 1e4 else (1.0, "")
    cap = answer.setup.caps[curve.detail_row].text
    says = (
        f"Additional waiting under {cap} of the jobs submitted in each hour, against no cap ({curve.label}); "
        "below 0 they wait less. "
        + ("The three worst: " if len(worst) == 3 else "The worst: ")
        + "; ".join(text.hour_sentence(answer, h) for h in worst)
        if worst
        else f"No job waits longer under {cap} than without a cap ({curve.label})"
    )
    dated = {} if epoch is None else {"epoch_s": epoch + answer.setup.origin_s}
    return Figure(
        "hours", f"Who waits, by hour of submission, under {cap}", says + ".",
        axis_of_time(end, dated.get("epoch_s")), Axis("additional waiting", f"{prefix}node-hours", factor),
        {"time_s": since, "wait_node_h": cost_h},
        {"time_s": "hour from", "wait_node_h": "additional node-hours of wait"},
        {
            "end_s": end,
            **dated,
            "worst": [h.begin_s - answer.setup.origin_s for h in worst],
        },
    )  # fmt: skip


def delayed_users(answer: CapAnalysis, curve: Curve, group: DelayedUsers) -> Figure:
    """Return the share of the additional waiting beside the share of the work, by name.

    Waiting is weighted by nodes, as the work is, so that the two bars of a name are comparable.
    """
    best = slice(0, MOST)
    cap = answer.setup.caps[curve.detail_row].text
    return Figure(
        f"{group.kind}s", f"{group.kind.capitalize()}s that wait longer under {cap}",
        f"{_of(answer, curve)}{text.delay_sentence(group, cap)} "
        "A blue bar longer than its grey one: more than the share of the work.",
        Axis("share", "%", 0.01), Axis(group.kind),
        {
            "name": np.array(group.name[best], object),
            "share": group.wait_share[best],
            "work_share": group.work_share[best],
            "extra_wait_s": group.wait_mean_s[best],
            "wait_node_h": group.wait_node_h[best],
            "jobs": group.jobs[best],
        },
        {
            "name": group.kind, "share": "share of additional waiting", "work_share": "share of work",
            "extra_wait_s": "mean additional wait of a job", "wait_node_h": "additional node-hours of wait",
            "jobs": "jobs",
        },
        {"all": len(group.name)},
    )  # fmt: skip


def _figure(
    answer: CapAnalysis, key: str, title: str, says: str, y: Axis, values: Sequence[Floats], plain: Floats | None,
    extra: dict[str, Any],
) -> Figure:  # fmt: skip
    """Return a figure against the cap.

    Args:
        answer: The answer.
        key: Key of the figure within the page.
        title: Title.
        says: The sentence below it.
        y: Vertical axis.
        values: One column per configuration, one element per cap.
        plain: The value without a cap per configuration; None where there is no such value.
        extra: Further values for the drawing function.
    """
    says = _joined([says, equal_sentence([c.label for c in answer.curves], [[column] for column in values])])
    caps, scope = answer.setup.caps, SCOPE_WORDS[answer.setup.machine.cap_scope]
    scale, prefix = words.prefix_of(max(c.cap_w for c in caps))
    columns: dict[str, NDArray[Any]] = {"cap_w": np.array([c.cap_w for c in caps])}
    columns |= {f"value_{k}": column for k, column in enumerate(values)}
    more = {
        "labels": [c.label for c in answer.curves],
        "texts": [c.text for c in caps],
        "plain": None if plain is None else [float(v) for v in plain],
        "never_ran": [
            [0 if g.open else r.work.never_ran for r, g in zip(c.ran, c.gates, strict=True)] for c in answer.curves
        ],
    }
    titles = {"cap_w": "cap"} | {f"value_{k}": c.label for k, c in enumerate(answer.curves)}
    return Figure(key, title, says, Axis(f"cap on {scope}", f"{prefix}W", scale), y, columns, titles, more | extra)


def _metric(answer: CapAnalysis, name: str, *, whole: bool = True) -> tuple[list[Floats], Floats]:
    """Return a metric under every cap per configuration, and without a cap. Shapes [(caps,)], (configurations,).

    ``whole`` leaves a gap where the run may not be compared with the one without a cap.
    """
    values = [
        np.array(
            [
                _number(r.metrics.get(name)) if g.open or not whole else np.nan
                for r, g in zip(c.ran, c.gates, strict=True)
            ]
        )
        for c in answer.curves
    ]
    return values, np.array([_number(c.plain.metrics.get(name)) for c in answer.curves])


def _billed(answer: CapAnalysis, of: Callable[[Bill], float | None]) -> tuple[list[Floats], Floats]:
    """Return a figure of the bills, shaped as ``_metric``, with its gaps."""
    values = [
        np.array([_number(of(b)) if g.open else np.nan for b, g in zip(c.bills, c.gates, strict=True)])
        for c in answer.curves
    ]
    return values, np.array([_number(of(c.plain_bill)) for c in answer.curves])


def _number(value: float | None) -> float:
    """Return NaN for None."""
    return float("nan") if value is None else float(value)


def _marks(answer: CapAnalysis, *, knees: bool = True) -> list[list[int | str]]:
    """Return the points to mark as [configuration, row, word].

    The words are names of the key (``knee``, ``lowest safe``), drawn as symbols without text, so that nothing covers
    a line.
    """
    found: list[list[int | str]] = []
    for k, curve in enumerate(answer.curves):
        if knees and curve.knee is not None:
            found.append([k, curve.knee, "knee"])
        if curve.best.lowest is not None:
            found.append([k, curve.best.lowest, "lowest safe"])
    return found


def _of(answer: CapAnalysis, curve: Curve) -> str:
    """Return the name of a configuration as the beginning of a sentence, empty where there is only one."""
    return f"{curve.label}: " if len(answer.curves) > 1 else ""


def _hollow(answer: CapAnalysis) -> str:
    """Return the explanation of hollow points, empty where there are none."""
    left = any(not through.open for c in answer.curves for through in c.gates)
    return HOLLOW if left else ""


def _spread(values: Sequence[Floats], plain: Floats, read: Callable[[float], str]) -> str:
    """Return the value without a cap and the range under all caps as a sentence."""
    every = np.concatenate(values)
    every = every[np.isfinite(every)]
    if not len(every):
        return f"{read(float(plain[0]))} without a cap."
    ends = f"{read(float(every.min()))} to {read(float(every.max()))}"
    return f"{read(float(plain[0]))} without a cap, {ends} under the caps tried."
