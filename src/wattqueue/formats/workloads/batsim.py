"""Batsim workloads in JSON: jobs and their profiles, Batsim 1 to 5.

A workload is an object with ``jobs`` (``id``, ``subtime``, ``res``, ``walltime``, ``profile``) and ``profiles`` by
name. Only profiles whose duration is fixed can be replayed without Batsim's platform model: ``delay``
(``DelayProfile`` since Batsim 5), and sequences of such. A job of another profile (``parallel``, ``smpi``, ...) is
unusable, with the reason: its duration depends on the network and the speed of a simulated platform.

The profile's name becomes the application of its jobs, since jobs of one profile do the same work.

An example with one job of 4 resources that runs for 600 s::

    {"nb_res": 32,
     "jobs": [{"id": "1", "subtime": 0, "res": 4, "walltime": 900, "profile": "ten_minutes"}],
     "profiles": {"ten_minutes": {"type": "delay", "delay": 600}}}

Times are seconds of the simulation's clock, and are not shifted. A Batsim workload holds no watts and no users, so the
job table has neither. A job that cannot be used never ends the import: it is listed in ``Workload.unusable`` with its
position among the jobs (from 1), its id and one reason. The import fails only where no job at all can be used.

Reference: Batsim documentation, "Workload" and "Profile types"; https://batsim.readthedocs.io
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from wattqueue.errors import InputError
from wattqueue.formats.source import shown
from wattqueue.formats.unusable import Unusable
from wattqueue.formats.workload import Workload
from wattqueue.formats.workload_format import NOT, SURE, ReadOptions, WorkloadFile, WorkloadFormat
from wattqueue.model.bounds import DURATION_S, TIME_S, UNITS
from wattqueue.model.jobs import Jobs, Labels
from wattqueue.model.plain_numbers import is_whole

# Types of profiles, compared in small letters: Batsim 1 to 4 write ``delay``, Batsim 5 writes ``DelayProfile``.
DELAYS = ("delay", "delayprofile")
SEQUENCES = ("composed", "sequentialcompositionprofile", "sequence")
DEEPEST = 50
"""Sequences within sequences; a deeper one refers to itself.

