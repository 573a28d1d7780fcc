"""A finished run as its folder keeps it, and the inputs of the run that a folder records."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from wattqueue.errors import InputError
from wattqueue.formats.epoch import trace_epoch_s
from wattqueue.formats.rundir.folder import TRUTH, RunRecord, read_facts
from wattqueue.formats.rundir.follows import MEANS
from wattqueue.model.energy_origin import QUALITY, energy_origin
from wattqueue.model.load_target import LoadTarget, LoadTargets
from wattqueue.model.profiles import PERIOD_S
from wattqueue.policy.oracles import oracles_of
from wattqueue.policy.rows import ROW_DEFAULTS
from wattqueue.runs.perform import RunInputs, TaskResult, load
from wattqueue.runs.task import Task
from wattqueue.sim.profiles import has_phases


def recipe(inputs: RunInputs) -> dict[str, Any]:
    """Return what run.toml needs beside machine and cap to repeat a run.

    The task as it was given, and the policy's row in full.
    """
    row = {key: value for key, value in inputs.policy.row.items() if value is not None}
    return {"task": inputs.task.values(), "policy": row}


def record(outcome: TaskResult) -> RunRecord:
    """Return a finished run as its folder keeps it."""
    run, inputs = outcome.run, outcome.inputs
    oracles = oracles_of(inputs.policy)
    facts = {**recipe(inputs), **trace_facts(outcome), **({"oracle": oracles} if oracles else {})}
    if has_phases(run):
        facts[MEANS] = PERIOD_S
    if run.without_effect:
        facts["without_effect"] = list(run.without_effect)
    if run.sources:
        facts["physics"] = dict(run.sources)
    if inputs.physics is not None:
        facts[TRUTH] = inputs.physics.digest()
    if len(inputs.targets):
        watts = inputs.targets.in_watts(run.machine, inputs.cap)
        facts["targets"] = [asdict(watts.row(k)) for k in range(len(watts))]
    return RunRecord(run.jobs, run.machine, run.cap, run.schedule, run.power, outcome.metrics, facts, inputs.unusable)


def trace_facts(outcome: TaskResult) -> dict[str, Any]:
    """Return what jobs.csv cannot hold and a report prints: the date of the trace's 0, and how energies were obtained.

    Both are left out where the trace says nothing about them, so that run.toml states no guess.
    """
    run, workload = outcome.run, outcome.inputs.task.workload
    found: dict[str, Any] = {}
    if Path(workload).is_file() and (epoch := trace_epoch_s(Path(workload), run.jobs.submit_s)):
        found["epoch_s"] = epoch
    if QUALITY in run.jobs.extra:
        shares = energy_origin(run.jobs, run.schedule.energy_j)
        found["energy_origin"] = {kind: round(share, 4) for kind, share in shares.items()}
    return found


def recorded_inputs(folder: Path) -> RunInputs:
    """Return the inputs of the run that a folder records: its machine, its policy row, its cap, its files by hash.

    Raises: InputError for a folder that records no run, or a file that changed since.
    """
    facts, machine, cap = read_facts(folder)
    if "replay" in facts:
        raise InputError("is a replay, which no policy decided", where=folder, hint="wattqueue replay repeats it")
    try:
        task, row = Task(**facts["task"]), {**ROW_DEFAULTS, **facts["policy"]}
    except (KeyError, TypeError) as error:
        raise InputError(f"not the recipe of a run: {error}", where=folder, hint="run it again") from error
    # The recorded cap has the targets in it; folders of before have no other, and the lower of both gives it again.
    targets = LoadTargets.of(*(LoadTarget(**row) for row in facts.get("targets", ())))
    return load(task, machine=machine, row=row, cap=cap.alone, targets=targets)
