"""What ``sacct --json``, ``squeue --json`` and slurmrestd print, over the shapes of Slurm 21.08 to 26.

A figure is a plain number, or (since 23.02) ``{"set": true, "infinite": false, "number": 5}``; a state is a word, a
list of words, or ``{"current": ...}`` of either; times stand in ``time`` (sacct) or beside the job (squeue). The
jobs become rows of text as ``sacct --parsable2`` writes them, and go the same way from there: both formats have the
same energy rules, reasons and remarks.

Flow: the document (whole, in memory) -> ``_jobs_of`` -> ``_rows`` per job and step -> ``_frame`` ->
``rows.add_rows`` -> ``jobs.workload_of``. An object that is no job is listed as unusable; any field may
be missing or of another shape and is then empty text, which the later steps count as missing.

Times are Unix seconds, so neither a time zone nor a clock change matters here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wattqueue.errors import InputError
from wattqueue.formats.json_text import clean, figure
from wattqueue.formats.slurm.columns import UNSET
from wattqueue.formats.slurm.jobs import workload_of
from wattqueue.formats.slurm.rows import add_rows
from wattqueue.formats.slurm.sacct import reading_of
from wattqueue.formats.workload import Workload
from wattqueue.formats.workload_format import ReadOptions

if TYPE_CHECKING:
    import polars as pl

COLUMNS = (
    *(
        "jobid",
        "jobname",
        "user",
        "account",
        "wckey",
        "partition",
        "submit",
        "start",
        "end",
        "elapsedraw",
        "timelimitraw",
    ),
    *("state", "nnodes", "alloccpus", "alloctres", "consumedenergyraw", "nodelist", "submitline"),
)
"""The columns of the rows that are made.

The names are those of sacct in small letters, as ``lines`` gives them.
"""
NO_VALUE = f"{2**64 - 2}"
"""Slurm's mark for "no value" (NO_VAL64) as its text formats print it."""
STEP_NUMBERS = {0xFFFFFFFA: "interactive", 0xFFFFFFFB: "batch", 0xFFFFFFFC: "extern", 0xFFFFFFFD: "pending"}
"""Numbers of the steps that have names.

The highest 32-bit integers below Slurm's marks NO_VAL and INFINITE (slurm.h: SLURM_BATCH_SCRIPT and others).
"""


def slurm_workload(path: Path, document: Any, options: ReadOptions) -> Workload:
    """Return jobs as Slurm prints them in JSON; what is unusable is numbered by its place in the list.

    ``document`` is what the file at ``path`` holds; the path is for error messages only.

    Raises: InputError where the document has no list of jobs, or no usable one.
    """
    jobs = _jobs_of(path, document)
    # Times are seconds since 1970: no zone matters.
    reading = reading_of(replace(options, time_zone=None))
    unusable: list[tuple[int, str]] = []
    rows: list[dict[str, Any]] = []
    for number, job in enumerate(jobs, 1):
        if isinstance(job, dict):
            rows += [row | {"line": number} for row in _rows(job)]
        else:
            unusable.append((number, "is not a job"))
    # One frame for all jobs: the document is in memory anyway, so blocks would save nothing.
    add_rows(_frame(rows), reading)
    workload = workload_of(str(path), reading, unusable, "slurm-json", options.default_walltime_s)
    return Workload(workload.jobs, workload.unusable, "slurm-json", len(jobs), workload.notes)


def _jobs_of(path: Path, document: Any) -> list[Any]:
    """Return the list of jobs. Raises: InputError where there is none.

    slurmrestd and the commands wrap it as ``{"jobs": [...], "meta": ...}``; tools such as jq leave the bare list.
    """
    jobs = document.get("jobs") if isinstance(document, dict) else document
    if not isinstance(jobs, list):
        raise InputError("has no list of jobs", where=path, hint="give the output of sacct --json or squeue --json")
    if not jobs:
        raise InputError("0 jobs", where=path, hint="widen the dump: sacct -S and -E")
    return jobs


def number(value: Any) -> float | None:
    """Return a figure in any of Slurm's shapes; None where it is unset, infinite or no figure.

    ``{"set": false}`` and ``{"infinite": true}`` are None, and so are Slurm's marks for "no value" (``UNSET``),
    which some releases print as plain numbers.
    """
    value = _plain(value)
    return None if _is_mark(value) else figure(value)


def _plain(value: Any) -> Any:
    """Return what stands for a figure, without the object around it; None where that says unset or infinite."""
    if not isinstance(value, Mapping):
        return value
    return None if value.get("set") is False or value.get("infinite") is True else value.get("number")


