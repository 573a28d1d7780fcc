"""The answer as files: ``whatif.csv`` (a row a cap), ``payers.csv``, ``whatif.json`` (all of it, with definitions)."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from wattqueue import SCHEMA_VERSION, __version__
from wattqueue.model.sums import sum_of_products
from wattqueue.whatif import safe
from wattqueue.whatif.answer import Answer, Bill, Curve
from wattqueue.whatif.bill import Tariff
from wattqueue.whatif.payers import Payers
from wattqueue.whatif.run import Ran

Row = dict[str, Any]
DEFINITIONS = {
    "safe": "see docs/guide/whatif.md; "
    + (safe.__doc__ or "").partition("**Definition.** ")[2].partition("\n\nRef")[0],
    "knee": "Kneedle (Satopaa et al. 2011) on mean wait against the cap, both scaled to 0..1; null where the curve is "
    "flat or straight",
    "worst_hours": "hours of submission by the extra node-hours of wait of the jobs submitted in them, against the run "
    "without a cap",
    "payers": "sums over jobs that run with and without the cap; wait_node_h is nodes times extra wait",
    "bill": "the whole machine from the first submission to the latest end of all runs, idle after a run's own end",
}


def rows(answer: Answer) -> list[Row]:
    """A row a configuration and cap, without a cap first; all metrics by their names."""
    return [row for curve in answer.curves for row in (_plain(answer, curve), *_capped(answer, curve))]


def _plain(answer: Answer, curve: Curve) -> Row:
    return {**_name(curve), "cap": "none", "cap_w": None, **_figures(curve.plain), **_billed(answer, curve.plain_bill)}


def _capped(answer: Answer, curve: Curve) -> Iterator[Row]:
    for k, cap in enumerate(answer.setup.caps):
        found = curve.evidence[k]
        wait = curve.extra[k].wait_s
        both = np.isfinite(wait)
        yield {
            **_name(curve),
            "cap": cap.text,
            "cap_w": cap.cap_w,
            **_figures(curve.ran[k]),
            "jobs_lost": found.lost,
            "extra_wait_s_mean": float(wait[both].mean()) if both.any() else None,
            "extra_wait_node_h": sum_of_products(answer.setup.jobs.nodes[both], wait[both]) / 3_600.0,
            **_billed(answer, curve.bills[k]),
            "over_share": found.share,
            "over_share_upper": found.upper,
            "looks": found.looks,
            "safe": curve.verdict.each[k],
            "knee": k == curve.knee,
        }


def _name(curve: Curve) -> Row:
    return {"policy": curve.policy, "estimator": curve.estimator}


def _figures(ran: Ran) -> Row:
    return dict(ran.metrics)


def _billed(answer: Answer, bill: Bill) -> Row:
    found: Row = {"bill_energy_j": bill.energy_j}
    if answer.setup.prices is not None:
        found |= {"cost": bill.cost, "cost_unit": answer.setup.prices.source.amount}
    if answer.setup.intensity is not None:
        found |= {"carbon": bill.carbon, "carbon_unit": answer.setup.intensity.source.amount}
    return found


def payer_rows(answer: Answer) -> Iterator[Row]:
    """Every user and partition under every cap of every configuration."""
    for curve in answer.curves:
        for k, cap in enumerate(answer.setup.caps):
            for group in answer.payers(curve, k):
                for i in range(len(group.name)):
                    yield {**_name(curve), "cap": cap.text, "cap_w": cap.cap_w, **_payer(group, i)}


def _payer(group: Payers, i: int) -> Row:
    return {
        "kind": group.kind,
        "name": group.name[i],
        "jobs": int(group.jobs[i]),
        "jobs_lost": int(group.lost[i]),
        "extra_wait_node_h": float(group.wait_node_h[i]),
        "share_of_extra_wait": float(group.wait_share[i]),
        "share_of_work": float(group.work_share[i]),
        "extra_wait_s_mean": float(group.wait_mean_s[i]),
        "extra_run_node_h": float(group.run_node_h[i]),
    }


def to_csv(table: list[Row]) -> str:
    """Rows as CSV: the columns of the longest row, gaps empty."""
    names: dict[str, None] = {}
    for row in sorted(table, key=len, reverse=True):
        names |= dict.fromkeys(row)
    out = io.StringIO()
    writer = csv.DictWriter(out, list(names), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({k: "" if v is None else v for k, v in row.items()} for row in table)
    return out.getvalue()


def to_json(answer: Answer) -> str:
    """Everything but the payers of each cap, which are many."""
    return json.dumps(_document(answer), indent=1, allow_nan=False) + "\n"


def _document(answer: Answer) -> Row:
    setup = answer.setup
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
    }


def _series(tariff: Tariff | None) -> Mapping[str, Any] | None:
    if tariff is None:
        return None
    return {
        "file": tariff.source.path.name,
        "sha256": tariff.sha256,
        "unit": tariff.source.unit,
        "mended": [asdict(r) for r in tariff.repairs],
    }


def _configuration(answer: Answer, curve: Curve) -> Row:
    caps = answer.setup.caps
    lowest = curve.verdict.lowest
    return {
        **_name(curve),
        "knee": None if curve.knee is None else caps[curve.knee].text,
        "lowest_safe_cap": None if lowest is None else caps[lowest].text,
        "lowest_safe_cap_w": None if lowest is None else caps[lowest].cap_w,
        "why": curve.verdict.why,
        "worst_hours": {
            cap.text: [{"begin": answer.setup.words(h.begin_s), **asdict(h)} for h in answer.hours(curve, k)]
            for k, cap in enumerate(caps)
        },
        "notes": {cap.text: ran.notes for cap, ran in zip(caps, curve.ran, strict=True) if ran.notes},
    }
