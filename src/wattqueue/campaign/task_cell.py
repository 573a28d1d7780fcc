"""One run of a campaign's grid: a saved workload on a machine under a policy and a cap."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from wattqueue.campaign.cell import Row, Value
from wattqueue.campaign.shared import Shared
from wattqueue.campaign.windows import Before
from wattqueue.errors import InputError
from wattqueue.formats._source import sha256_of
from wattqueue.formats.unusable import Unusable
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Cap
from wattqueue.policy.policy import policy_from_row
from wattqueue.sim.task import Inputs, Task, perform


@dataclass(frozen=True, eq=False)
class TaskCell:
    """A run whose every choice is resolved: no file but those of a user's own parts is read again.

    ``names`` are the leading columns of its row; ``table`` names the jobs in Shared; ``hashes`` hold the SHA-256
    of the Python files that the policy's row names; ``before`` what had ended when the workload begins.
    """

    names: Mapping[str, Value]
    table: str
    machine: Machine
    policy: str
    row: Mapping[str, Any]
    cap: Cap
    rows_unusable: int = 0
    hashes: Mapping[str, str] = field(default_factory=dict)
    before: Before | None = None

    def __str__(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in self.names.items() if value is not None)

    def identity(self) -> Mapping[str, object]:
        """All that goes in: names stand in the row, and so count as well."""
        return {
            "names": dict(self.names),
            "table": self.table,
            "machine": asdict(self.machine),
            "row": dict(self.row),
            "cap": [self.cap.time_s.tolist(), self.cap.cap_w.tolist()],
            "rows_unusable": self.rows_unusable,
            "hashes": sorted(self.hashes.values()),
            "before": None if self.before is None else asdict(self.before),
        }

    def perform(self, shared: Shared) -> Row:
        """Simulate; names and metrics.

        Raises: WattQueueError as ``simulate`` does; InputError where a file of a part is another one by now.
        """
        for name, recorded in self.hashes.items():
            if sha256_of(Path(name)) != recorded:
                raise InputError("changed while the campaign ran", where=name, mend="start again")
        policy = policy_from_row(self.policy, dict(self.row))
        task = Task(self.table, policy=self.policy)
        past = None if self.before is None else self.before.past(shared)
        inputs = Inputs(task, shared.jobs(self.table), Unusable(), self.machine, policy, self.cap, past)
        figures = perform(inputs).metrics
        return {**self.names, **figures, "rows_unusable": self.rows_unusable}
