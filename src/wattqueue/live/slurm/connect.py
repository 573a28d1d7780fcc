"""Connect to the Slurm that a configuration names."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from wattqueue.errors import InputError
from wattqueue.live.config import LiveConfig
from wattqueue.live.driver import Finding
from wattqueue.live.files.supply_limits import GATE, counters
from wattqueue.live.guard.client import GuardedCommands, GuardWriter, connection_to
from wattqueue.live.slurm.cluster import SlurmCluster
from wattqueue.live.slurm.commands import Commands, Slurm
from wattqueue.live.slurm.guard import Guard
from wattqueue.live.slurm.writer import Frequencies, PoolMethod, ReconfigurePool, ReservationPool, SnapshotWriter


def direct_commands(config: LiveConfig) -> Commands:
    """Return the commands of the configured Slurm, run by this process itself."""
    environment = {} if config.slurm.conf is None else {"SLURM_CONF": str(config.slurm.conf)}
    return Commands(config.slurm.timeout_s, environment, config.slurm.bin_dir)


def commands_for(config: LiveConfig) -> Slurm:
    """Return the commands of a controller: those of its guard, where it has one."""
    return direct_commands(config) if config.guard is None else GuardedCommands(connection_to(config.guard.socket))


def connect(
    config: LiveConfig,
    slurm: Slurm | None = None,
    clock: Callable[[], float] = time.time,
    *,
    priorities: bool = False,
    writer: SnapshotWriter | None = None,
) -> SlurmCluster:
    """Return the driver of the configured Slurm; ``slurm`` stands in for its commands.

    ``priorities``: whether the policy orders jobs by the site's priorities. ``writer``: what writes in the place of
    these commands.
    """
    slurm = slurm or direct_commands(config)
    pool: PoolMethod = ReservationPool()
    if config.slurm.pool == "reconfigure" and config.slurm.pool_file is not None:
        pool = ReconfigurePool(config.slurm.pool_file, config.slurm.pool_line)

    def checks() -> Sequence[Finding]:
        return Guard.of(config, slurm).check(slurm)

    counted = counters(config.slurm.domains.values(), hres=config.slurm.hres)
    every_s = math.inf if config.consent is None else config.consent.every_s
    return SlurmCluster(
        slurm,
        pool,
        Frequencies(config.frequency_dir),
        checks,
        clock,
        comments_every_s=every_s,
        priorities=priorities,
        domains=frozenset(counted and (*counted, GATE)),
        writer=writer,
    )


def connect_controller(config: LiveConfig, clock: Callable[[], float], *, priorities: bool) -> SlurmCluster:
    """Return the driver of a controller, which has no rights of its own where a guard has them.

    Raises: InputError for a configuration of another resource manager.
    """
    if config.flux is not None:
        hint = "flux module load $(wattqueue flux module) config=FILE"
        raise InputError("[flux]: this controller runs inside Flux, as its scheduler", where="live.toml", hint=hint)
    writer = None if config.guard is None else GuardWriter(connection_to(config.guard.socket))
    return connect(config, commands_for(config), clock, priorities=priorities, writer=writer)
