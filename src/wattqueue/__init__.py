"""WattQueue: an energy- and power-aware scheduler for HPC clusters.

One set of policies, written once, simulates a workload under a power cap, predicts what jobs will draw and how long
they run, and drives a stock Slurm.

The names below are the public Python API (docs/guide/python.md); parts of your own import ``wattqueue.parts`` as
well. Everything else may move between releases. Names are imported when they are first used::

    import wattqueue as wq

    jobs = wq.read_jobs("trace.swf.gz")
    run = wq.simulate(jobs, nodes=100, node_watts="95:190", policy="easy", cap="80%", estimator="history-mean")
    run.metrics["wait_s_mean"], run.jobs, run.power
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wattqueue.lazy import lazy_names
from wattqueue.version import SCHEMA_VERSION as SCHEMA_VERSION
from wattqueue.version import __version__ as __version__

if TYPE_CHECKING:
    from wattqueue.api.compare import compare
    from wattqueue.api.jobs import JobTable, generate, read_jobs
    from wattqueue.api.plan import plan
    from wattqueue.api.predict import predict
    from wattqueue.api.run import RunResult, read_run
    from wattqueue.api.simulate import replay, simulate
    from wattqueue.api.whatif import whatif
    from wattqueue.campaign.run import run_cells
    from wattqueue.campaign.shared import Shared
    from wattqueue.errors import InputError, MachineError, PolicyError, WattQueueError
    from wattqueue.formats.machine.file import load_machine
    from wattqueue.model.consent import Consent
    from wattqueue.model.jobs import Jobs
    from wattqueue.model.load_target import LoadTarget, LoadTargets
    from wattqueue.model.machine import Machine, Partition
    from wattqueue.model.signals import Cap
    from wattqueue.policy.policy import load_policy

_HOMES = {
    "Cap": "wattqueue.model.signals",
    "Consent": "wattqueue.model.consent",
    "JobTable": "wattqueue.api.jobs",
    "Jobs": "wattqueue.model.jobs",
    "LoadTarget": "wattqueue.model.load_target",
    "LoadTargets": "wattqueue.model.load_target",
    "Machine": "wattqueue.model.machine",
    "Partition": "wattqueue.model.machine",
    "RunResult": "wattqueue.api.run",
    "Shared": "wattqueue.campaign.shared",
    "compare": "wattqueue.api.compare",
    "generate": "wattqueue.api.jobs",
    "load_machine": "wattqueue.formats.machine.file",
    "load_policy": "wattqueue.policy.policy",
    "plan": "wattqueue.api.plan",
    "predict": "wattqueue.api.predict",
    "read_jobs": "wattqueue.api.jobs",
    "read_run": "wattqueue.api.run",
    "replay": "wattqueue.api.simulate",
    "run_cells": "wattqueue.campaign.run",
    "simulate": "wattqueue.api.simulate",
    "whatif": "wattqueue.api.whatif",
    **dict.fromkeys(("InputError", "MachineError", "PolicyError", "WattQueueError"), "wattqueue.errors"),
}
"""Module in which each public name is defined."""

__all__ = [  # noqa: RUF022  in the order in which they are used
    "read_jobs", "generate", "JobTable", "Jobs",
    "load_machine", "Machine", "Partition", "Cap", "LoadTarget", "LoadTargets", "Consent",
    "load_policy",
    "simulate", "read_run", "RunResult", "replay", "compare", "whatif", "plan", "predict", "run_cells", "Shared",
    "WattQueueError", "InputError", "MachineError", "PolicyError",
]  # fmt: skip

__getattr__ = lazy_names(__name__, _HOMES)


def __dir__() -> list[str]:
    """Return the public names, so that a shell completes them before they are used."""
    return [*__all__, "SCHEMA_VERSION", "__version__"]
