"""Turn the policy's starts into what is written for them: nodes, watts, time limits.

The watts of a start are computed once (``placement.chosen``): they are its licence, what is stored of it, and what it
counts from then on. Starts that exceed a limit of the site together wait for the next round.
"""

from __future__ import annotations

from wattqueue.formats.slurm.hostlist import compress
from wattqueue.live.planner import RoundState, stage
from wattqueue.live.site import Admission
from wattqueue.live.state.memory import ReleasedJob


@stage(
    reads="snapshot decision waiting reserved free_nodes running under_way jobs.row",
    writes="chosen placed",
)
def place(now: RoundState) -> None:
    """Choose which of the decided starts are carried out, and how many watts each counts."""
    planner, jobs, most = now.planner, now.jobs, now.planner.rules.starts_a_cycle
    started = jobs.row[now.waiting[list(now.decision.rows[:most])]].tolist()
    now.chosen = [*now.reserved, *planner.placement.choose(now.decision, started, most)]
    site, names = now.snapshot.site, planner.layout.names
    if not site.empty and now.chosen:
        admission = Admission(site, jobs.rows((*now.running, *now.under_way)), now.free_nodes)
        now.chosen = [one for one in now.chosen if admission.admit(one.row, [names[u] for u in one.start.nodes])]
    if planner.domains is not None:
        now.chosen = planner.domains.admit(now, now.chosen)
    released = []
    for row, start, power_w, factor, watts, *_ in now.chosen:
        partition = planner.layout.name_for(start.partition, row.partition)
        nodes = compress([names[unit] for unit in start.nodes])
        # walltime is work at reference speed: a slower start gets a longer limit, a faster one keeps its own
        limit_s, total_w = row.walltime_s * max(1.0, factor), power_w * len(start.nodes)
        released.append(ReleasedJob(row.key, now.now_s, partition, start.option, watts, total_w, limit_s, nodes))
    now.placed = tuple(released)
