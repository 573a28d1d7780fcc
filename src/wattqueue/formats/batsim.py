"""Batsim workloads in JSON: jobs and their profiles, Batsim 1 to 5.

Only profiles whose duration is fixed can be replayed without Batsim's platform model: ``delay``
(``DelayProfile`` since Batsim 5), and sequences of such. A job of another profile is rejected, with
the reason.

Reference: Batsim documentation, "Workload" and "Profile types"; https://batsim.readthedocs.io
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from wattqueue.errors import InputError
from wattqueue.formats._json import figure, load_json
from wattqueue.formats._source import shown
from wattqueue.formats.unusable import Unusable
from wattqueue.formats.workload import Workload
from wattqueue.model.jobs import Jobs, Labels

DELAYS = ("delay", "delayprofile")
SEQUENCES = ("composed", "sequentialcompositionprofile", "sequence")
DEEPEST = 50
"""Sequences within sequences; a deeper one goes round in a circle."""


def read_batsim(path: Path, *, default_walltime_s: float | None = None) -> Workload:
    """Read a Batsim workload; ``walltime`` missing or -1 becomes the default, else the duration.

    Raises: InputError for a file that is none, or in which no job has a fixed duration.
    """
    return batsim_workload(path, load_json(path), default_walltime_s)


def batsim_workload(path: Path, document: Any, default_walltime_s: float | None = None) -> Workload:
    """The same from a document that was already loaded."""
    jobs, profiles = _parts(path, document)
    rows: list[tuple[str, float, int, float, float, str]] = []
    bad: list[tuple[int, str, str]] = []
    for number, job in enumerate(jobs, 1):
        name = str(job.get("id", "")) if isinstance(job, Mapping) else ""
        try:
            rows.append(_row(name, job, profiles, default_walltime_s))
        except _RejectedError as why:
            bad.append((number, name, str(why)))
    if not rows:
        raise InputError(f"0 usable jobs of {len(jobs)}: {bad[0][2]}", where=path, mend="replay it in Batsim")
    unusable = Unusable(
        np.array([n for n, _, _ in bad], np.int64),
        np.array([name for _, name, _ in bad], object),
        Labels.of([why for _, _, why in bad]),
    )
    notes = [f"the workload was made for {document['nb_res']} resources"] if "nb_res" in document else []
    return Workload(_jobs(rows), unusable, "batsim", len(jobs), tuple(notes))


class _RejectedError(Exception):
    """A job cannot be used; the message says why."""


def _parts(path: Path, document: Any) -> tuple[list[Any], Mapping[str, Any]]:
    if not isinstance(document, Mapping):
        raise InputError("is no Batsim workload: not an object", where=path, mend="it has jobs and profiles")
    jobs, profiles = document.get("jobs"), document.get("profiles")
    if not isinstance(jobs, list) or not isinstance(profiles, Mapping):
        raise InputError(
            "is no Batsim workload: no list of jobs, or no profiles", where=path, mend="see its jobs and profiles"
        )
    if not jobs:
        raise InputError("0 jobs", where=path, mend="is the workload complete?")
    return jobs, profiles


def _row(
    name: str, job: Any, profiles: Mapping[str, Any], default_walltime_s: float | None
) -> tuple[str, float, int, float, float, str]:
    """Id, submission, resources, duration, walltime, profile of a job."""
    if not isinstance(job, Mapping) or not name:
        raise _RejectedError("no id")
    submit = figure(job.get("subtime"))
    if submit is None or submit < 0:
        raise _RejectedError("subtime is no number of 0 or more")
    size = figure(job.get("res"))
    if size is None or not 1 <= size < 2**31 or size != int(size):
        raise _RejectedError("res is no whole number from 1")
    profile = str(job.get("profile", ""))
    duration = _duration(profile, profiles, 0)
    if not 0 < duration < math.inf:
        raise _RejectedError("its profile takes no time")
    walltime = figure(job.get("walltime"))
    if walltime is None or walltime <= 0:
        walltime = default_walltime_s or math.nan
    return name, submit, int(size), duration, walltime, profile


def _duration(name: str, profiles: Mapping[str, Any], depth: int) -> float:
    """Seconds that a profile takes on any platform."""
    profile = profiles.get(name)
    if not isinstance(profile, Mapping):
        raise _RejectedError("its profile is not among the profiles")
    kind = str(profile.get("type", ""))
    if kind.lower() in DELAYS:
        delay = figure(profile.get("delay"))
        if delay is None:
            raise _RejectedError("its profile has no delay")
        return delay
    sequence = profile.get("seq")
    if kind.lower() in SEQUENCES and isinstance(sequence, list):
        if depth >= DEEPEST or len(sequence) > 10_000:
            raise _RejectedError("its profile is a sequence without end")
        repeat = figure(profile.get("repeat", 1)) or 0.0
        return repeat * sum(_duration(str(part), profiles, depth + 1) for part in sequence)
    raise _RejectedError(f"profile type {shown(kind)} has no fixed duration: it hangs on Batsim's platform")


def _jobs(rows: list[tuple[str, float, int, float, float, str]]) -> Jobs:
    ids, submit, size, duration, walltime, profile = zip(*rows, strict=True)
    whole = all(name.isdecimal() and len(name) <= 18 for name in ids)
    return Jobs.build(
        submit,
        size,
        duration,
        walltime_s=np.array(walltime, np.float64),
        job_id=np.array(ids, np.int64) if whole else np.array(ids, object),
        app=Labels.of(profile),
    ).take(np.argsort(submit, kind="stable"))
