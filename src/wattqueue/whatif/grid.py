"""All runs of a question as a campaign: cells over the processes of this machine, inputs mapped by each."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from wattqueue.campaign.backends import Local
from wattqueue.campaign.cell import Row
from wattqueue.campaign.run import run_cells
from wattqueue.campaign.shared import Arrays, Shared
from wattqueue.errors import CampaignError
from wattqueue.model.machine import Machine
from wattqueue.policy.policy import policy_from_row
from wattqueue.whatif.digest import Digest
from wattqueue.whatif.run import Ran, run_cap

SMALL = 100_000
"""Up to so many simulated jobs in all, starting processes takes longer than running the cells in this one."""
SUMS = ("machine_j", "scope_j", "over_s", "over_j")


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """What all cells share: saved jobs and breaks by name, the machine, where whole hours are counted from."""

    jobs: str
    breaks: str
    machine: Machine
    zero_s: float

    def digest(self) -> str:
        """A name made of all of it."""
        text = repr((self.jobs, self.breaks, asdict(self.machine), self.zero_s))
        return hashlib.sha256(text.encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True, eq=False)
class CapCell:
    """One configuration under one cap; the columns of its run are left in ``Shared``, named in the row."""

    inputs: Inputs
    policy: str
    row: dict[str, Any]
    cap_w: float

    def identity(self) -> Mapping[str, object]:
        """Policy, estimator, cap, and the inputs in a word."""
        watts = None if np.isinf(self.cap_w) else self.cap_w
        return {"policy": self.policy, "row": repr(self.row), "cap_w": watts, "inputs": self.inputs.digest()}

    def perform(self, shared: Shared) -> Row:
        """Run it. Raises: as ``simulate``."""
        about = self.inputs
        breaks = list(shared.arrays(about.breaks).values()) if about.breaks else []
        policy = policy_from_row(self.policy, self.row)
        ran = run_cap(shared.jobs(about.jobs), about.machine, policy, self.cap_w, breaks=breaks, zero_s=about.zero_s)
        sums: Arrays = {name: getattr(ran.power, name) for name in SUMS}
        columns: Arrays = {
            "start_s": ran.start_s,
            "end_s": ran.end_s,
            "partition": ran.partition,
            "edge_s": ran.power.edge_s,
        }
        kept = shared.put_arrays({**columns, **sums})
        notes = {f"note {text}": count for text, count in ran.notes.items()}
        return {"columns": kept, "overshoot_w": ran.power.overshoot_w, **ran.metrics, **notes}


def run_grid(
    cells: Sequence[CapCell],
    shared: Shared,
    *,
    workers: int | None = None,
    jobs: int = 0,
    tell: Callable[[int, int], None] | None = None,
) -> list[Ran]:
    """Runs in the order of ``cells``; ``jobs`` is how many each simulates.

    Raises: CampaignError for a run that cannot be done.
    """
    small = workers == 1 or jobs * len(cells) <= SMALL or find_spec("joblib") is None
    backend = Local(1 if small else workers)
    try:
        rows = run_cells(cells, shared=shared, backend=backend, progress=tell).to_dicts()
    except CampaignError as error:  # nothing is kept here, whatever its cure says
        raise CampaignError(error.what.partition(", the first: ")[2] or error.what) from error
    return [_ran(row, shared) for row in rows]


def _ran(row: dict[str, Any], shared: Shared) -> Ran:
    held = shared.arrays(row["columns"])
    power = Digest(held["edge_s"], **{name: held[name] for name in SUMS}, overshoot_w=float(row["overshoot_w"]))
    notes = {name.removeprefix("note "): int(v) for name, v in row.items() if name.startswith("note ") and v}
    figures = {n: v for n, v in row.items() if n not in {"columns", "overshoot_w"} and not n.startswith("note ")}
    return Ran(figures, held["start_s"], held["end_s"], held["partition"], power, notes)
