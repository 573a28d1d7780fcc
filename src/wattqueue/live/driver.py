"""What a driver of a resource manager implements (docs/guide/driver.md), on the types of ``live.cluster``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from wattqueue.live.cluster import Snapshot, WriteDriver


class Finding(NamedTuple):
    """Something installed that contradicts the configuration. ``fatal``: the cap or the control would not hold."""

    what: str
    fatal: bool


class Cluster(WriteDriver, Protocol):
    """What a driver implements. It is used by one thread."""

    @property
    def name(self) -> str:
        """Name of the resource manager in messages."""
        ...

    def observe(self) -> Snapshot:
        """Return the cluster now.

        Nothing is returned from half of the lists: a decision on them could start a job twice. The pool is
        read after the jobs; read before, it would still count a job that ended in between.

        Raises: ClusterError where a list cannot be read, or is cut short.
        """
        ...

    def check(self) -> Sequence[Finding]:
        """Compare what is installed on the cluster with what the configuration needs, at the start."""
        ...
