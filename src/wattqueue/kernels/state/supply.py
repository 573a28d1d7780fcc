"""Power domains that can hold jobs back (``kernels/supply.py``), and nodes of GPUs (``kernels/supply_chunks.py``)."""

from __future__ import annotations

from typing import NamedTuple

from wattqueue.kernels._numba import referenced
from wattqueue.kernels.state.queue import Array


class SupplyClasses(NamedTuple):
    """The most units that fit, for C classes of net microwatts a unit (``kernels/supply_classes.py``)."""

    least: Array
    """(C,) int64 the least watts of each class, rising from 0."""
    share: Array
    """(G, C) float32 units that a domain feeds for a microwatt of room, at the least watts of a class."""
    below: Array
    """(P, G, C) float32 sums of the units that fit at the places below each domain, of one partition."""
    most: Array
    """(P, G, C) float32 units that fit below each domain."""
    capacity: Array
    """(P, C) float32 units that fit at the least watts of a class: an upper bound for the class."""
    alone: Array
    """(P, C) int64 units that fit on the idle machine at the least watts of a class."""
    refused_uw: Array
    """(P, C) int64 net microwatts a unit of a job that did not fit, ANY_WATT for none since anything was given back."""
    refused_most: Array
    """(P, C) int64 units that did fit of it."""
    beside: Array
    """(P, C) int64 units of a class, at most, that may outlive the shadow time beside the reserved entry."""
    is_known: Array
    """(P, C) int8 1 where that was counted for the class itself, not only for one of fewer watts."""
    counted: Array
    """(V,) int64 free units of each leaf that ``below`` has."""
    touched: Array
    """(V,) int32 leaves that have changed since, the first ``TOUCHED`` of them."""
    is_touched: Array
    """(V,) int8 1 for these."""


class SupplyPlacement(NamedTuple):
    """Working space of a placement that looks at all leaves (``kernels/supply_placement.py``)."""

    share: Array
    """(G,) float64 net microwatts that a domain, and those above it, have for each free unit below it."""
    pull: Array
    """(V,) float64 how early a leaf gives units to the job at hand, 0 to 1."""
    weight: Array
    """(V,) float64 free units, scaled for jobs that draw less than the mean."""
    want: Array
    """(V,) int64 units that the job gets of each leaf."""


class SupplyLoad(NamedTuple):
    """What stands in the domains at one time: now, at a shadow time, or for a trial."""

    free: Array
    """(V,) int64 free units of each leaf."""
    room: Array
    """(G,) int64 limit less base, idle watts and jobs."""
    drawn: Array
    """(2, G) int64 for margins: net microwatts of its jobs, and the sum of the squares of what each draws (W^2)."""
    below: Array
    """(G,) int64 sums of the units of one entry that fit at the places below each domain."""
    most: Array
    """(G,) int64 units of it that fit below each domain."""


class SupplyUnits(NamedTuple):
    """What single units count where a ledger measures them (``marks[BY_UNIT]``). Shapes (U,), int64 net microwatts."""

    counted: Array
    """What the domains count for each unit with a job."""
    fresh: Array
    """What the ledger would count for it, by the samples of now."""
    idle_above: Array
    """What the domains count for a unit without a job, above idle watts."""
    listed: Array
    """Figures of the listed units, leaf by leaf."""


class SupplyAhead(NamedTuple):
    """Lower limits of domains that are announced for later, where the pass looks ahead (``kernels/supply_ahead.py``).

    Rows of one epoch, between two notices, after the other; in each they rise by time.
    """

    known_s: Array
    """(E,) float64 when each epoch begins; empty where nothing is announced."""
    epoch_start: Array
    """(E + 1,) int64 first row of each epoch."""
    time_s: Array
    """(k,) float64 when some limit falls."""
    limit_uw: Array
    """(k, G) int64 the limit from then on, NO_CAP where it does not fall."""
    stamp: Array
    """(r,) int64 number of the pass that computed a row; r: the most rows of an epoch."""
    row: Array
    """(r,) int64 the row that was computed."""
    room: Array
    """(r, G) int64 what is left then below the limits of now."""
    drawn: Array
    """(r, 2, G) int64 ``SupplyLimits.drawn`` then."""
    place: Array
    """(1,) int64 the row that stands first in these."""


@referenced
class SupplyLimits(NamedTuple):
    """G power domains, those below others first, and V leaves: runs of units of one partition and one lowest domain.

    All empty where no domain can hold a job back, and no GPUs are given by node. Watts are microwatts of a domain's
    input (rule 22).
    """

    number: Array
    """(G,) int32 its place in the machine's tree (``model.supply.SupplyTree``)."""
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
    drawn: Array
    """(2, G) int64 net microwatts of running jobs, and the sum of their squares (W^2); 0 without margins."""
    terms: Array
    """(3,) float64 of the margin: share, relative variance of a job's own, and that of all jobs together."""
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
    of_node: Array
    """(P,) int32 GPUs of a node where they are given by node, each node a leaf of its own; 0 elsewhere."""
    at_once: Array
    """(2, P) int64 units of the widest job that fits into free ones where they are given by node, and VERSION then."""
    free: Array
    """(V,) int64 free units of each leaf."""
    then_free: Array
    """(P, V) int64 the same at the shadow time of each partition's reservation, without the reserved entry."""
    then_room: Array
    """(P, G) int64 room at that time, without the reserved entry."""
    then_drawn: Array
    """(P, 2, G) int64 ``drawn`` at that time, without the reserved entry."""
    then_below: Array
    """(P, G) int64 sums of the units of the reserved entry that fit then at the places below each domain."""
    then_most: Array
    """(P, G) int64 units of the reserved entry that fit then below each domain."""
    then_total: Array
    """(P,) int64 units of the reserved entry that fit then."""
    then_each: Array
    """(P,) int64 net microwatts of a unit of the reserved entry."""
    now_below: Array
    """(P, G) int64 ``then_below`` of the state now, for the entry that was reserved last."""
    now_most: Array
    """(P, G) int64 ``then_most`` of the state now."""
    now_total: Array
    """(P,) int64 ``then_total`` of the state now."""
    now_each: Array
    """(P,) int64 net microwatts of a unit of the entry that was reserved last, -1 for none."""
    leaf: Array
    """(V,) int32 leaves that a proposed start, or the job looked at last, has units of; the first ``LEAVES``."""
    take: Array
    """(V,) int64 how many of each."""
    most: Array
    """(G,) int64 working space: units that fit below each domain."""
    below: Array
    """(G,) int64 working space: sums of these at the places below."""
    spare_free: Array
    """(V,) int64 working space."""
    spare_room: Array
    """(G,) int64 working space."""
    spare_drawn: Array
    """(2, G) int64 working space."""
    of_job: Array
    """(G,) int64 working space: units of one job in each domain, 0 between two calls."""
    mix: Array
    """(V,) float64 working space: the most watts of two kinds of units that each leaf holds."""
    marks: Array
    """(17,) int64 what ``kernels/supply_load.py`` keeps, by its constants."""
    classes: SupplyClasses
    placement: SupplyPlacement
    ahead: SupplyAhead
    unit: SupplyUnits
