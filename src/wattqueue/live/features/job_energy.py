"""Record what each job used when it ends: energy with its label, cost and carbon, and how long it waited for watts.

A job with whole nodes has what their meters count (``watts.tracking.Tracker``, as estimators learn it), one on shared
nodes its share: of each node's watts so much as it has of the CPUs that jobs have there. What no meter covered is
filled with the mean of the rest, or where less than half is covered with the prediction; it lies between idle and
maximum watts of the nodes, which gives the interval. A meter that may stand still covers nothing. Where the accounting
reports the energy of a job that was not measured here, its figure counts instead.

A job is looked at every ``EVERY_S``; its end is known as exactly as that, or by the accounting. A run that ended while
no controller was at work is recorded from the accounting alone, if there is one.

Time that a job waits for watts is taken from the records of ``why`` once a minute: from the jobs that would start
earlier if there were more watts.

No decision depends on any of this.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from wattqueue.errors import InputError, WattQueueError
from wattqueue.formats.tariff import AskedSource, Tariff, parse_source, read_tariff, require_cover
from wattqueue.live.cluster import Job, JobKey
from wattqueue.live.config import EnergySection
from wattqueue.live.extension import Extension, beside
from wattqueue.live.features.learning import FORGET_S
from wattqueue.live.features.teaching import ACCOUNTING_S
from wattqueue.live.files.energy_records import EnergyFolder, EnergyRecord, Label, run_name
from wattqueue.live.files.followed import refuse_pipe
from wattqueue.live.files.stamp import Stamp, stamp_of
from wattqueue.live.planner import RoundState
from wattqueue.live.reports.why import waits_in
from wattqueue.live.requests import JobRequest
from wattqueue.live.telemetry.base import JobEnergy, JobSource, NodePower
from wattqueue.live.watts.tracking import ENOUGH, Tracker
from wattqueue.model.machine import Partition

EVERY_S = 5.0
RUNNING_S = 10.0
"""How often what running jobs used is written."""
WAITS_S = 60.0
MANAGERS_S = 3600.0
"""How often managers of accounts are read again."""
ALONE = 0.999
"""Share of its nodes from which a job counts as alone there."""
EDGE_S = 60.0
"""The accounting is asked for runs that ended so long before the last look: it receives ends late."""


@dataclass
class Rate:
    """A price or carbon intensity by the hour, read again when its file changes."""

    asked: AskedSource
    _stamp: Stamp = ()
    _tariff: Tariff | None = None

    def of(self, begin_s: float, end_s: float, energy_j: float) -> tuple[float, str]:
        """Return an amount and its unit. Raises: InputError where the file is unusable, or lacks a part of the span."""
        stamp = stamp_of(self.asked.path)
        if self._tariff is None or stamp != self._stamp:
            refuse_pipe(self.asked.path)
            self._tariff, self._stamp = read_tariff(self.asked, 0.0, repair=False), stamp
        require_cover(self._tariff, begin_s, end_s, (f"{begin_s:.0f}", f"{end_s:.0f}"))
        return self._tariff.of_steady(begin_s, max(end_s, begin_s + 1.0), energy_j), self._tariff.source.amount


@dataclass
class Followed:
    """A job that runs."""

    row: Job
    first_s: float
    partition: Partition
    """Its nodes in the machine file."""
    shared: bool
    predicted_node_w: float
    """NaN without a prediction."""
    watts_wait_s: float | None
    lower: tuple[float, float, float] | None
    account: str = ""
    project: str = ""
    restarts: int = 0
    share_s: float = 0.0
    """Integral over time of the share that it has of its nodes, which is 1 where they are its own."""
    seen_s: float = math.nan
    """When it was looked at last."""
    end_s: float = math.inf
    """When it was first seen completing."""


@dataclass
class EnergyRecorder:
    """Follows running jobs and records them when they end."""

    folder: EnergyFolder
    prices: Rate | None = None
    carbon: Rate | None = None
    accounting: JobSource | None = None
    managers: Callable[[], Mapping[str, Sequence[int]]] = dict
    """Returns the user ids of those who manage each account."""
    why: Path | None = None
    """The folder of the explanations."""
    final: Callable[[EnergyRecord], None] = lambda _record: None
    """Takes the record of each run once no better figure is awaited."""
    tracker: Tracker = field(default_factory=lambda: Tracker(EVERY_S, margin=0.0))
    _followed: dict[JobKey, Followed] = field(default_factory=dict)
    _waited_s: dict[str, float] = field(default_factory=dict)
    """Seconds that jobs which wait now have waited for watts, by name."""
    _open: dict[JobKey, tuple[EnergyRecord, float]] = field(default_factory=dict)
    """Ended jobs whose energy the accounting may still report, and since when."""
    _managers: Mapping[str, Sequence[int]] = field(default_factory=dict)
    _unmanaged: str = ""
    """Why that could not be asked."""
    _shown: frozenset[int] = frozenset()
    """Users of whom running jobs are written."""
    _seen: set[JobKey] = field(default_factory=set)
    """Runs that were recorded in the first hour."""
    _begun_s: float = 0.0
    """When this controller looked first."""
    _since_s: float = math.inf
    """Until when an earlier one looked."""
    _at: dict[str, float] = field(default_factory=dict)
    """When each piece of work was done last."""

    def look(self, now: RoundState) -> None:
        """Look at the jobs of a round. Raises: OSError where the records cannot be written."""
        if self._due("waits", WAITS_S, now.now_s):
            self._note_waits(now)
        if not self._due("jobs", EVERY_S, now.now_s):
            return
        if self._due("managers", MANAGERS_S, now.now_s):
            self._ask_managers()
        rows = {row.key: row for row in now.jobs.rows(now.running)}
        for key, row in rows.items():
            if key not in self._followed and (found := self._begun(now, row)) is not None:
                self._followed[key] = found
        self._measure(now, rows)
        again_s = {key.name: row.start_s for key, row in rows.items()}  # a requeued job's run ends before the next one
        for key in [key for key in self._followed if key not in rows]:
            one = self._followed.pop(key)
            self._record(now, self._made(key, one, min(one.end_s, now.now_s, again_s.get(key.name, math.inf))))
        self.tracker.tracks = {key: track for key, track in self.tracker.tracks.items() if key in rows}
        if self._due("running", RUNNING_S, now.now_s):
            self._show(now.now_s)
        if self.accounting is not None and self._due("accounting", ACCOUNTING_S, now.now_s):
            self._ask(now, self.accounting)

    def _due(self, what: str, every_s: float, now_s: float) -> bool:
        """Whether so much time has passed since this was done last; a clock that was set back counts as that."""
        if 0.0 <= now_s - self._at.get(what, -math.inf) < every_s:
            return False
        self._at[what] = now_s
        return True

    # -- beginning --------------------------------------------------------------------------------
    def _begun(self, now: RoundState, row: Job) -> Followed | None:
        """Return what is known of a job that runs; None on nodes of which the machine file says nothing.

        None, too, for what Slurm shows of a requeued job until its nodes are free: its start is its new submission.
        """
        if row.state == "completing" and row.start_s <= row.key.submit_s:
            return None
        planner, slot = now.planner, now.jobs.slot[row.key]
        first_s = float(now.jobs.first_s[slot]) or row.key.submit_s
        waited_s = self._waited_s.pop(row.key.name, 0.0) if "waits" in self._at and self.why is not None else None
        if any(name in planner.layout.unit for name in row.node_names):
            part, option = planner.layout.of_job(row), int(now.jobs.option[slot])
            known = planner.predictor.of(row.key)
            watts = math.nan if known is None else float(known[0][option])
            lower = lower_clock(planner.layout.machine.option_frequency_hz.tolist(), known, option, now)
            return Followed(row, first_s, planner.layout.machine.partitions[part], False, watts, waited_s, lower)
        members = planner.shared_nodes.members(now.snapshot.nodes)
        shared = next((members[name] for name in row.node_names if name in members), None)
        return None if shared is None else Followed(row, first_s, shared, True, math.nan, None, None)

    def _note_waits(self, now: RoundState) -> None:
        """Add a minute to each job that waits for watts."""
        if self.why is not None:
            waits = {row.key.name for row in now.snapshot.jobs if row.pending}
            self._waited_s = {name: at for name, at in self._waited_s.items() if name in waits}
            if (found := waits_in(self.why)) is None:
                return
            for name in np.array(found.names, object)[found.for_watts].tolist():
                self._waited_s[name] = self._waited_s.get(name, 0.0) + WAITS_S

    # -- running ----------------------------------------------------------------------------------
    def _measure(self, now: RoundState, rows: Mapping[JobKey, Job]) -> None:
        """Take over the samples of the nodes of running jobs."""
        jobs = [(key, one) for key, one in self._followed.items() if key in rows]
        cpus: dict[str, float] = {}
        for key, one in jobs:
            for name in rows[key].node_names if one.shared else ():
                cpus[name] = cpus.get(name, 0.0) + rows[key].cpus / len(rows[key].node_names)
        for key, one in jobs:
            row, known = rows[key], now.snapshot.details.get(key)
            one.row = row
            if known is not None:
                one.account, one.project, one.restarts = known.account, known.project, known.restarts
            if row.state == "completing":
                one.end_s = min(one.end_s, now.now_s)
                continue
            samples, share = _samples(now.power, row), 1.0
            if one.shared:
                part = row.cpus / max(len(row.node_names), 1)
                shares = [min(1.0, part / cpus[name]) if cpus[name] else 1.0 for name in row.node_names]
                share = sum(shares) / max(len(shares), 1)
                samples = [p._replace(power_w=p.power_w * s) for p, s in zip(samples, shares, strict=False)]
            since_s = row.start_s if math.isnan(one.seen_s) else one.seen_s
            one.share_s += share * max(0.0, now.now_s - since_s)
            one.seen_s = now.now_s
            request = JobRequest(key, "", "", row.partition, row.nodes, row.walltime_s)
            self.tracker.observe(request, row.start_s, one.predicted_node_w, samples, now.now_s)

    def _show(self, now_s: float) -> None:
        """Write what running jobs used until now, by user."""
        by_user: dict[int, list[EnergyRecord]] = {uid: [] for uid in self._shown}
        for key, one in self._followed.items():
            if one.seen_s > one.row.start_s:
                by_user.setdefault(one.row.uid, []).append(self._made(key, one, min(one.end_s, now_s)))
        for uid, records in by_user.items():
            self.folder.put_running(uid, records)
        self._shown = frozenset(uid for uid, records in by_user.items() if records)

    # -- ended ------------------------------------------------------------------------------------
    def _made(self, key: JobKey, one: Followed, end_s: float) -> EnergyRecord:
        """Return the record of a job, as far as it is measured until then."""
        row, partition = one.row, one.partition
        end_s = max(end_s, row.start_s)
        run_s = end_s - row.start_s
        share = min(1.0, one.share_s / max(one.seen_s - row.start_s, 1e-9)) if one.share_s else 1.0
        track = self.tracker.tracks.get(key)
        covered_s, energy_j = (0.0, 0.0) if track is None else (min(track.covered_s, run_s), track.energy_j)
        missing_s, units = run_s - covered_s, row.nodes * share
        idle_w, max_w = partition.idle_w * units, float(partition.max_w or partition.idle_w) * units
        is_measured, alone = covered_s > 0.0 and covered_s >= ENOUGH * run_s, share > ALONE
        fill_w, source = (idle_w + max_w) / 2.0, "machine"
        if is_measured:
            fill_w, source = energy_j / covered_s, "meters"
        elif not math.isnan(one.predicted_node_w):
            fill_w, source = one.predicted_node_w * units, "prediction"
        low_j, high_j = energy_j + idle_w * missing_s, energy_j + max_w * missing_s
        if is_measured and not alone:  # all that its nodes drew above idle may have been its own, or nothing of it
            low_j, high_j = min(idle_w * run_s, energy_j), energy_j / share + max_w * missing_s
        total_j = energy_j + min(max(fill_w, idle_w), max(max_w, idle_w)) * missing_s
        label: Label = "modelled" if not is_measured else "measured" if alone else "attributed"
        waited_s = None if one.watts_wait_s is None else min(one.watts_wait_s, max(0.0, row.start_s - one.first_s))
        return EnergyRecord(
            job=key.name, submit_s=key.submit_s, first_s=one.first_s, start_s=row.start_s, end_s=end_s, uid=row.uid,
            account=one.account, partition=row.partition, nodes=row.nodes, energy_j=total_j, low_j=min(low_j, total_j),
            high_j=max(high_j, total_j), label=label, source=source, share=share, restarts=one.restarts,
            watts_wait_s=waited_s, lower=one.lower, project=one.project,
        )  # fmt: skip

    def _record(self, now: RoundState, record: EnergyRecord) -> None:
        """Write a record with its price and carbon."""
        for name, rate in (("cost", self.prices), ("carbon", self.carbon)):
            if rate is not None:
                try:
                    amount, unit = rate.of(record.start_s, record.end_s, record.energy_j)
                    more: dict[str, Any] = {name: amount, f"{name}_unit": unit}
                    record = replace(record, **more)
                except InputError as error:
                    now.troubles.append(f"{name} of jobs: {error}")
        if self._unmanaged:
            now.troubles.append(f"managers of accounts: {self._unmanaged}")
        key, awaited = JobKey(record.job, record.submit_s), self.accounting is not None and record.label == "modelled"
        if not awaited:
            self.final(record)
        self._open.pop(key, None)
        if awaited:
            self._open[key] = record, now.now_s
        self.folder.append(record, self._managers.get(record.account, ()))
        if now.now_s - self._begun_s < FORGET_S:
            self._seen.add(key)

    def expects(self, name: str, now_s: float) -> bool:
        """Whether the accounting may still report a run, by ``run_name``: one seen to end, or from before the begin."""
        late = now_s - self._begun_s < FORGET_S
        return self.accounting is not None and (late or any(run_name(*key) == name for key in self._open))

    @property
    def accounts(self) -> Collection[str]:
        """The accounts of the resource manager; empty where they are not known."""
        return self._managers.keys()

    def _ask_managers(self) -> None:
        """Ask who manages accounts in a thread: no round waits for it."""

        def ask() -> None:
            try:
                self._managers, self._unmanaged = self.managers(), ""
            except WattQueueError as error:
                self._unmanaged = str(error)

        threading.Thread(target=ask, name="managers of accounts", daemon=True).start()

    def _ask(self, now: RoundState, source: JobSource) -> None:
        """Take over what the accounting reports of jobs that were not measured here, or that nobody here saw end."""
        if self._begun_s == 0.0:
            self._begun_s, self._since_s = now.now_s, self.folder.seen_s(now.now_s)
        for key, (record, since_s) in list(self._open.items()):
            if now.now_s - since_s >= FORGET_S:
                del self._open[key]
                self.final(record)
        late = now.now_s - self._begun_s < FORGET_S and self._since_s < self._begun_s
        if not self._open and not late:
            self.folder.see(now.now_s)
            return
        ends = [record.end_s for record, _ in self._open.values()]
        try:
            found = source.finished(min([*ends, *([self._since_s] if late else [])]) - EDGE_S)
        except WattQueueError as error:
            now.troubles.append(f"energy of jobs: {error}")
            return
        for one in found:
            key = JobKey(one.name, one.submit_s)
            known = self._open[key][0] if key in self._open else None
            missed = known is None and key not in self._seen and self._since_s <= one.end_s <= self._begun_s
            if math.isnan(one.mean_node_w) or not (known or missed):
                continue
            if known is not None:
                self._record(now, by_accounting(known, one))
            elif late and one.uid >= 0 and not now.planner.shared_nodes.only(one.partition):
                self._record(now, of_accounting(one))
        if not late:
            self.folder.see(now.now_s)


def of_accounting(found: JobEnergy) -> EnergyRecord:
    """Return the record of a run with whole nodes that the accounting alone knows."""
    return EnergyRecord(
        job=found.name, submit_s=found.submit_s, first_s=found.submit_s, start_s=found.start_s, end_s=found.end_s,
        uid=found.uid, account=found.account, partition=found.partition, nodes=found.nodes, energy_j=found.energy_j,
        low_j=found.energy_j, high_j=found.energy_j, label="measured", source=found.source,
    )  # fmt: skip


def by_accounting(record: EnergyRecord, found: JobEnergy) -> EnergyRecord:
    """Return a record with the energy and the times of the accounting.

    The accounting counts whole nodes: of those that a job shared it has its share of the figure, or all of it at most.
    """
    energy_j, alone = record.share * found.energy_j, record.share > ALONE
    return replace(
        record, start_s=found.start_s, end_s=found.end_s, nodes=found.nodes, energy_j=energy_j, source=found.source,
        low_j=energy_j if alone else min(record.low_j, energy_j), high_j=found.energy_j,
        label="measured" if alone else "attributed",
    )  # fmt: skip


def _samples(power: Mapping[str, NodePower], row: Job) -> Sequence[NodePower]:
    """Return the samples of a job's nodes; none where one is not measured, or may stand still."""
    found = [power[name] for name in row.node_names if name in power]
    whole = len(found) == len(row.node_names) and not any(one.unchanged for one in found)
    return found if whole else ()


