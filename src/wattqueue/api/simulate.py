"""``simulate``: replay a workload on a machine under a policy and a cap, as ``wattqueue simulate`` does.

Arguments become a ``Task``, the description of a run as text and numbers that ``run.toml`` records. What is given as an
object (jobs, machine, policy, estimator, cap) goes beside it into ``runs.perform.load``, and is recorded as far as a
file can hold it: machine and cap in full, jobs and parts that exist in memory only by name.

``replay`` takes the schedule of a run or of a live recording once more, without a policy (``sim/replay.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any

from wattqueue.api.inputs import machine_arguments, of_options, physics_arguments, text
from wattqueue.api.jobs import job_table
from wattqueue.api.run import RunResult
from wattqueue.errors import InputError
from wattqueue.formats.times import duration_s
from wattqueue.model.load_target import LoadTargets
from wattqueue.model.signals import Cap
from wattqueue.options import option
from wattqueue.parts.contracts import Estimator
from wattqueue.policy.registry import Policy
from wattqueue.policy.rows import composed, find_row
from wattqueue.runs.options import ReplayOptions, SimulateOptions
from wattqueue.runs.perform import load, perform, refuse_if_none_fits
from wattqueue.runs.record import record
from wattqueue.runs.replay import perform_replay, read_source, source_of, workload_of
from wattqueue.terminal import counting

CAP_HINT = '"400kW", "70%", "none", the name of a CSV of time_s,cap_w, or a Cap'
TARGETS_HINT = "the name of a CSV of start_s,end_s,limit,unit, or LoadTargets"
POLICY_HINT = 'a name, "my.toml:row", "my.py:MyPart", or what load_policy returns'


@dataclass(frozen=True)
class SimulateArguments(SimulateOptions):
    """What the function takes."""

    _: KW_ONLY
    progress: bool = option(False, "Show a bar on a terminal, else a line per tenth.", kind=bool)


@of_options(SimulateArguments)
def simulate(options: SimulateArguments) -> RunResult:
    """Replay a workload on a machine under a policy and a power cap.

    Texts have the forms of the command line, and the figures are those of ``wattqueue simulate``. A share of a cap is
    of the sum of node maxima; the lower of cap and load target is in force.

    Raises:
        WattQueueError: One line that says what is wrong, where, and how to correct it.

    Example::

        run = wq.simulate("trace.swf.gz", nodes=100, node_watts="95:190", cap="80%", estimator="history-mean")
    """
    o = options
    cap, targets, consent = o.cap, o.targets, o.consent
    table = job_table(o.jobs, o.seed, o.default_walltime, o.procs_per_node)
    made, named = machine_arguments(o.machine, o.nodes, o.node_watts)
    physics, stated = physics_arguments(table.task, o.physics, o.physics_error, o.seed)
    name, row = policy_arguments(o.policy, o.estimator, o.settings)
    task = replace(
        table.task,
        **named,
        **stated,
        policy=name,
        estimator=o.estimator if isinstance(o.estimator, str) else None,
        cap=None if cap is None or isinstance(cap, Cap) else text(cap, "cap", CAP_HINT),
        targets=None if targets is None or isinstance(targets, LoadTargets) else text(targets, "targets", TARGETS_HINT),
        consent=None if consent is None else text(consent, "consent", "the name of a TOML"),
        phases_s=duration_s(o.phases, "phases"),
    )
    given = targets if isinstance(targets, LoadTargets) else None
    limit = cap if isinstance(cap, Cap) else None
    inputs = load(task, machine=made, row=row, cap=limit, targets=given, workload=table.workload, physics=physics)
    with counting("simulating", "jobs", anywhere=True) if o.progress else nullcontext() as tell:
        outcome = perform(inputs, tell)
    refuse_if_none_fits(outcome)
    kept = record(outcome)
    return RunResult(replace(kept, facts=recordable(kept.facts)), dict(outcome.run.notes))


def policy_arguments(
    policy: str | Policy, estimator: str | Estimator | None, settings: Sequence[str] = ()
) -> tuple[str, dict[str, Any] | None]:
    """Return the name of a policy, and its row where it is not simply the one of that name.

    A row may hold parts that are objects. Parts that it names are made again for every run, because estimators learn.

    Raises: InputError for neither a text nor a policy; PolicyError for an unknown name.
    """
    if isinstance(policy, Policy):
        if settings:
            raise InputError("settings change a named policy", where="settings", hint="change the policy itself")
        row = policy.with_own_parts()
        return policy.name, row if estimator is None else {**row, "estimator": estimator}
    name = composed(text(policy, "policy", POLICY_HINT), settings)
    if estimator is None or isinstance(estimator, str):
        return name, None
    return name, {**find_row(name), "estimator": estimator}


def recordable(value: Any) -> Any:
    """Return facts of a run with every part that is an object replaced by ``python:ClassName``, so that files hold it.

    A run with such a part cannot be repeated by ``wattqueue rerun``: its class is not in a file that could be read.
    """
    if isinstance(value, dict):
        return {key: recordable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [recordable(item) for item in value]
    if isinstance(value, (str, int, float)) or value is None:
        return value
    return f"python:{type(value).__name__}"


@of_options(ReplayOptions)
def replay(options: ReplayOptions) -> RunResult:
    """Replay a recorded schedule: submissions and places as they were, no policy.

    The figures are those of ``wattqueue replay``. A cap delays nothing: the metrics show its excess. Starts are
    ``"places"`` (each job starts as early as its units are free) or ``"recorded"`` (start times are fixed too).

    Raises:
        WattQueueError: One line that says what is wrong, where, and how to correct it.

    Example::

        again = wq.replay("run", starts="recorded")
        again.metrics["machine_energy_j"]
    """
    schedule, jobs, starts, cap = options.schedule, options.jobs, options.starts, options.cap
    if isinstance(schedule, RunResult):
        source = source_of(schedule.record)
    else:
        source = read_source(Path(text(schedule, "schedule", "a run, its folder, or a live recording")))
    limit = cap if cap is None or isinstance(cap, Cap) else text(cap, "cap", CAP_HINT)
    if jobs is None:
        kept, notes = perform_replay(source, starts=starts, cap=limit)
    elif isinstance(jobs, str):
        kept, notes = perform_replay(source, jobs=workload_of(source, jobs), starts=starts, cap=limit, workload=jobs)
    else:
        table = job_table(jobs)
        kept, notes = perform_replay(source, jobs=table.workload.jobs, starts=starts, cap=limit, workload=table.name)
    return RunResult(kept, notes)
