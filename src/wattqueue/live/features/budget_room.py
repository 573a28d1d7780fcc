"""What a resource manager that works alone may start of a budget, for who sets its limit (``live.slurm.budget_qos``).

While no controller is at work, a limit of the resource manager on watts of licences times time keeps a budget. A job
that runs occupies its licence for its whole time limit, one that has ended what it had as long as it ran. The limit is
what is occupied and the *room*: what the budget has left, in licences of jobs that are still to start, and the licences
of jobs that were released and do not run yet, for which the books have set something aside already.

A licence counts what a job draws above idle, a budget all of it. What is left is divided by the most joules that a job
draws for each watt-second of its licence. Where partitions differ in that, a job that ends before its limit may leave
more licences than what the budget gets back is worth; so much is kept off the room.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from wattqueue.live.features.budget_rows import StoredBooks
from wattqueue.live.files.energy_records import EnergyFolder, run_name
from wattqueue.live.planner import RoundState
from wattqueue.model.budgets import Book
from wattqueue.model.machine import Machine

GONE_S = 300.0
"""For so long the file lists jobs that are gone: their licences are taken off what was read as occupied before."""


class Occupant(NamedTuple):
    """A job that runs, or may start at any moment."""

    name: str
    runs: bool
    drawn_w: float
    """The most that it draws."""
    licence_w: float
    most_w: float
    """The most that its licence may have been at its start."""
    limit_s: float
    left_s: float
    """Until its limit."""


@dataclass
class BudgetRoom:
    """Writes the room of each budget that names a QOS, in every round."""

    of: StoredBooks
    folder: EnergyFolder
    _occupied: dict[tuple[str, str], float] = field(default_factory=dict)
    """Watt-seconds of licences that each job occupies at most, by QOS and name."""
    _gone: list[tuple[str, float, float]] = field(default_factory=list)
    """QOS of jobs that are gone, since when, and what they occupied."""

    def write(self, now: RoundState) -> None:
        """Write the room. Raises: OSError, OutputError where that fails."""
        books: dict[str, list[Book]] = {}
        for book in self.of.books.books:
            if book.budget.qos:
                books.setdefault(book.budget.qos, []).append(book)
        if not books:
            return
        every = list(self._occupants(now))
        jobs = {
            qos: [one for one in every if any(one.name in book.held for book in mine)] for qos, mine in books.items()
        }
        present = {(qos, one.name): one.most_w * one.limit_s for qos, mine in jobs.items() for one in mine}
        self._gone += [(key[0], now.now_s, self._occupied[key]) for key in self._occupied.keys() - present.keys()]
        self._gone = [one for one in self._gone if now.now_s - one[1] < GONE_S]
        self._occupied = present
        machine = now.planner.layout.machine
        rooms = {qos: room_of(mine, jobs[qos], machine, now.now_s) for qos, mine in books.items()}
        gone = {qos: [one[1:] for one in self._gone if one[0] == qos] for qos in books}
        self.folder.put_room(json.dumps({"time_s": now.now_s, "rooms": rooms, "gone": gone}) + "\n")

    def _occupants(self, now: RoundState) -> Iterator[Occupant]:
        """Yield the jobs of the books that run or may start at any moment."""
        partitions, allowed = now.planner.layout.machine.partitions, now.planner.layout.allowed
        for slot in (*now.running, *now.under_way):
            row = now.jobs.row[slot]
            held = self.of.held.get(name := run_name(row.key.name, row.key.submit_s))
            if held is None:
                continue
            nets_w = [float(partitions[p].max_w or math.inf) - partitions[p].idle_w for p in allowed(row.partition)]
            most_w, limit_s = max(nets_w, default=0.0) * row.nodes, min(row.walltime_s, held.demand.span_s)
            licence_w = float(row.watts) if row.watts > 0 else most_w
            left_s = limit_s if row.pending else max(0.0, limit_s - (now.now_s - row.start_s))
            yield Occupant(name, not row.pending, held.demand.watts, licence_w, max(licence_w, most_w), limit_s, left_s)


def room_of(books: Sequence[Book], jobs: Sequence[Occupant], machine: Machine, now_s: float) -> dict[str, Any]:
    """Return the room of the budgets of one QOS and what it is of, in watt-seconds of licences.

    ``room`` is None where no period of them is in force: nothing is limited then.
    """
    here = next((book for book in books if not math.isinf(book.budget.limit(book.budget.period(now_s)))), None)
    if here is None:
        return {"name": books[0].budget.name, "begin_s": None, "room": None}
    waiting = [one for one in jobs if not one.runs]
    joules = max([joules_of(machine), *(one.drawn_w / one.licence_w if one.licence_w else math.inf for one in waiting)])
    left_j = min(left for book in books for left in _left_j(book, now_s))
    unworth_j = sum(max(0.0, one.most_w * joules - one.drawn_w) * one.left_s for one in jobs)
    free = max(0.0, (left_j - unworth_j) / joules) if math.isfinite(joules) else 0.0
    budget, under_way = here.budget, sum(one.licence_w * one.limit_s for one in waiting)
    return {
        "name": budget.name, "begin_s": float(budget.edge_s[budget.period(now_s)]), "room": under_way + free,
        "under_way": under_way, "whole": budget.amount / 1e3 / joules,
    }  # fmt: skip


def joules_of(machine: Machine) -> float:
    """Return the most joules that a job at full power draws for each watt-second of its licence."""
    pairs = [(float(one.max_w or math.inf), one.idle_w) for one in machine.partitions]
    return max(math.inf if math.isinf(most) or most <= idle else most / (most - idle) for most, idle in pairs)


def _left_j(book: Book, now_s: float) -> Iterator[float]:
    """Yield what is left of each period of a budget that has not ended, in joules."""
    budget = book.budget
    if budget.edge_s[-1] > now_s:
        first = max(budget.period(now_s), 0)
        yield from (
            (budget.limit(period) - book.booked(period)) / 1e3 for period in {first, *book.total} if period >= first
        )
