"""What one user got for consent, in words that a person understands: as text, and as a page.

Every figure is one of the ledger. The statement says which of them are differences to a simulation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wattqueue.report import words
from wattqueue.report.document import Document, Prose, Table
from wattqueue_grid.incentives.ledger import RewardEntry, SettledEvent
from wattqueue_grid.money import plain
from wattqueue_grid.money import words as money
from wattqueue_grid.settlement.calendar import SiteCalendar

Line = tuple[SettledEvent, RewardEntry]
SIMULATED = (
    "How much longer a job waited and ran cannot be measured: it is the difference to a simulation of the same jobs "
    "without the event."
)
HEADS = (
    *("Job", "Event", "Waited longer", "Ran longer", "Energy freed"),
    *("Usage fee", "You get back", "You pay"),
)


def document(user: str, lines: Sequence[Line], calendar: SiteCalendar) -> Document:
    """Return the statement as text, for a terminal or a mail, and as page."""
    title, said = f"What your consent brought you: {user}", sentences(lines)
    jobs = Table(
        HEADS, rows(lines, calendar), "Your jobs", key="jobs", short=HEADS, kinds=["", "", *["n"] * 6], answer=[6]
    )
    models = [f"Event {e.event_id}: reward model {e.model} (SHA-256 {e.model_sha256[:12]})." for e in _events(lines)]
    basis = [f"{model} Basis: {e.basis}." for model, e in zip(models, _events(lines), strict=True)]
    return Document(
        title=title,
        eyebrow=words.count(len(_events(lines)), "event"),
        lede=" ".join(said),
        blocks=[jobs, Prose("What the figures mean", (SIMULATED, *basis), "meaning")],
        text=[title, *said, "", jobs, "", SIMULATED, *models],
        links=(("jobs", "Jobs"), ("meaning", "Meaning")),
    )


def sentences(lines: Sequence[Line]) -> list[str]:
    """Return the result in sentences: what was asked of the user, and what it brought in each currency."""
    if not lines:
        return ["None of your jobs was affected by an event, so there is no reward."]
    wait, run = sum(e.added_wait for _, e in lines), sum(e.added_run for _, e in lines)
    freed = sum(e.energy_freed for _, e in lines)
    affected = words.count(len(lines), "of your jobs was", "of your jobs were")
    helped = "in which your computing centre helped the power grid by drawing less"
    longer = f"they waited {words.span(wait)} and ran {words.span(run)} longer than without"
    said = [
        f"{affected} affected by {words.count(len(_events(lines)), 'event')}, {helped}.",
        f"Counted over their nodes {longer}, and freed {words.energy(freed)}.",
    ]
    for currency in sorted({event.currency for event, _ in lines}):
        mine = [entry for event, entry in lines if event.currency == currency]
        fee, reward = sum(e.fee for e in mine), sum(e.reward for e in mine)
        said.append(
            f"You get {money(reward, currency)} back: instead of {money(fee, currency)} you pay "
            f"{money(fee - reward, currency)} for these jobs."
        )
    return said


def rows(lines: Sequence[Line], calendar: SiteCalendar) -> list[tuple[str, ...]]:
    """Return the cells of each job; waits and run times are node-hours, since a wide job holds back more."""
    return [
        (
            entry.job_id, f"{event.event_id}, {calendar.text(event.begin_s)}", _node_hours(entry.added_wait),
            _node_hours(entry.added_run), words.energy(entry.energy_freed), money(entry.fee, event.currency),
            money(entry.reward, event.currency), money(entry.fee - entry.reward, event.currency),
        )
        for event, entry in lines
    ]  # fmt: skip


def job_rows(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """Return what each job got for JSON: node-seconds, watts, joules, and exact amounts as text."""
    return [
        {
            "job": entry.job_id, "event": event.event_id, "begin_s": event.begin_s, "currency": event.currency,
            "added_wait_node_s": entry.added_wait, "added_run_node_s": entry.added_run,
            "power_freed_w": entry.power_freed, "energy_freed_j": entry.energy_freed,
            "fee": plain(entry.fee), "reward": plain(entry.reward),
        }
        for event, entry in lines
    ]  # fmt: skip


def _events(lines: Sequence[Line]) -> list[SettledEvent]:
    """Return the events of some lines, each once, in their order."""
    return list(dict.fromkeys(event for event, _ in lines))


def _node_hours(node_seconds: int) -> str:
    return f"{words.figures(node_seconds / 3_600)} node-h"
