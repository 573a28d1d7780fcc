"""Power domains that can hold jobs back (``kernels/supply.py``)."""

from __future__ import annotations

from typing import NamedTuple

from wattqueue.kernels._numba import referenced
from wattqueue.kernels.state.queue import Array


@referenced
class SupplyLimits(NamedTuple):
    """G power domains, those below others first, and V leaves: runs of units of one partition and one lowest domain.

    All empty where no domain can hold a job back. Watts are microwatts of a domain's input (rule 22).
    """

    parent: Array
    """(G,) int32 the domain that feeds each, -1 for none."""
    gain: Array
    """(G,) float64 watts that it counts for a watt of a unit."""
    room: Array
    """(G,) int64 its limit less base, idle watts and running jobs."""
    limit: Array
    """(G,) int64 the limit in force."""
    base: Array
    """(G,) int64 base and the idle watts of all its units."""
    time: Array
    """(K,) float64 when limits change; the first row holds before its time, too."""
    limits: Array
    """(K, G) int64 the limits from each time on."""
    highest: Array
    """(K, G) int64 the highest limits from each time on."""
    leaf_start: Array
    """(P + 1,) int32 first leaf of each partition."""
    leaf_unit: Array
    """(V + 1,) int32 first unit of each leaf, and U at the end."""
    leaf_domain: Array
    """(V,) int32 its lowest domain, -1 for none."""
    leaf_of: Array
    """(U,) int32 leaf of each unit."""
    free: Array
    """(V,) int64 free units of each leaf."""
    then_free: Array
    """(P, V) int64 the same at the shadow time of each partition's reservation, without the reserved entry."""
    then_room: Array
    """(P, G) int64 room at that time, without the reserved entry."""
    take: Array
    """(V,) int64 working space: units that a start would take of each leaf."""
    most: Array
    """(G,) int64 working space: units that fit below each domain."""
    spare_free: Array
    """(V,) int64 working space."""
    spare_room: Array
    """(G,) int64 working space."""
