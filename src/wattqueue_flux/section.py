"""``[flux]`` in live.toml: the configuration of a controller inside a Flux instance."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import Field

from wattqueue.errors import InputError
from wattqueue.formats.bounded import Seconds
from wattqueue.formats.checked_toml import Section
from wattqueue.live.config import LiveConfig, SlurmSection, load_config
from wattqueue.live.doctor import Check, Find, Run

OWN, SITES = "flux-priority", "slurm-priority"
"""EASY in the order of Flux's priorities, and the row that it names: the site's own priorities, of any driver."""

STARTS = 1000
"""Most starts of one round: each costs a millisecond here, where Slurm is asked for each, and a round with 10,000 jobs
costs as much as hundreds."""


class FluxSection(Section):
    """How a Flux instance maps to the machine file."""

    partitions: dict[str, str] = Field(default_factory=dict)
    """Machine partition by queue, property or host list of Flux; a queue or property of the same name needs no entry,
    and a machine of one partition none at all."""
    no_limit_s: Seconds | None = None
    """After so long a job without a limit is expected to end, for backfilling; without it never."""


class FluxExtension:
    """What ``[flux]`` adds to the controller's configuration, and to ``wattqueue doctor``."""

    section = FluxSection

    def examine(self, root: Path, run: Run, find: Find) -> Iterator[Check]:
        """Examine Flux for ``wattqueue doctor --flux``."""
        from wattqueue_flux.examine import examine_flux

        return examine_flux(root, run, find)


EXTENSION = FluxExtension()


def load_flux_config(path: Path) -> tuple[LiveConfig, FluxSection]:
    """Read a configuration for Flux.

    Raises: InputError for a file that cannot be read, and for what the module does not carry out.
    """
    config = load_config(path)
    if not isinstance(config.flux, FluxSection):
        hint = "add [flux], empty where the names of queues or properties are those of the machine's partitions"
        raise InputError("there is no section [flux]", where=path, hint=hint)
    for refused, key, hint in (
        (config.mode != "control", f'mode = "{config.mode}"', 'a scheduler has to start jobs: mode = "control"'),
        (config.slurm != SlurmSection(), "[slurm]", "leave it out"),
        (config.guard is not None, "[guard]", "leave it out: the scheduler itself holds the cap"),
        (config.frequency_dir is not None, "frequency_dir", "frequencies are set by agents ([telemetry.broker])"),
        (config.telemetry.slurm_energy, "telemetry.slurm_energy", "name another source of energy"),
    ):
        if refused:
            raise InputError(f"{key} is not carried out inside Flux", where=path, hint=hint)
    driver = SlurmSection(write_priority=False, place_nodes="always")
    update: dict[str, Any] = {"slurm": driver, "policy": SITES if config.policy == OWN else config.policy}
    if "starts_a_cycle" not in config.model_fields_set:
        update["starts_a_cycle"] = STARTS
    if config.telemetry.any_node_source:  # a reading's validity ends between two events
        update["period_s"] = min(config.period_s, config.telemetry.stale_s)
    return config.model_copy(update=update), config.flux
