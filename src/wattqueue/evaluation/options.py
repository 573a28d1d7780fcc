"""Options of ``predict``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from wattqueue.options import about, option
from wattqueue.runs.options import IN_PYTHON, MOST_SEED

if TYPE_CHECKING:
    from wattqueue.api.inputs import PathLike
    from wattqueue.api.jobs import JobsLike
    from wattqueue.model.machine import Machine

ESTIMATOR = (
    "Names or my.py:Class, with commas or often; options behind: history-mean:alpha=1:window_s=86400. "
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
    seed: int = option(0, "Seed of the random draws in training.", kind=int, least=0, most=MOST_SEED)
    default_walltime: str | None = option(None, "Walltime of jobs without a limit: 24h, 90min or seconds.")

    @property
    def estimators(self) -> Sequence[str]:
        """Return the texts that name estimators, each with one or several."""
        return [self.estimator] if isinstance(self.estimator, str) else self.estimator

    @property
    def machine_name(self) -> str | None:
        """Return the machine where a text names it."""
        return None if self.machine is None else str(self.machine)
