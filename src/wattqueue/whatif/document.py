"""Write the answer as files: ``whatif.csv`` (one row per cap), ``delayed_users.csv`` and ``whatif.json``.

whatif.json holds all of it, with definitions. Values are in SI units and columns are named as in docs/semantics.md;
None becomes an empty cell or ``null``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from wattqueue.formats.tariff import Tariff
from wattqueue.model.schedule import ROW
from wattqueue.model.steps import sum_of_products
from wattqueue.version import SCHEMA_VERSION, __version__
from wattqueue.whatif import safe
from wattqueue.whatif.analysis import Bill, CapAnalysis, Curve
from wattqueue.whatif.delayed_users import DelayedUsers
from wattqueue.whatif.run import RunSummary
from wattqueue.whatif.safe import SafeCaps

Row = dict[str, Any]
"""One row of a CSV file: values by column name."""
DEFINITIONS = {
    "safe": "see docs/guide/whatif.md; "
    + (safe.__doc__ or "").partition("**Definition.** ")[2].partition("\n\nRef")[0],
    "knee": "Kneedle (Satopaa et al. 2011) on mean wait against the cap, both scaled to 0..1; null where the curve is "
    "flat or straight",
    "worst_hours": "hours of submission by the additional node-hours of wait of the jobs submitted in them, against "
    "the run without a cap",
    "delayed_users": "sums over jobs that run with and without the cap; extra_wait_node_h is nodes times additional "
    "wait",
    "bill": "the whole machine from the first submission to the run's own end",
    "not_comparable": "why the run may not be compared with the one without a cap: other jobs ran; null where it may",
}
"""What names in whatif.json mean, written into the file itself."""


def rows(answer: CapAnalysis) -> list[Row]:
    """Return one row per configuration and cap, the run without a cap first, with all metrics by their names.

    Beside the metrics: why jobs never ran, additional waits, bill, cost and carbon where there is a series, share of
    time above the cap with its upper bound and the number of observations behind it, the verdict (``safe``) and
    whether it is the knee.
    """
    return [row for curve in answer.curves for row in (_plain(answer, curve), *_capped(answer, curve))]


def _plain(answer: CapAnalysis, curve: Curve) -> Row:
    """Return the row of the run without a cap."""
    return {**_name(curve), "cap": "none", "cap_w": None, **_figures(curve.plain), **_billed(answer, curve.plain_bill)}


def _capped(answer: CapAnalysis, curve: Curve) -> Iterator[Row]:
    """Yield the rows of all caps of one configuration.

    ``extra_wait_s_mean`` is a plain mean over the jobs that run with and without the cap; ``extra_wait_node_h``
    weights them by their nodes. The two may differ in sign. Both are empty where other jobs ran without the cap.
    """
    for k, cap in enumerate(answer.setup.caps):
        found = curve.evidence[k]
        wait = curve.extra[k].wait_s
        both = np.isfinite(wait) if curve.gates[k].open else np.zeros(len(wait), np.bool_)
        nodes = answer.setup.jobs.nodes[both]
        yield {
            **_name(curve),
            "cap": cap.text,
            "cap_w": cap.cap_w,
            **_figures(curve.ran[k]),
            "not_comparable": curve.gates[k].why or None,
            "extra_wait_s_mean": float(wait[both].mean()) if both.any() else None,
            "extra_wait_node_h": sum_of_products(nodes, wait[both]) / 3_600.0 if both.any() else None,
            **_billed(answer, curve.bills[k]),
            "over_share": found.share,
            "over_share_upper": found.upper,
            "looks": found.looks,
            "safe": curve.verdict.each[k],
            "safe_unknown_at_maximum": None if curve.assumed is None else curve.assumed.each[k],
            "knee": k == curve.knee,
        }


def _name(curve: Curve) -> Row:
    """Return the columns that name a configuration."""
    return {"policy": curve.policy, "estimator": curve.estimator, "oracle": curve.oracle}


def _figures(ran: RunSummary) -> Row:
    """Return the metrics of a run as columns."""
    return {**ran.metrics, ROW: ran.work.reasons}


def _billed(answer: CapAnalysis, bill: Bill) -> Row:
    """Return the columns of a bill: energy always, cost and carbon where there is a series for them."""
    found: Row = {"bill_energy_j": bill.energy_j}
    if answer.setup.prices is not None:
        found |= {"cost": bill.cost, "cost_unit": answer.setup.prices.source.amount}
    if answer.setup.intensity is not None:
        found |= {"carbon": bill.carbon, "carbon_unit": answer.setup.intensity.source.amount}
    return found


def delayed_user_rows(answer: CapAnalysis) -> Iterator[Row]:
    """Yield one row per user and partition, under every cap of every configuration.

    These are many (users x caps x configurations) and therefore not part of whatif.json.
    """
    for curve in answer.curves:
        for k, cap in enumerate(answer.setup.caps):
            for group in answer.delayed_users(curve, k):
                for i in range(len(group.name)):
                    yield {**_name(curve), "cap": cap.text, "cap_w": cap.cap_w, **_payer(group, i)}


def _payer(group: DelayedUsers, i: int) -> Row:
    """Return the columns of one user or partition."""
    return {
        "kind": group.kind,
        "name": group.name[i],
        "jobs": int(group.jobs[i]),
        "extra_wait_node_h": float(group.wait_node_h[i]),
        "share_of_extra_wait": float(group.wait_share[i]),
        "share_of_work": float(group.work_share[i]),
        "extra_wait_s_mean": float(group.wait_mean_s[i]),
        "extra_run_node_h": float(group.run_node_h[i]),
    }


def to_json(answer: CapAnalysis) -> str:
    """Return the answer as JSON text: everything but the delayed users of each cap, which are many.

    NaN is refused (``allow_nan=False``): JSON has no such value, and a reader would fail later and elsewhere.
    """
    return json.dumps(_document(answer), indent=1, allow_nan=False) + "\n"


def _document(answer: CapAnalysis) -> Row:
    """Return the JSON document as a mapping."""
    setup = answer.setup
    made = setup.expansions()
    return {
        "schema_version": SCHEMA_VERSION,
        "wattqueue": __version__,
        "task": {k: v for k, v in setup.task.values().items() if k not in {"policy", "estimator", "cap"}},
        "machine": setup.machine.name,
        "cap_scope": setup.machine.cap_scope,
        "origin": setup.jobs.origin,
        "jobs": len(setup.jobs),
        "rows_unusable": len(setup.unusable),
        "begin_s": answer.begin_s,
        "end_s": answer.end_s,
        "first_submission": setup.words(answer.begin_s),
        "prices": _series(setup.prices),
        "intensity": _series(setup.intensity),
        "risk": setup.question.risk,
        "confidence": safe.CONFIDENCE,
        "definitions": DEFINITIONS,
        "configurations": [_configuration(answer, curve) for curve in answer.curves],
        "rows": rows(answer),
        **({"for_machine": made} if made else {}),
    }


def _series(tariff: Tariff | None) -> Mapping[str, Any] | None:
    """Return what identifies a price or intensity series: file, hash, unit, corrected offsets.

    The hash says which prices were billed, as files of the same name are renewed every day.
    """
    if tariff is None:
        return None
    return {
        "file": tariff.source.path.name,
        "sha256": tariff.sha256,
        "unit": tariff.source.unit,
        "mended": [asdict(r) for r in tariff.repairs],
    }


def _lowest(answer: CapAnalysis, verdict: SafeCaps, under: str) -> Row:
    """Return the lowest safe cap of a verdict and why, with an ending of the names."""
    cap = None if verdict.lowest is None else answer.setup.caps[verdict.lowest]
    return {
        f"lowest_safe_cap{under}": None if cap is None else cap.text,
        f"lowest_safe_cap{under}_w": None if cap is None else cap.cap_w,
        f"why{under}": verdict.why,
    }


def _configuration(answer: CapAnalysis, curve: Curve) -> Row:
    """Return the conclusions about one configuration: knee, lowest safe cap and why, the worst hours under each cap."""
    caps = answer.setup.caps
    return {
        **_name(curve),
        "knee": None if curve.knee is None else caps[curve.knee].text,
        **_lowest(answer, curve.verdict, ""),
        **(_lowest(answer, curve.assumed, "_unknown_at_maximum") if curve.assumed is not None else {}),
        "worst_hours": {
            cap.text: [{"begin": answer.setup.words(h.begin_s), **asdict(h)} for h in answer.hours(curve, k)]
            for k, cap in enumerate(caps)
        },
        "without_effect": curve.without_effect,
        "notes": {cap.text: ran.notes for cap, ran in zip(caps, curve.ran, strict=True) if ran.notes},
    }
