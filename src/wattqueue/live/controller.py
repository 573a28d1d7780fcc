"""The loop: observe, think, write the difference. It replays nothing; each round starts from what Slurm shows."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from wattqueue.formats.hostlist import expand
from wattqueue.live.asking import Controls
from wattqueue.live.brain import Brain, Thought
from wattqueue.live.capfile import CapFile
from wattqueue.live.predictor import Learned, Ran
from wattqueue.live.recording import Recorder
from wattqueue.live.slurm.apply import Applier, Outcome
from wattqueue.live.slurm.commands import SlurmError
from wattqueue.live.slurm.goal import Goal, JobGoal, Write, plan
from wattqueue.live.slurm.observe import Observer
from wattqueue.live.slurm.snapshot import JobKey, Snapshot
from wattqueue.live.state.audit import Audit
from wattqueue.live.status import RunDir
from wattqueue.live.telemetry.base import NodePower, Telemetry

LONGEST_WAIT_S = 30.0
STUCK_AFTER = 3
"""A job whose start came to nothing so often is told in the status."""


class Meter(Protocol):
    """Who counts: Prometheus metrics, or nobody."""

    def round(self, report: Report) -> None: ...

    def failed(self, reason: str) -> None: ...


@dataclass(frozen=True)
class Report:
    """What one round saw and did; ``would`` are the writes that observe and advise leave undone."""

    snapshot: Snapshot
    thought: Thought
    power: dict[str, NodePower]
    outcomes: Sequence[Outcome]
    would: Sequence[Write]
    took_s: float
    think_s: float
    believed: bool
    problems: Sequence[str] = ()
    """What a person should know: a cap that cannot be read, jobs that Slurm does not start."""


@dataclass
class Controller:
    """One cluster, one policy. ``clock`` gives seconds since the epoch; ``act`` asks the policy's controls.

    Raises nothing from ``round``: what Slurm refuses is counted, said, and tried again later.
    """

    brain: Brain
    observer: Observer
    applier: Applier
    telemetry: Telemetry
    audit: Audit
    run_dir: RunDir
    clock: Callable[[], float] = time.time
    away_s: float = 120.0
    meter: Meter | None = None
    recorder: Recorder | None = None
    controls: Controls | None = None
    caps: CapFile | None = None
    on_learned: Callable[[Sequence[Learned]], None] | None = None
    on_ended: Callable[[Ran, float], None] | None = None
    after_round: Callable[[float], None] | None = None
    problem: str = ""
    """Why Slurm could not be observed in the last round."""
    failures: int = 0
    blind_rounds: int = 0
    last: Report | None = None
    _names: dict[str, JobKey] = field(default_factory=dict)
    _ran: dict[JobKey, Ran] = field(default_factory=dict)
    _advised: dict[JobKey, str] = field(default_factory=dict)
    _powered: dict[str, tuple[str, float]] = field(default_factory=dict)

    @property
    def mode(self) -> str:
        """observe, advise or control."""
        return self.brain.rules.mode

    def round(self) -> Report | None:
        """Observe, think, write; None where Slurm could not be observed (then nothing is written)."""
        begin = time.perf_counter()
        try:
            snapshot = self.observer.snapshot()
        except SlurmError as error:
            self.failures += 1
            self.problem = str(error)
            if self.meter is not None:
                self.meter.failed(str(error))
            return None
        self.failures = 0
        self._take_cap()
        power = self._power(snapshot)
        believed = self._believed(power)
        begin_think = time.perf_counter()
        self._remember(snapshot)
        thought = self.brain.think(snapshot, power, believed=believed)
        if self.controls is not None:
            thought = self.brain.with_actions(thought, self.controls.act(thought.view, snapshot, thought.refusals))
        think_s = time.perf_counter() - begin_think
        if self.recorder is not None:
            self.recorder.write(thought)
        outcomes, would = self._carry_out(snapshot, thought)
        self._learn(thought)
        if self.after_round is not None:
            self.after_round(snapshot.taken_s)
        report = Report(
            snapshot, thought, power, outcomes, would, time.perf_counter() - begin, think_s, believed, self._problems()
        )  # fmt: skip
        self._show(report)
        return report

    def wait_s(self, period_s: float) -> float:
        """How long to wait before the next round: the period, or longer where Slurm does not answer."""
        return period_s if self.failures == 0 else min(period_s * 2.0 ** min(self.failures, 10), LONGEST_WAIT_S)

    # -- parts of a round ----------------------------------------------------------------------
    def _take_cap(self) -> None:
        if self.caps is not None and self.caps.changed():
            self.brain.cap = self.caps.cap
            self.audit.note("cap", f"read again: {self.caps.text}")

    def _problems(self) -> list[str]:
        refused = [r for r in self.brain.memory.refused.values() if r.times >= STUCK_AFTER]
        told = [f"job {r.key.name} was not started {r.times} times: {r.reason}" for r in refused[:STUCK_AFTER]]
        if len(refused) > STUCK_AFTER:
            told.append(f"and {len(refused) - STUCK_AFTER} more jobs like these")
        return [self.caps.problem, *told] if self.caps is not None and self.caps.problem else told

    def _power(self, snapshot: Snapshot) -> dict[str, NodePower]:
        if not self.telemetry.sources:
            return {}
        layout, now_s = self.brain.layout, self.clock()
        self.telemetry.read(now_s)
        out = {}
        for p, partition in enumerate(layout.machine.partitions):
            most = partition.max_w if partition.max_w is not None else float("inf")
            for unit in range(int(layout.first[p]), int(layout.first[p + 1])):
                name = layout.names[unit]
                out[name] = self.telemetry.node(name, most, now_s)
        return out

    def _believed(self, power: dict[str, NodePower]) -> bool:
        """Predictions are believed while most nodes are measured, or where nothing is measured at all.

        The first round without them is forgiven (a scrape may be late), the second is not.
        """
        if not power or sum(p.label == "measured" for p in power.values()) * 2 >= len(power):
            self.blind_rounds = 0
            return True
        self.blind_rounds += 1
        return self.blind_rounds < 2

    def _remember(self, snapshot: Snapshot) -> None:
        """Forget jobs that are gone; a requeued one keeps its first submission."""
        memory, now = self.brain.memory, snapshot.by_key
        names = {key.name: key for key in now}
        for name, key in names.items():
            old = self._names.get(name)
            if old is None or old == key:
                continue
            details = snapshot.details.get(key)
            if details is not None and details.restarts > 0:
                memory.requeued(key, memory.origin.get(old, old.submit_s))
        if not self._names:  # after a restart: requeued while nobody looked
            for key in list(memory.placed):
                new = names.get(key.name)
                if new is not None and new != key and (d := snapshot.details.get(new)) is not None and d.restarts:
                    memory.requeued(new, memory.origin.get(key, key.submit_s))
        self._names = names
        memory.forget([k for k in (*memory.placed, *memory.refused, *memory.origin) if k not in now])
        stale = [k for k in memory.placed if now[k].held]
        memory.unplace(stale)

    def _carry_out(self, snapshot: Snapshot, thought: Thought) -> tuple[list[Outcome], list[Write]]:
        files = self.applier.frequencies.now()
        if self.mode == "observe":
            return [], plan(snapshot, thought.goal, files)
        if self.mode == "advise":
            advice = self._advice(snapshot, thought)
            return self.applier.apply(plan(snapshot, advice)), plan(snapshot, thought.goal, files)
        self.brain.memory.place(thought.placed)
        writes = [write for write in plan(snapshot, thought.goal, files) if not self._said(write, snapshot.taken_s)]
        known = {row.key.name for row in snapshot.jobs}
        gone = sorted(files.keys() - known)
        writes += [Write("frequency", name, (), str(files[name]), "0", "the job is gone") for name in gone]
        total = snapshot.pool.total if snapshot.pool is not None else 0
        outcomes = self.applier.apply(writes, total)
        self._settle(snapshot, thought, outcomes)
        return outcomes, []

    def _said(self, write: Write, now_s: float) -> bool:
        """Whether a node was told just now to stop or wake: Slurm shows it some seconds later."""
        if write.kind != "power":
            return False
        word, since_s = self._powered.get(write.target, ("", -math.inf))
        if word == write.after and now_s - since_s < self.brain.rules.start_timeout_s:
            return True
        self._powered[write.target] = (write.after, now_s)
        return False

    def _settle(self, snapshot: Snapshot, thought: Thought, outcomes: Sequence[Outcome]) -> None:
        """Starts that failed, and those taken back, are refused for a while; the rest is under way."""
        late = {row.key: row.reason for row in thought.sorted.late}
        starts = {placed.key for placed in thought.placed}
        failed = {o.write.key: o.error for o in outcomes if o.error and o.write.kind != "priority"}
        for key in starts & failed.keys():
            self.brain.refuse(key, failed[key], snapshot.taken_s)
        done = {o.write.key for o in outcomes if o.write.kind == "hold" and not o.error}
        for key in late.keys() & done:
            self.brain.refuse(key, f"not started in time: {late[key]}", snapshot.taken_s)

    def _advice(self, snapshot: Snapshot, thought: Thought) -> Goal:
        """Comments in place of deeds, on jobs whose comment is empty or ours; each said once."""
        goals = []
        for goal in thought.goal.jobs:
            details = snapshot.details.get(goal.key)
            if goal.held is not False or details is None:
                continue
            text = f"wattqueue: would start it now on {goal.partition}, {goal.watts} W of the budget"
            if self._advised.get(goal.key) == text or details.comment not in ("", self._advised.get(goal.key, "")):
                continue
            self._advised[goal.key] = text
            goals.append(JobGoal(goal.key, comment=text, why="advice"))
        self._advised = {k: v for k, v in self._advised.items() if k in snapshot.by_key}
        return Goal(jobs=tuple(goals))

    def _learn(self, thought: Thought) -> None:
        running = {row.key for row in thought.sorted.running}
        learned = [self._placed(one) for one in self.brain.tracker.gone(running)]
        if learned:
            self.brain.predictor.learn(learned)
            if self.on_learned is not None:
                self.on_learned(learned)
        known = {one.asked.key for one in learned}
        for key in [k for k in self._ran if k not in running]:
            ran = self._ran.pop(key)
            if self.on_ended is not None and key not in known:
                self.on_ended(ran, thought.view.now_s)
        for busy in thought.busy:
            if busy.row.active and busy.row.key not in self._ran:
                self._ran[busy.row.key] = self.brain.ran(busy)

    def _placed(self, one: Learned) -> Learned:
        """A measured job with where it ran."""
        ran = self._ran.get(one.asked.key)
        return one if ran is None else one._replace(hardware=ran.hardware, frequency_hz=ran.frequency_hz)

    def _show(self, report: Report) -> None:
        now_s = self.clock()
        if self.mode == "control":
            self.run_dir.beat(self.mode, now_s, self.away_s / 4.0)
        self.run_dir.status(describe(report, self.mode, self.telemetry), now_s)
        if self.meter is not None:
            self.meter.round(report)
        self.last = report


def measured_w(report: Report) -> float | None:
    """Watts of all nodes, each measured or its maximum; None where nothing is measured."""
    return sum(p.power_w for p in report.power.values()) if report.power else None


def describe(report: Report, mode: str, telemetry: Telemetry) -> dict[str, Any]:
    """The status for people and for ``wattqueue live status``."""
    thought, pool = report.thought, report.snapshot.pool
    rows = thought.sorted
    labels = [p.label for p in report.power.values()]
    unreadable = [f"unreadable: {line[:80]}" for line in report.snapshot.unreadable[:3]]
    return {
        "time_s": report.snapshot.taken_s,
        "mode": mode,
        "cap_w": None if thought.cap_w == float("inf") else thought.cap_w,
        "counted_w": thought.counted_w,
        "measured_w": measured_w(report),
        "pool_w": None if pool is None else {"total": pool.total, "open": pool.open_w, "used": pool.used},
        "jobs": {
            "running": len(rows.running), "under_way": len(rows.under_way), "waiting": len(rows.waiting),
            "refused": rows.refused, "foreign": len(rows.foreign),
        },
        "nodes": {
            "total": len(report.snapshot.nodes),
            "busy": sum(len(expand(r.node_list)) for r in rows.running),
            "off": sum(n.power != "on" for n in report.snapshot.nodes),
        },
        "telemetry": {label: labels.count(label) for label in ("measured", "stale", "missing")},
        "believed": report.believed,
        "problems": [*report.problems, *telemetry.problems[:5], *unreadable],
        "writes": len(report.outcomes),
        "errors": [o.error for o in report.outcomes if o.error][:5],
        "would": [f"{w.kind} {w.target}: {w.after}" for w in report.would[:20]],
        "round_s": report.took_s,
    }  # fmt: skip
