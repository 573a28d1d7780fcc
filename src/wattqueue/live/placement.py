"""Nodes that a start asks for by name, and the watts of these very nodes.

Where the policy ranks nodes, or its estimator knows what an application draws on each (``Prediction.unit_factor``), a
start is bound to the nodes that the pass chose: their names, their number and their watts are written in one update
(``live.goal``). Otherwise Slurm chooses, because a job that names its nodes can wait for one of them.

Not every start can be bound. A job whose user named nodes keeps them, and one that failed to start on chosen nodes
twice is left to Slurm (its user may have excluded nodes, or asked for a feature that they lack). Such a job counts the
watts of the worst nodes of its partition, so that it never runs on fewer watts than it can draw. For the same reason
licences, which are whole watts, are rounded up. What they take beyond the ledger's figure has to be free: a start that
does not fit with it is left for a later round.

What the controller asked for is marked in its memory, so that a job that is taken back asks for no node any more, and
what a user asked for is never removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from wattqueue.formats.slurm.hostlist import compress, expand
from wattqueue.kernels import codes
from wattqueue.live.cluster import Job, JobKey, Snapshot
from wattqueue.live.decision import Decision
from wattqueue.live.goal import JobGoal
from wattqueue.live.predictor import Predictor
from wattqueue.live.state.memory import ControllerState, ReleasedJob
from wattqueue.live.world import Layout
from wattqueue.model.jobs import Floats, Labels
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.parts.actions import StartJob
from wattqueue.parts.contracts import Prediction
from wattqueue.policy.interfaces import stated
from wattqueue.policy.registry import Policy

Naming = Literal["auto", "always", "never"]
"""Whether starts name their nodes: where the policy tells nodes apart, all of them, or none."""
NAMED = "named"
"""Mark of a job that the controller bound to nodes by name."""
ASKED = "asked="
"""Mark of a bound job whose user had asked for some nodes, with their names: held again, it asks for these. In their
list stands ; for a comma, which stands between marks where they are stored."""
NAMED_ATTEMPTS = 2
"""Starts that failed on chosen nodes after which Slurm chooses."""


NO_POOL_W = 2**31 - 1
"""Stands for the pool of a cluster that counts no watts."""
UW = round(codes.MICRO)
"""Microwatts of a watt, as a whole number."""


class ChosenStart(NamedTuple):
    """A start with what is written for it."""

    row: Job
    start: StartJob
    power_w: float
    """Predicted watts of one node of factor 1."""
    time_factor: float
    watts: int
    """Net watts of the whole job: its licences."""
    nodes: tuple[str, ...] | None
    """Names of the nodes that it asks for; None leaves the choice to the cluster."""
    domains: tuple[tuple[str, int], ...] = ()
    """Licences of power domains that it carries (``live.watts.domains``)."""


@dataclass
class NodeChoice:
    """Tells nodes apart for one controller."""

    layout: Layout
    policy: Policy
    predictor: Predictor
    memory: ControllerState
    naming: Naming = "auto"
    pool_w: int = NO_POOL_W
    """The greatest licence that the cluster takes."""
    gate: tuple[tuple[str, int], ...] = ()
    """Licences in power domains that a job carries while it is held (``live.watts.domains``)."""
    unprofiled: int = 0
    """Jobs that wait and whose application has no watts by node, although others have."""

    def with_node_factors(
        self, jobs: KnownJobs, prediction: Prediction, *, telemetry_ok: bool
    ) -> tuple[KnownJobs, Prediction, Floats | None]:
        """Return waiting jobs, their prediction with factors of the nodes, and ranks; None where neither exists.

        The table of jobs then names only the applications that wait, so that factors and ranks (A, U) stay small.
        Without telemetry there are no factors: every node counts its maximum.
        """
        factors = self.predictor.unit_factors if telemetry_ok else {}
        self.unprofiled = 0
        if self.predictor.has_node_factors and telemetry_ok:
            known = np.array([*(name in factors for name in jobs.app.names), False])
            self.unprofiled = int((~known[jobs.app.codes]).sum())
        if not factors and stated(self.policy.placement, "by_number", False):
            return jobs, prediction, None
        used, code = np.unique(jobs.app.codes, return_inverse=True)
        named = used >= 0
        labels = Labels((code - int((~named).sum())).astype(np.int32), tuple(jobs.app.names[k] for k in used[named]))
        jobs = replace(jobs, app=labels)
        machine = self.layout.machine
        if factors:
            prediction = replace(prediction, unit_factor=self._rows(factors, labels))
        if factors and self.predictor.unit_times:
            prediction = replace(prediction, unit_time_factor=self._rows(self.predictor.unit_times, labels))
        rank = self.policy.placement.rank(len(labels.names), machine, prediction)
        return jobs, prediction, None if rank is None else np.asarray(rank, np.float64)

    def _rows(self, factors: Mapping[str, Floats], app: Labels) -> Floats:
        """Return the factors of applications, NaN for those without any. Shape (A, U)."""
        units = self.layout.machine.units
        unknown = np.full(units, np.nan)
        return np.array([factors.get(name, unknown) for name in app.names], np.float64).reshape(-1, units)

    def choose(self, decision: Decision, rows: Sequence[Job], most: int) -> list[ChosenStart]:
        """Return at most ``most`` starts of a decision with their watts and names, in its order.

        ``rows`` are the jobs of the starts. One whose licences do not fit beside the others' is left out: it waits.
        """
        view, kernel = decision.view, decision.now.kernel
        limited = bool(np.isfinite(view.cap_w))
        room_uw = int(kernel.now.available_uw) if limited else 0
        apart = view.rank is not None or view.prediction.unit_factor is not None
        bound = self.naming == "always" or (self.naming == "auto" and apart)
        found = []
        for at, row, start in zip(decision.rows[:most], rows, decision.starts, strict=False):
            power = self.predictor.of(row.key)
            if power is None:  # a custom ``decide`` may start a job that was never predicted
                continue
            one = self.chosen(row, start, power, named=bound and self._may_name(row))
            beyond_uw = one.watts * UW - self.counted_uw(decision, at, start)
            if limited and beyond_uw > max(room_uw, 0):
                room_uw += one.watts * UW - beyond_uw
                continue
            room_uw -= max(beyond_uw, 0)
            found.append(one)
        return found

    def chosen(self, row: Job, start: StartJob, figures: tuple[Floats, Floats], *, named: bool) -> ChosenStart:
        """Return a start with the whole net watts that it counts, and the names of its nodes if it asks for these.

        ``figures``: the job's predicted watts of one node and time factors, (O,). Where it asks for none, it counts the
        worst nodes of its partition.
        """
        power_w, time_factor = (float(one[start.option]) for one in figures)
        factor, units = self._factor(row.key), list(start.nodes)
        if factor is not None and not named:
            low, high = self.layout.first[start.partition], self.layout.first[start.partition + 1]
            units = (int(low) + np.argsort(factor[low:high])[::-1][: len(units)]).tolist()
        names = tuple(self.layout.names[unit] for unit in start.nodes) if named else None
        watts = whole_w(self.layout.net_uw(power_w, units, factor))
        return ChosenStart(row, start, power_w, time_factor, watts, names)

    def counted_uw(self, decision: Decision, at: int, start: StartJob) -> int:
        """Return the net microwatts that the ledger counted for a start; ``at`` is its row in the job table."""
        view = decision.view
        unit_w = float(view.prediction.watts(np.array(at, np.int32), start.option))
        table, code = view.prediction.unit_factor, int(view.jobs.app.codes[at])
        factor = None if table is None or code < 0 or np.isnan(table[code]).any() else table[code]
        return self.layout.net_uw(unit_w, start.nodes, factor)

    def _may_name(self, row: Job) -> bool:
        """Return whether nodes may be named: not where the user named some, or chosen ones failed more than once."""
        refused = self.memory.refused.get(row.key)
        failed = refused is not None and refused.times >= NAMED_ATTEMPTS
        return not failed and (not row.requested or self.memory.marked(row.key, NAMED))

    def falls_short(self, row: Job, placed: ReleasedJob | None, first: int) -> bool:
        """Return whether a running job was counted for less than it may draw on the nodes where it runs.

        ``placed`` is its release, if the controller released it; ``first`` the option that counts otherwise. What was
        measured while it runs may be less than it was counted for, so its present licence says nothing then.
        """
        if placed is not None and set(row.node_names) == set(expand(placed.nodes)):
            return False
        counted_w = row.watts if placed is None else placed.watts
        return self.drawn_w(row, first if placed is None else placed.option) > counted_w

    def drawn_w(self, row: Job, option: int) -> int:
        """Return the whole net watts that a job may draw on the nodes where it runs; 0 where nodes are all alike."""
        figures = self.predictor.of(row.key)
        if self._factor(row.key) is None or figures is None or not set(row.node_names) <= self.layout.unit.keys():
            return 0
        return max(row.watts, self.running_w(row, figures[0], option))

    def running_w(self, row: Job, power_w: Floats, option: int) -> int:
        """Return the whole net watts of a job at an option on the nodes where it runs. ``power_w`` (O,): of a node."""
        first = int(self.layout.first[self.layout.machine.option_partition[option]])
        units = [self.layout.unit.get(name, first) for name in row.node_names]
        return whole_w(self.layout.net_uw(float(power_w[option]), units, self._factor(row.key)))

    def _factor(self, key: JobKey) -> Floats | None:
        """Return the factors of all units for a job's application; None where it has none."""
        app = self.predictor.app_of.get(key, "")
        return self.predictor.unit_factors.get(app)

    def problems(self) -> list[str]:
        """Return what the status should report to a person."""
        counted = "what is predicted, on every node" if self.predictor.session.estimation.keeps_base else "the maximum"
        text = f"{self.unprofiled} waiting jobs have an application without unit factors: they count {counted}"
        return [text] if self.unprofiled else []

    # -- what the controller asked for, and takes back -----------------------------------------
    def store_names(self, goals: Sequence[JobGoal]) -> None:
        """Mark jobs that are about to be bound to nodes, before the cluster is asked."""
        self.memory.mark([goal.key for goal in goals if goal.nodes], NAMED)

    def store_asked(self, rows: Iterable[Job]) -> None:
        """Mark jobs that are about to be bound to more nodes than their users asked for, with those."""
        for row in rows:
            if row.requested and not self.memory.marked(row.key, NAMED):
                self.memory.mark([row.key], ASKED + compress(row.requested).replace(",", ";"))

    def carry_over(self, old: JobKey, new: JobKey) -> None:
        """Keep the marks of a job that was requeued under another key: it still asks for its nodes."""
        if self.memory.marked(old, NAMED):
            for mark in (*_asked(self.memory.marks[old]), NAMED):
                self.memory.mark([new], mark)

    def forget_names(self, snapshot: Snapshot) -> None:
        """Take the marks off held jobs that ask for what their users did, or no node: what they ask for is theirs."""
        self.pool_w = snapshot.pool.total if snapshot.pool is not None else NO_POOL_W
        theirs = [
            row.key for row in self._marked(snapshot)
            if row.held and set(row.requested) in (set(), set(asked_of(self.memory.marks[row.key])))
        ]  # fmt: skip
        self.memory.mark(theirs, NAMED, present=False)
        for key in theirs:
            for mark in _asked(self.memory.marks.get(key, ())):
                self.memory.mark([key], mark, present=False)

    def taken_back(self, goal: JobGoal, row: Job) -> JobGoal:
        """Return the goal of a job that is held again, without the nodes that the controller named.

        It counts the maximum of its nodes again: whoever releases it, any node may then be its own.
        """
        if not row.requested or not self.memory.marked(row.key, NAMED):
            return goal
        most = max((self.layout.most_net_w(p) for p in self.layout.allowed(row.partition)), default=0) * row.nodes
        nodes = asked_of(self.memory.marks[row.key])
        return goal._replace(nodes=nodes, watts=max(row.watts, min(most, self.pool_w)), domains=self.gate)

    def restored(self, snapshot: Snapshot, starting: set[JobKey]) -> Iterator[JobGoal]:
        """Yield goals for held jobs that still ask for nodes that the controller named, and do not start now.

        They are held first: Slurm releases a job that it held itself (BadConstraints) at any change.
        """
        why = "held again: the policy chooses its nodes at its start"
        for row in self._marked(snapshot):
            if row.held and row.requested and row.key not in starting:
                yield self.taken_back(JobGoal(row.key, True, why=why), row)

    def _marked(self, snapshot: Snapshot) -> list[Job]:
        """Return the rows of marked jobs."""
        marked = [key for key, marks in self.memory.marks.items() if NAMED in marks]
        return [snapshot.by_key[key] for key in marked if key in snapshot.by_key]


def asked_of(marks: Iterable[str]) -> tuple[str, ...]:
    """Return the nodes that the user of a bound job had asked for."""
    return tuple(name for mark in _asked(marks) for name in expand(mark.removeprefix(ASKED).replace(";", ",")))


def _asked(marks: Iterable[str]) -> list[str]:
    return [mark for mark in marks if mark.startswith(ASKED)]


def whole_w(net_uw: int) -> int:
    """Return microwatts as licences: whole watts, rounded up."""
    return -(-net_uw // UW)
