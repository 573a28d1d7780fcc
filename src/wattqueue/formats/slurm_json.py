"""What ``sacct --json``, ``squeue --json`` and slurmrestd print, over the shapes of Slurm 21.08 to 26.

A figure is a plain number, or (since 23.02) ``{"set": true, "infinite": false, "number": 5}``; a state
is a word, a list of words, or ``{"current": ...}`` of either; times stand in ``time`` (sacct) or beside
the job (squeue). The jobs go the same way as rows of ``sacct --parsable2``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wattqueue.errors import InputError
from wattqueue.formats._json import figure, load_json
from wattqueue.formats._sacct_runs import take_rows
from wattqueue.formats._slurm_jobs import workload_of
from wattqueue.formats.sacct import reading_of
from wattqueue.formats.workload import Workload

if TYPE_CHECKING:
    import polars as pl

COLUMNS = (
    *("jobid", "jobname", "user", "account", "partition", "submit", "start", "end", "elapsedraw", "timelimitraw"),
    *("state", "nnodes", "alloccpus", "alloctres", "consumedenergyraw", "nodelist"),
)
STEP_NUMBERS = {0xFFFFFFFA: "interactive", 0xFFFFFFFB: "batch", 0xFFFFFFFC: "extern", 0xFFFFFFFD: "pending"}
"""How Slurm numbers the steps that have names."""
NO_VALUE = 0xFFFFFFFE
"""From here on a 32-bit figure stands for none (0xFFFFFFFE) or without limit (0xFFFFFFFF)."""


def read_slurm_json(
    path: Path,
    *,
    node_watts: tuple[float, float] | None = None,
    default_walltime_s: float | None = None,
    queued: bool = False,
) -> Workload:
    """Read jobs as Slurm prints them in JSON; what is rejected is numbered by its place in the list.

    Arguments as for ``read_sacct``. Raises: InputError for a file that is no such JSON.
    """
    return slurm_workload(path, load_json(path), node_watts, default_walltime_s, queued=queued)


def slurm_workload(
    path: Path,
    document: Any,
    node_watts: tuple[float, float] | None = None,
    default_walltime_s: float | None = None,
    *,
    queued: bool = False,
) -> Workload:
    """The same from a document that was already loaded."""
    jobs = _jobs_of(path, document)
    reading = reading_of(None, node_watts, queued=queued)
    rejected: list[tuple[int, str]] = []
    rows: list[dict[str, Any]] = []
    for number, job in enumerate(jobs, 1):
        if isinstance(job, dict):
            rows += [row | {"line": number} for row in _rows(job)]
        else:
            rejected.append((number, "is no job"))
    take_rows(_frame(rows), reading)
    workload = workload_of(str(path), reading, rejected, "slurm-json", default_walltime_s)
    return Workload(workload.jobs, workload.unusable, "slurm-json", len(jobs), workload.notes)


def _jobs_of(path: Path, document: Any) -> list[Any]:
    jobs = document.get("jobs") if isinstance(document, dict) else document
    if not isinstance(jobs, list):
        raise InputError("has no list of jobs", where=path, mend="give the output of sacct --json or squeue --json")
    if not jobs:
        raise InputError("0 jobs", where=path, mend="widen the dump: sacct -S and -E")
    return jobs


def number(value: Any) -> float | None:
    """A figure in any of Slurm's shapes; None where it is unset, infinite or no figure."""
    if isinstance(value, Mapping):
        if value.get("set") is False or value.get("infinite") is True:
            return None
        value = value.get("number")
    found = figure(value)
    unset = found is None or found in {float(NO_VALUE), float(NO_VALUE + 1)} or found >= 2.0**63
    return None if unset else found


def _word(value: Any) -> str:
    """A state or name in any of Slurm's shapes."""
    if isinstance(value, Mapping):
        value = value.get("current", value.get("name"))
    if isinstance(value, list):
        value = value[0] if value else ""
    return value if isinstance(value, str) else ""


def _text(value: float | None) -> str | None:
    return None if value is None else f"{value:.15g}"


