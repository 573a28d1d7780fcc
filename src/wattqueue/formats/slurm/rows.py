"""Rows of text under an sacct header become runs with their energy.

``add_rows`` is called with frames in which steps stand with their jobs. For each frame:

1. ids decide which rows are jobs and which are steps (``7``, ``7_3``, ``7+1`` and ``7.batch``);
2. columns become numbers (``columns``), each from the best column that the dump has: ElapsedRaw before
   Elapsed, NNodes before AllocNodes before AllocTRES before the node list;
3. one energy is chosen for each job (``slurm.energy``);
4. ambiguous local times are decided (``clock_changes``);
5. the first rule that applies says why a row is no usable job (``_reasons``);
6. the runs are appended to ``ReadContext.collected``.

Text that cannot be read is missing, never an error: a dump of a million rows is not refused for one of them. What
is missing is counted and reported by ``jobs``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.formats.slurm import records
from wattqueue.formats.slurm.clock_changes import decided
from wattqueue.formats.slurm.columns import (
    Clock,
    Times,
    amounts,
    durations,
    memory_gb,
    present,
    times,
    tres,
)
from wattqueue.formats.slurm.energy import Chosen, JobSteps, Plausible, choose
from wattqueue.formats.slurm.fields import SACCT_LINE
from wattqueue.formats.slurm.records import CollectedRuns, JobRecords, Longs
from wattqueue.formats.slurm.steps import LONGEST_S, column, elapsed_s, figure_j, steps_of
from wattqueue.model.bounds import COUNT, DURATION_S, UNITS
from wattqueue.model.jobs import Floats

if TYPE_CHECKING:
    import polars as pl

STARTED_NOT = ("PENDING", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "CONFIGURING")
"""States of jobs that have not started (Slurm's job_state_string)."""
GOING_ON = ("RUNNING", "SUSPENDED", "COMPLETING", "RESIZING", "STOPPED", "SIGNALING", "STAGE_OUT")
"""States of jobs that have started and not ended."""


@dataclass
class ReadContext:
    """How a dump is to be read, and what is known of it so far.

    One context lives as long as the reading of one file; it is the only state that is carried from block to block.
    """

    clock: Clock
    """What times without a zone mean."""
    plausible: Plausible
    """Bounds for the watts of a node, with counts of the counters outside them."""
    queued: bool = False
    """Whether jobs that have not ended are kept; their limit then stands for their run time."""
    collected: CollectedRuns = field(default_factory=CollectedRuns)
    orphans: list[tuple[int, str]] = field(default_factory=list)
    """(line, reason) of steps whose job is not in the dump.

    They are listed with the unusable rows, since they may be energy that is lost.
    """


class _Size(NamedTuple):
    """Nodes and CPUs of each row (NaN: unknown), and nodes in its list (0: none, -1: unreadable). Shapes (n,).

    Fields ``nodes``, ``cpus`` and ``hosts`` in that order.
    """

    nodes: Floats
    cpus: Floats
    hosts: NDArray[np.int32]


def check_columns(names: tuple[str, ...], where: str) -> None:
    """Check that a header has what a job table needs: a submission, a run time and a size.

    Raises: InputError naming all that is missing, with the command that dumps everything.
    """
    have = set(names)
    lacks = []
    if "submit" not in have:
        lacks.append("Submit")
    if not have & {"elapsed", "elapsedraw"} and not {"start", "end"} <= have:
        lacks.append("Elapsed")
    if not have & {"nnodes", "allocnodes", "alloctres", "nodelist", "reqnodes"}:
        lacks.append("NNodes")
    if lacks:
        raise InputError(f"the dump has no column {', '.join(lacks)}", where=where, hint=f"make it with: {SACCT_LINE}")


def add_rows(frame: pl.DataFrame, reading: ReadContext) -> None:
    """Add the runs of a frame whose steps stand with their jobs.

    ``frame`` has text columns by sacct's names in small letters, and ``line``; its rows are in the order of the dump.
    The columns were checked before (``check_columns``); any that is absent counts as empty. Results and counts are
    added to ``reading``; nothing is returned, and no text raises.
    """
    import polars as pl

    ids = column(frame, "jobid", "jobidraw").fill_null("").str.strip_chars()
    is_step = ids.str.contains(".", literal=True)
    # From here on jobs and steps are separate tables; a step knows the row of its job among ``parents``.
    parents = frame.filter(~is_step)
    job, task, rest = _ids(ids.filter(~is_step))
    elapsed = elapsed_s(parents)
    # The node lists become ranges of numbers at once: their text would be the largest part of memory.
    ranges, hosts = reading.collected.index.ranges(column(parents, "nodelist"))
    size = _size(parents, hosts)
    found = steps_of(frame, ids, is_step.to_numpy(), elapsed, size.nodes)
    reading.orphans += [(line, records.REASONS[records.ORPHAN]) for line in found.lost]
    energy = figure_j(parents)
    chosen = _energy(parents, energy.joules, elapsed, size.nodes, found.steps, reading.plausible)
    runs = _runs_of(parents, (job, task, rest), elapsed, size, chosen, reading)
    reading.collected.add(runs, ranges)
    counts = reading.collected.counts
    counts["unread_energy"] += int(energy.unread.sum()) + found.unread
    counts["unset_energy"] += int(energy.unset.sum())
    counts["steps"] += int(is_step.sum()) - len(found.lost)
    # sacct never prints a bare limit: who made these rows decides whether it counts seconds or minutes (``_limit``).
    limit = column(parents, "timelimit").fill_null("").str.strip_chars()
    if "elapsedraw" not in parents.columns and limit.str.contains(r"^[0-9]+$").any():
        counts["bare_limits"] += int(limit.str.contains(r"^[0-9]+$").sum())
    counts["rounded_energy"] += int(
        pl.select(pl.lit(column(parents, "consumedenergyraw", "consumedenergy")).str.contains(r"[KMGTP]$").sum()).item()
        or 0
    )


def _ids(ids: pl.Series) -> tuple[Longs, NDArray[np.int32], NDArray[np.bool_]]:
    """Return job number, task and kind of each id. Shapes (n,).

    The number is -1 for text that is no id; the task is as in ``JobRecords.task``; the last array marks ids such as
    ``12_[3-9]``, which stand for tasks that wait.

    Forms: ``7`` (a job), ``7_3`` (task 3 of an array), ``7+1`` (part 1 of a heterogeneous job), ``7_[3-9]`` (tasks
    that wait). A number beyond 64 bits counts as no id.
    """
    import polars as pl

    parts = ids.str.extract_groups(r"^([0-9]+)(?:_([0-9]+)|\+([0-9]+)|_(\[.*))?$").struct.unnest()
    job = parts.to_series(0).cast(pl.Int64, strict=False).fill_null(-1).to_numpy()
    task = parts.to_series(1).cast(pl.Int32, strict=False).fill_null(-1).to_numpy()
    part = parts.to_series(2).cast(pl.Int32, strict=False).fill_null(-1).to_numpy()
    return job, np.where(part >= 0, -2 - part, task).astype(np.int32), parts.to_series(3).is_not_null().to_numpy()


def _size(frame: pl.DataFrame, hosts: NDArray[np.int32]) -> _Size:
    """Return nodes and CPUs of each row by the first column that has them; NaN where no column does.

    Allocated figures come before the length of the node list, and that before the requested number of nodes: the
    last one is what the user asked for, not what the job held.

    ``hosts`` are the lengths of the node lists, as in ``_Size``. Numbers above the limits of ``model.bounds`` are
    taken for marks and skipped.
    """
    # NNodes is the allocation once a job has started, and the request before.
    candidates = [amounts(column(frame, "nnodes")), amounts(column(frame, "allocnodes"))]
    cpus = [amounts(column(frame, "alloccpus")), amounts(column(frame, "ncpus"))]
    if "alloctres" in frame.columns:
        candidates.append(tres(frame["alloctres"], "node"))
        cpus.append(tres(frame["alloctres"], "cpu"))
    candidates += [np.where(hosts > 0, hosts.astype(np.float64), np.nan), amounts(column(frame, "reqnodes"))]
    return _Size(_first(candidates, UNITS.high), _first(cpus, COUNT.high), hosts)


def _first(candidates: list[Floats], most: float) -> Floats:
    """Return the first positive figure of each row, rounded down. Shape (n,).

    ``candidates`` are columns from the best to the worst, each (n,); figures above ``most`` do not count.
    """
    value = np.full(len(candidates[0]), np.nan)
    # From the worst to the best, so that a better figure overwrites a worse one.
    for figure in reversed(candidates):
        good = (figure >= 1) & (figure <= most)
        value[good] = np.floor(figure[good])
    return value


def _energy(
    parents: pl.DataFrame, joules: Floats, elapsed: Floats, nodes: Floats, steps: JobSteps, plausible: Plausible
) -> Chosen:
    """Return the energy of each job.

    ``joules`` are those of the jobs' own rows; counts implausible counters in ``plausible``, and keeps the ids of
    the first three, which the remark of the import names.

    ``elapsed`` in seconds and ``nodes`` give the node-seconds over which a counter must be plausible; shapes (n,),
    one element per row of ``parents``.
    """
    chosen = choose(joules, elapsed * nodes, nodes, steps, plausible)
    flagged = np.flatnonzero(chosen.glitches)
    plausible.count += int(chosen.glitches.sum())
    ids = column(parents, "jobid", "jobidraw")
    # Three ids are enough to look them up; the count covers all blocks.
    for row in flagged[: max(0, 3 - len(plausible.examples))].tolist():
        plausible.examples.append(str(ids[row]))
    return chosen


def _runs_of(
    frame: pl.DataFrame,
    ids: tuple[Longs, NDArray[np.int32], NDArray[np.bool_]],
    elapsed: Floats,
    size: _Size,
    chosen: Chosen,
    reading: ReadContext,
) -> JobRecords:
    """Return the runs of a frame of jobs.

    Times are decided before anything depends on them (``clock_changes``); Elapsed is End - Start only where the
    dump has no column for it, since a suspended job has a longer span. With ``reading.queued``, jobs that have not
    ended get their limit as run time and lose their energy, which belongs to a run that is not over; those that run
    keep their start.

    ``ids`` are the arrays of ``_ids``, ``elapsed`` seconds (NaN: unknown), ``size`` and ``chosen`` per row of
    ``frame``; the columns of the result follow the order of ``JobRecords``.
    """
    clock, names = reading.clock, reading.collected.names
    submit, start, end = (times(column(frame, name), clock) for name in ("submit", "start", "end"))
    when = decided(submit, start, end, elapsed)
    begun = when.start_s
    if not {"elapsed", "elapsedraw"} & set(frame.columns):
        elapsed = np.where(when.end_s >= begun, when.end_s - begun, np.nan)
    state = _states(frame)
    limit = _limit(frame)
    reading.collected.zoned |= bool((~submit.naive & ~np.isnan(submit.time_s)).any())
    # The start as text decides whether a job started: an unreadable time is still a start.
    reason = _reasons(ids, state, submit, elapsed, size.nodes, present(column(frame, "start")).to_numpy())
    if reading.queued:
        waiting = np.isin(reason, (records.PENDING, records.RUNNING)) & (limit > 0) & (size.nodes >= 1)
        elapsed = np.where(waiting, limit, elapsed)
        begun = np.where(waiting & (reason == records.PENDING), np.nan, begun)
        reason[waiting & ~np.isnan(submit.time_s)] = records.USABLE
        chosen.energy_j[waiting] = np.nan
    # NaN becomes 0, which stands for unknown in the integer columns of JobRecords.
    whole = np.nan_to_num(size.nodes).astype(np.int32)
    return JobRecords(
        frame["line"].to_numpy(),
        ids[0],
        ids[1],
        when.submit_s,
        begun,
        when.end_s,
        elapsed,
        limit,
        whole,
        np.nan_to_num(size.cpus).astype(np.int32),
        np.nan_to_num(tres(column(frame, "alloctres"), "gres/gpu")).clip(0, COUNT.high).astype(np.int32),
        memory_gb(column(frame, "reqmem"), size.nodes, size.cpus).astype(np.float32),
        names["state"].codes(state),
        names["user"].codes(column(frame, "user", "uid")),
        names["account"].codes(column(frame, "account")),
        names["wckey"].codes(column(frame, "wckey").str.strip_prefix("*")),
        names["app"].codes(column(frame, "jobname")),
        names["partition"].codes(column(frame, "partition")),
        names["submit_line"].codes(column(frame, "submitline")),
        size.hosts,
        chosen.energy_j,
        chosen.covered_node_s,
        chosen.source,
        chosen.glitches,
        submit.naive,
        when.ambiguous,
        reason,
    )


def _states(frame: pl.DataFrame) -> pl.Series:
    """Return the first word of each state (``CANCELLED by 1234``), without the mark of a cut-off value.

    sacct marks a value that it cut to the column width with a plus sign: ``CANCELLED+``, ``OUT_OF_ME+``.
    """
    return column(frame, "state").str.strip_chars().str.extract(r"^([^\s+]+)").str.to_uppercase()


def _limit(frame: pl.DataFrame) -> Floats:
    """Return the time limit in seconds. Shape (n,).

    NaN for UNLIMITED, Partition_Limit and none. ``TimelimitRaw`` counts minutes.

    ``TimelimitRaw`` comes first where both columns exist. A limit of 0, or of more than a century (``LONGEST_S``), is
    a mark and no limit.
    """
    value = amounts(column(frame, "timelimitraw")) * 60.0
    if "timelimit" in frame.columns:
        # sacct never prints a bare limit; who converted the dump to bare seconds did so for both columns.
        bare = column(frame, "elapsed").str.contains(r"^[0-9]+$").any()
        value = np.where(np.isnan(value), durations(frame["timelimit"], 1.0 if bare else 60.0), value)
    # Written as a negation, so that NaN is caught as well.
    value[~((value >= DURATION_S.low) & (value < LONGEST_S))] = np.nan
    return value


def _reasons(
    ids: tuple[Longs, NDArray[np.int32], NDArray[np.bool_]],
    state: pl.Series,
    submit: Times,
    elapsed: Floats,
    nodes: Floats,
    started: NDArray[np.bool_],
) -> NDArray[np.int8]:
    """Return why a row is no job: the first rule that applies, as an index of REASONS, or USABLE. Shape (n,).

    ``ids`` are number, task and kind as ``_ids`` returns them; ``started`` says whether the column Start holds
    anything. Without a column State no row counts as waiting or running, and its figures decide.
    """
    waiting = state.is_in(STARTED_NOT).fill_null(value=False).to_numpy()
    going = state.is_in(GOING_ON).fill_null(value=False).to_numpy()
    nothing = ~(elapsed > 0)
    # A job that was cancelled while it waited has no run time and no start, and is no loss; one that started without a
    # run time is a gap in the accounting. The two have different reasons.
    never = nothing & (~started | np.isnan(nodes) | (elapsed == 0))
    # The first rule that applies gives the reason, so the most fundamental ones come first: what the row is, then its
    # state, then its figures.
    rules = (
        (ids[2], records.ARRAY_REST),
        (ids[0] < 0, records.BAD_ID),
        (waiting, records.PENDING),
        (going, records.RUNNING),
        (submit.bad, records.BAD_SUBMIT),
        (np.isnan(submit.time_s), records.NO_SUBMIT),
        (never, records.NEVER_RAN),
        (nothing, records.NO_RUNTIME),
        (np.isnan(nodes), records.NO_NODES),
    )
    reason = np.full(len(nodes), records.USABLE, np.int8)
    for rule, code in reversed(rules):
        reason[rule] = code
    return reason
