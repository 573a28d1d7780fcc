"""Jobs of several components (Slurm's heterogeneous jobs): released as a whole, once each component carries its watts.

The resource manager alone schedules them. It takes licences on the first component only, so the others get theirs from
the controller; until then all of them are held (job_submit.lua), and the release of one would free them all. When they
are released, ``live.component_turns`` decides.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from wattqueue.live.cluster import Job, Node
from wattqueue.live.goal import JobGoal
from wattqueue.live.world import Layout

ORPHANED = "its first component is gone: it can neither start nor be cancelled, and would keep nodes from others"


def orphans(jobs: Iterable[Job], components: Iterable[Job]) -> list[Job]:
    """Return those of the ``components`` that wait and whose first one is no longer among ``jobs``.

    ``components`` are none of the first ones.

    A restart of slurmctld forgets a job whose first component names a partition that was deleted, and keeps the others.
    Slurm plans nodes for them all the same.
    """
    waiting = [row for row in components if row.pending]
    first = {row.whole for row in jobs if row.whole and row.component == 0} if waiting else set()
    return [row for row in waiting if row.whole not in first]


def left_over(components: Iterable[Job]) -> list[JobGoal]:
    """Return goals that hold these orphans, each by its own number."""
    return [JobGoal(row.key, held=True, why=ORPHANED, component_only=True) for row in components if not row.held]


def complete_jobs(layout: Layout, nodes: Iterable[Node], held: Sequence[Job], aside: Iterable[Job]) -> set[str]:
    """Return the jobs whose components all carry the watts that their nodes can draw, so that they may be released.

    ``held`` are the components that are held for the controller, ``aside`` the pending jobs of which it decides
    nothing. A job waits for a component that somebody else holds, or that cannot be given watts.
    """
    if not held:
        return set()
    most_w, ours = _dearest(layout, nodes), {row.key for row in held}
    waits = {
        row.whole for row in (*held, *aside)
        if row.whole and (_falls_short(row, most_w) or (row.held and row.key not in ours))
    }  # fmt: skip
    return {row.whole for row in held} - waits


def given_watts(layout: Layout, nodes: Iterable[Node], held: Sequence[Job]) -> list[JobGoal]:
    """Return the watts of components that carry too few, of those that are held for the controller.

    Too few: none, or those of other partitions and nodes that an administrator has changed since.
    """
    if not held:
        return []
    most_w = _dearest(layout, nodes)
    short = (row for row in held if _falls_short(row, most_w))
    return [JobGoal(row.key, watts=_counted_w(row, most_w), why="a component of a job") for row in short]


def released(held: Sequence[Job], let_go: Collection[str]) -> list[JobGoal]:
    """Return the release of each of these jobs, of which ``held`` are the held components."""
    why = "heterogeneous jobs are scheduled by Slurm"
    free = {row.whole: JobGoal(row.key, held=False, why=why) for row in reversed(held) if row.whole in let_go}
    return [*free.values()]


def held_again(waiting: Iterable[Job]) -> list[JobGoal]:
    """Return the hold of each job of these components, by the name that holds all of them."""
    why = "its components cannot start together now"
    return [*{row.whole: JobGoal(row.key, held=True, why=why) for row in waiting if not row.held}.values()]


def _dearest(layout: Layout, nodes: Iterable[Node]) -> dict[str, int]:
    """Return the net watts of the dearest managed node of each partition of the cluster; 0 where it has none.

    A partition that the machine file does not name may hold managed nodes: its jobs count, too.
    """
    found: dict[str, int] = {}
    for node in nodes:
        unit = layout.unit.get(node.name)
        watts = 0 if unit is None else layout.most_net_w(layout.row_of(unit))
        for name in node.partitions:
            found[name] = max(found.get(name, 0), watts)
    return found


def _falls_short(row: Job, most_w: dict[str, int]) -> bool:
    """Whether a waiting component carries fewer watts than its nodes can draw."""
    return max(row.watts, 0) < _counted_w(row, most_w)


def _counted_w(row: Job, most_w: dict[str, int]) -> int:
    """Return the net watts of the most nodes that a waiting job may get, in the dearest of its partitions.

    A partition without any node, which a restart of slurmctld may have forgotten, counts as the dearest of all.
    """
    dearest = max(most_w.values(), default=0)
    watts = max((most_w.get(name, dearest) for name in row.partition.split(",")), default=0)
    return watts * max(row.nodes, row.most_nodes)
