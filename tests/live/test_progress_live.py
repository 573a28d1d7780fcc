"""Rule 19 over the fake Slurm: rows, caps, ledgers, targets and failures, with an oracle after each round."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from tests.live.drive import ACCEPTS_ALL, make_controller
from tests.live.fakeslurm import FakeSlurm
from tests.live.progress_oracle import round_and_look
from tests.live.test_live_targets import Stated
from tests.sim.test_progress_of_rows import ROWS, policy_of
from wattqueue.errors import PolicyError
from wattqueue.live.cluster import Write
from wattqueue.live.decision import require_live
from wattqueue.live.features.budgets import LATE_S
from wattqueue.live.features.job_energy import EnergyRecorder
from wattqueue.live.files.energy_records import EnergyFolder
from wattqueue.live.never_starts import NeverStarting
from wattqueue.live.planner import Rules
from wattqueue.live.telemetry.base import PowerSample, Reading
from wattqueue.model.budget_books import BudgetBooks
from wattqueue.model.jobs import Floats
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.load_target import LoadTarget, LoadTargets
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.signals import Cap
from wattqueue.parts import Asked, Prediction
from wattqueue.policy.capabilities import some_control
from wattqueue.policy.registry import Policy

MOST_W = 300.0
STEP_S = 5.0
ROUNDS = 40


@dataclass
class ByUser:
    """Predicts, for each user, another share of what a node can draw above idle, also more than that."""

    asked: Asked = "once"
    machine_figures: bool = False

    def predict(self, jobs: KnownJobs, machine: Machine) -> Prediction:
        """Return a row of watts for each user."""
        shares: Floats = np.array([0.2, 0.6, 1.0, 1.3])
        watts = [[p.idle_w + share * (MOST_W - p.idle_w) for p in machine.partitions] for share in shares]
        table = np.array(watts)[:, machine.option_partition]
        return Prediction(table, np.ones_like(table), (jobs.user.codes % len(shares)).astype(np.int32))


@dataclass
class World:
    """A small cluster with its jobs, signals, failures and a controller; drawn from a seed."""

    folder: Path
    row: str
    seed: int
    budgets: bool = False
    slurm: FakeSlurm = field(init=False)
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        rng = self.rng = np.random.default_rng((self.seed, ROWS.index(self.row)))
        idle_w = float(rng.choice([0.0, 0.1, 0.5, 0.9])) * MOST_W
        sizes = rng.integers(2, 5, 2)
        parts = tuple(Partition(f"p{k + 1}", int(sizes[k]), idle_w=idle_w, max_w=MOST_W) for k in range(2))
        self.machine = Machine("small", parts, rng.choice(["machine", "machine", "dynamic", "jobs"]))
        self.slurm = FakeSlurm(
            {part.name: [f"{part.name}n{k}" for k in range(part.nodes)] for part in parts}, int(6 * MOST_W)
        )
        self.source = Stated(self.target() if rng.random() < 0.4 else LoadTargets.none())
        self.slurm.fault = self.fault
        self.fails = float(rng.choice([0.0, 0.0, 0.1]))
        rules = Rules(mode="control", write_priority=False, track_running=True, overshoot=ACCEPTS_ALL)
        cap, policy = self.cap(), self.policy()
        self.controller = make_controller(
            self.slurm, self.folder, lambda: self.slurm.now_s, cap=cap, machine=self.machine, policy=policy,
            rules=rules, sources=(self,), targets=self.source, **self.books(policy),
        )  # fmt: skip

    def policy(self) -> Policy:
        """The row with its own ledger or another one, and mostly with an estimator that may be far off."""
        policy = policy_of(self.row, self.machine, self.rng)
        if self.rng.random() < 0.8:
            policy = replace(policy, estimator=ByUser())
        require_live(policy, self.machine, agents=False)
        return policy

    def books(self, policy: Policy) -> dict[str, Any]:
        """Budgets of two users and of all, of some jobs of a minute each; some bar to the end."""
        if not self.budgets:
            return {}
        rng, path = np.random.default_rng((self.seed, 36)), self.folder / "budgets.toml"
        kwh = MOST_W * (60.0 + LATE_S) / 3.6e6
        rows = [("a", 'user = "1000"\n'), ("b", 'user = "1001"\n'), ("all", "")]
        # a maximum is refused beside a control that suspends
        mode = 'mode = "quantile"' if some_control(policy, "parks") else ""
        text = [
            f'[[budgets]]\nname = "{n}"\nperiod = "day"\namount = {rng.uniform(0.5, 12.0) * kwh}\n{who}{mode}'
            for n, who in rows
        ]
        path.write_text("\n".join(text) + "\n")
        return {"budgets": path, "energies": EnergyRecorder(EnergyFolder(self.folder / "energy"))}

    @property
    def base_w(self) -> float:
        """Idle watts that the cap covers."""
        return self.machine.scope_idle_w() if self.machine.cap_scope == "machine" else 0.0

    def cap(self) -> Cap:
        """A cap that is constant, moves, or is too low for a while for one job beside the idle watts."""
        begin_s, rng = self.slurm.now_s, self.rng
        low_w = max(self.base_w - 5.0, 1.0)
        watts = [
            self.base_w + rng.uniform(1.0, 4.0, 1) * MOST_W, self.base_w + rng.uniform(0.3, 4.0, 3) * MOST_W,
            np.array([low_w, self.base_w + 2.5 * MOST_W]), np.array([np.inf, self.base_w + 1.5 * MOST_W, np.inf]),
        ][rng.integers(4)]  # fmt: skip
        return Cap(np.array([-np.inf, begin_s + 60.0, begin_s + 120.0])[: len(watts)], watts)

    def target(self) -> LoadTargets:
        """A load target of a minute or so, announced before it begins."""
        begin_s = self.slurm.now_s + float(self.rng.integers(0, 100))
        limit_w = self.base_w + float(self.rng.uniform(0.5, 4.0)) * MOST_W
        rate = float(self.rng.choice([np.inf, 2.0]))
        return LoadTargets.of(LoadTarget(begin_s, begin_s + 60.0, limit_w, notice_s=60.0, ramp_w_per_s=rate))

    def fault(self, what: str | Write) -> str | None:
        """Of some worlds one write in ten fails, is lost or is forgotten; lists can always be read."""
        if isinstance(what, str) or self.rng.random() >= self.fails:
            return None
        return str(self.rng.choice(["fail", "lost", "ignored"]))

    name, resolution_w = "meter", 0.0

    def read(self, now_s: float) -> Reading:
        """Every node's power: idle, or most of what it can draw; lost for a while in some worlds."""
        busy = {name for job in self.slurm.running() for name in job.held_nodes}
        lost = self.fails and 60.0 < now_s % 150.0 < 90.0
        nodes = [] if lost else [name for names in self.slurm.partitions.values() for name in names]
        idle_w = self.machine.partitions[0].idle_w
        watts = {name: idle_w + (0.8 * (MOST_W - idle_w) if name in busy else 0.0) for name in nodes}
        return Reading({name: PowerSample(w, now_s, "meter") for name, w in watts.items()}, ())

    def run(self) -> list[str]:
        """Drive the world for a few minutes; return what broke the rule."""
        rng, slurm = self.rng, self.slurm
        sizes = [part.nodes for part in self.machine.partitions]
        for _ in range(ROUNDS):
            if rng.random() < 0.3:
                where = str(rng.choice(["p1", "p2", "p1,p2"]))
                nodes = int(rng.integers(1, max(sizes) + 1 if where == "p1,p2" else sizes[where == "p2"] + 1))
                least_w = int(nodes * (MOST_W if self.machine.cap_scope == "jobs" else 1.0))
                slurm.submit(
                    nodes, float(rng.uniform(5.0, 60.0)), watts=least_w, limit_s=60.0, partition=where,
                    uid=1000 + int(rng.integers(4)),
                )  # fmt: skip
            if rng.random() < 0.05:
                self.break_a_node()
            if found := round_and_look(self.controller, slurm, self.source.stated):
                self.wrong.append(found)
            slurm.step(STEP_S)
        return self.wrong

    def break_a_node(self) -> None:
        """A node fails, or comes back; a job on it is requeued."""
        name = str(self.rng.choice([node for nodes in self.slurm.partitions.values() for node in nodes]))
        self.slurm.down ^= {name}
        for job in self.slurm.running():
            if name in job.held_nodes and name in self.slurm.down:
                self.slurm.requeue(job)


