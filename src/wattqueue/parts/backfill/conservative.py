"""Conservative backfilling: every queued entry has a reservation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wattqueue.kernels import codes
from wattqueue.parts.backfill._base import CompiledPass


@dataclass(frozen=True)
class Conservative(CompiledPass):
    """Rebuild a plan of all queued entries at every pass; those whose planned start is now, start.

    An entry is placed at the earliest time at which nodes and watts suffice for its whole planned time beside all
    entries placed before it, so nothing delays an entry that is ahead in the queue, except a wrong run time. A pass
    costs O(queue x running jobs); ``queue_depth`` limits it.

    Reference: rule 9 of docs/semantics.md.
    """

    code: ClassVar[int] = codes.CONSERVATIVE
