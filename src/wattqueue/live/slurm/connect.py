"""Connect to the Slurm that a configuration names."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from wattqueue.live.cluster import Finding
from wattqueue.live.config import LiveConfig
from wattqueue.live.guard.client import GuardedCommands, GuardWriter, connection_to
from wattqueue.live.slurm.cluster import SlurmCluster
from wattqueue.live.slurm.commands import Commands, Slurm
from wattqueue.live.slurm.guard import Guard
from wattqueue.live.slurm.writer import Frequencies, PoolMethod, ReconfigurePool, ReservationPool


def commands_for(config: LiveConfig) -> Slurm:
    """Return the commands of the configured Slurm; those of its guard, where it has one."""
    if config.guard is not None:
        return GuardedCommands(connection_to(config.guard.socket))
    environment = {} if config.slurm.conf is None else {"SLURM_CONF": str(config.slurm.conf)}
    return Commands(config.slurm.timeout_s, environment, config.slurm.bin_dir)


def connect(
    config: LiveConfig,
    slurm: Slurm | None = None,
    clock: Callable[[], float] = time.time,
    *,
    priorities: bool = False,
) -> SlurmCluster:
    """Return the driver of the configured Slurm; ``slurm`` stands in for its commands.

    ``priorities``: whether the policy orders jobs by the site's priorities.
    """
    guarded = config.guard is not None and slurm is None
    slurm = slurm or commands_for(config)
    pool: PoolMethod = ReservationPool()
    if config.slurm.pool == "reconfigure" and config.slurm.pool_file is not None:
        pool = ReconfigurePool(config.slurm.pool_file, config.slurm.pool_line)

    def checks() -> Sequence[Finding]:
        return Guard.of(config, slurm).check(slurm)

    every_s = math.inf if config.consent is None else config.consent.every_s
    return SlurmCluster(
        slurm,
        pool,
        Frequencies(config.frequency_dir),
        checks,
        clock,
        comments_every_s=every_s,
        priorities=priorities,
        writer=GuardWriter(connection_to(config.guard.socket)) if config.guard is not None and guarded else None,
    )
