"""From rows of text under an sacct header to runs with their energy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.formats import _runs
from wattqueue.formats._runs import Gathered, Longs, Runs
from wattqueue.formats._sacct_columns import (
    Clock,
    Times,
    amounts,
    durations,
    memory_gb,
    present,
    times,
    tres,
)
from wattqueue.formats._sacct_energy import Chosen, Plausible, Steps, choose
from wattqueue.formats._sacct_fields import SACCT_LINE
from wattqueue.formats._sacct_steps import LONGEST_S, column, elapsed_s, figure_j, steps_of
from wattqueue.model.jobs import Floats

if TYPE_CHECKING:
    import polars as pl

STARTED_NOT = ("PENDING", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "CONFIGURING")
GOING_ON = ("RUNNING", "SUSPENDED", "COMPLETING", "RESIZING", "STOPPED", "SIGNALING", "STAGE_OUT")


@dataclass
class Reading:
    """How a dump is to be read, and what is known of it so far."""

    clock: Clock
    plausible: Plausible
    queued: bool = False
    """Whether jobs that have not ended count, their limit standing for their run time."""
    gathered: Gathered = field(default_factory=Gathered)
    orphans: list[tuple[int, str]] = field(default_factory=list)


class _Size(NamedTuple):
    nodes: Floats
    cpus: Floats
    hosts: NDArray[np.int32]


def check_columns(names: tuple[str, ...], where: str) -> None:
    """Whether a header has what a job table needs. Raises: InputError naming what is missing."""
    have = set(names)
    lacks = []
    if "submit" not in have:
        lacks.append("Submit")
    if not have & {"elapsed", "elapsedraw"} and not {"start", "end"} <= have:
        lacks.append("Elapsed")
    if not have & {"nnodes", "allocnodes", "alloctres", "nodelist", "reqnodes"}:
        lacks.append("NNodes")
    if lacks:
        raise InputError(f"the dump has no column {', '.join(lacks)}", where=where, mend=f"make it with: {SACCT_LINE}")


def take_rows(frame: pl.DataFrame, reading: Reading) -> None:
    """Add the runs of a frame whose steps stand with their jobs."""
    import polars as pl

    ids = column(frame, "jobid", "jobidraw").fill_null("").str.strip_chars()
    is_step = ids.str.contains(".", literal=True)
    parents = frame.filter(~is_step)
    job, task, rest = _ids(ids.filter(~is_step))
    elapsed = elapsed_s(parents)
    ranges, hosts = reading.gathered.index.ranges(column(parents, "nodelist"))
    size = _size(parents, hosts)
    found = steps_of(frame, ids, is_step.to_numpy(), elapsed, size.nodes)
    reading.orphans += [(line, _runs.REASONS[_runs.ORPHAN]) for line in found.lost]
    chosen, unread = _energy(parents, elapsed, size.nodes, found.steps, reading.plausible)
    runs = _runs_of(parents, (job, task, rest), elapsed, size, chosen, reading)
    reading.gathered.add(runs, ranges)
    counts = reading.gathered.counts
    counts["unread_energy"] += unread + found.unread
    counts["steps"] += int(is_step.sum()) - len(found.lost)
    limit = column(parents, "timelimit").fill_null("").str.strip_chars()
    if "elapsedraw" not in parents.columns and limit.str.contains(r"^\d+$").any():
        counts["bare_limits"] += int(limit.str.contains(r"^\d+$").sum())
    counts["rounded_energy"] += int(
        pl.select(pl.lit(column(parents, "consumedenergyraw", "consumedenergy")).str.contains(r"[KMGTP]$").sum()).item()
        or 0
    )


def _ids(ids: pl.Series) -> tuple[Longs, NDArray[np.int32], NDArray[np.bool_]]:
    """Job number (-1: none), task or part as ``Runs.task`` has it, and whether the row stands for waiting tasks."""
    import polars as pl

    parts = ids.str.extract_groups(r"^(\d+)(?:_(\d+)|\+(\d+)|_(\[.*))?$").struct.unnest()
    job = parts.to_series(0).cast(pl.Int64, strict=False).fill_null(-1).to_numpy()
    task = parts.to_series(1).cast(pl.Int32, strict=False).fill_null(-1).to_numpy()
    part = parts.to_series(2).cast(pl.Int32, strict=False).fill_null(-1).to_numpy()
    return job, np.where(part >= 0, -2 - part, task).astype(np.int32), parts.to_series(3).is_not_null().to_numpy()


def _size(frame: pl.DataFrame, hosts: NDArray[np.int32]) -> _Size:
    """Nodes and CPUs of each row; NaN where no column says."""
    candidates = [amounts(column(frame, "nnodes")), amounts(column(frame, "allocnodes"))]
    cpus = [amounts(column(frame, "alloccpus")), amounts(column(frame, "ncpus"))]
    if "alloctres" in frame.columns:
        candidates.append(tres(frame["alloctres"], "node"))
        cpus.append(tres(frame["alloctres"], "cpu"))
    candidates += [np.where(hosts > 0, hosts.astype(np.float64), np.nan), amounts(column(frame, "reqnodes"))]
    return _Size(_first(candidates, 2**31 - 1), _first(cpus, 2**31 - 1), hosts)


def _first(candidates: list[Floats], most: float) -> Floats:
    """The first positive figure of each row. Shape (n,)."""
    value = np.full(len(candidates[0]), np.nan)
    for figure in reversed(candidates):
        good = (figure >= 1) & (figure <= most)
        value[good] = np.floor(figure[good])
    return value


def _energy(
    parents: pl.DataFrame, elapsed: Floats, nodes: Floats, steps: Steps, plausible: Plausible
) -> tuple[Chosen, int]:
    figure, bad = figure_j(parents)
    chosen = choose(figure, elapsed * nodes, nodes, steps, plausible)
    flagged = np.flatnonzero(chosen.glitches)
    plausible.count += int(chosen.glitches.sum())
    ids = column(parents, "jobid", "jobidraw")
    for row in flagged[: max(0, 3 - len(plausible.examples))].tolist():
        plausible.examples.append(str(ids[row]))
    return chosen, int(bad.sum())


def _start(start: Times, submit: Floats) -> Floats:
    """The start, read late in an hour that came twice where it would lie before the submission otherwise."""
    with np.errstate(invalid="ignore"):
        late = (start.time_s < submit) & (start.late_s >= submit)
    return np.where(late, start.late_s, start.time_s)


def _runs_of(
    frame: pl.DataFrame,
    ids: tuple[Longs, NDArray[np.int32], NDArray[np.bool_]],
    elapsed: Floats,
    size: _Size,
    chosen: Chosen,
    reading: Reading,
) -> Runs:
    clock, names = reading.clock, reading.gathered.names
    submit, start, end = (times(column(frame, name), clock) for name in ("submit", "start", "end"))
    begun = _start(start, submit.time_s)
    if not {"elapsed", "elapsedraw"} & set(frame.columns):
        elapsed = np.where(end.time_s >= begun, end.time_s - begun, np.nan)
    state = _states(frame)
    limit = _limit(frame)
    reading.gathered.zoned |= bool((~submit.naive & ~np.isnan(submit.time_s)).any())
    reason = _reasons(ids, state, submit, elapsed, size.nodes, present(column(frame, "start")).to_numpy())
    if reading.queued:
        waiting = np.isin(reason, (_runs.PENDING, _runs.RUNNING)) & (limit > 0) & (size.nodes >= 1)
        elapsed, begun = np.where(waiting, limit, elapsed), np.where(waiting, np.nan, begun)
        reason[waiting & ~np.isnan(submit.time_s)] = _runs.USABLE
        chosen.energy_j[waiting] = np.nan
    whole = np.nan_to_num(size.nodes).astype(np.int32)
    return Runs(
        frame["line"].to_numpy(),
        ids[0],
        ids[1],
        submit.time_s,
        begun,
        end.time_s,
        elapsed,
        limit,
        whole,
        np.nan_to_num(size.cpus).astype(np.int32),
        np.nan_to_num(tres(column(frame, "alloctres"), "gres/gpu")).clip(0, 2**31 - 1).astype(np.int32),
        memory_gb(column(frame, "reqmem"), size.nodes, size.cpus).astype(np.float32),
        names["state"].codes(state),
        names["user"].codes(column(frame, "user", "uid")),
        names["account"].codes(column(frame, "account")),
        names["app"].codes(column(frame, "jobname")),
        names["partition"].codes(column(frame, "partition")),
        size.hosts,
        chosen.energy_j,
        chosen.covered_node_s,
        chosen.source,
        chosen.glitches,
        submit.naive,
        reason,
    )


def _states(frame: pl.DataFrame) -> pl.Series:
    """The first word of each state (``CANCELLED by 1234``), without the mark of a cut-off value."""
    return column(frame, "state").str.strip_chars().str.extract(r"^([^\s+]+)").str.to_uppercase()


def _limit(frame: pl.DataFrame) -> Floats:
    """Time limit in seconds; NaN for UNLIMITED, Partition_Limit and none. ``TimelimitRaw`` counts minutes."""
    value = amounts(column(frame, "timelimitraw")) * 60.0
    if "timelimit" in frame.columns:
        # sacct never prints a bare limit; who converted the dump to bare seconds did so for both columns.
        bare = column(frame, "elapsed").str.contains(r"^\d+$").any()
        value = np.where(np.isnan(value), durations(frame["timelimit"], 1.0 if bare else 60.0), value)
    value[~((value > 0) & (value < LONGEST_S))] = np.nan
    return value


def _reasons(
    ids: tuple[Longs, NDArray[np.int32], NDArray[np.bool_]],
    state: pl.Series,
    submit: Times,
    elapsed: Floats,
    nodes: Floats,
    started: NDArray[np.bool_],
) -> NDArray[np.int8]:
    """Why a row is no job; the first rule that applies, as an index of REASONS, or USABLE. Shape (n,)."""
    waiting = state.is_in(STARTED_NOT).fill_null(value=False).to_numpy()
    going = state.is_in(GOING_ON).fill_null(value=False).to_numpy()
    nothing = ~(elapsed > 0)
    never = nothing & (~started | np.isnan(nodes) | (elapsed == 0))
    rules = (
        (ids[2], _runs.ARRAY_REST),
        (ids[0] < 0, _runs.BAD_ID),
        (waiting, _runs.PENDING),
        (going, _runs.RUNNING),
        (submit.bad, _runs.BAD_SUBMIT),
        (np.isnan(submit.time_s), _runs.NO_SUBMIT),
        (never, _runs.NEVER_RAN),
        (nothing, _runs.NO_RUNTIME),
        (np.isnan(nodes), _runs.NO_NODES),
    )
    reason = np.full(len(nodes), _runs.USABLE, np.int8)
    for rule, code in reversed(rules):
        reason[rule] = code
    return reason
