"""The table of ``wattqueue live status``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def status_rows(values: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the rows of the status table: budget first, then counts, then everything that needs attention.

    ``values`` is the content of the status file; a row is (name, text). Watts are printed in kW; None is a figure
    that does not exist (no cap in force, nothing measured). The row of the pool is there where Slurm has a licence
    pool. Problems come last but one, each in a row of its own, so that none is cut off.
    """
    from wattqueue.live.watts.lowering import LicenceRules

    def watts(value: float | None) -> str:
        """Return watts in kW; ``none`` where there is no figure."""
        return "none" if value is None else f"{value / 1e3:,.2f} kW"

    pool = values["pool_w"]
    rows = [("cap", watts(values["cap_w"]))]
    if (limit_w := values.get("limit_w", values["cap_w"])) != values["cap_w"]:
        rows.append(("load target", f"{watts(limit_w)} (with the rise after it)"))
    rows.append(("counted", watts(values["counted_w"])))
    rows.append(("measured", "not measured" if values["measured_w"] is None else watts(values["measured_w"])))
    if pool is not None:
        rows.append(("pool", f"{pool['used']:,} of {pool['open']:,} W (of {pool['total']:,} in slurm.conf)"))
    shared = values.get("shared_nodes", {"open": 0, "closed": 0})
    if shared["open"] or shared["closed"]:
        closed = f", {shared['closed']:,} drained and empty" if shared["closed"] else ""
        rows.append(("shared nodes", f"{watts(shared['counted_w'])} ({shared['open']:,} at their maximum{closed})"))
    rows += _domain_rows(values.get("domains") or {})
    rows += [(group, _counts(values[group])) for group in ("jobs", "nodes", "telemetry")]
    if "licences" in values:
        rows += LicenceRules(**values["licences"]).rows()
    if not values["telemetry_ok"]:
        rows.append(("telemetry is lost", "admitting by maxima, raising nothing"))
    rows += [("problem", text) for text in (*values["problems"], *values["errors"])]
    rows += [("would", text) for text in values["would"]]
    rows.append(("round", f"{values['round_s'] * 1e3:.0f} ms"))
    return rows


def _domain_rows(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the rows of power domains: the fullest, what is set aside, and what pinning jobs to nodes costs."""
    if not found:
        return
    full = sorted(found["watts"].items(), key=lambda one: one[1]["room_w"] - one[1]["jobs_w"])
    texts = [f"{name} {one['jobs_w']:,.0f} of {one['room_w']:,.0f} W" for name, one in full[:3]]
    more = f" and {len(full) - 3:,} more" if len(full) > 3 else ""
    yield "power domains", f"{', '.join(texts)}{more}"
    if found["set_aside_w"]:
        yield "set aside", ", ".join(f"{name} {watts:,} W" for name, watts in found["set_aside_w"].items())
    if found["pinning_share"] is not None:
        yield "lost to pinning", f"{100 * found['pinning_share']:.2f} % of node hours"


def _counts(values: dict[str, int]) -> str:
    """Return ``3 running, 2 under way`` for a group of counts."""
    return ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in values.items())
