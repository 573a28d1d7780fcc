"""Options of ``simulate`` and ``replay``, and those that every verb takes which simulates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from wattqueue.options import about, option

if TYPE_CHECKING:
    from wattqueue.api.inputs import PathLike
    from wattqueue.api.jobs import JobsLike
    from wattqueue.api.run import RunResult
    from wattqueue.model.load_target import LoadTargets
    from wattqueue.model.machine import Machine
    from wattqueue.model.physics import Physics
    from wattqueue.model.signals import Cap
    from wattqueue.parts.contracts import Estimator
    from wattqueue.policy.registry import Policy
    from wattqueue.runs.task import Task

JOBS = "A trace or job table (SWF, sacct, CSV, Parquet, ...), or marconi:days=7,load=0.9."
IN_PYTHON = "what ``read_jobs`` or ``generate`` return, ``Jobs.build(...)``, or a frame of polars or pandas"
MACHINE = "A machine of the catalogue, or a TOML file."
NODE_WATTS = "Watts of a plain node, IDLE:MAX."
PHYSICS = "A TOML of what jobs truly draw and take: tables by application. [the machine file's]"
PHYSICS_ERROR = "Multiplies that truth by a log-normal draw for each application and partition; 0.05 is about 5 %."
CAP = "400kW, 70%, none, or a CSV of time_s,cap_w."
SETTINGS = "Changes a choice of the policy: backfill=conservative."
MOST_SEED = 2**32 - 1
"""Greatest seed that scikit-learn takes."""
MOST_PROCESSORS = 2**31 - 1
MOST_ERROR = 1.0
"""Greatest standard deviation of a logarithm: at 1, one draw in 40 is below 0.09 or above 4.3."""


@dataclass(frozen=True)
class JobOptions:
    """A workload on a machine."""

    jobs: JobsLike = field(metadata=about(JOBS, metavar="JOBS", also=IN_PYTHON))
    machine: Machine | PathLike | None = option(None, MACHINE, also="a ``Machine``")
    _: KW_ONLY
    nodes: int | None = option(None, "A plain machine of so many nodes. [the trace's]", kind=int)
    node_watts: str | None = option(None, NODE_WATTS)
    seed: int = option(0, "Seed of generated workloads, and of --physics-error.", kind=int, least=0, most=MOST_SEED)
    default_walltime: str | None = option(None, "Walltime of jobs without one, such as 24h. [run time]")
    procs_per_node: int = option(
        1, "Processors of an SWF trace that make a node.", kind=int, least=1, most=MOST_PROCESSORS
    )
    physics: Physics | PathLike | None = option(None, PHYSICS, also="``Physics``")
    physics_error: float = option(0.0, PHYSICS_ERROR, kind=float, least=0.0, most=MOST_ERROR)

    def task(self) -> Task:
        """Return workload and machine as a task; both are named by texts."""
        from wattqueue.runs.task import Task

        machine = None if self.machine is None else str(self.machine)
        walltime = _seconds(self.default_walltime, "--default-walltime")
        return Task(
            str(self.jobs), machine, self.nodes, self.node_watts, seed=self.seed, default_walltime_s=walltime,
            procs_per_node=self.procs_per_node, physics=None if self.physics is None else str(self.physics),
            physics_error=self.physics_error or None,
        )  # fmt: skip


@dataclass(frozen=True)
class SimulateOptions(JobOptions):
    """A workload on a machine under a policy and a power cap."""

    _: KW_ONLY
    policy: str | Policy = option(
        "easy", "A row's name, my.toml:row, or my.py:MyPart.", also="what ``load_policy`` returns"
    )
    estimator: str | Estimator | None = option(
        None, "Replaces the policy's own: maximum, history-mean+margin:factor=1.05, ...", also="an object"
    )
    settings: Sequence[str] = option((), SETTINGS, flags=("--set",), metavar="AXIS=PART", many=True)
    cap: str | Cap | None = option(None, f"{CAP} [the machine's]", also="a ``Cap``")
    targets: str | LoadTargets | None = option(
        None, "A CSV of load targets (start_s,end_s,limit,unit,...).", also="``LoadTargets``"
    )
    consent: PathLike | None = option(None, "A TOML of consent defaults, for jobs that state none.")
    phases: str | None = option(None, "True watts follow power profiles in the run, sampled each: 20s.")

    def task(self) -> Task:
        """Return the task; everything is named by texts."""
        from wattqueue.policy.rows import composed

        cap, targets, consent, estimator = (
            None if value is None else str(value) for value in (self.cap, self.targets, self.consent, self.estimator)
        )
        return replace(
            super().task(), policy=composed(str(self.policy), self.settings), estimator=estimator, cap=cap,
            targets=targets, consent=consent, phases_s=_seconds(self.phases, "--phases"),
        )  # fmt: skip


def _seconds(text: str | None, name: str) -> float | None:
    """Return the duration that an option states; None for none."""
    if text is None:
        return None
    from wattqueue.formats.times import duration_s

    return duration_s(text, name)


@dataclass(frozen=True)
class ReplayOptions:
    """A recorded schedule once more, without a policy."""

    schedule: RunResult | PathLike = field(
        metadata=about("The directory of a run, or the recording of a live controller.", kind=Path, also="a run")
    )
    jobs: JobsLike | None = option(
        None, "Workload that gives run times and watts, matched by job id. [those of the record]", also=IN_PYTHON
    )
    _: KW_ONLY
    starts: Literal["places", "recorded"] = option(
        "places", "Start when the places are free, or as recorded.", kind=Literal["places", "recorded"]
    )
    cap: str | Cap | None = option(None, "Compare with 400kW, 70%, none, or a CSV. [the record's]", also="a ``Cap``")
