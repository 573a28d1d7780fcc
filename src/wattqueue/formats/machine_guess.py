"""A first draft of a machine from the jobs that ran on it, every figure marked for its owner to confirm."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from wattqueue.formats.machine_toml import CONFIRM
from wattqueue.formats.workload import ALL_NODES, MEASURED, NODES_SEEN, QUALITY
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.machine import Machine, Partition

IDLE_QUANTILE, PEAK_QUANTILE = 0.01, 0.999
"""The quietest and the hungriest jobs: counters of single jobs fail both ways."""
SHORTEST_S = 60.0
"""Watts of shorter jobs come from a sample or two."""
FEWEST = 20
"""Jobs that a quantile needs to mean anything; with fewer, the least and the greatest are taken."""


def guess_machine(jobs: Jobs, name: str) -> tuple[Machine, dict[str, str]]:
    """A machine on which the jobs could have run, and marks that say where each figure comes from.

    The marks are for ``machine_toml``. Partitions that share nodes become one.
    """
    groups = _groups(jobs)
    marks = {"cap_scope": f"{CONFIRM}: what does the cap cover (machine, dynamic, jobs)?"}
    partitions = []
    for i, (label, rows) in enumerate(groups):
        part = jobs.take(rows)
        partition, said = _partition(label, part)
        partitions.append(partition)
        marks |= {f"partitions.{i}.{key}": f"{CONFIRM}: {why}" for key, why in said.items()}
    if len(groups) == 1 and len(jobs.partition.names) > 1:
        marks["partitions.0.name"] = (
            f"{CONFIRM}: {', '.join(jobs.partition.names[:8])} share nodes, so they are one here"
        )
    source = f"drafted from {len(jobs):,} {jobs.origin} jobs by wattqueue machine guess"
    return Machine(name, tuple(partitions), source=source), marks


def _groups(jobs: Jobs) -> list[tuple[str, NDArray[np.int64]]]:
    """Partitions by name with their rows, the largest first; one if they share nodes or nobody can tell."""
    labels = jobs.partition
    everything = [("batch", np.arange(len(jobs)))]
    if len(labels.names) < 2:
        return [(labels.names[0], everything[0][1])] if labels.names else everything
    seen, total = jobs.extra.get(NODES_SEEN), jobs.extra.get(ALL_NODES)
    rows = {name: np.flatnonzero(labels.codes == code) for code, name in enumerate(labels.names)}
    if seen is None or total is None or sum(int(seen[r].max()) for r in rows.values()) > int(total.max()):
        return everything
    return sorted(rows.items(), key=lambda item: -int(seen[item[1]].max()))


def _partition(name: str, jobs: Jobs) -> tuple[Partition, dict[str, str]]:
    nodes, why_nodes = _nodes(jobs)
    said = {"nodes": why_nodes}
    idle, peak, why_idle, why_peak = _watts(jobs)
    said |= {"idle_w": why_idle} | ({"max_w": why_peak} if peak is not None else {})
    cores = 1
    cpus = jobs.extra.get("cpus")
    if cpus is not None and (cpus > 0).any():
        cores = max(1, int(np.ceil(cpus / jobs.nodes).max()))
        said["cores_per_socket"] = (
            "the most CPUs that a job held on a node, as one socket (Slurm may count hardware threads)"
        )
    said["frequencies_hz"] = "list what the nodes offer, the highest first, if frequencies are to be chosen"
    return Partition(name, nodes, cores_per_socket=cores, idle_w=idle, max_w=peak), said


def _nodes(jobs: Jobs) -> tuple[int, str]:
    """How many nodes, and how that is known."""
    one_partition = len(np.unique(jobs.partition.codes)) == 1
    seen = jobs.extra.get(NODES_SEEN if one_partition and NODES_SEEN in jobs.extra else ALL_NODES)
    if seen is not None and int(seen.max()) >= int(jobs.nodes.max()):
        return int(seen.max()), "different nodes in the node lists; nodes that never ran a job are missing"
    if jobs.start_s is not None and np.isfinite(jobs.start_s).any():
        busy = most_at_once(jobs.start_s, jobs.start_s + jobs.runtime_s, jobs.nodes)
        return max(busy, int(jobs.nodes.max())), "most nodes that jobs held at once; shared nodes count more than once"
    return int(jobs.nodes.max()), "the widest job: the jobs have neither node lists nor start times"


def most_at_once(start_s: Floats, end_s: Floats, nodes: NDArray[np.int32]) -> int:
    """The most nodes that were held at one time; ends that meet starts free their nodes first."""
    known = np.isfinite(start_s) & np.isfinite(end_s)
    time = np.concatenate((end_s[known], start_s[known]))
    change = np.concatenate((-nodes[known].astype(np.int64), nodes[known]))
    order = np.argsort(time, kind="stable")
    return int(np.cumsum(change[order]).max(initial=0))


def _watts(jobs: Jobs) -> tuple[float, float | None, str, str]:
    """Idle and maximum watts of a node, and how they are known."""
    mean, peak = jobs.mean_power_w, jobs.peak_power_w()
    if mean is None or peak is None or not np.isfinite(peak).any():
        return 0.0, None, "unknown: no watts in the jobs; state them, and max_w", ""
    quality = jobs.extra.get(QUALITY)
    sound = np.isfinite(mean) & (jobs.runtime_s >= SHORTEST_S)
    which = "jobs"
    if quality is not None and (sound & (quality == MEASURED)).sum() >= FEWEST:
        sound &= quality == MEASURED
        which = "jobs that had their nodes alone"
    if not sound.any():
        sound = np.isfinite(mean) | np.isfinite(peak)
    low, high = _quantile(np.fmin(mean, peak)[sound], IDLE_QUANTILE), _quantile(peak[sound], PEAK_QUANTILE)
    count = int(sound.sum())
    idle, most = float(math.floor(low)), float(math.ceil(high / 10.0) * 10.0)
    return (
        idle,
        max(most, idle),
        f"quantile {IDLE_QUANTILE:g} of the mean watts of {count:,} {which}; an idle node draws less",
        f"quantile {PEAK_QUANTILE:g} of the watts of {count:,} {which}, rounded up; the nameplate may say more",
    )


def _quantile(values: Floats, q: float) -> float:
    values = values[np.isfinite(values)]
    return float(np.quantile(values, q if len(values) >= FEWEST else round(q)))
