"""Run all cells of a question as a campaign: over the processes of this machine, with inputs that all of them map.

The results of a cell are columns (starts, ends, binned power) of a few megabytes. They are left in ``Shared`` and the
row of the campaign only names them, so that they never pass through a pipe between processes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from wattqueue.campaign.backends import Local
from wattqueue.campaign.cell import WITHOUT_EFFECT, Row
from wattqueue.campaign.run import run_cells
from wattqueue.campaign.shared import Arrays, Shared
from wattqueue.errors import CampaignError
from wattqueue.model.comparability import WorkDone
from wattqueue.model.machine import Machine
from wattqueue.model.physics import Physics
from wattqueue.policy.policy import policy_from_row
from wattqueue.runs.physics import same_figures
from wattqueue.whatif.run import Digest, RunSummary, run_cap

SMALL = 100_000
"""Up to so many simulated jobs in all, starting processes takes longer than running the cells in this one."""
SUMS = ("machine_j", "scope_j", "over_s", "over_j")
"""Columns of a ``Digest`` that a cell leaves in ``Shared``."""


@dataclass(frozen=True, slots=True, eq=False)
class GridInputs:
    """What all cells share.

    Attributes:
        jobs: Name of the saved workload in ``Shared``.
        breaks: Name of the saved times at which prices change, empty for none.
        machine: Machine.
        zero_s: Where whole hours are counted from.
        physics: What files say of the truth.
    """

    jobs: str
    breaks: str
    machine: Machine
    zero_s: float
    physics: Physics | None = None

    def digest(self) -> str:
        """Return a short hash of all inputs, for the identity of a cell."""
        physics = None if self.physics is None else self.physics.digest()
        text = repr((self.jobs, self.breaks, asdict(self.machine), self.zero_s, physics))
        return hashlib.sha256(text.encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True, eq=False)
class CapCell:
    """One configuration under one cap, as a cell of a campaign.

    Attributes:
        inputs: What all cells share.
        policy: Name of the policy.
        row: The policy's row, with the estimator that is to be used.
        cap_w: Watts; ``inf`` for none.
    """

    inputs: GridInputs
    policy: str
    row: dict[str, Any]
    cap_w: float

    def identity(self) -> Mapping[str, object]:
        """Return what distinguishes this cell from all others: policy, cap, inputs."""
        watts = None if np.isinf(self.cap_w) else self.cap_w
        return {"policy": self.policy, "row": repr(self.row), "cap_w": watts, "inputs": self.inputs.digest()}

    def perform(self, shared: Shared) -> Row:
        """Run the cell; leave its columns in ``shared`` and return the row that names them. Raises as ``simulate``."""
        about = self.inputs
        breaks = list(shared.arrays(about.breaks).values()) if about.breaks else []
        policy = policy_from_row(self.policy, self.row)
        ran = run_cap(
            shared.jobs(about.jobs), about.machine, policy, self.cap_w, breaks=breaks, zero_s=about.zero_s,
            physics=about.physics,
        )  # fmt: skip
        sums: Arrays = {name: getattr(ran.power, name) for name in SUMS}
        columns: Arrays = {
            "start_s": ran.start_s,
            "end_s": ran.end_s,
            "partition": ran.partition,
            "edge_s": ran.power.edge_s,
        }
        kept = shared.put_arrays({**columns, **sums})
        notes = {
            f"note {text}": count for text, count in {**ran.notes, **same_figures(about.physics, self.row)}.items()
        }
        said = "\n".join(ran.without_effect)
        return {"columns": kept, WITHOUT_EFFECT: said, **ran.metrics, **ran.work.row(), **notes}


def run_grid(
    cells: Sequence[CapCell],
    shared: Shared,
    *,
    workers: int | None = None,
    jobs: int = 0,
    tell: Callable[[int, int], None] | None = None,
) -> list[RunSummary]:
    """Run cells and return their results in the same order.

    Args:
        cells: What to run.
        shared: Folder for columns.
        workers: Number of processes, None for one per core. Small grids run in this process (``SMALL``).
        jobs: Jobs that each cell simulates, to decide what is small.
        tell: Called with (cells done, cells in all).

    Raises:
        CampaignError: A run failed. Nothing is kept, so the campaign's own hint about resuming is dropped.
    """
    small = workers == 1 or jobs * len(cells) <= SMALL
    try:
        with closing(Local(1 if small else workers)) as backend:
            rows = run_cells(cells, shared=shared, backend=backend, progress=tell).to_dicts()
    except CampaignError as error:  # nothing is kept here, whatever its hint says
        raise CampaignError(error.what.partition(", the first: ")[2] or error.what) from error
    return [_ran(row, shared) for row in rows]


def _ran(row: dict[str, Any], shared: Shared) -> RunSummary:
    """Rebuild the summary of a run from its row and its columns in ``shared``."""
    held = shared.arrays(row["columns"])
    power = Digest(held["edge_s"], **{name: held[name] for name in SUMS})
    notes = {name.removeprefix("note "): int(v) for name, v in row.items() if name.startswith("note ") and v}
    work = WorkDone.of_row(row)
    said = tuple(row[WITHOUT_EFFECT].splitlines())
    other = {"columns", WITHOUT_EFFECT, *work.row()}
    figures = {n: v for n, v in row.items() if n not in other and not n.startswith("note ")}
    return RunSummary(figures, held["start_s"], held["end_s"], held["partition"], power, work, notes, said)
