"""The content of reports: usage, demand, baseline, operating state, load that can be shed, and the quality of the data.

=========================  =======  ==============================================================================
type                       units    value of an interval
=========================  =======  ==============================================================================
USAGE                      KWH      energy drawn
DEMAND                     KW       mean power; the highest where the reading type is PEAK
BASELINE                   KW, KWH  power, or energy, of the site's baseline
OPERATING_STATE            none     RUNNING or IDLE; CURTAILED while a target is in force; OPTED_OUT, or NORMAL
LOAD_SHED_DELTA_AVAILABLE  KW       load that could be shed now (see below)
DATA_QUALITY               none     quality of the measured power
=========================  =======  ==============================================================================

The load that could be shed is what running jobs with consent count for. Where the site does not ask for consent, it is
what is drawn above the power that stays in an emergency.

Each measured value has a DATA_QUALITY beside it, and so each report is of one type (user guide, 7.8). A value that is
not known is 0 with MISSING, since a payload must have a value.

Reference: OpenADR 3.1.0, schema ``reportRequest``; enumerations of report payloads, reading types and units.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from wattqueue.errors import InputError
from wattqueue.model.signals import Series
from wattqueue_grid.openadr.objects import ReportRequest
from wattqueue_grid.openadr.power_log import PowerLog, Quality
from wattqueue_grid.openadr.requests import DueReport, ReportInterval
from wattqueue_grid.openadr.times import duration_text

JOULES_PER_KWH = 3.6e6
AGGREGATED = "AGGREGATED_REPORT"


@dataclass(frozen=True)
class SiteState:
    """What reports are made of.

    Attributes:
        power: What was drawn.
        state_of: The operating state in an interval.
        baseline_w: Power in the absence of load control; None where the site states none.
        least_w: Watts that stay when all load is shed that can be; None where the site states none.
        now_s: The time.
        consenting_w: Watts that running jobs whose users consent count for; None where the site asks no consent.
    """

    power: PowerLog
    state_of: Callable[[float, float], str]
    baseline_w: Series | None
    least_w: float | None
    now_s: float
    consenting_w: float | None = None


def report_body(due: DueReport, event_id: str, ven_name: str, resource_name: str, site: SiteState) -> dict[str, Any]:
    """Return the report that is due, as JSON. Raises: InputError for a type or units that this site does not report."""
    request = due.request
    maker = _MAKERS.get(request.payload_type)
    if maker is None:
        raise InputError(
            f"report {request.payload_type[:40]} is not sent", hint=f"this site reports {', '.join(_MAKERS)}"
        )
    described, value_of = maker(request, site)
    return {
        "eventID": event_id,
        "clientName": ven_name,
        "reportName": due.key[:128],
        "payloadDescriptors": [{"objectType": "REPORT_PAYLOAD_DESCRIPTOR", **described}],
        "resources": [
            {
                "resourceName": AGGREGATED if request.aggregate else resource_name,
                "intervals": [_interval(row, request.payload_type, value_of) for row in due.intervals],
            }
        ],
    }


def state_body(
    event_id: str, state: str, ven_name: str, resource_name: str, now_s: float, end_s: float
) -> dict[str, Any]:
    """Return a report of an operating state from now to the end of an event: how a VEN opts out of it, or in again."""
    row = ReportInterval(now_s, max(end_s, now_s), 0)
    described = {"objectType": "REPORT_PAYLOAD_DESCRIPTOR", "payloadType": "OPERATING_STATE"}
    return {
        "eventID": event_id,
        "clientName": ven_name,
        "reportName": f"{event_id}:{state}"[:128],
        "payloadDescriptors": [described],
        "resources": [
            {
                "resourceName": resource_name,
                "intervals": [_interval(row, "OPERATING_STATE", lambda _: [("OPERATING_STATE", state)])],
            }
        ],
    }


Values = Callable[[ReportInterval], Sequence[tuple[str, str | float]]]
"""Payloads of one interval: type and value."""


def _interval(row: ReportInterval, _kind: str, value_of: Values) -> dict[str, Any]:
    """Return an interval of a report with its period and payloads."""
    length_s = row.end_s - row.begin_s
    start = datetime.fromtimestamp(row.begin_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {
        "id": row.id,
        "intervalPeriod": {
            "start": start,
            "duration": duration_text(length_s) if math.isfinite(length_s) else "P9999Y",
        },
        "payloads": [{"type": kind, "values": [value]} for kind, value in value_of(row)],
    }


def _with_quality(kind: str, value: float, quality: Quality) -> list[tuple[str, str | float]]:
    return [(kind, round(value, 6)), ("DATA_QUALITY", quality)]


def _require(request: ReportRequest, units: tuple[str, ...], readings: tuple[str, ...]) -> None:
    """Raise InputError where units or reading type are others than this site reports."""
    kind = request.payload_type
    if request.units is not None and request.units not in units:
        hint = f"this site reports {' or '.join(units)}" if units else "none"
        raise InputError(f"report {kind} in units {request.units[:20]}", hint=hint)
    if request.reading_type is not None and request.reading_type not in readings:
        raise InputError(f"report {kind} of reading type {request.reading_type[:20]}", hint=f"{' or '.join(readings)}")


def _usage(request: ReportRequest, site: SiteState) -> tuple[dict[str, str], Values]:
    _require(request, ("KWH",), ("DIRECT_READ",))

    def values(row: ReportInterval) -> Sequence[tuple[str, str | float]]:
        power = site.power.over(row.begin_s, min(row.end_s, site.now_s))
        return _with_quality("USAGE", power.energy_j / JOULES_PER_KWH, power.quality)

    return {"payloadType": "USAGE", "units": "KWH", "readingType": "DIRECT_READ"}, values


def _demand(request: ReportRequest, site: SiteState) -> tuple[dict[str, str], Values]:
    _require(request, ("KW",), ("MEAN", "PEAK", "AVERAGE", "DIRECT_READ"))
    peak = request.reading_type == "PEAK"

    def values(row: ReportInterval) -> Sequence[tuple[str, str | float]]:
        power = site.power.over(row.begin_s, min(row.end_s, site.now_s))
        return _with_quality("DEMAND", (power.peak_w if peak else power.mean_w) / 1e3, power.quality)

    return {"payloadType": "DEMAND", "units": "KW", "readingType": "PEAK" if peak else "MEAN"}, values


def _baseline(request: ReportRequest, site: SiteState) -> tuple[dict[str, str], Values]:
    _require(request, ("KW", "KWH"), ("ESTIMATED", "MEAN", "AVERAGE", "DIRECT_READ", "FORECAST"))
    units = request.units or "KW"

    def values(row: ReportInterval) -> Sequence[tuple[str, str | float]]:
        series = site.baseline_w
        if series is None or not math.isfinite(row.end_s) or row.end_s <= row.begin_s:
            return _with_quality("BASELINE", 0.0, "MISSING")
        joules = series.integral(row.begin_s, row.end_s)
        per = JOULES_PER_KWH if units == "KWH" else 1e3 * (row.end_s - row.begin_s)
        return _with_quality("BASELINE", joules / per, "ESTIMATED")

    return {"payloadType": "BASELINE", "units": units, "readingType": "ESTIMATED"}, values


def _state(request: ReportRequest, site: SiteState) -> tuple[dict[str, str], Values]:
    _require(request, (), ("DIRECT_READ", "NORMAL"))
    return {"payloadType": "OPERATING_STATE"}, lambda row: [("OPERATING_STATE", site.state_of(row.begin_s, row.end_s))]


def _shed(request: ReportRequest, site: SiteState) -> tuple[dict[str, str], Values]:
    _require(request, ("KW",), ("FORECAST", "ESTIMATED"))
    drawn_w = site.power.latest_w(site.now_s)

    def values(_: ReportInterval) -> Sequence[tuple[str, str | float]]:
        if drawn_w is None or (site.consenting_w is None and site.least_w is None):
            return _with_quality("LOAD_SHED_DELTA_AVAILABLE", 0.0, "MISSING")
        shed_w = site.consenting_w if site.consenting_w is not None else drawn_w - (site.least_w or 0.0)
        return _with_quality("LOAD_SHED_DELTA_AVAILABLE", max(shed_w, 0.0) / 1e3, "ESTIMATED")

    return {"payloadType": "LOAD_SHED_DELTA_AVAILABLE", "units": "KW", "readingType": "FORECAST"}, values


def _quality(request: ReportRequest, site: SiteState) -> tuple[dict[str, str], Values]:
    _require(request, (), ("DIRECT_READ",))
    return {"payloadType": "DATA_QUALITY"}, lambda row: [
        ("DATA_QUALITY", site.power.over(row.begin_s, min(row.end_s, site.now_s)).quality)
    ]


_MAKERS: dict[str, Callable[[ReportRequest, SiteState], tuple[dict[str, str], Values]]] = {
    "USAGE": _usage,
    "DEMAND": _demand,
    "BASELINE": _baseline,
    "OPERATING_STATE": _state,
    "LOAD_SHED_DELTA_AVAILABLE": _shed,
    "DATA_QUALITY": _quality,
}