def _is_mark(value: Any) -> bool:
    """Return whether a number stands for "no value": some releases print Slurm's marks, or NaN, as plain numbers.

    Above 2**63 nothing is a figure. What is no number at all is no mark either.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return False
    try:
        found = float(value)
    except ValueError:
        return False
    except OverflowError:
        return True
    return not math.isfinite(found) or found in UNSET or found >= 2.0**63


def _word(value: Any) -> str:
    """Return a state or name in any of Slurm's shapes; an empty text where there is none.

    Shapes: ``"RUNNING"``, ``["RUNNING"]``, ``{"current": "RUNNING"}``, ``{"current": ["RUNNING", "REQUEUED"]}``,
    ``{"name": "alice", "id": 1000}``. Of several states the first is the base state; the others are flags.
    """
    if isinstance(value, Mapping):
        value = value.get("current", value.get("name"))
    if isinstance(value, list):
        value = value[0] if value else ""
    return value if isinstance(value, str) else ""


def _text(value: float | None) -> str | None:
    """Return a figure as text, with digits enough for any counter.

    Figures become text because the rows go through the parser of the text format; 15 digits survive the way back.
    """
    return None if value is None else f"{value:.15g}"


def _rows(job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a job and its steps as rows of sacct.

    The step rows follow their job, as sacct prints them, which ``steps`` relies on. Where sacct and squeue
    name a field differently, sacct's comes first; ``or`` skips zeros and empty texts, which stand for no value in
    these fields.
    """
    time = _inner(job, "time")
    tres = _inner(job, "tres").get("allocated")
    jobid = _job_id(job)
    nodes = job.get("nodes")
    yield {
        "jobid": jobid,
        "jobname": _word(job.get("name")),
        "user": _word(job.get("user") or job.get("user_name") or _inner(job, "association").get("user")),
        "account": _word(job.get("account")),
        "wckey": _word(_inner(job, "wckey").get("wckey") or job.get("wckey")),
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
        "consumedenergyraw": _joules(tres),
        "nodelist": nodes if isinstance(nodes, str) else "",
        "submitline": _word(job.get("submit_line")),
    }
    steps = job.get("steps")
    for step in steps if isinstance(steps, list) else ():
        if isinstance(step, dict):
            yield _step(jobid, step)


def _inner(value: Any, name: str) -> dict[str, Any]:
    """Return the object of this name; an empty one where there is none."""
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _known(place: dict[str, Any], name: str) -> float | None:
    """Return a time that is set: 0 means none."""
    return number(place.get(name)) or None


def _elapsed(job: dict[str, Any], time: dict[str, Any]) -> float | None:
    """Return the seconds of running.

    squeue has only a start and an end; while the job runs, its end is a forecast (start + limit), and ``_reasons``
    then decides by the state.
    """
    # sacct. A value of 0 is kept: it says that the job never ran.
    if "elapsed" in time:
        return number(time["elapsed"])
    start, end = _known(job, "start_time"), _known(job, "end_time")
    return end - start if start and end else None


def _job_id(job: dict[str, Any]) -> str:
    """Return the id as sacct prints it: ``12_3`` for a task, ``12+1`` for a part of a heterogeneous job.

    The shapes differ: sacct has ``array`` and ``het`` objects, squeue ``array_job_id`` and the like beside the job.
    Tasks that wait come as one entry with a text such as ``3-9``, which becomes ``12_[3-9]``.
    """
    array = _inner(job, "array")
    main = _known(array, "job_id") or _known(job, "array_job_id")
    task = number(array.get("task_id", job.get("array_task_id")))
    # A plain job has array job_id 0, which ``_known`` turns into None.
    if main and task is not None:
        return f"{main:.0f}_{task:.0f}"
    # Tasks that have not started are one entry for all of them, with a list of numbers as text.
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


def _stated(tres: Any, kind: str) -> Any:
    """Return what a list of TRES states as the count of one kind; None where it does not name the kind.

    Entries look like ``{"type": "energy", "name": "", "id": 3, "count": 1234}``; one with a name is a part of the
    kind.
    """
    entries = tres if isinstance(tres, list) else ()
    plain = (e for e in entries if isinstance(e, dict) and e.get("type") == kind and not e.get("name"))
    return next((entry.get("count") for entry in plain), None)


def _count(tres: Any, kind: str) -> float | None:
    """Return the count of one kind in a list of TRES; 0 counts as none.

    A site without an energy plugin has energy 0 for every job.
    """
    return number(_stated(tres, kind)) or None


def _joules(tres: Any) -> str | None:
    """Return the energy of a job as text, ``NO_VALUE`` for any mark: the parser of the rows counts those."""
    stated = _plain(_stated(tres, "energy"))
    return NO_VALUE if _is_mark(stated) else _text(figure(stated) or None)


def _tres_text(tres: Any) -> str:
    """Return a list of TRES as sacct writes it.

    Example: ``cpu=128,node=1,gres/gpu=4``. Energy is left out, since it has a column of its own here.
    """
    found = []
    for entry in tres if isinstance(tres, list) else ():
        kind = entry.get("type") if isinstance(entry, dict) else None
        if isinstance(kind, str) and kind != "energy":
            name = f"{kind}/{entry['name']}" if entry.get("name") else kind
            found.append(f"{name}={_text(number(entry.get('count'))) or 0}")
    return ",".join(found)


def _step(jobid: str, step: dict[str, Any]) -> dict[str, Any]:
    """Return a step as a row of sacct.

    The id of a step is ``{"id": "7.batch"}``, ``{"id": {"step_id": "batch"}}`` or a number, by release; the part
    after the last point names the step. Energy is taken from the statistics, else from the consumed, else from the
    allocated TRES.
    """
    name = _inner(step, "step").get("id")
    if isinstance(name, dict):
        name = name.get("step_id")
    if not isinstance(name, str):
        figure = number(name)
        # 21.08 prints the number of a step where later releases print its name.
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
    """Return rows as a frame of text with the numbers of their jobs.

    ``clean`` replaces halves of surrogate pairs, which JSON may hold and UTF-8 has no form for.
    """
    import polars as pl

    table: dict[str, Any] = {
        name: pl.Series([clean(row.get(name) or "") or None for row in rows], dtype=pl.String) for name in COLUMNS
    }
    return pl.DataFrame(table | {"line": np.array([row["line"] for row in rows], np.int64)})
