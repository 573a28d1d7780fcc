"""The workloads of the study: windows of traces and generated jobs, with watts, accounts, clocks and budgets."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.model.budgets import Budget, Mode
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.machine import Machine, plain_machine
from wattqueue.workload.cycle import DAY_S
from wattqueue.workload.generated import generate
from wattqueue_studies.frame.published import stated_design

NONE, HALF, ALL = "none", "half", "all"
"""Who chooses the frugal clock."""
AT_LEAST = ", least"
"""Ends the name of a budget that is as large as its largest job needs."""
PERIODS = 200
"""Periods of a budget: the last job of a window has ended long before."""


@dataclass(frozen=True, slots=True)
class BudgetDesign:
    """What is drawn and simulated; see claims.toml."""

    seeds: int
    days: float
    period_days: float
    share: float
    quantile: float
    accounts: int
    idle_w: float
    max_w: float
    user_w: tuple[float, float]
    job_sd: float
    generated: str
    generated_nodes: int
    generated_w: tuple[float, float]
    clock: float
    clock_watts: float
    bound: tuple[float, float]
    reacting: tuple[str, ...]
    budgets: dict[str, dict[str, Any]]

    @classmethod
    def stated(cls) -> BudgetDesign:
        """Return the design of claims.toml."""
        return cls(**stated_design("wattqueue_studies.budgets"))

    @property
    def window_s(self) -> float:
        """Seconds of a window."""
        return self.days * DAY_S


class BudgetWorkload(Protocol):
    """Where the jobs of a seed come from."""

    def world(self, design: BudgetDesign, seed: int) -> BudgetWorld:
        """Return the world of a seed. Raises: InputError for a trace that has no such window."""


@dataclass(frozen=True, slots=True, eq=False)
class RecordedWindows:
    """A trace; the windows of all seeds lie at equal distances from its first to its last submission."""

    jobs: Jobs
    nodes: int

    def world(self, design: BudgetDesign, seed: int) -> BudgetWorld:
        """Return the jobs of the seed's window on an empty machine, from 0 on, with drawn watts."""
        first_s, last_s = float(self.jobs.submit_s.min()), float(self.jobs.submit_s.max())
        room_s = last_s - first_s - design.window_s
        if room_s < 0.0:
            raise InputError(f"the trace is shorter than {design.days:g} days", where="--trace")
        begin_s = first_s + room_s * (seed - 1) / max(1, design.seeds - 1)
        inside = (self.jobs.submit_s >= begin_s) & (self.jobs.submit_s < begin_s + design.window_s)
        jobs = self.jobs.take(inside & (self.jobs.user.codes >= 0))
        if not len(jobs):
            raise InputError(f"the trace has no job of a user in {design.days:g} days from {begin_s:.0f} s")
        rng = np.random.default_rng([seed, 36])
        spread = np.exp(rng.normal(0.0, design.job_sd, len(jobs)))
        own_w = rng.uniform(*design.user_w, len(jobs.user.names))[jobs.user.codes]
        watts = np.minimum(design.idle_w + (own_w - design.idle_w) * spread, design.max_w)
        jobs = replace(jobs, submit_s=jobs.submit_s - begin_s, mean_power_w=watts, max_power_w=None, profiles=None)
        return BudgetWorld.of(design, jobs, plain_machine(self.nodes, design.idle_w, design.max_w), rng)


@dataclass(frozen=True, slots=True)
class GeneratedUsers:
    """Generated jobs of users with habits; their watts are their own."""

    def world(self, design: BudgetDesign, seed: int) -> BudgetWorld:
        """Return the jobs of a seed."""
        jobs = generate(design.generated, np.random.default_rng(seed))
        jobs = replace(jobs, max_power_w=None, profiles=None)
        machine = plain_machine(design.generated_nodes, *design.generated_w)
        return BudgetWorld.of(design, jobs, machine, np.random.default_rng([seed, 36]))