def lower_clock(
    hertz: Sequence[float], known: tuple[Iterable[float], Iterable[float]] | None, option: int, now: RoundState
) -> tuple[float, float, float] | None:
    """Return the lower clock at which a job would use least: hertz, share of energy saved, share of run time added.

    None where the model knows of no lower clock that saves energy.
    """
    if known is None:
        return None
    watts, times = (list(map(float, one)) for one in known)
    parts = now.planner.layout.machine.option_partition.tolist()
    used = watts[option] * times[option]
    lower = [o for o in range(len(watts)) if parts[o] == parts[option] and hertz[o] < hertz[option]]
    best = min(lower, key=lambda o: watts[o] * times[o], default=option)
    saved = 1.0 - watts[best] * times[best] / used if used > 0.0 else 0.0
    if not math.isfinite(saved) or saved <= 0.0:
        return None
    return hertz[best], saved, times[best] / times[option] - 1.0


def energies_of(
    section: EnergySection | None,
    run_dir: Path,
    accounting: JobSource | None,
    managers: Callable[[], Mapping[str, Sequence[int]]],
) -> EnergyRecorder | None:
    """Return what records the energy of jobs, where the site asks for it.

    Raises: InputError for a series or a unit that cannot be used: at the start, not when a job has ended.
    """
    if section is None:
        return None
    prices = _rate(section.prices, section.price_unit, "energy.price_unit", "EUR/MWh")
    carbon = _rate(section.carbon, section.carbon_unit, "energy.carbon_unit", "gCO2/kWh")
    folder = EnergyFolder(section.place(run_dir), section.keep_months)
    return EnergyRecorder(folder, prices, carbon, accounting, managers, run_dir)


def _rate(path: Path | None, unit: str | None, option: str, default: str) -> Rate | None:
    if path is None:
        return None
    asked = parse_source(path, unit, option, default)
    read_tariff(asked, 0.0, repair=False)
    return Rate(asked)


def energy_extension(energies: EnergyRecorder) -> Extension:
    """Return the stage that records the energy of jobs."""
    return Extension({"report": beside("the energies of jobs", energies.look)}, keeps=energies)