def broken(row: str, seed: int, *, budgets: bool = False) -> list[str] | None:
    """What breaks the rule in a world; None where a live controller refuses the row with its ledger."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            world = World(Path(folder), row, seed, budgets)
        except PolicyError:
            return None
        try:
            return world.run()
        finally:
            world.controller.planner.memory.engine.dispose()


def test_no_job_that_fits_waits_on_an_idle_cluster() -> None:
    found = {row: broken(row, 1) for row in ROWS[::5]}
    assert not {row: words for row, words in found.items() if words}
    assert sum(words is not None for words in found.values()) >= 6


def test_budgets_bar_no_job_that_fits_them() -> None:
    """Budgets are eligibility in the rule: the first of their jobs that fits them has to start like any other."""
    found = {row: broken(row, 2, budgets=True) for row in ROWS[::6]}
    assert not {row: words for row, words in found.items() if words}
    assert sum(words is not None for words in found.values()) >= 5


def test_the_oracle_finds_budgets_that_bar_a_job_that_fits() -> None:
    with patch.object(
        BudgetBooks, "_asks", lambda books, _at, _job, group, _others: ([], [books.books[group.books[0][0]]])
    ):
        assert any(broken("easy", seed, budgets=True) for seed in range(6))


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS)
def test_budgets_in_many_worlds(row: str) -> None:
    found = {seed: broken(row, seed, budgets=True) for seed in range(30)}
    assert not {seed: words for seed, words in found.items() if words}


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS)
def test_in_many_worlds(row: str) -> None:
    found = {seed: broken(row, seed) for seed in range(30)}
    assert not {seed: words for seed, words in found.items() if words}


def too_powerful(*_: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Units of which none fits at its maximum, so that the rule never acts."""
    return np.full(2, 10**15, np.int64)


def needs_too_much(_: NeverStarting, pending: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    """A comparison that sets every job aside."""
    return np.full((len(pending.jobs), 4), 10**15, np.int64)


DEFECTS = {
    "no rule": ("wattqueue.policy.build.most_uw", too_powerful),
    "all set aside": ("wattqueue.live.never_starts.NeverStarting._needed", needs_too_much),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_the_oracle_finds_a_planted_defect(defect: str) -> None:
    with patch(*DEFECTS[defect]):
        assert any(broken("easy+pc-chance-1", seed) for seed in range(8))
