"""The pictures of the answer: everything against the cap, the hours that pay, the users that pay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import Floats
from wattqueue.report import words
from wattqueue.report.document import Drawn
from wattqueue.report.figure import SCOPE_WORDS, Axis, Figure, finite_max
from wattqueue.whatif import text
from wattqueue.whatif.answer import Answer, Bill, Curve
from wattqueue.whatif.payers import Payers

MOST = 12
"""Names in the picture of who pays."""


def pictures(answer: Answer) -> list[Drawn]:
    """All pictures, in the order of the page."""
    found: list[Drawn] = [
        (wait(answer), "capcurve"),
        (risk(answer), "capcurve"),
        (_choice(answer, [hours(answer, curve) for curve in answer.curves]), "hours"),
        (slowdown(answer), "capcurve-small"),
        (energy(answer), "capcurve-small"),
    ]
    if answer.setup.prices is not None:
        found.append((cost(answer), "capcurve-small"))
    if answer.setup.intensity is not None:
        found.append((carbon(answer), "capcurve-small"))
    by_kind = zip(*(answer.payers(curve, curve.at) for curve in answer.curves), strict=True)
    for groups in by_kind:
        if max(len(group.name) for group in groups) > 1:
            drawn = [payers(answer, curve, group) for curve, group in zip(answer.curves, groups, strict=True)]
            found.append((_choice(answer, drawn), "payers"))
    return found


def _choice(answer: Answer, drawn: Sequence[Figure]) -> Figure:
    """One picture of several configurations, of which the page shows one at a time."""
    if len(drawn) == 1:
        return drawn[0]
    called = [replace(figure, called=curve.label) for figure, curve in zip(drawn, answer.curves, strict=True)]
    return replace(called[0], others=tuple(called[1:]))


def wait(answer: Answer) -> Figure:
    """Mean wait, with the knee and the lowest safe cap."""
    values, plain = _metric(answer, "wait_s_mean")
    scale, unit = words.span_unit(finite_max(np.concatenate(values)))
    said = [f"{_of(answer, c)}{text.knee_sentence(answer, c)}" for c in answer.curves]
    return _figure(
        answer, "wait", "Wait against the cap", " ".join([*said, _hollow(answer)]).strip(),
        Axis("mean wait", unit, scale), values, plain, {"reads": "span", "marks": _marks(answer)},
    )  # fmt: skip


def slowdown(answer: Answer) -> Figure:
    """Mean bounded slowdown."""
    values, plain = _metric(answer, "bounded_slowdown_mean")
    best = min(float(np.nanmin(v)) for v in values)
    says = (
        f"Turnaround over run time, at least 1 and runs counted as 10 s at least, mean over jobs; "
        f"{words.figures(float(plain[0]))} without a cap, {words.figures(best)} at best under one."
    )
    return _figure(
        answer, "slowdown", "Bounded slowdown against the cap", says, Axis("mean bounded slowdown"), values, plain,
        {"reads": "number", "marks": _marks(answer)},
    )  # fmt: skip


def risk(answer: Answer) -> Figure:
    """Share of time above the cap, and its upper bound, against the stated risk."""
    values = [np.array([e.share for e in c.evidence]) for c in answer.curves]
    upper = {f"upper_{k}": np.array([e.upper for e in c.evidence]) for k, c in enumerate(answer.curves)}
    stated = answer.setup.question.risk
    said = [f"{_of(answer, c)}{text.safe_sentence(answer, c)}" for c in answer.curves]
    figure = _figure(
        answer, "risk", "Time above the cap", " ".join(said), Axis("time above the cap", "%", 0.01), values, None,
        {"reads": "percent", "marks": _marks(answer, knees=False), "limit": stated, "limit_name": "stated risk"},
    )  # fmt: skip
    heads = {f"upper_{k}": f"{c.label}, upper bound" for k, c in enumerate(answer.curves)}
    return Figure(
        figure.key, figure.title, figure.says, figure.x, figure.y, figure.columns | upper, figure.heads | heads,
        figure.extra,
    )  # fmt: skip


def energy(answer: Answer) -> Figure:
    """Energy of the machine over the time that all runs are billed for."""
    values, plain = _billed(answer, lambda bill: bill.energy_j)
    scale, prefix = words.prefix_of(finite_max(np.concatenate(values)) / 3_600)
    whole = words.span(answer.end_s - answer.begin_s)
    says = (
        f"The whole machine from the first submission to the latest end of all runs "
        f"({whole}), idle nodes too: {words.energy(float(plain[0]))} without a cap. "
        "Where the same work is done at the same clocks, a cap moves energy, it does not save any."
    )
    return _figure(
        answer, "energy", "Energy against the cap", says, Axis("energy of the machine", f"{prefix}Wh", scale * 3_600),
        values, plain, {"reads": "energy", "marks": [], "zero": True},
    )  # fmt: skip


def cost(answer: Answer) -> Figure:
    """Cost by the price in force."""
    values, plain = _billed(answer, lambda bill: bill.cost)
    unit = answer.setup.prices.source.amount if answer.setup.prices else ""
    factor, prefix = (1e3, "k") if finite_max(np.concatenate(values)) >= 1e5 else (1.0, "")
    says = (
        f"{_spread(values, plain, lambda v: text.money(v, unit))} Power times the price then in force, summed exactly."
    )
    return _figure(
        answer, "cost", "Cost against the cap", says, Axis("cost", f"{prefix}{unit}", factor), values, plain,
        {"reads": "amount", "unit": unit, "marks": []},
    )  # fmt: skip


def carbon(answer: Answer) -> Figure:
    """Emission by the intensity in force."""
    values, plain = _billed(answer, lambda bill: bill.carbon)
    unit = answer.setup.intensity.source.amount if answer.setup.intensity else ""
    scale, name = text.carbon_scale(unit)
    said = _spread(values, plain, lambda v: text.emitted(v, unit))
    says = f"{said} Power times the intensity then in force, summed exactly."
    return _figure(
        answer, "carbon", "Carbon against the cap", says, Axis("emission", name, scale), values, plain,
        {"reads": "amount", "unit": name, "divide": scale, "marks": []},
    )  # fmt: skip


def hours(answer: Answer, curve: Curve) -> Figure:
    """Extra waiting by hour of submission."""
    begin, cost_h = answer.hour_costs(curve, curve.at)
    worst = answer.hours(curve, curve.at)
    since = np.maximum(begin - answer.begin_s, 0.0)
    end = float(since[-1]) + 3_600.0
    factor, prefix = (1e3, "1,000 ") if finite_max(np.abs(cost_h)) >= 1e4 else (1.0, "")
    cap = answer.setup.caps[curve.at].text
    says = (
        f"What {cap} costs the jobs submitted in each hour, against no cap ({curve.label}); below 0 they gain. "
        + ("The three worst: " if len(worst) == 3 else "The worst: ")
        + "; ".join(text.hour_sentence(answer, h) for h in worst)
        if worst
        else f"Nobody waits longer under {cap} than without a cap ({curve.label})"
    )
    scale, unit = words.span_unit(end)
    return Figure(
        "hours", f"Who waits, by hour of submission, under {cap}", says + ".",
        Axis("time since first submission", unit, scale), Axis("extra waiting", f"{prefix}node-hours", factor),
        {"time_s": since, "wait_node_h": cost_h}, {"time_s": "hour from", "wait_node_h": "extra node-hours of wait"},
        {
            "end_s": end,
            "dates": [answer.setup.words(h.begin_s) for h in worst],
            "worst": [max(h.begin_s - answer.begin_s, 0.0) for h in worst],
        },
    )  # fmt: skip


def payers(answer: Answer, curve: Curve, group: Payers) -> Figure:
    """Share of the extra waiting beside share of the work, by name."""
    best = slice(0, MOST)
    cap = answer.setup.caps[curve.at].text
    return Figure(
        f"{group.kind}s", f"{group.kind.capitalize()}s that pay under {cap}",
        f"{_of(answer, curve)}{text.payer_sentence(group, cap)} "
        "A bar longer than its grey one pays more than its work would ask for.",
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
            "name": group.kind, "share": "share of extra waiting", "work_share": "share of work",
            "extra_wait_s": "mean extra wait of a job", "wait_node_h": "extra node-hours of wait", "jobs": "jobs",
        },
        {"all": len(group.name)},
    )  # fmt: skip


def _figure(
    answer: Answer, key: str, title: str, says: str, y: Axis, values: Sequence[Floats], plain: Floats | None,
    extra: dict[str, Any],
) -> Figure:  # fmt: skip
    """A figure against the cap: a column a configuration, and what it is without a cap."""
    caps, scope = answer.setup.caps, SCOPE_WORDS[answer.setup.machine.cap_scope]
    scale, prefix = words.prefix_of(max(c.cap_w for c in caps))
    columns: dict[str, NDArray[Any]] = {"cap_w": np.array([c.cap_w for c in caps])}
    columns |= {f"value_{k}": column for k, column in enumerate(values)}
    more = {
        "labels": [c.label for c in answer.curves],
        "texts": [c.text for c in caps],
        "plain": None if plain is None else [float(v) for v in plain],
        "lost": [[e.lost for e in c.evidence] for c in answer.curves],
    }
    heads = {"cap_w": "cap"} | {f"value_{k}": c.label for k, c in enumerate(answer.curves)}
    return Figure(key, title, says, Axis(f"cap on {scope}", f"{prefix}W", scale), y, columns, heads, more | extra)


def _metric(answer: Answer, name: str) -> tuple[list[Floats], Floats]:
    values = [np.array([_number(r.metrics.get(name)) for r in c.ran]) for c in answer.curves]
    return values, np.array([_number(c.plain.metrics.get(name)) for c in answer.curves])


def _billed(answer: Answer, of: Callable[[Bill], float | None]) -> tuple[list[Floats], Floats]:
    values = [np.array([_number(of(b)) for b in c.bills]) for c in answer.curves]
    return values, np.array([_number(of(c.plain_bill)) for c in answer.curves])


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)


def _marks(answer: Answer, *, knees: bool = True) -> list[list[int | str]]:
    """Rows to mark: configuration, row, word."""
    found: list[list[int | str]] = []
    for k, curve in enumerate(answer.curves):
        if knees and curve.knee is not None:
            found.append([k, curve.knee, "knee"])
        if curve.verdict.lowest is not None:
            found.append([k, curve.verdict.lowest, "lowest safe"])
    return found


def _of(answer: Answer, curve: Curve) -> str:
    return f"{curve.label}: " if len(answer.curves) > 1 else ""


def _hollow(answer: Answer) -> str:
    lost = any(e.lost for c in answer.curves for e in c.evidence)
    return "Hollow points: some jobs can never start under that cap, and do not count." if lost else ""


def _spread(values: Sequence[Floats], plain: Floats, read: Callable[[float], str]) -> str:
    every = np.concatenate(values)
    ends = f"{read(float(every.min()))} to {read(float(every.max()))}"
    return f"{read(float(plain[0]))} without a cap, {ends} under the caps tried."
