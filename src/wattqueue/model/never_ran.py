"""Jobs that never ran: why, in words, and how many for which reason.

A job *never ran* if it has no end: it was rejected at submission, or it was still queued or suspended at the end of the
run. Every screen, file and message has this one name for it (``jobs_never_ran``), and the reasons of ``REASONS``.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.schedule import Reason, Schedule

REASONS: dict[Reason, str] = {
    Reason.NONE: "",
    Reason.TOO_WIDE: "too wide",
    Reason.TOO_MUCH_POWER: "too much power",
    Reason.LEDGER: "cannot start under this ledger",
    Reason.NEVER_FITS: "never fits under the cap",
    Reason.QUEUED: "still queued at the end",
    Reason.SUSPENDED: "suspended, never resumed",
}
"""``reason`` of a job in jobs.csv: one for each job that never ran, empty for all others."""
MARGIN = ": margin "
"""Stands between that reason and the watts of the margin, in jobs.csv and live: ``reason_of``."""
NOT_RECORDED = "reason not recorded"
"""Stands for a reason that a file of an earlier version, or a recording, does not state."""
REJECTED = (Reason.TOO_WIDE, Reason.TOO_MUCH_POWER)
"""Reasons of a rejection: the machine's own figures (rule 4 of docs/semantics.md)."""
ROW = "never_ran_reasons"
"""Column of tables with a row per run (``results.parquet``, ``whatif.csv``): the text of ``reasons_text``."""


def reason_of(reason: Reason, margin_w: float) -> str:
    """Return why a job never ran: ``cannot start under this ledger: margin 900 W``; NaN for a margin not known."""
    return REASONS[reason] + (f"{MARGIN}{margin_w:.0f} W" if reason == Reason.LEDGER and margin_w >= 0.0 else "")


def never_ran_reasons(schedule: Schedule, ran: NDArray[np.bool_] | None = None) -> dict[str, int]:
    """Return how many jobs never ran for each reason, the most frequent reason first; empty where all ran.

    ``ran`` says which jobs did, where another rule counts than that of the schedule. Shape (n,).
    """
    never = ~(schedule.ran if ran is None else ran)
    found = np.bincount(schedule.reason[never], minlength=len(Reason))
    counts = {REASONS[why] or NOT_RECORDED: int(found[why]) for why in Reason if found[why]}
    return dict(sorted(counts.items(), key=lambda entry: -entry[1]))


def reasons_text(reasons: Mapping[str, int]) -> str:
    """Return reasons with their numbers as one text: ``still queued at the end: 22,016; too wide: 1``."""
    return "; ".join(f"{why}: {count:,}" for why, count in reasons.items())


def reasons_of_text(text: str) -> dict[str, int]:
    """Return the numbers that ``reasons_text`` wrote."""
    pairs = (part.rpartition(": ") for part in text.split("; ") if part)
    return {why: int(count.replace(",", "")) for why, _, count in pairs}


def never_ran_text(jobs: int, never_ran: int, reasons: str) -> str:
    """Return ``22,016 of 28,481 jobs never ran (still queued at the end)``; empty where all jobs ran.

    ``reasons`` is the text of ``reasons_text``. The number of a single reason is that of the jobs, and left out.
    """
    if not never_ran:
        return ""
    why = reasons if ";" in reasons else reasons.rpartition(": ")[0] or reasons
    return f"{never_ran:,} of {jobs:,} jobs never ran{f' ({why})' if why else ''}"
