"""Options of ``predict``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from wattqueue.options import about, option
from wattqueue.runs.options import IN_PYTHON, MOST_ERROR, MOST_SEED, PHYSICS, PHYSICS_ERROR

if TYPE_CHECKING:
    from wattqueue.api.inputs import PathLike
    from wattqueue.api.jobs import JobsLike
    from wattqueue.model.machine import Machine
    from wattqueue.model.physics import Physics

ESTIMATOR = (
    "Names or my.py:Class, with commas or often; options behind: history-mean:alpha=1:window_s=86400; "
    "corrections after a plus: history-mean+margin:factor=1.05. "
    "[last-job and the history of the target]"
)


@dataclass(frozen=True)
class PredictOptions:
    """Estimators and the workload on which they are scored."""

    jobs: JobsLike = field(
        metadata=about("A workload with watts, of any known format.", kind=Path, metavar="JOBS", also=IN_PYTHON)
    )
    estimator: str | Sequence[str] = option((), ESTIMATOR, many=True)
    _: KW_ONLY
    target: Literal["mean", "max"] = option("mean", "Mean or highest watts of one node.", kind=Literal["mean", "max"])
    machine: Machine | PathLike | None = option(
        None, "A machine by name or TOML file; gives the maximum.", also="a ``Machine``"
    )
    node_watts: str | None = option(None, "IDLE:MAX of a node, in place of --machine.")
    physics: Physics | PathLike | None = option(None, PHYSICS, also="``Physics``")
    physics_error: float = option(0.0, PHYSICS_ERROR, kind=float, least=0.0, most=MOST_ERROR)
    seed: int = option(
        0, "Seed of the random draws in training, and of --physics-error.", kind=int, least=0, most=MOST_SEED
    )
    default_walltime: str | None = option(None, "Walltime of jobs without a limit: 24h, 90min or seconds.")

    @property
    def estimators(self) -> Sequence[str]:
        """Return the texts that name estimators, each with one or several."""
        return [self.estimator] if isinstance(self.estimator, str) else self.estimator

    def truth_on(self, machine: Machine) -> Physics | None:
        """Return what files say of the truth; None for none. Raises: InputError for files that cannot be used."""
        from wattqueue.model.physics import Physics
        from wattqueue.runs.physics import physics_of
        from wattqueue.runs.task import Task

        given = self.physics if isinstance(self.physics, Physics) else None
        name = None if self.physics is None or given is not None else str(self.physics)
        return physics_of(Task("", physics=name, physics_error=self.physics_error, seed=self.seed), machine, given)

    @property
    def machine_name(self) -> str | None:
        """Return the machine where a text names it."""
        return None if self.machine is None else str(self.machine)
