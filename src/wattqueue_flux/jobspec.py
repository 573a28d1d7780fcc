"""What a jobspec asks for, in whole nodes (watts are counted by whole nodes: ADR 0018).

Flux itself parses the jobspec (``flux.resource``, RFC 14 and 25); here its request becomes a number of nodes. A job of
slots gets as many whole nodes as hold its slots, and no other job starts there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from wattqueue.errors import InputError
from wattqueue.live.cluster import Details
from wattqueue.model.bounds import UNIT_W
from wattqueue_flux.nodes import Serving

KNOWN = frozenset({"node", "slot", "core", "gpu"})
"""Types of resources that are counted; a job that asks for another is refused rather than run without it."""
WATTS = "attributes.system.wattqueue.watts"


class NodeNeed(NamedTuple):
    """What a job needs."""

    nodes: int
    most: int
    """The greatest number of nodes that it accepts."""
    slots_a_node: int
    """Of a job that states nodes; 0 for one that states slots."""
    slots: int
    """Of a job that states slots alone."""
    duration_s: float
    """0: no limit."""
    able: frozenset[str] | None
    """Names of nodes that may serve it; None for all."""

    def slots_of(self, nodes: int) -> int:
        """Return the number of slots on so many nodes."""
        return self.slots_a_node * nodes if self.slots_a_node else self.slots


def need_of(request: Any, serving: Serving) -> NodeNeed:
    """Return what a job needs. ``request``: Flux's ResourceRequest; ``serving``: the nodes that its constraints allow.

    Raises: InputError for what no node can give, or what is not counted.
    """
    unknown = sorted(_types(request.jobspec.get("resources", [])) - KNOWN)
    if unknown:
        hint = f"ask for {', '.join(sorted(KNOWN))}"
        raise InputError(f"resource {unknown[0]!r} is not known to this scheduler", where="resources", hint=hint)
    if not all(_is_range(one) for one in (request.node_count, request.slot_count) if one is not None):
        raise InputError("a count of discrete values is not supported", where="resources", hint="state min and max")
    by_slot, slots = request.node_count is None, request.slot_count.min
    # of a job that states nodes each must hold all of its slots
    a_node = 1 if by_slot else slots
    fits = {shape: fit for shape in serving.by_shape if (fit := _slots_in(shape, request)) >= a_node}
    names, able = serving.having(frozenset(fits))
    # whichever nodes are chosen, the smallest of them hold all slots
    least = math.ceil(slots / min(fits.values(), default=1)) if by_slot else request.node_count.min
    if able < least:
        text = f"it needs {least} nodes, and {able} of this instance could serve it"
        raise InputError(text, where="resources")
    most = least if by_slot else min(request.node_count.max or able, able)
    return NodeNeed(least, max(least, most), 0 if by_slot else slots, slots, request.duration, names)


def _types(vertices: Any) -> set[str]:
    """Return the types of a resource graph."""
    found, left = set(), list(vertices)
    while left:
        vertex = left.pop()
        found.add(str(vertex.get("type", "")))
        left += vertex.get("with", [])
    return found


def _is_range(count: Any) -> bool:
    """Return whether a count takes each number from its least to its greatest."""
    return count.max is None or len(list(count.valid_counts(count.max))) == count.max - count.min + 1


def _slots_in(shape: tuple[int, int], request: Any) -> int:
    """Return how many slots a node with so many cores and GPUs holds."""
    cores, gpus = int(request.slot_size), int(request.gpu_per_slot)
    by_cores = shape[0] // max(cores, 1)
    return by_cores if gpus <= 0 else min(by_cores, shape[1] // gpus)


def system_of(jobspec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return ``attributes.system``; empty where there is none."""
    attributes = jobspec.get("attributes") or {}
    return attributes.get("system") or {}


def details_of(jobspec: Mapping[str, Any], uid: int) -> Details:
    """Return what a job states once: name or program as application, bank, project, its own tag of consent, watts.

    Raises: InputError for watts that are none.
    """
    system = system_of(jobspec)
    own = one if isinstance(one := system.get("wattqueue"), Mapping) else {}
    command = (jobspec.get("tasks") or [{}])[0].get("command") or [""]
    name = (system.get("job") or {}).get("name") or str(command[0]).rpartition("/")[2]
    comment = f"wattqueue:{own['consent']}" if "consent" in own else ""
    watts = own.get("watts", 0.0)
    if isinstance(watts, bool) or not isinstance(watts, int | float):
        raise InputError(f"{watts!r} is no number", where=WATTS, hint="state the watts of one node")
    UNIT_W.require(watts, "watts", where=WATTS)
    bank, project = (str(system.get(key, "")) for key in ("bank", "project"))
    return Details(str(own.get("app", name)), f"u{uid}", bank, comment, "", 0, 1, 0, project, watts)
