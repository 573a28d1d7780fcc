"""What held a job of a run back, in words (``wattqueue why RUN JOB``)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from wattqueue.errors import InputError
from wattqueue.formats.rundir.folder import RunRecord
from wattqueue.model.holding import CAP, TURN, UNITS, Hold, holds_of
from wattqueue.model.schedule import Reason, reason_of
from wattqueue.model.supply_binding import tightest
from wattqueue.report import words


@dataclass(frozen=True, slots=True)
class HeldBack:
    """The wait of one job."""

    record: RunRecord
    row: int
    holds: tuple[Hold, ...]
    """Empty for a job that never ran."""

    @classmethod
    def of(cls, record: RunRecord, job: str) -> HeldBack:
        """Return it for a job by its name. Raises: InputError for a job that is not in the run."""
        row = next((k for k, name in enumerate(record.jobs.job_id) if str(name) == job), -1)
        if row < 0:
            raise InputError(
                f"no job {job!r} in the run", where="JOB", hint="names are in the column job_id of jobs.csv"
            )
        ran = bool(record.schedule.ran[row])
        found = holds_of(record.jobs, record.schedule, record.machine, record.cap, row) if ran else []
        return cls(record, row, tuple(found))

    @property
    def ran(self) -> bool:
        """Return whether the job ran."""
        return bool(self.record.schedule.ran[self.row])

    def cause(self, hold: Hold) -> str:
        """Return what held the job back, as it stands in JSON."""
        if hold.cause >= 0:
            return f"domain {self.record.machine.supply_tree.domains[hold.cause].name}"
        return {UNITS: "units", CAP: "cap", TURN: "turn"}[hold.cause]

    def values(self) -> dict[str, Any]:
        """Return the wait as values for JSON."""
        holds = [
            {"begin_s": one.begin_s, "end_s": one.end_s, "cause": self.cause(one), "equal_domains": one.equal}
            for one in self.holds
        ]
        return {"job": str(self.record.jobs.job_id[self.row]), "ran": self.ran, "reason": self.reason, "holds": holds}

    @property
    def reason(self) -> str:
        """Return why the job never ran; empty where it did."""
        schedule = self.record.schedule
        margin = np.nan if schedule.margin_w is None else float(schedule.margin_w[self.row])
        return "" if self.ran else reason_of(Reason(int(schedule.reason[self.row])), margin)

    def lines(self) -> Iterator[str]:
        """Yield the wait as sentences."""
        jobs, schedule = self.record.jobs, self.record.schedule
        name, units = str(jobs.job_id[self.row]), int(jobs.nodes[self.row])
        if not self.ran:
            yield f"job {name} never ran: {self.reason or 'the run does not say why'}"
            if schedule.reason[self.row] == Reason.SUPPLY:
                yield from self._narrow()
            return
        unit = self.record.machine.partitions[0].unit
        watts = float(schedule.predicted_w[self.row]) / units
        each = f", counted at {words.watts(watts)} each" if np.isfinite(watts) and watts > 0 else ""
        wait = float(schedule.start_s[self.row] - jobs.submit_s[self.row])
        waited = f"waited {words.span(wait)}" if wait > 0 else "started at once"
        yield f"job {name} ({words.count(units, unit)}{each}) {waited}"
        total: dict[tuple[int, int], float] = defaultdict(float)
        for one in self.holds:
            total[one.cause, one.equal] += one.end_s - one.begin_s
        for (cause, equal), seconds in sorted(total.items(), key=lambda pair: -pair[1]):
            yield f"  {words.span(seconds)} ({words.percent(seconds / wait)}): {self.said(cause, equal, unit)}"

    def _narrow(self) -> Iterator[str]:
        """Say which domain holds back most of the job's partition, at the stated maximum of a unit."""
        jobs, machine = self.record.jobs, self.record.machine
        code, names = int(jobs.partition.codes[self.row]), [part.name for part in machine.partitions]
        p = names.index(jobs.partition.names[code]) if code >= 0 and jobs.partition.names[code] in names else 0
        part = machine.partitions[p]
        if part.max_w is not None:
            net_uw = round((part.max_w - machine.unit_net_idle_w[p]) * 1e6)
            fed, domain = tightest(machine, p, net_uw)
            units, each = words.count(fed, part.unit), words.watts(part.max_w)
            yield f"  {units} of partition {part.name} are fed at most, at {each} each: {domain} holds back most"

    def said(self, cause: int, equal: int, unit: str) -> str:
        """Return a cause in words; of a domain with the number of those that forbid as many units."""
        if cause >= 0:
            tree = self.record.machine.supply_tree
            path = [tree.domains[k].name for k in tree.path(cause)]
            fed = f", fed by {path[1]}" if len(path) > 1 else ""
            if equal > 1:
                return f"{equal} power domains had no room for its watts, each for as few units; {path[0]} is one{fed}"
            return f"power domain {path[0]} had no room for its watts{fed}"
        return {
            UNITS: f"too few {unit}s of its partition were free",
            CAP: "the cap had no room for its watts",
            TURN: "there was room, and it was not its turn: the queue's order, a reservation or another rule",
        }[cause]
