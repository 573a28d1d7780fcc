"""One run of a campaign's grid: a saved workload on a machine under a policy and a cap."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from wattqueue.campaign.cell import WITHOUT_EFFECT, Row, Value
from wattqueue.campaign.shared import Shared
from wattqueue.campaign.windows import Before
from wattqueue.errors import InputError
from wattqueue.formats.source import sha256_of
from wattqueue.formats.unusable import Unusable
from wattqueue.model.comparability import WorkDone
from wattqueue.model.machine import Machine
from wattqueue.model.physics import Physics
from wattqueue.model.signals import Cap
from wattqueue.policy.policy import policy_from_row
from wattqueue.runs.perform import RunInputs, perform
from wattqueue.runs.physics import same_figures
from wattqueue.runs.task import Task


@dataclass(frozen=True, eq=False)
class TaskCell:
    """A run whose choices are all resolved: workers read no file again except those of users' own parts."""

    names: Mapping[str, Value]
    """Leading columns of its row: workload, seed, machine, policy, estimator, cap."""
    table: str
    """Name of the jobs in Shared."""
    machine: Machine
    """The machine."""
    policy: str
    """Name or path of the policy."""
    row: Mapping[str, Any]
    """Its parts."""
    cap: Cap
    """The cap, in watts."""
    rows_unusable: int = 0
    """Rows of the trace that no schedule can use, for the table."""
    hashes: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of the Python files that the row names."""
    physics: Physics | None = None
    """What files say of the truth."""
    before: Before | None = None
    """Jobs that had ended when a warm window begins."""

    def __str__(self) -> str:
        """Return the run's choices as text, for errors."""
        return ", ".join(f"{name} {value}" for name, value in self.names.items() if value not in (None, ""))

    def identity(self) -> Mapping[str, object]:
        """Return all inputs. Names count because they are columns of the row; files by content, not by path."""
        return {
            "names": dict(self.names),
            "table": self.table,
            "machine": asdict(self.machine),
            "row": dict(self.row),
            "cap": [self.cap.time_s.tolist(), self.cap.cap_w.tolist()],
            "rows_unusable": self.rows_unusable,
            "hashes": sorted(self.hashes.values()),
            "physics": None if self.physics is None else self.physics.digest(),
            "before": None if self.before is None else asdict(self.before),
        }

    def perform(self, shared: Shared) -> Row:
        """Simulate and return names and metrics.

        Raises: WattQueueError as ``simulate`` does; InputError if the file of a part was changed after the plan was
        made, since the key of the run names the old one.
        """
        for name, recorded in self.hashes.items():
            if sha256_of(Path(name)) != recorded:
                raise InputError("was changed while the campaign ran", where=name, hint="start the campaign again")
        policy = policy_from_row(self.policy, dict(self.row))
        task = Task(self.table, policy=self.policy)
        past = None if self.before is None else self.before.past(shared)
        inputs = RunInputs(
            task, shared.jobs(self.table), Unusable(), self.machine, policy, self.cap, past=past, physics=self.physics
        )
        outcome = perform(inputs)
        work = WorkDone.of(outcome.run.jobs, outcome.run.schedule)
        row = {**self.names, **outcome.metrics, "rows_unusable": self.rows_unusable, **work.row()}
        if outcome.run.without_effect:
            row[WITHOUT_EFFECT] = "\n".join(outcome.run.without_effect)
        if self.physics is None:
            return row
        used = {**outcome.run.sources, **same_figures(self.physics, self.row)}
        return {**row, "physics": "; ".join(f"{text}: {count}" for text, count in used.items())}
