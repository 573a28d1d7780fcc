"""From the runs that Slurm's accounting holds to a job table, with quality labels and remarks for the user.

This is the last step of ``read_sacct`` and ``read_slurm_json``. It needs all runs together, since whether a job had
its nodes alone, and whether a row repeats another one, depends on the other rows:

1. join the blocks, and mark rows that repeat another run (``records.mark_repeats``);
2. find which runs had their nodes alone, over all rows, also those that are no usable jobs (``records.sharing``);
3. list the rows that are left out, and sort the others by submission;
4. write the remarks and the job table.

The remarks (``Workload.notes``) say what a user should know before trusting the figures: times without a zone,
rounded or failed energy counters, jobs that shared nodes, jobs without limits. They are sentences with counts; a
script reads the counts from ``Workload.summary`` instead.

Memory: a dump of millions of jobs fits because columns are released as they are joined, and rows are copied only if
some are left out or out of order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.formats.slurm import records
from wattqueue.formats.slurm.clock_changes import TWICE
from wattqueue.formats.slurm.hosts import HostRanges, count_nodes
from wattqueue.formats.slurm.records import JobRecords
from wattqueue.formats.slurm.rows import ReadContext
from wattqueue.formats.slurm.units import CLOSE_S, HOUR_S, contradiction, differs, energy_units
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


class _NodesSeen(NamedTuple):
    """Different nodes that were seen in the partition of each row (shape (n,)), and in all.

    Fields: ``partition``, the count for the partition of each row, and ``cluster``, the count over all rows; 0 where
    no node list could be read. The machine guess proposes sizes of partitions from them.
    """

    partition: NDArray[np.int32]
    cluster: int


def workload_of(
    where: str,
    reading: ReadContext,
    lines: list[tuple[int, str]],
    kind: str,
    default_walltime_s: float | None = None,
) -> Workload:
    """Return the job table of what was collected, in order of submission, and the rows that were left out.

    ``kind`` names the format; ``lines`` are those that gave no row, with reasons; rows left out are in order of
    their lines. A stable sort keeps jobs of one submission time in the order of the dump, which decides their queue
    order (semantics, rule 5).

    Raises: InputError where no row is a usable job.
    """
    collected = reading.collected
    if not collected.blocks:
        raise InputError("0 jobs: no row below the header", where=where, hint="is the dump complete?")
    # Order matters: repeated rows are marked before nodes are compared, since a run would otherwise share its nodes
    # with its own repetition. Rows that are no usable jobs still hold nodes, so they are left out only afterwards.
    ranges = HostRanges.joined(collected.ranges)
    # The parts are now copied; without this both would stay in memory during everything below.
    collected.ranges.clear()
    runs = collected.joined()
    # A dump that mixes both kinds of times cannot be read on one clock without being told the zone.
    if collected.zoned and not reading.clock.stated:
        # Rows with another reason keep it: they would be unusable in any zone.
        runs.reason[runs.naive & (runs.reason == records.USABLE)] = records.NO_ZONE
    records.mark_repeats(runs)
    alone = records.sharing(runs, ranges)
    seen = _NodesSeen(records.nodes_seen(runs, ranges), count_nodes(ranges))
    unusable = _unusable(runs, [*lines, *reading.orphans])
    good = np.flatnonzero(runs.reason == records.USABLE)
    if not len(good):
        reasons = unusable.reason.values().tolist()
        raise InputError(
            f"0 usable jobs: {records.counted(reasons)}", where=where, hint="widen the dump: sacct -S and -E"
        )
    # order holds row numbers of the dump: usable rows only, by submission time.
    why = contradiction(*(column[good] for column in (runs.start_s, runs.end_s, runs.elapsed_s)))
    if why:
        raise InputError(why, where=where, hint="sacct counts ElapsedRaw in seconds: correct the column, or drop it")
    order = good[np.argsort(runs.submit_s[good], kind="stable")]
    in_order = bool((np.diff(order) > 0).all())
    if len(order) < len(runs.line) or not in_order:  # else a copy would double the memory of a large dump
        runs, alone, seen = runs.take(order), alone[order], _NodesSeen(seen.partition[order], seen.cluster)
    notes = _notes(runs, alone, reading, in_order=in_order)
    return Workload(_jobs(runs, alone, seen, reading, default_walltime_s), unusable, kind, 0, tuple(notes))


def _unusable(runs: JobRecords, lines: list[tuple[int, str]]) -> Unusable:
    """Return the rows with a reason, and the lines that gave none, in order of their lines.

    ``lines`` never became rows (cut off, too many fields), so they have no id.

    ``Labels.of`` stores each different reason once, however many rows have it.
    """
    bad = np.flatnonzero(runs.reason != records.USABLE)
    ids = records.job_ids(runs.job[bad], runs.task[bad]).astype(object)
    # An id that could not be read has no number to show; its line identifies the row.
    ids[runs.job[bad] < 0] = ""
    line = np.concatenate((runs.line[bad], np.array([n for n, _ in lines], np.int64)))
    ids = np.concatenate((ids, np.full(len(lines), "", object)))
    texts = np.concatenate(
        (np.array(records.REASONS, object)[runs.reason[bad]], np.array([why for _, why in lines], object))
    )
    order = np.argsort(line, kind="stable")
    return Unusable(line[order], ids[order], Labels.of(texts[order]))


def _jobs(
    runs: JobRecords, alone: NDArray[np.int8], seen: _NodesSeen, reading: ReadContext, default_walltime_s: float | None
) -> Jobs:
    """Return the job table of the runs that are kept.

    Watts are those of one node while its counter ran: energy over the node-seconds that it covered. ``alone`` and
    ``seen`` are per run; ``default_walltime_s`` is the limit of jobs without one.

    Ids, names and times pass unchanged. ``start_s`` and ``mean_power_w`` are left out where no job has them, so that
    a later step can tell "the dump has no such column" from "this job has none". Maximum watts do not exist:
    accounting counts energy only.
    """
    names = reading.collected.names
    # Steps may have measured less than the whole run, so watts are energy over the node-seconds that were measured.
    power = runs.energy_j / runs.covered_node_s
    limit = (
        runs.limit_s
        # A limit that is still NaN is filled with the run time by Jobs.build, and counted in the remarks.
        if default_walltime_s is None
        else np.where(np.isnan(runs.limit_s), default_walltime_s, runs.limit_s)
    )
    return Jobs.build(
        runs.submit_s,
        runs.nodes,
        runs.elapsed_s,
        walltime_s=limit,
        job_id=records.job_ids(runs.job, runs.task),
        user=names["user"].labels(runs.user),
        app=names["app"].labels(runs.app),
        partition=names["partition"].labels(runs.partition),
        mean_power_w=power if np.isfinite(power).any() else None,
        start_s=runs.start_s if np.isfinite(runs.start_s).any() else None,
        extra=_extra(runs, alone, seen, reading),
    )


def _extra(
    runs: JobRecords, alone: NDArray[np.int8], seen: _NodesSeen, reading: ReadContext
) -> dict[str, NDArray[Any]]:
    """Return the columns that the engine does not read; those that hold nothing for any job are left out.

    They are written as ``x_...`` columns of the job table: state, account, wckey, command line, CPUs, GPUs, memory,
    nodes seen, whether the job was alone, energy with its quality and counter, and the number of counters that failed.

    ``alone`` is 1, 0 or -1 per run; ``seen`` counts nodes. Every array has one element per run, in the order of the
    job table.
    """
    names = reading.collected.names
    extra: dict[str, NDArray[Any]] = {}
    for name in ("state", "account", "wckey", "submit_line"):
        labels = names[name].labels(getattr(runs, name))
        if labels.names:
            extra[name] = labels.values()
    for name in ("cpus", "gpus"):
        # 0 stands for unknown, so a column of zeros holds nothing.
        if getattr(runs, name).any():
            extra[name] = getattr(runs, name)
    if np.isfinite(runs.memory_gb).any():
        # Rounded to kilobytes, to keep noise of float32 out of the written table.
        extra["memory_gb"] = np.round(runs.memory_gb.astype(np.float64), 6)
    # The machine guess needs these counts, and the node lists themselves are not kept.
    if seen.cluster:
        extra[NODES_SEEN] = seen.partition
        extra[ALL_NODES] = np.full(len(runs.line), seen.cluster, np.int64)
    extra[ALONE] = alone_words(alone)
    has = np.isfinite(runs.energy_j)
    if has.any():
        extra |= {
            ENERGY: runs.energy_j,
            QUALITY: quality_labels(has, alone),
            SOURCE: records.energy_sources(runs.source),
        }
    if runs.glitches.any():
        extra["failed_counters"] = runs.glitches
    return extra


def _notes(kept: JobRecords, alone: NDArray[np.int8], reading: ReadContext, *, in_order: bool) -> list[str]:
    """Return what the user should know about the jobs that are kept.

    Each note names a count and, where there is one, the option that changes it. Nothing is noted that is true of
    every dump. ``in_order`` says whether rows were in order of submission.

    ``kept`` are the runs of the job table, ``alone`` their 1, 0 or -1. Clock remarks come first, since wrong times
    shift every price and cap.
    """
    notes = [*_clock_notes(kept, reading), *_energy_notes(kept, alone, reading)]
    if not in_order:
        notes.append("the rows were not in order of submission; the jobs have been sorted")
    no_limit = int(np.isnan(kept.limit_s).sum())
    if no_limit:
        notes.append(
            f"{no_limit:,} jobs have no time limit: their walltime is assumed equal to the run time, which "
            "makes backfilling too good (--default-walltime gives another)"
        )
    # The simulator has no jobs that share a node.
    shared = int((alone == 0).sum())
    if shared:
        notes.append(f"{shared:,} jobs shared nodes: they are replayed on whole nodes, so waits come out too long")
    # JobRecords.task: -2 - offset for a part of a heterogeneous job.
    parts = int((kept.task <= -2).sum())
    if parts:
        notes.append(f"{parts:,} parts of heterogeneous jobs are kept as separate jobs")
    # sacct prints limits as [days-]hours:minutes:seconds, so bare numbers come from a conversion.
    bare = reading.collected.counts["bare_limits"]
    if bare:
        notes.append(f"{bare:,} time limits are bare numbers: seconds where the run times are, else minutes")
    return notes


def _clock_notes(kept: JobRecords, reading: ReadContext) -> list[str]:
    """Return remarks on times: no zone, hours that come twice, clock changes, starts before submissions.

    Nothing is corrected here: run times come from Elapsed, which no clock change touches, so such jobs are usable.

    ``kept`` are the runs of the job table. NaN compares as False throughout, so a run without a time is in no count.
    """
    notes = []
    # Slurm prints local times without a zone by default, so this remark concerns most dumps.
    if kept.naive.any() and not reading.clock.stated:
        notes.append(
            "times have no zone and are read as UTC; state it with --time-zone Europe/Berlin (or +02:00), so that "
            "prices, carbon and caps are applied at the right time"
        )
    # Only with a zone that has clock changes; the text is shared with the readers of Parquet.
    twice = int(kept.ambiguous.sum())
    if twice:
        notes.append(TWICE.format(twice))
    with np.errstate(invalid="ignore"):
        # A gap of almost exactly an hour, either way, is a clock change; other gaps are suspended time.
        gap = kept.end_s - kept.start_s - kept.elapsed_s
        jumped = int((np.abs(np.abs(gap) - HOUR_S) <= CLOSE_S).sum())
        early = kept.start_s < kept.submit_s
        paused = int((differs(gap) & (gap > 0)).sum())
    # Without a zone with clock changes, the job ran over the change and End - Start is off by exactly that hour.
    if jumped:
        notes.append(
            f"{jumped:,} jobs have an End that differs by an hour from Start + Elapsed, as at a clock change: "
            "Elapsed is used (--time-zone Europe/Berlin, for example, accounts for clock changes)"
        )
    if paused:
        notes.append(
            f"{paused:,} jobs have an End later than Start + Elapsed: they were suspended, for sacct leaves that time "
            "out of Elapsed, which is used"
        )
    if early.any():
        most = float(np.nanmax((kept.submit_s - kept.start_s)[early]))
        notes.append(
            f"{int(early.sum()):,} jobs start before they were submitted, by up to {most:,.0f} s: the clock of "
            "that cluster was set back; they are kept as recorded"
        )
    return notes


def _energy_notes(kept: JobRecords, alone: NDArray[np.int8], reading: ReadContext) -> list[str]:
    """Return remarks on energies.

    They cover: none at all, rounded, unreadable, unset and implausible figures, jobs of which it is unknown whether
    they had their nodes alone, and node lists that cannot be read.

    Counts of text (``counts``) are over all rows of the dump, those of jobs over the runs that are kept; ``alone`` is
    per kept run.
    """
    notes = []
    counts, plausible = reading.collected.counts, reading.plausible
    has = np.isfinite(kept.energy_j)
    # Energy is what most sites import for, so a dump without any gets the remedy first.
    if not has.any():
        notes.append("no energy: the dump needs the column ConsumedEnergyRaw, and Slurm needs an energy plugin")
    if counts["rounded_energy"]:
        notes.append(
            f"{counts['rounded_energy']:,} energies are rounded to three digits (4.58M): ask for ConsumedEnergyRaw"
        )
    if counts["unread_energy"]:
        notes.append(f"{counts['unread_energy']:,} energies are not numbers and count as missing")
    if counts["unset_energy"]:
        notes.append(
            f"{counts['unset_energy']:,} energies hold Slurm's mark for no value (4294967294, NaN or the like) and "
            "count as missing"
        )
    if plausible.count:
        notes.append(
            f"{plausible.count:,} energy counters left out: a node would have drawn less than {plausible.low_w:g} W or "
            f"more than {plausible.high_w:g} W (jobs {', '.join(plausible.examples)}; --node-watts sets bounds)"
        )
    if units := energy_units(plausible):
        notes.append(
            f"most energies ({plausible.count:,} of {plausible.total:,}) are out of bounds in joules, and would be "
            f"plausible in {units}: sacct counts ConsumedEnergyRaw in joules; convert the column"
        )
    if has.any() and (alone == -1).all():
        notes.append("no job can be shown to have had its nodes alone (the dump needs NodeList, Start and End)")
    # Without -a, sacct prints the jobs of the calling user only: "alone" then means alone among those.
    elif has.any() and len(np.unique(kept.user)) == 1:
        notes.append("all jobs belong to one user, so jobs of others on the same nodes are unknown; dump with sacct -a")
    # sacct without --parsable2 cuts long lists at the width of the column, within a bracket.
    unread = int((kept.hosts == -1).sum())
    if unread:
        notes.append(f"{unread:,} node lists cannot be read (cut short?): whether these jobs ran alone is unknown")
    return notes
