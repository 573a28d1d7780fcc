"""Whole nodes instead of sockets: nodes whose factor comes from two sockets, and jobs that take all of a node.

Section 4.1 of paper 2 says that jobs get whole nodes; its published simulator hands out sockets. **Assumed**: socket
2k and 2k + 1 are node k; an application of one process runs on the first of them and leaves the second idle, which the
budget does not cover, as it covers no other idle socket.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from wattqueue.errors import InputError
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.unit_table import UnitTable
from wattqueue.parts.estimator.unit_watts import UnitWatts
from wattqueue_studies.variability.codes import applications
from wattqueue_studies.variability.physics import LIMIT_W

PER_NODE = 2


class SocketLimits(UnitWatts):
    """Every socket that an application uses counts the limit of a socket: slurm-extended on whole nodes.

    Reference: paper 2, section 3 (SLURM extended).
    """

    machine_figures: bool = True

    def __init__(self, *, nodes: int) -> None:
        apps = tuple(applications())
        watts = np.repeat(LIMIT_W * sockets_used(apps)[:, np.newaxis], nodes, axis=1)
        super().__init__(table=UnitTable.of_watts(apps, [f"node{k}" for k in range(nodes)], watts, "generated"))


def sockets_used(apps: Iterable[str]) -> Floats:
    """Return how many sockets of a node each application uses: one process each; of a benchmark both. Shape (apps,)."""
    known = applications()
    return np.array([1.0 if app in known and known[app].processes == 1 else float(PER_NODE) for app in apps])


def node_machine(machine: Machine) -> Machine:
    """Return a machine of sockets as one of nodes, each of the highest watts of its sockets."""
    parts = [replace(p, unit="node", max_w=None if p.max_w is None else PER_NODE * p.max_w) for p in machine.partitions]
    return replace(machine, name=f"{machine.name}-nodes", partitions=tuple(parts))


def node_watts(apps: Iterable[str], watts: Floats) -> Floats:
    """Return the watts of applications on nodes from those on sockets. Shapes (A, sockets), (A, sockets / 2)."""
    both = (sockets_used(apps) == PER_NODE)[:, np.newaxis]
    found: Floats = watts[:, ::PER_NODE] + both * watts[:, 1::PER_NODE]
    return found


def node_jobs(jobs: Jobs) -> Jobs:
    """Return jobs of sockets as jobs of nodes; watts are those of a node's sockets that the application uses.

    Raises: InputError for a job that leaves a socket of one of several nodes idle, or that has no profile.
    """
    used = sockets_used(jobs.app.names)[jobs.app.codes]
    odd = np.flatnonzero(jobs.nodes % used)
    if len(odd) or jobs.profiles is None:
        raise InputError(
            "a job does not fill its nodes, or has no profile", where="column sockets", hint="use even numbers"
        )
    profiles = replace(jobs.profiles, base_w=jobs.profiles.base_w * used, scale_w=jobs.profiles.scale_w * used)
    work = jobs.runtime_s
    return replace(
        jobs,
        nodes=(jobs.nodes // used).astype(jobs.nodes.dtype),
        mean_power_w=profiles.mean_power_w(work),
        max_power_w=profiles.max_power_w(work),
        profiles=profiles,
    )