Profiles refer to each other by name, so that a file may hold a cycle, which would never end.
"""


def recognise(file: WorkloadFile) -> int:
    """Return SURE for a JSON object with profiles."""
    return SURE if file.is_json and isinstance(file.document, dict) and "profiles" in file.document else NOT


def read(file: WorkloadFile, options: ReadOptions) -> Workload:
    """Return a Batsim workload; ``walltime`` missing or -1 becomes the default, else the duration.

    Raises: InputError for a file that is none, or in which no job has a fixed duration.
    """
    from wattqueue.formats.json_text import clean

    path, document = file.path, file.document
    jobs, profiles = _parts(path, document)
    rows: list[tuple[str, float, int, float, float, str]] = []
    bad: list[tuple[int, str, str]] = []
    for number, job in enumerate(jobs, 1):
        name = clean(str(job.get("id", ""))) if isinstance(job, Mapping) else ""
        try:
            rows.append(_row(name, job, profiles, options.default_walltime_s))
        except _UnusableError as why:
            bad.append((number, name, str(why)))
    if not rows:
        raise InputError(f"0 usable jobs of {len(jobs)}: {bad[0][2]}", where=path, hint="replay it in Batsim")
    unusable = Unusable(
        np.array([n for n, _, _ in bad], np.int64),
        np.array([name for _, name, _ in bad], object),
        Labels.of([why for _, _, why in bad]),
    )
    notes = [f"the workload was made for {document['nb_res']} resources"] if "nb_res" in document else []
    return Workload(_jobs(rows), unusable, "batsim", len(jobs), tuple(notes))


class _UnusableError(Exception):
    """A job cannot be used; the message says why.

    It never leaves this module: ``read`` turns it into a row of ``Unusable``.
    """


def _parts(path: Path, document: Any) -> tuple[list[Any], Mapping[str, Any]]:
    """Return the list of jobs and the profiles by name.

    Raises: InputError where the document lacks either, or has no job.
    """
    if not isinstance(document, Mapping):
        raise InputError("is no Batsim workload: not an object", where=path, hint="it has jobs and profiles")
    jobs, profiles = document.get("jobs"), document.get("profiles")
    if not isinstance(jobs, list) or not isinstance(profiles, Mapping):
        raise InputError(
            "is no Batsim workload: no list of jobs, or no profiles", where=path, hint="see its jobs and profiles"
        )
    if not jobs:
        raise InputError("0 jobs", where=path, hint="is the workload complete?")
    return jobs, profiles


def _row(
    name: str, job: Any, profiles: Mapping[str, Any], default_walltime_s: float | None
) -> tuple[str, float, int, float, float, str]:
    """Return id, submission, resources, duration, walltime and profile of a job.

    Submission, duration and walltime are seconds. The walltime is NaN where neither the job nor the caller states one;
    ``Jobs.build`` then takes the duration (semantics, rule 3).

    Raises: _UnusableError where a field is missing or outside its limit in ``model.bounds``.
    """
    from wattqueue.formats.json_text import clean, figure

    if not isinstance(job, Mapping) or not name:
        raise _UnusableError("no id")
    submit = figure(job.get("subtime"))
    if submit is None or not 0 <= submit <= TIME_S.high:
        raise _UnusableError(f"subtime is not a number from 0 to {TIME_S.high:,.0f}")
    size = figure(job.get("res"))
    if size is None or not 1 <= size <= UNITS.high or size != int(size):
        raise _UnusableError(f"res is not a whole number, {UNITS.text}")
    # Names of profiles are texts; a number is accepted as its text, as keys of JSON objects are always texts.
    profile = str(job.get("profile", ""))
    duration = _duration(profile, profiles, 0)
    if not DURATION_S.low <= duration <= DURATION_S.high:
        raise _UnusableError(f"its profile does not take {DURATION_S.text}")
    # Batsim writes -1 for a job without a limit. Without a limit the job has a duration all the same.
    walltime = figure(job.get("walltime"))
    if walltime is None or not DURATION_S.low <= walltime <= DURATION_S.high:
        walltime = default_walltime_s or math.nan
    return name, submit, int(size), duration, walltime, clean(profile)


def _duration(name: str, profiles: Mapping[str, Any], depth: int) -> float:
    """Return the seconds that a profile takes on any platform; ``depth`` bounds the recursion.

    A delay takes its own ``delay``. A sequence (``seq``, a list of profile names) takes ``repeat`` times the sum of its
    parts; ``repeat`` is 1 where it is left out, and 0 where it is not a number, which the caller then refuses.

    Raises: _UnusableError for a profile whose duration depends on the platform.
    """
    from wattqueue.formats.json_text import figure

    profile = profiles.get(name)
    if not isinstance(profile, Mapping):
        raise _UnusableError("its profile is not among the profiles")
    kind = str(profile.get("type", ""))
    if kind.lower() in DELAYS:
        delay = figure(profile.get("delay"))
        if delay is None:
            raise _UnusableError("its profile has no delay")
        return delay
    sequence = profile.get("seq")
    if kind.lower() in SEQUENCES and isinstance(sequence, list):
        if depth >= DEEPEST or len(sequence) > 10_000:
            raise _UnusableError("its profile is an endless sequence")
        repeat = figure(profile.get("repeat", 1)) or 0.0
        return repeat * sum(_duration(str(part), profiles, depth + 1) for part in sequence)
    raise _UnusableError(f"profile type {shown(kind)} has no fixed duration: it depends on Batsim's platform")


def _jobs(rows: list[tuple[str, float, int, float, float, str]]) -> Jobs:
    """Return the job table of the rows, in order of submission; jobs of one instant keep the order of the file."""
    ids, submit, size, duration, walltime, profile = zip(*rows, strict=True)
    # Numbers are kept as int64 only if every id is one; 18 digits always fit.
    whole = all(is_whole(name) for name in ids)
    return Jobs.build(
        submit,
        size,
        duration,
        walltime_s=np.array(walltime, np.float64),
        job_id=np.array(ids, np.int64) if whole else np.array(ids, object),
        app=Labels.of(profile),
    ).take(np.argsort(submit, kind="stable"))


FORMAT = WorkloadFormat("batsim", "Batsim JSON", recognise, read)
