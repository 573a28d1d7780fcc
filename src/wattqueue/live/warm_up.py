"""Compile the kernels of a round before the first one, in a thread, so that signals are answered meanwhile.

The first pass of a version compiles for some ten seconds, within one call that no signal handler can interrupt. In
the first round it would delay the first status, the heartbeat and the answer to SIGTERM by that time, in silence; and
what a round writes would be left out, since its snapshot is too old by then (``controller.OLD_SNAPSHOT_S``).

Parts of a policy have kernels of their own: meters of ledgers, histories, run times. So a copy of the policy runs a few
rounds on two invented jobs. Nothing is written, and nothing that the copy learns is kept.

``live install`` compiles the pass before, as the planner's account: each account has compiled kernels of its own, since
machine code is loaded from there. An installation with a library of compiled kernels needs none.
"""

from __future__ import annotations

import contextlib
import copy
import math
import os
import pwd
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from wattqueue.kernels import codes
from wattqueue.kernels.mode import COMPILES
from wattqueue.live.cluster import Details, Job, JobKey, Node, Pool, Snapshot
from wattqueue.live.config import LiveConfig
from wattqueue.live.decision import Decider
from wattqueue.live.features.ledger_meter import LedgerMeter, ledger_extension
from wattqueue.live.files.status import notify
from wattqueue.live.planner import Planner, Rules
from wattqueue.live.predictor import Predictor
from wattqueue.live.requests import JobRequest, MeasuredJob
from wattqueue.live.run_times import EndedRun
from wattqueue.live.stages import plan_with
from wattqueue.live.state.database import open_state
from wattqueue.live.state.memory import ControllerState
from wattqueue.live.telemetry.base import NodePower
from wattqueue.live.units import run_as
from wattqueue.live.world import Layout
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.signals import Cap
from wattqueue.parts.contracts import Entries, Prediction
from wattqueue.policy.build import PassSettings
from wattqueue.policy.consent_windows import Window
from wattqueue.policy.decide import PolicySnapshot, RunningJobs, decide
from wattqueue.policy.registry import Policy

CACHE = Path("/var/lib/wattqueue/cache")
"""Where the unit of the controller has compiled kernels."""
_COMPILE_S = 600.0
PATIENCE_S = 1.0
"""A pass that is compiled already is loaded within this time; a longer wait is announced."""
LOOK_S = 0.1
WATCHDOG_S = 5.0
"""Time between two signs of life to systemd while the pass is compiled."""
ROUNDS, STEP_S = 6, 30.0
"""Small rounds and the time between two: an adaptive ledger reads its meter once a minute."""
MOST_W = 200.0
"""Watts of a node in the small rounds."""


def run_small_pass() -> int:
    """Run the pass on one waiting and one running job, so that its kernels are compiled; return the jobs it starts."""
    machine = Machine("small", (Partition("p", 2, idle_w=100.0, max_w=300.0),))
    jobs = KnownJobs.build([0.0, 0.0], [1, 1], [60.0, 60.0])
    one, first = np.ones(1, np.int32), np.zeros(1, np.int32)
    running = RunningJobs(
        one, np.zeros(1, np.int16), np.full(1, 60.0), np.full(1, 200_000_000), np.zeros(1, np.int64), one, first, first
    )
    snapshot = PolicySnapshot(
        0.0, jobs, machine, Prediction(np.full((1, 1), 300.0), np.ones((1, 1)), np.zeros(2, np.int32)),
        Entries(first, first, np.zeros(1)), Window(first, first), PassSettings(codes.EASY, 0, machine.cap_scope),
        running, cap_w=700.0,
    )  # fmt: skip
    return len(decide(snapshot))


