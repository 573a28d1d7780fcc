"""A first draft of a machine from the jobs that ran on it, with every figure marked for its owner to confirm.

A site that has only an accounting dump needs a machine file before it can simulate. What the draft takes from
where:

- nodes: different nodes in the node lists; else the most nodes that were held at one time; else the widest job;
- partitions: those of the jobs, unless they share nodes or the data cannot tell, then one;
- idle watts: the 1 % quantile of the jobs' mean watts, since the quietest jobs come close to idle; single counters
  fail low, so the minimum would be too low;
- maximum watts: the 99.9 % quantile of their maximum watts, rounded up to 10 W;
- cores: the most CPUs per node that a job held.

None of these is a measurement of the machine, so each is written with the mark "please confirm". ``node_watts``
shows the distribution behind the watts, and whether failed counters are likely to have decided the maximum.

The jobs are a table of any reader. Columns of ``jobs.extra`` that are used where a reader supplies them: ``NODES_SEEN``
and ``ALL_NODES`` (different nodes in the job's partition, and in all, from the node lists), ``QUALITY`` (whether joules
are a job's own) and ``cpus``. Without any of them a draft is still made, with less to rely on; its marks say so.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.formats.machine.file import CONFIRM
from wattqueue.formats.workload import ALL_NODES, MEASURED, NODES_SEEN, QUALITY
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.machine import Machine, Partition

IDLE_QUANTILE, PEAK_QUANTILE = 0.01, 0.999
"""Quantiles of the watts of jobs that stand for idle and maximum: counters of single jobs fail both ways."""
SHORTEST_S = 60.0
"""Watts of shorter jobs come from a sample or two."""
SUSPICIOUS = 3.0
"""A maximum above this times the 95th percentile is rather a failed counter than a job."""
FEWEST = 20
"""Jobs that a quantile needs to be meaningful; with fewer, minimum and maximum are taken."""


def guess_machine(jobs: Jobs, name: str) -> tuple[Machine, dict[str, str]]:
    """Return a machine on which the jobs could have run, and marks that say where each figure comes from.

    The marks are for ``machine_toml``: the key's path in the file, such as ``partitions.0.idle_w``, and the comment
    behind the figure. Partitions that share nodes become one. ``jobs`` has at least one job.
    """
    groups = _groups(jobs)
    marks = {"cap_scope": f"{CONFIRM}: what does the cap cover (machine, dynamic, jobs)?"}
    partitions = []
    for i, (label, rows) in enumerate(groups):
        part = jobs.take(rows)
        partition, reasons = _partition(label, part)
        partitions.append(partition)
        marks |= {f"partitions.{i}.{key}": f"{CONFIRM}: {why}" for key, why in reasons.items()}
    if len(groups) == 1 and len(jobs.partition.names) > 1:
        marks["partitions.0.name"] = (
            f"{CONFIRM}: {', '.join(jobs.partition.names[:8])} share nodes, so they are one here"
        )
    source = f"drafted from {len(jobs):,} {jobs.origin} jobs by wattqueue machine guess"
    return Machine(name, tuple(partitions), source=source), marks


def _groups(jobs: Jobs) -> list[tuple[str, NDArray[np.int64]]]:
    """Return partitions by name with their rows, the largest first; one if they share nodes or the data cannot tell.

    Partitions share nodes if the different nodes seen in each add up to more than those seen in all.
    """
    labels = jobs.partition
    everything = [("batch", np.arange(len(jobs)))]
    if len(labels.names) < 2:
        return [(labels.names[0], everything[0][1])] if labels.names else everything
    seen, total = jobs.extra.get(NODES_SEEN), jobs.extra.get(ALL_NODES)
    rows = {name: np.flatnonzero(labels.codes == code) for code, name in enumerate(labels.names)}
    # Partitions that overlap would count their common nodes twice, so they become one.
    if seen is None or total is None or sum(int(seen[r].max()) for r in rows.values()) > int(total.max()):
        return everything
    return sorted(rows.items(), key=lambda item: -int(seen[item[1]].max()))


def _partition(name: str, jobs: Jobs) -> tuple[Partition, dict[str, str]]:
    """Return the draft of one partition, and a mark for each of its keys.

    ``jobs`` are those of the partition alone. The mark of ``frequencies_hz`` stands behind an empty list: jobs do not
    show which frequencies a node has.
    """
    nodes, why_nodes = _nodes(jobs)
    reasons = {"nodes": why_nodes}
    idle, peak, why_idle, why_peak = _watts(jobs)
    reasons |= {"idle_w": why_idle, "max_w": why_peak}
    cores = 1
    cpus = jobs.extra.get("cpus")
    if cpus is not None and (cpus > 0).any():
        cores = max(1, int(np.ceil(cpus / jobs.nodes).max()))
        reasons["cores_per_socket"] = (
            "the most CPUs that a job held on a node, as one socket (Slurm may count hardware threads)"
        )
    reasons["frequencies_hz"] = "list the frequencies of the nodes, highest first, if policies are to choose among them"
    return Partition(name, nodes, cores_per_socket=cores, idle_w=idle, max_w=peak), reasons


def _nodes(jobs: Jobs) -> tuple[int, str]:
    """Return the number of nodes, and how it is known.

    In decreasing order of trust: node lists, nodes held at one time, the widest job. No result is below the widest job,
    which must fit on the machine.
    """
    one_partition = len(np.unique(jobs.partition.codes)) == 1
    seen = jobs.extra.get(NODES_SEEN if one_partition and NODES_SEEN in jobs.extra else ALL_NODES)
    if seen is not None and int(seen.max()) >= int(jobs.nodes.max()):
        return int(seen.max()), "different nodes in the node lists; nodes that never ran a job are missing"
    if jobs.start_s is not None and np.isfinite(jobs.start_s).any():
        busy = most_at_once(jobs.start_s, jobs.start_s + jobs.runtime_s, jobs.nodes)
        return max(busy, int(jobs.nodes.max())), "most nodes that jobs held at once; shared nodes count more than once"
    return int(jobs.nodes.max()), "the widest job: the jobs have neither node lists nor start times"


def most_at_once(start_s: Floats, end_s: Floats, nodes: NDArray[np.int32]) -> int:
    """Return the most nodes that were held at one time; ends free their nodes before starts at the same time.

    Shapes (n,); jobs whose start or end is unknown are left out. Time O(n log n), for the sort of all starts and ends.
    """
    known = np.isfinite(start_s) & np.isfinite(end_s)
    time = np.concatenate((end_s[known], start_s[known]))
    change = np.concatenate((-nodes[known].astype(np.int64), nodes[known]))
    # Ends stand before starts in the array, and a stable sort keeps that for equal times: nodes are free first.
    order = np.argsort(time, kind="stable")
    return int(np.cumsum(change[order]).max(initial=0))


class WattsPerNode(NamedTuple):
    """Watts of one node over the jobs of a partition from which a draft takes its figures."""

    partition: str
    jobs: int
    """Jobs that count: see ``_sound``."""
    median_w: float
    p95_w: float
    p99_w: float
    maximum_w: float
    idle_w: float
    """The idle watts of the draft."""
    below_idle: int
    """Jobs whose mean watts lie below ``idle_w``: no powered node draws less, unless the draft is too high."""

    @property
    def suspicious(self) -> bool:
        """Whether the maximum is so far above the 95th percentile that a failed counter is more likely than a job."""
        return self.maximum_w > SUSPICIOUS * self.p95_w


def node_watts(jobs: Jobs) -> list[WattsPerNode]:
    """Return the watts behind each partition of the draft that ``guess_machine`` makes; none without any watts.

    Few failed counters suffice to draft a wrong maximum (15 of 6,019 jobs lie above the 99.9 % quantile), so the
    figures are printed beside it.
    """
    found = []
    for name, rows in _groups(jobs):
        part = jobs.take(rows)
        idle, _, _, _ = _watts(part)
        sound, _ = _sound(part)
        mean, peak = part.mean_power_w, part.peak_power_w()
        if mean is None or peak is None or not sound.any():
            continue
        high = peak[sound][np.isfinite(peak[sound])]
        below = int((np.fmin(mean, peak)[sound] < idle).sum())
        median, p95, p99, maximum = (float(np.quantile(high, q)) for q in (0.5, 0.95, 0.99, 1.0))
        found.append(WattsPerNode(name, len(high), median, p95, p99, maximum, idle, below))
    return found


def _sound(jobs: Jobs) -> tuple[NDArray[np.bool_], str]:
    """Return the jobs whose watts a draft uses, and what they are called. Shape (n,).

    Jobs of a minute or more that had their nodes alone, where there are enough of them (``FEWEST``); else all of a
    minute or more; else all with any watts.
    """
    mean, peak = jobs.mean_power_w, jobs.peak_power_w()
    if mean is None or peak is None or not np.isfinite(peak).any():
        return np.zeros(len(jobs), np.bool_), "jobs"
    # Energy of jobs that shared nodes includes the work of others: their watts are too high.
    quality = jobs.extra.get(QUALITY)
    sound: NDArray[np.bool_] = np.isfinite(mean) & (jobs.runtime_s >= SHORTEST_S)
    if quality is not None and (sound & (quality == MEASURED)).sum() >= FEWEST:
        return sound & (quality == MEASURED), "jobs that had their nodes alone"
    return (sound if sound.any() else np.isfinite(mean) | np.isfinite(peak)), "jobs"


def _watts(jobs: Jobs) -> tuple[float, float | None, str, str]:
    """Return idle and maximum watts of a node, and how they are known.

    Idle is rounded down to 1 W and the maximum up to 10 W, so that rounding makes the range wider and never narrower.
    Without any watts: 0, None, and a text that says so.
    """
    mean, peak = jobs.mean_power_w, jobs.peak_power_w()
    sound, which = _sound(jobs)
    if mean is None or peak is None or not sound.any():
        unknown = "unknown: no watts in the jobs; state the watts of"
        return 0.0, None, f"{unknown} an idle node", f"{unknown} a node at its most; a cap in percent needs them"
    # fmin takes the other where one is unknown; where a maximum lies below its mean, the lower figure counts.
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
    """Return a quantile of the finite values; of fewer than ``FEWEST``, the minimum (q < 0.5) or the maximum.

    ``values`` holds at least one finite number.
    """
    values = values[np.isfinite(values)]
    return float(np.quantile(values, q if len(values) >= FEWEST else round(q)))