def _rows(job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A job and its steps as rows of sacct."""
    time = _inner(job, "time")
    tres = _inner(job, "tres").get("allocated")
    jobid = _job_id(job)
    nodes = job.get("nodes")
    yield {
        "jobid": jobid,
        "jobname": _word(job.get("name")),
        "user": _word(job.get("user") or job.get("user_name") or _inner(job, "association").get("user")),
        "account": _word(job.get("account")),
        "partition": _word(job.get("partition")),
        "submit": _text(_known(time, "submission") or _known(job, "submit_time")),
        "start": _text(_known(time, "start") or _known(job, "start_time")),
        "end": _text(_known(time, "end") or _known(job, "end_time")),
        "elapsedraw": _text(_elapsed(job, time)),
        "timelimitraw": _text(number(time.get("limit", job.get("time_limit")))),
        "state": _word(job.get("state") or job.get("job_state")),
        "nnodes": _text(number(job.get("allocation_nodes", job.get("node_count")))),
        "alloccpus": _text(_count(tres, "cpu") or number(job.get("cpus"))),
        "alloctres": _tres_text(tres) or _word(job.get("tres_alloc_str")),
        "consumedenergyraw": _text(_count(tres, "energy")),
        "nodelist": nodes if isinstance(nodes, str) else "",
    }
    steps = job.get("steps")
    for step in steps if isinstance(steps, list) else ():
        if isinstance(step, dict):
            yield _step(jobid, step)


def _inner(value: Any, name: str) -> dict[str, Any]:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _known(place: dict[str, Any], name: str) -> float | None:
    """A time that is set: 0 means none."""
    return number(place.get(name)) or None


def _elapsed(job: dict[str, Any], time: dict[str, Any]) -> float | None:
    """Seconds of running; squeue has only a start and an end, which is a forecast while the job runs."""
    if "elapsed" in time:
        return number(time["elapsed"])
    start, end = _known(job, "start_time"), _known(job, "end_time")
    return end - start if start and end else None


def _job_id(job: dict[str, Any]) -> str:
    """The id as sacct prints it: ``12_3`` for a task, ``12+1`` for a part of a heterogeneous job."""
    array = _inner(job, "array")
    main = _known(array, "job_id") or _known(job, "array_job_id")
    task = number(array.get("task_id", job.get("array_task_id")))
    if main and task is not None:
        return f"{main:.0f}_{task:.0f}"
    waiting = array.get("task") or job.get("array_task_string")
    if main and isinstance(waiting, str) and waiting:
        return f"{main:.0f}_[{waiting}]"
    het = _inner(job, "het")
    main = _known(het, "job_id") or _known(job, "het_job_id")
    part = number(het.get("job_offset", job.get("het_job_offset")))
    if main and part is not None:
        return f"{main:.0f}+{part:.0f}"
    plain = number(job.get("job_id"))
    return str(job.get("job_id") or "") if plain is None else f"{plain:.0f}"


def _count(tres: Any, kind: str) -> float | None:
    """The count of one kind in a list of TRES."""
    for entry in tres if isinstance(tres, list) else ():
        if isinstance(entry, dict) and entry.get("type") == kind and not entry.get("name"):
            return number(entry.get("count")) or None
    return None


def _tres_text(tres: Any) -> str:
    """A list of TRES as sacct writes it."""
    found = []
    for entry in tres if isinstance(tres, list) else ():
        if isinstance(entry, dict) and entry.get("type") not in {"energy", None}:
            name = f"{entry['type']}/{entry['name']}" if entry.get("name") else str(entry["type"])
            found.append(f"{name}={_text(number(entry.get('count'))) or 0}")
    return ",".join(found)


def _step(jobid: str, step: dict[str, Any]) -> dict[str, Any]:
    name = _inner(step, "step").get("id")
    if isinstance(name, dict):
        name = name.get("step_id")
    if not isinstance(name, str):
        figure = number(name)
        name = "" if figure is None else STEP_NUMBERS.get(int(figure), f"{figure:.0f}")
    tres = _inner(step, "tres")
    energy = number(_inner(_inner(step, "statistics"), "energy").get("consumed"))
    return {
        "jobid": f"{jobid}.{name.rpartition('.')[2]}",
        "elapsedraw": _text(number(_inner(step, "time").get("elapsed"))),
        "nnodes": _text(number(_inner(step, "nodes").get("count"))),
        "consumedenergyraw": _text(
            energy or _count(_inner(tres, "consumed").get("total"), "energy") or _count(tres.get("allocated"), "energy")
        ),
    }


def _frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    import polars as pl

    table: dict[str, Any] = {
        name: pl.Series([row.get(name) or None for row in rows], dtype=pl.String) for name in COLUMNS
    }
    return pl.DataFrame(table | {"line": np.array([row["line"] for row in rows], np.int64)})
