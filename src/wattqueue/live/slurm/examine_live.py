"""Report whether an installed controller holds the cap, for ``wattqueue doctor --live FILE``. Reads only."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from wattqueue.errors import WattQueueError
from wattqueue.formats.budgets import read_budgets
from wattqueue.live.cluster import Snapshot
from wattqueue.live.config import LiveConfig
from wattqueue.live.doctor import NO, PART, YES, Check
from wattqueue.live.features.supply import binds
from wattqueue.live.files.status import heartbeat_of
from wattqueue.live.files.supply_limits import GATE, RESOURCE
from wattqueue.live.partitions import inspect_partitions
from wattqueue.live.slurm.budget_qos import examine_qos
from wattqueue.live.slurm.commands import Slurm, read
from wattqueue.live.slurm.connect import connect
from wattqueue.live.slurm.examine_guard import compare_settings, examine_accepted, examine_audit, examine_guard
from wattqueue.live.slurm.guard import Guard, guard_file_text
from wattqueue.live.slurm.hres import layers_of, shown_layers
from wattqueue.live.slurm.limits_file import examine_limits
from wattqueue.live.slurm.lists import POOL
from wattqueue.live.slurm.submit_text import VERSION, Written, read_data
from wattqueue.live.units import GUARD_FILE

AREA = "Live"


def examine_live(
    config: LiveConfig,
    slurm: Slurm | None = None,
    clock: Callable[[], float] = time.time,
    file: Path | None = None,
) -> Iterator[Check]:
    """Check heartbeat, guard, pool, job_submit.lua and what Slurm has beside them, and partitions.

    ``file`` is that of the configuration, beside which a guard's own file stands. What is not there, or cannot be
    examined, is a finding too.
    """
    yield from _heartbeat(config, clock())
    answer: dict[str, Any] = {}
    if config.guard is not None:
        answer, checks = examine_guard(config.guard.socket)
        yield from checks
        yield examine_audit(config.guard.run_dir)
    try:
        cluster = connect(config, slurm, clock)
        seen = cluster.observe()
        yield from _pool(seen)
        guard = Guard.of(config, cluster.slurm)
        findings = guard.check(cluster.slurm)
        for one in findings:
            yield Check(
                AREA, "installation", NO if one.fatal else PART, one.what, "the cap or the control does not hold"
            )
        if not findings:
            yield Check(AREA, "installation", YES, "job_submit.lua, licences and slurm.conf fit the configuration")
        yield from _domains(config, guard, cluster.slurm, seen)
        yield from _submit_data(guard, cluster.slurm, clock())
        if config.guard is not None and file is not None:
            text = guard_file_text(guard, config, config.guard)
            yield from compare_settings(file.absolute().parent / GUARD_FILE, text, answer)
            yield from examine_limits(config, guard, file)
        if answer and config.mode == "control":
            yield from examine_accepted(config, guard.layout.machine, answer)
        if config.budgets is not None:
            budgets = read_budgets(config.budgets.file)
            yield from examine_qos(cluster.slurm, {one.qos: one.name for one in budgets if one.qos})
        for text in guard.shared_lines():
            yield Check(AREA, "shared nodes", YES, text)
        texts = inspect_partitions(guard.layout, cluster.observe().nodes, guard.shared)
        for text in texts:
            yield Check(AREA, "partitions", PART, text)
        if not texts:
            yield Check(AREA, "partitions", YES, "as in the machine file")
    except WattQueueError as error:
        yield Check(AREA, "rest", NO, f"could not be examined: {error}", error.hint or "")


def _domains(config: LiveConfig, guard: Guard, slurm: Slurm, seen: Snapshot) -> Iterator[Check]:
    """Check what Slurm counts in power domains, and what nothing holds while no controller is at work."""
    machine = guard.layout.machine
    if not binds(machine):
        return
    licences, pools = config.slurm.domains, seen.domains
    if config.slurm.hres:
        yield from _layers(guard, slurm, seen)
    limited = [domain.name for domain in machine.supply if math.isfinite(domain.least_limit_w)]
    without = [name for name in limited if name not in licences and not config.slurm.hres]
    for name, licence in licences.items():
        pool = pools.get(licence)
        if pool is not None:
            text = f"{name}: {pool.used:,} of {pool.open_w:,} W in use (licence {licence}, {pool.total:,} W)"
            over = "more is in use than its limit leaves" if pool.used > pool.open_w else ""
            yield Check(AREA, "power domain", PART if over else YES, text, over)
    if without:
        cost = "pinned nodes alone hold it: Slurm may start what it requeues although a limit fell meanwhile"
        more = f" and {len(without) - 1} more" if len(without) > 1 else ""
        yield Check(AREA, "power domains", PART, f"no licence of {without[0]}{more}", cost)
    gate = pools.get(GATE)
    if gate is None or gate.reserved < gate.total:
        yield Check(
            AREA, "power domains", NO, f"the licence {GATE} is not withheld", "released jobs start on any nodes"
        )
    cost = "not held: jobs without watts, nodes cabled otherwise than stated, what users change on running jobs"
    yield Check(AREA, "power domains", YES, "starts are pinned to nodes", cost)


def _layers(guard: Guard, slurm: Slurm, seen: Snapshot) -> Iterator[Check]:
    """Check what Slurm counts in the layers of the hierarchical resource, and what it does not hold."""
    names = {frozenset(one.nodes): one.name for one in layers_of(guard.layout.machine, guard.layout.names)}
    for layer, used in shown_layers(read(slurm, POOL)):
        if (name := names.get(frozenset(layer.nodes))) is not None:
            over = "more is in use than its limit leaves" if used > layer.count else ""
            text = f"{name}: {used:,} of {layer.count:,} W in use (layer {layer.name})"
            yield Check(AREA, "power domain", PART if over else YES, text, over)
    bare = [row.key.name for row in seen.jobs if row.active and row.watts > 0 and RESOURCE not in dict(row.domains)]
    if bare:
        cost = (
            "not held: Slurm counts them in no domain, and may start others beside them while no controller is at work"
        )
        yield Check(AREA, "power domains", PART, f"{len(bare)} jobs run without {RESOURCE}, {bare[0]} is one", cost)
    cost = "not held: jobs that nobody pinned (26.05.5 tests what they had at submission), moving limits"
    yield Check(AREA, "power domains", YES, "Slurm counts each node of a job in every layer above it", cost)


def _submit_data(guard: Guard, slurm: Slurm, now_s: float) -> Iterator[Check]:
    """Check age, version and content of the data file of job_submit.lua, and whether slurmctld can read it."""
    path = guard.settings.data_file
    findings = guard.check_data(slurm, now_s)
    for one in findings:
        cost = "the cap does not hold" if one.fatal else "jobs may count more nodes or watts than they draw"
        yield Check(AREA, "submit data", NO if one.fatal else PART, one.what, cost)
    written = read_data(path) if path is not None else ""
    if not findings and isinstance(written, Written):
        text = f"version {VERSION}, {max(0.0, now_s - written.at_s):.0f} s old, as it would be written now"
        yield Check(AREA, "submit data", YES, text)


def _heartbeat(config: LiveConfig, now_s: float) -> Iterator[Check]:
    """Check that a controller is at work."""
    if config.mode != "control":
        yield Check(AREA, "heartbeat", PART, f"mode {config.mode} has none", 'nothing is held: mode = "control"')
        return
    beat = heartbeat_of(config.beat_dir, config.mode, now_s, config.away_s)
    age = "none" if beat.age_s is None else f"{beat.age_s:.0f} s old"
    yield Check(AREA, "heartbeat", NO if beat.problems else YES, age, "; ".join(beat.problems))


def _pool(seen: Snapshot) -> Iterator[Check]:
    """Check the pool of watts, and that no job runs outside it."""
    pool = seen.pool
    if pool is None:
        yield Check(AREA, "pool", NO, "no licence watts", "nothing holds the cap")
        return
    text = f"{pool.used:,} of {pool.open_w:,} W in use, {pool.total:,} W in slurm.conf"
    over = pool.used > pool.open_w
    yield Check(AREA, "pool", PART if over else YES, text, "more is in use than the cap leaves" if over else "")
    bare = [row.key.name for row in seen.jobs if row.active and row.watts < 0]
    if bare:
        cost = "Slurm does not count them: wattqueue live install --apply gives them watts"
        yield Check(AREA, "jobs without watts", PART, f"{len(bare)} run", cost)
