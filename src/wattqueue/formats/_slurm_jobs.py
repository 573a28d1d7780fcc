"""From the runs that Slurm's accounting holds to a job table, with quality labels and all there is to say."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.formats import _runs
from wattqueue.formats._hosts import HostRanges, count_nodes
from wattqueue.formats._runs import Runs
from wattqueue.formats._sacct_runs import Reading
from wattqueue.formats.unusable import Unusable
from wattqueue.formats.workload import (
    ALL_NODES,
    ALONE,
    ENERGY,
    NODES_SEEN,
    QUALITY,
    SOURCE,
    Workload,
    alone_words,
    quality_labels,
)
from wattqueue.model.jobs import Jobs, Labels

HOUR_S = 3_600.0
ROUNDED_TO_S = 60.0
"""How far a clock change may be from a full hour: Slurm rounds elapsed times."""


class _Seen(NamedTuple):
    """Different nodes seen in the partition of each row, and in all."""

    partition: NDArray[np.int32]
    cluster: int


def workload_of(
    where: str, reading: Reading, rejected: list[tuple[int, str]], kind: str, default_walltime_s: float | None = None
) -> Workload:
    """The job table of what was gathered, in order of submission, and the rows left out, in order of their lines.

    Raises: InputError where no row is a usable job.
    """
    gathered = reading.gathered
    if not gathered.blocks:
        raise InputError("0 jobs: no row below the header", where=where, mend="is the dump complete?")
    ranges = HostRanges.joined(gathered.ranges)
    gathered.ranges.clear()
    runs = gathered.joined()
    if gathered.zoned and not reading.clock.stated:
        runs.reason[runs.naive & (runs.reason == _runs.USABLE)] = _runs.NO_ZONE
    _runs.mark_repeats(runs)
    alone = _runs.sharing(runs, ranges)
    seen = _Seen(_runs.nodes_seen(runs, ranges), count_nodes(ranges))
    unusable = _unusable(runs, [*rejected, *reading.orphans])
    good = np.flatnonzero(runs.reason == _runs.USABLE)
    if not len(good):
        reasons = unusable.reason.values().tolist()
        raise InputError(
            f"0 usable jobs: {_runs.counted(reasons)}", where=where, mend="widen the dump: sacct -S and -E"
        )
    order = good[np.argsort(runs.submit_s[good], kind="stable")]
    in_order = bool((np.diff(order) > 0).all())
    if len(order) < len(runs.line) or not in_order:  # else a copy would double the memory of a large dump
        runs, alone, seen = runs.take(order), alone[order], _Seen(seen.partition[order], seen.cluster)
    notes = _notes(runs, alone, reading, in_order=in_order)
    return Workload(_jobs(runs, alone, seen, reading, default_walltime_s), unusable, kind, 0, tuple(notes))


def _unusable(runs: Runs, rejected: list[tuple[int, str]]) -> Unusable:
    bad = np.flatnonzero(runs.reason != _runs.USABLE)
    ids = _runs.job_ids(runs.job[bad], runs.task[bad]).astype(object)
    ids[runs.job[bad] < 0] = ""
    line = np.concatenate((runs.line[bad], np.array([n for n, _ in rejected], np.int64)))
    ids = np.concatenate((ids, np.full(len(rejected), "", object)))
    texts = np.concatenate(
        (np.array(_runs.REASONS, object)[runs.reason[bad]], np.array([why for _, why in rejected], object))
    )
    order = np.argsort(line, kind="stable")
    return Unusable(line[order], ids[order], Labels.of(texts[order]))


def _jobs(runs: Runs, alone: NDArray[np.int8], seen: _Seen, reading: Reading, default_walltime_s: float | None) -> Jobs:
    names = reading.gathered.names
    power = runs.energy_j / runs.covered_node_s
    limit = (
        runs.limit_s
        if default_walltime_s is None
        else np.where(np.isnan(runs.limit_s), default_walltime_s, runs.limit_s)
    )
    return Jobs.build(
        runs.submit_s,
        runs.nodes,
        runs.elapsed_s,
        walltime_s=limit,
        job_id=_runs.job_ids(runs.job, runs.task),
        user=names["user"].labels(runs.user),
        app=names["app"].labels(runs.app),
        partition=names["partition"].labels(runs.partition),
        mean_power_w=power if np.isfinite(power).any() else None,
        start_s=runs.start_s if np.isfinite(runs.start_s).any() else None,
        extra=_extra(runs, alone, seen, reading),
    )


def _extra(runs: Runs, alone: NDArray[np.int8], seen: _Seen, reading: Reading) -> dict[str, NDArray[Any]]:
    """Columns that the engine does not read; those that say nothing about any job are left out."""
    names = reading.gathered.names
    extra: dict[str, NDArray[Any]] = {}
    for name in ("state", "account"):
        labels = names[name].labels(getattr(runs, name))
        if labels.names:
            extra[name] = labels.values()
    for name in ("cpus", "gpus"):
        if getattr(runs, name).any():
            extra[name] = getattr(runs, name)
    if np.isfinite(runs.memory_gb).any():
        extra["memory_gb"] = np.round(runs.memory_gb.astype(np.float64), 6)
    if seen.cluster:
        extra[NODES_SEEN] = seen.partition
        extra[ALL_NODES] = np.full(len(runs.line), seen.cluster, np.int64)
    extra[ALONE] = alone_words(alone)
    has = np.isfinite(runs.energy_j)
    if has.any():
        extra |= {ENERGY: runs.energy_j, QUALITY: quality_labels(has, alone), SOURCE: _runs.energy_sources(runs.source)}
    if runs.glitches.any():
        extra["failed_counters"] = runs.glitches
    return extra


def _notes(kept: Runs, alone: NDArray[np.int8], reading: Reading, *, in_order: bool) -> list[str]:
    """What the user should know about the jobs that are kept."""
    said = [*_clock_notes(kept, reading), *_energy_notes(kept, alone, reading)]
    if not in_order:
        said.append("rows were not in order of submission: the jobs are")
    no_limit = int(np.isnan(kept.limit_s).sum())
    if no_limit:
        said.append(
            f"{no_limit:,} jobs have no time limit of their own: their walltime is their run time, a perfect estimate "
            "(--default-walltime gives another)"
        )
    shared = int((alone == 0).sum())
    if shared:
        said.append(
            f"{shared:,} jobs shared nodes: a replay gives every job whole nodes, "
            "so it needs more of them than the site did"
        )
    parts = int((kept.task <= -2).sum())
    if parts:
        said.append(f"{parts:,} parts of heterogeneous jobs stand as jobs of their own")
    bare = reading.gathered.counts["bare_limits"]
    if bare:
        said.append(f"{bare:,} time limits are bare numbers: seconds where the run times are, else minutes")
    return said


def _clock_notes(kept: Runs, reading: Reading) -> list[str]:
    said = []
    if kept.naive.any() and not reading.clock.stated:
        said.append(
            "times have no zone and are read as UTC: --time-zone Europe/Berlin (or +02:00) puts them where prices, "
            "carbon and caps are"
        )
    with np.errstate(invalid="ignore"):
        gap = kept.end_s - kept.start_s - kept.elapsed_s
        jumped = int((np.abs(np.abs(gap) - HOUR_S) <= ROUNDED_TO_S).sum())
        early = kept.start_s < kept.submit_s
    if jumped:
        said.append(
            f"{jumped:,} jobs end an hour before or after what their run time says, as when the clocks change: "
            "the run time counts (--time-zone knows clock changes)"
        )
    if early.any():
        most = float(np.nanmax((kept.submit_s - kept.start_s)[early]))
        said.append(
            f"{int(early.sum()):,} jobs start before they were submitted, by up to {most:,.0f} s: time ran backwards "
            "on that clock; they are kept as recorded"
        )
    return said


def _energy_notes(kept: Runs, alone: NDArray[np.int8], reading: Reading) -> list[str]:
    said = []
    counts, plausible = reading.gathered.counts, reading.plausible
    has = np.isfinite(kept.energy_j)
    if not has.any():
        said.append("no energy: the dump needs the column ConsumedEnergyRaw, and Slurm an energy plugin")
    if counts["rounded_energy"]:
        said.append(
            f"{counts['rounded_energy']:,} energies are rounded to three digits (4.58M): ask for ConsumedEnergyRaw"
        )
    if counts["unread_energy"]:
        said.append(f"{counts['unread_energy']:,} energies are no figures and count as missing")
    if plausible.count:
        said.append(
            f"{plausible.count:,} energy counters left out: a node would have drawn less than {plausible.low_w:g} W or "
            f"more than {plausible.high_w:g} W (jobs {', '.join(plausible.examples)}; --node-watts sets bounds)"
        )
    if has.any() and (alone == -1).all():
        said.append("no job can be shown to have had its nodes alone (the dump needs NodeList, Start and End)")
    elif has.any() and len(np.unique(kept.user)) == 1:
        said.append("all jobs are one user's: others' jobs on the same nodes cannot be seen; dump with sacct -a")
    unread = int((kept.hosts == -1).sum())
    if unread:
        said.append(f"{unread:,} node lists cannot be read (cut short?): whether these jobs ran alone is unknown")
    return said
