"""Replay the schedule in a run's folder or in a live recording, and keep it as a run (``sim/replay.py``)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wattqueue.errors import InputError
from wattqueue.formats.cap import parse_cap
from wattqueue.formats.rundir.folder import JOBS, RUN, TRUTH, RunRecord, read_run
from wattqueue.formats.rundir.follows import MEANS
from wattqueue.formats.source import sha256_of
from wattqueue.live.recordings.recorded_schedule import read_recording
from wattqueue.model.jobs import Jobs
from wattqueue.model.metrics import ENERGIES, metrics
from wattqueue.model.physics import Physics
from wattqueue.model.profiles import PERIOD_S
from wattqueue.model.recorded_schedule import RecordedSchedule
from wattqueue.model.signals import Cap
from wattqueue.runs.perform import watts_stated
from wattqueue.runs.physics import physics_of
from wattqueue.runs.task import Task, task_workload, with_hashes
from wattqueue.sim.engine import Run, with_sources
from wattqueue.sim.physics import true_figures
from wattqueue.sim.profiles import has_phases, with_phases
from wattqueue.sim.replay import Starts, replay, replay_workload

PHYSICS = ("physics", "physics_error", "seed")
"""Fields of a task that state its physics."""
POWERED = "the record had units off, booting or stopping; in the replay all are on (0 or 1)"
"""Note of a replay of a run whose units were not all on."""


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A recorded schedule, and what its record states about it."""

    recorded: RecordedSchedule
    facts: dict[str, Any]
    """Of run.toml; empty for a live recording."""
    watts: str
    """Whose figures the record's watts are (``formats.rundir.folder.watts_origin``)."""


def read_source(path: Path) -> Source:
    """Return the schedule of a run's folder, or of a live recording.

    Raises: InputError for neither, or a schedule that cannot have been; MachineError for the machine of a run.
    """
    if path.is_dir():
        return source_of(read_run(path), str(path))
    if path.name == RUN or path.suffix == ".csv":
        raise InputError("is a file of a run", where=path, hint=f"name the folder, {path.parent}")
    return Source(read_recording(path), {"task": {"workload": str(path), "policy": "live"}}, "workload")


def source_of(run: RunRecord, where: str = "run") -> Source:
    """Return the schedule of a finished run. Raises: InputError for one that cannot have been."""
    notes = {}
    idle = sum(p.units * p.idle_w for p in run.machine.partitions)
    power = run.power
    if len(power.time_s) and float(abs(power.other_w + power.busy_idle_w - idle).max()) > 1e-3:
        notes[POWERED] = 1
    recorded = RecordedSchedule(run.jobs, run.machine, run.schedule, run.cap, where, notes)
    return Source(recorded, dict(run.facts), run.watts)


def workload_of(source: Source, text: str) -> Jobs:
    """Return a workload that is to give run times and watts, read with the options of the recorded run.

    Raises: InputError as ``runs.task.task_workload``.
    """
    task = source.facts.get("task", {})
    options = ["seed", "default_walltime_s", "procs_per_node", *(["kind"] if text == task.get("workload") else [])]
    return task_workload(Task(text, **{name: task[name] for name in options if name in task})).jobs


def perform_replay(
    source: Source, *, jobs: Jobs | None = None, starts: Starts = "places", cap: str | Cap | None = None,
    workload: str = "",
) -> tuple[RunRecord, dict[str, int]]:  # fmt: skip
    """Replay a schedule; return it as a run's folder keeps it, and the notes.

    ``jobs`` gives run times and watts in place of the record's (``replay_workload``); ``workload`` is its name.
    ``cap`` is what the power is compared with: text as in ``wattqueue simulate``, None for the record's.

    Raises: InputError as ``sim.replay`` and for a text that is no cap; MachineError for a share of unknown maxima.
    """
    recorded = source.recorded
    limit = parse_cap(cap, recorded.machine) if isinstance(cap, str) else cap
    if jobs is None:
        run, kept = replay(recorded, starts=starts, cap=limit), None
    else:
        run, kept = _with_truth(source, jobs, starts, limit), None
        if has_phases(run):
            run, kept = with_phases(run)
    figures = metrics(run.jobs, run.schedule, run.power, run.machine, run.cap)
    if kept is not None:
        figures |= kept._asdict()
    if not watts_stated(run.jobs, run.machine):
        figures |= dict.fromkeys(ENERGIES)
    facts = replay_facts(source, starts, workload if jobs is not None else "", cap)
    if kept is not None:
        facts[MEANS] = PERIOD_S
    if run.sources:
        facts["physics"] = dict(run.sources)
    if TRUTH in source.facts:
        facts[TRUTH] = source.facts[TRUTH]
    watts = source.watts if jobs is None else ""
    record = RunRecord(run.jobs, run.machine, run.cap, run.schedule, run.power, figures, facts, watts=watts)
    return record, run.notes


def _with_truth(source: Source, jobs: Jobs, starts: Starts, cap: Cap | None) -> Run:
    """Replay with the run times and watts of a workload, and with the physics of the recorded run, where it had any.

    Raises: InputError as ``perform_replay``, and where a file of the physics has changed since.
    """
    recorded = source.recorded
    physics = recorded_physics(source)
    if physics is None:
        return replay_workload(recorded, jobs, starts=starts, cap=cap)
    truth = true_figures(physics, jobs, recorded.machine)
    return with_sources(replay_workload(recorded, jobs, starts=starts, cap=cap, actual=truth.actual), truth)


def recorded_physics(source: Source) -> Physics | None:
    """Return the physics of a recorded run; None where it had none.

    Raises: InputError for a file that cannot be used, or has changed since.
    """
    stated = source.facts.get("task", {})
    given = {name: stated[name] for name in PHYSICS if name in stated}
    physics = physics_of(Task("", **given), source.recorded.machine)
    if physics is not None:
        files = {"physics", *physics.files}
        known = {key: value for key, value in stated.get("hashes", {}).items() if key in files}
        with_hashes(Task("", **given, hashes=known), {}, physics.files)
    return physics


def replay_facts(source: Source, starts: Starts, workload: str, cap: str | Cap | None) -> dict[str, Any]:
    """Return what run.toml states of a replay: what was replayed and how, and what the record says of its policy.

    There is no policy's row: nothing was decided, and ``wattqueue rerun`` does not repeat a replay.
    """
    where, task = source.recorded.where, source.facts.get("task", {})
    path = Path(where)
    file = path / JOBS if path.is_dir() else path
    stated = {"schedule": where, "starts": starts, "jobs": workload}
    hashed = {"sha256": sha256_of(file)} if file.is_file() else {}
    named = {"workload": workload or task.get("workload"), "policy": f"replay of {task.get('policy', 'a schedule')}"}
    if workload:  # else run times and watts are those of the record
        named |= {name: task[name] for name in (*PHYSICS, "hashes") if name in task}
    named["cap"] = cap if isinstance(cap, str) else task.get("cap") if cap is None else None
    facts: dict[str, Any] = {k: source.facts[k] for k in ("epoch_s", "oracle") if k in source.facts}
    return {
        "replay": {k: v for k, v in {**stated, **hashed}.items() if v},
        "task": {k: v for k, v in named.items() if v},
        **facts,
    }
