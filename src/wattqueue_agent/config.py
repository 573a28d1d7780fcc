"""Read the agent's configuration: one TOML file, checked as a whole before any limit is touched."""

from __future__ import annotations

import socket
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field, model_validator

from wattqueue.errors import InputError
from wattqueue.formats.bounded import Setting
from wattqueue.formats.checked_toml import Section, read_model
from wattqueue.live.agents import BrokerSection, Word
from wattqueue.live.telemetry.powercap import SYSTEM as POWERCAP
from wattqueue_agent.hardware import CPUFREQ
from wattqueue_agent.limits import Bounds


class Allowed(Section):
    """Limits that the controller may set, and how far."""

    limit: str
    """Name or pattern: ``package-*``, ``policy*``, ``gpu-*``."""
    low: Setting
    """Lowest value, watts or hertz; what is asked for below is set to it."""
    high: Setting
    """Highest value; likewise."""

    @model_validator(mode="after")
    def _ordered(self) -> Allowed:
        if not 0 < self.low <= self.high:
            raise ValueError("low must be above 0 and not above high")
        return self


class CountersSection(Section):
    """Hardware counters, by perf: cycles, instructions and these events."""

    perf: str = "perf"
    """The program."""
    memory: Annotated[tuple[str, ...], Field(min_length=1)]
    """Events that count memory transactions; their sum counts, such as those of all memory controllers."""


class AgentConfig(Section):
    """Everything an agent needs."""

    broker: BrokerSection
    node: Word = Field(default_factory=socket.gethostname)
    """Name of the node in Slurm; by default the host's."""
    state_dir: Path = Path("/var/lib/wattqueue-agent")
    """Where the limits that were found are kept until they are restored."""
    period_s: Annotated[float, Field(gt=0, le=60)] = 1.0
    """Time between two readings."""
    timeout_s: Annotated[float, Field(gt=0, le=3600)] = 10.0
    """Silence of the agent after which its keeper restores the limits."""
    powercap: Path = POWERCAP
    cpufreq: Path = CPUFREQ
    gpus: bool = True
    counters: CountersSection | None = None
    """Counters for the check of misnamed applications; none by default."""
    allow: tuple[Allowed, ...] = ()
    """What may be set; without any the agent only reads."""

    def allowed(self, name: str) -> Bounds | None:
        """Return the range that the site allows for a limit, by the first entry that names it; None if none does."""
        found = (Bounds(a.low, a.high) for a in self.allow if fnmatchcase(name, a.limit))
        return next(found, None)


def load_agent_config(path: Path) -> AgentConfig:
    """Read and check a configuration; relative paths in it start at its folder.

    Raises: InputError naming the key that is wrong.
    """
    config = read_model(path, AgentConfig)
    if config.timeout_s < 3 * config.period_s:
        raise InputError("timeout_s is below three periods", where=path, hint=f"at least {3 * config.period_s:g}")
    broker = config.broker.model_copy(update=_anchored(config.broker, path.resolve().parent))
    return config.model_copy(update={**_anchored(config, path.resolve().parent), "broker": broker})


def _anchored(section: BaseModel, folder: Path) -> dict[str, Path]:
    """Return the paths of a section as absolute ones."""
    return {name: folder / value for name, value in section if isinstance(value, Path)}
