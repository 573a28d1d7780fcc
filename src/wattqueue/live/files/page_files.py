"""Names and columns of the files of a controller's page (``live.reports.page_file`` writes them), and their readers."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from wattqueue.model.signals import Cap
    from wattqueue.model.supply import SupplyDomain

PAGE, HISTORY, EVENTS = "page.json", "history.csv", "events.jsonl"
MOST = 100
"""Jobs that wait, and jobs that run, of which user and name are written."""
DAY_S = 86_400.0
MOST_STEPS = 2000
"""Changes of the cap that are shown of the next day."""
MOST_DOMAINS = 200
"""Power domains that are shown."""
ROWS, ROW_S = 1440, 60.0
"""Rows of the history that are kept at least, and the time that each stands for."""
COLUMNS = ("time_s", "cap_w", "limit_w", "counted_w", "measured_w", "held_jobs", "kept_nodes")
"""Columns of the history. The last two: jobs that free nodes would serve if there were watts, and these nodes."""


def finite(value: float) -> float | None:
    """Return a figure; None for one that is not there, and for no limit."""
    return value if math.isfinite(value) else None


def whole(value: float) -> int | None:
    """Return a figure rounded; None as above."""
    return round(value) if math.isfinite(value) else None


def kilowatts(watts: float | None) -> str:
    """Return watts as kW with two places, ``none`` for no limit."""
    return f"{watts / 1e3:,.2f} kW" if watts is not None and math.isfinite(watts) else "none"


def limits_ahead(cap: Cap, now_s: float) -> list[tuple[int, float | None, float | None]]:
    """Return (time, cap, limit with load targets) in force now and at each change of the next day."""
    changes = cap.time_s[(cap.time_s > now_s) & (cap.time_s <= now_s + DAY_S)]
    at = np.append(now_s, changes)[:MOST_STEPS]
    columns = at.tolist(), cap.alone.at(at).tolist(), cap.at(at).tolist()
    return [(round(t), finite(alone), finite(limit)) for t, alone, limit in zip(*columns, strict=True)]


def domain_rows(watts: Mapping[str, tuple[float, float]], domains: Sequence[SupplyDomain]) -> list[list[Any]]:
    """Return name, domain that feeds it, counted watts and limit of the fullest domains, in the machine file's order.

    ``watts``: counted watts and limit by name, of those that have a limit.
    """
    share = {name: counted_w / max(limit_w, 1e-9) for name, (counted_w, limit_w) in watts.items()}
    kept = set(sorted(share, key=lambda name: -share[name])[:MOST_DOMAINS])
    return [[one.name, one.parent, *map(round, watts[one.name])] for one in domains if one.name in kept]


def read_history(folder: Path) -> list[list[int | None]]:
    """Return the rows of the history, one that was cut off left out; None for a figure that is not there."""
    return [row for line in _lines(folder / HISTORY) if (row := _row(line)) is not None]


def _row(line: str) -> list[int | None] | None:
    try:
        row = [int(cell) if cell else None for cell in line.split(",")]
    except ValueError:
        return None
    return row if len(row) == len(COLUMNS) and row[0] is not None else None


def read_events(folder: Path) -> list[Mapping[str, Any]]:
    """Return the last events, the newest first; a line that was cut off is left out."""
    found: list[Mapping[str, Any]] = []
    for line in reversed(_lines(folder / EVENTS)):
        try:
            one = json.loads(line)
            found.append({key: one[key] for key in ("time_s", "kind", "text", "detail")})
        except (ValueError, LookupError, TypeError):
            continue
    return found


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").splitlines()
    except OSError:
        return []