def run_small_rounds(planner: Planner) -> int:
    """Run a few rounds of a copy of a planner's policy, so that all its kernels are compiled; return its starts.

    A job runs and ends, is learned from, and others wait, long enough for a ledger's meter to be read.
    """
    layout, now_s = planner.layout, 1e6
    run_small_pass()  # first: a policy that holds a connection cannot be copied
    with tempfile.TemporaryDirectory() as folder:
        policy = copy.deepcopy(planner.policy)
        engine = open_state(Path(folder) / "state.db")
        try:
            rules = replace(planner.rules, mode="control")
            small = _small_planner(policy, layout, rules, ControllerState(engine))
            starts = 0
            for k in range(ROUNDS):
                if k == ROUNDS // 2:
                    _learn(small, now_s)
                snapshot = _small_snapshot(layout, now_s, ended=k > ROUNDS // 2)
                power = {name: NodePower(MOST_W, "measured", now_s, "invented") for name in layout.names}
                starts += len(small.plan(snapshot, power, telemetry_ok=True).starts)
                now_s += STEP_S
        finally:
            engine.dispose()
    return starts


def _small_planner(policy: Policy, layout: Layout, rules: Rules, memory: ControllerState) -> Planner:
    """Return a planner with a cap that everything fits, and with the meter of a ledger that has one."""
    decider = Decider(policy, layout, power_nodes=False, timeout_s=rules.start_timeout_s)
    cap = Cap.constant(2.0 * sum(p.nodes * (p.max_w or 0.0) for p in layout.machine.partitions))
    metered = decider.session.needs.metered
    stages = plan_with([] if metered is None else [ledger_extension(LedgerMeter(metered, memory))])
    return Planner(layout, policy, cap, rules, memory, Predictor(decider.session, layout), decider, stages)


def _small_snapshot(layout: Layout, now_s: float, *, ended: bool) -> Snapshot:
    """Return a cluster of idle nodes with one running job, unless it has ended, and one or two that wait."""
    partition = layout.slurm_partition[0]
    node = layout.names[0]
    runs = Job(
        JobKey("1", 0.0), 1, "running", "", partition, 1, 1, 3600.0, 1, 1, 1, now_s - 100.0, (node,), (), True, "", 1
    )
    waits = runs._replace(
        key=JobKey("2", 1.0), number=2, state="pending", held_by="operator", priority=0, start_s=math.nan, node_names=()
    )
    jobs = (waits, waits._replace(key=JobKey("3", 2.0), number=3)) if ended else (runs, waits)
    nodes = tuple(Node(name, "idle", "on", True, not ended and name == node, (partition,)) for name in layout.names)
    details = {row.key: Details("app", "u1", "", "", "", 0, 1, 0) for row in jobs}
    return Snapshot(now_s, jobs, nodes, Pool(10**9, sum(row.watts for row in jobs if row.active), 0), details)


def _learn(planner: Planner, now_s: float) -> None:
    """Teach the parts of a planner a job that has ended."""
    request = JobRequest(JobKey("0", 0.0), "u1", "app", "", 1, 3600.0)
    hardware = planner.layout.machine.partitions[0].name
    planner.predictor.learn([MeasuredJob(request, now_s - 90.0, now_s, MOST_W, MOST_W, MOST_W, hardware)])
    planner.predictor.learn_runs([EndedRun(request, now_s, 90.0)])


def warm_up(
    stop: threading.Event,
    say: Callable[[str], None],
    work: Callable[[], object] = run_small_pass,
    alive: Callable[[], object] = lambda: None,
) -> bool:
    """Compile kernels by running ``work``; return False as soon as ``stop`` is set, although the thread still compiles.

    The process must then end without waiting for the thread: what it does cannot be interrupted. An error of the work
    is left to the first round, which meets it again. ``alive`` is called when the wait is announced, and every few
    seconds from then on.
    """
    done = threading.Event()

    def compile_it() -> None:
        with contextlib.suppress(Exception):
            work()
        done.set()

    threading.Thread(target=compile_it, name="compile", daemon=True).start()
    begin_s = told_s = time.monotonic()
    announced = False
    while not done.wait(LOOK_S):
        now_s = time.monotonic()
        if stop.is_set():
            return False
        if not announced and now_s - begin_s >= PATIENCE_S:
            say("compiling the scheduling pass, once for this version: about 10 seconds, then the first round")
            announced = True
            alive()
        if now_s - told_s >= WATCHDOG_S:
            notify("WATCHDOG=1")
            alive()
            told_s = now_s
    if announced:
        say(f"compiled in {time.monotonic() - begin_s:.0f} s")
    return not stop.is_set()


def prepared_for(units: Path, config: LiveConfig) -> list[str]:
    """Prepare the account of a controller whose units were written to where systemd reads them; return lines."""
    if not units.resolve().is_relative_to("/etc/systemd"):
        return []  # somebody wants to see the units
    return [prepare_cache(config.user if config.guard is None else config.guard.planner)]


def prepare_cache(user: str, folder: Path = CACHE) -> str:
    """Compile into ``folder`` as an account, unless that was done; return a line that says what was done or why not."""
    if not COMPILES:
        return "this installation compiles no kernels"
    later = "the first start of the controller compiles, for about 10 seconds"
    try:
        account = pwd.getpwnam(user)
    except KeyError:
        return f"kernels: no account {user} yet; {later}"
    if os.geteuid() not in (0, account.pw_uid):
        return f"kernels: only root and {user} can prepare them for {user}; {later}"
    try:
        for place in (folder.parent, folder):
            if not place.exists():
                place.mkdir(mode=0o711, parents=True)
                os.chown(place, account.pw_uid, account.pw_gid)
    except OSError as error:
        return f"kernels: {folder}: {error.strerror}; {later}"
    command = [sys.executable, "-m", "wattqueue.live.warm_up"]
    problem = run_as(user, command, {"WATTQUEUE_CACHE_DIR": str(folder)}, _COMPILE_S)
    return f"kernels: {problem}; {later}" if problem else f"compiled the scheduling pass for {user} into {folder}"


if __name__ == "__main__":
    run_small_pass()