@dataclass(frozen=True, eq=False)
class BudgetWorld:
    """Jobs at full clock, their machine, and what is drawn for their users."""

    design: BudgetDesign
    jobs: Jobs
    machine: Machine
    account: NDArray[np.int64]
    """Of each user. Shape (users,)."""
    half: NDArray[np.bool_]
    """Users who choose the frugal clock where half of them do. Shape (users,)."""
    stretch: Floats
    """Run time of each user's jobs at the frugal clock over that at the full one. Shape (users,)."""

    @classmethod
    def of(cls, design: BudgetDesign, jobs: Jobs, machine: Machine, rng: np.random.Generator) -> BudgetWorld:
        """Draw accounts, the half and how jobs depend on the clock, for the users who have jobs."""
        users, present = len(jobs.user.names), np.unique(jobs.user.codes)
        account, half = np.full(users, -1), np.zeros(users, np.bool_)
        account[rng.permutation(present)] = np.arange(len(present)) % max(1, min(design.accounts, len(present) // 3))
        half[rng.permutation(present)[: len(present) // 2]] = True
        return cls(
            design, jobs, machine, account, half, 1.0 + rng.uniform(*design.bound, users) * (1 / design.clock - 1)
        )

    @cached_property
    def work_s(self) -> Floats:
        """Node-seconds of each job at full clock."""
        return self.run_s * self.jobs.nodes

    @cached_property
    def run_s(self) -> Floats:
        """Run time of each job at full clock."""
        found: Floats = np.minimum(self.jobs.runtime_s, self.jobs.walltime_s)
        return found

    def saves(self, reacting: str) -> NDArray[np.bool_]:
        """Return whose jobs run at the frugal clock. Shape (n,)."""
        every = {NONE: np.zeros_like(self.half), HALF: self.half, ALL: np.ones_like(self.half)}[reacting]
        found: NDArray[np.bool_] = every[self.jobs.user.codes]
        return found

    def reacted(self, reacting: str) -> Jobs:
        """Return the jobs as their users submit them: at the frugal clock they ask for so much more time."""
        saves, idle_w = self.saves(reacting), self.machine.partitions[0].idle_w
        longer = np.where(saves, self.stretch[self.jobs.user.codes], 1.0)
        watts = self.jobs.mean_power_w
        if watts is None:
            raise InputError("the jobs have no watts")
        less = np.where(saves, self.design.clock_watts, 1.0)
        return replace(
            self.jobs, runtime_s=self.jobs.runtime_s * longer, walltime_s=self.jobs.walltime_s * longer,
            mean_power_w=np.minimum(watts, idle_w) + np.maximum(watts - idle_w, 0.0) * less,
        )  # fmt: skip

    def budgets(
        self, used_j: Floats, of: str, *, share: float | None = None, mode: Mode = "maximum", equal: bool = False
    ) -> tuple[Budget, ...]:
        """Return the budgets of users or accounts, from what the jobs used without any. Shape (n,).

        None is less than what its largest job may use at most, at whichever clock; the names of those end with
        ``AT_LEAST``.
        """
        design, jobs = self.design, self.jobs
        share = design.share if share is None else share
        owner = self.account if of == "account" else np.arange(len(self.half))
        code = owner[jobs.user.codes]
        owners = np.unique(code)
        used = np.bincount(code, used_j)[owners] * design.period_days / design.days
        if equal:
            used[:] = used.mean()
        most_w = self.machine.partitions[0].max_w or np.inf
        most_j = jobs.nodes * jobs.walltime_s * self.stretch[jobs.user.codes] * most_w
        least = np.array([most_j[code == one].max() for one in owners])
        edge_s = np.arange(PERIODS + 1, dtype=np.float64) * (design.period_days * DAY_S)
        names = np.array(jobs.user.names, object)
        return tuple(
            Budget(
                f"{of} {one}{AT_LEAST if floor > share * mine else ''}", frozenset(names[owner == one].tolist()),
                math.ceil(1e3 * max(share * mine, floor)), "kWh", edge_s, mode=mode,
                quantile=design.quantile if mode == "quantile" else 1.0,
            )
            for one, mine, floor in zip(owners.tolist(), used.tolist(), least.tolist(), strict=True)
        )  # fmt: skip
