"""What jobs ask for, by Flux's own parsers of jobspecs and constraints."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from wattqueue_flux.jobspec import NodeNeed, need_of, system_of
from wattqueue_flux.nodes import Cache, FluxInstance, Serving, ids_of


def ranks_of(resources: Any) -> set[int]:
    """Return the ranks of a resource set of Flux."""
    return {rank for one in resources.to_dict()["execution"]["R_lite"] for rank in ids_of(one["rank"])}


class Wanted:
    """Reads jobspecs for one set of nodes. ``queues``: the properties that each queue requires."""

    def __init__(self, queues: Mapping[str, Collection[str]] | None = None) -> None:
        self.queues = queues or {}
        self._serving: dict[tuple[str, frozenset[int]], Serving] = Cache()
        """The nodes that constraints allow, by their text: most jobs have few different ones."""

    def need(self, jobspec: Mapping[str, Any], pool: Any, instance: FluxInstance) -> NodeNeed:
        """Return what a jobspec asks for. Raises: InputError, ValueError, KeyError, TypeError."""
        request, queue = pool.parse_resource_request(jobspec), system_of(jobspec).get("queue")
        required = self.queues.get(queue, ()) if isinstance(queue, str) else ()
        wanted = [*([request.constraint] if request.constraint else []), *({"properties": [p]} for p in required)]
        key = json.dumps(wanted, sort_keys=True), instance.lost
        if key not in self._serving:
            chosen = ranks_of(pool.impl.copy_constraint({"and": wanted})) if wanted else None
            nodes = [
                node for node in instance.nodes
                if node.name in instance.partition and node.rank not in instance.lost
                and (chosen is None or node.rank in chosen)
            ]  # fmt: skip
            self._serving[key] = Serving.of(nodes, whole=len(nodes) == len(instance.nodes) - len(instance.lost))
        return need_of(request, self._serving[key])
