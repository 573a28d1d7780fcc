"""Redistribution of device limits under a tree of power domains (rule 22), in shares of whole microwatts.

What a device is lowered by goes to the devices of its own lowest domain first. What nobody asks for there goes to the
domains beside it, from there up, and at the root it meets the reserve. Shares are max-min fair level by level: the
domains and devices that one domain feeds get the same, none more than it asks for, and a domain asks for no more than
its limit leaves. So after each step no domain's caps sum to more than its limit.

One domain is Algorithm 1 of ``redistribution.py``: its caps are equal to the last bit (``step_caps``).
"""

from __future__ import annotations

from typing import NamedTuple

from wattqueue.kernels import codes
from wattqueue.kernels._numba import as_int64, entry, kernel, referenced
from wattqueue.kernels.redistribution import (
    DECREASE,
    INCREASE,
    LOWER,
    RESET,
    UPPER,
    Sockets,
    level_between,
    lower_between,
    reset_between,
    step_of,
    sum_between,
    take_unused,
)
from wattqueue.kernels.state import Array

BEGIN, OWN, END = 0, 1, 2
"""Devices of a domain: the first below it, the first that it feeds itself, and the one after the last."""


@referenced
class CapTree(NamedTuple):
    """D domains, those below others first and each beside what it feeds, the root last; S devices in their order.

    ``parts/domain_caps.py`` makes it of a machine.
    """

    parent: Array
    """(D,) int32 domain that feeds each; -1 for the root."""
    below: Array
    """(D,) int32 first domain of each subtree, which ends with the domain itself."""
    devices: Array
    """(D, 3) int32 BEGIN, OWN and END of the devices of each."""
    first: Array
    """(D + 1,) int32 first entry of each domain: the devices that it feeds, then the domains."""
    entry: Array
    """(S + D - 1,) int32 number of a device; -1 less the number of a domain."""
    place: Array
    """(D,) int32 entry of each domain at its parent's; the root's stands after all."""
    limit_uw: Array
    """(D,) int64 what the caps of the devices below may sum to."""
    sum_uw: Array
    """(D,) int64 what they sum to; working space."""
    given_uw: Array
    """(D,) int64 what a domain is given, or what it has left for the one above; working space."""
    want_uw: Array
    """(S + D,) int64 what each entry asks for, the root's as the last; working space."""
    even_w: Array
    """(S,) float64 even share of each device: the least of those of the domains above it; written."""


@entry
def step_by_domain(sockets: Sockets, tree: CapTree, rates: Array) -> int:
    """Write the caps of the next step; return the most microwatts by which least caps exceed the limit of a domain.

    In this order: caps above a lowered limit come down, those below first; Algorithm 1; sockets of jobs that have
    started are reset. ``rates`` (RATES,) float64; ``cap_w`` is working space.
    """
    lacking = lower_domains(sockets, tree)
    sum_domains(sockets, tree)
    root = len(tree.parent) - 1
    spare = max(as_int64(0), tree.limit_uw[root] - tree.sum_uw[root])
    take_unused(sockets, rates[LOWER], rates[UPPER], rates[DECREASE], rates[INCREASE])
    take_out(sockets, tree)
    tree.given_uw[root] += spare
    for d in range(len(tree.parent)):
        hand_out(tree, d)
    raise_caps(sockets, tree)
    if rates[RESET] != 0.0:
        reset_domains(sockets, tree)
    return lacking


@kernel
def lower_domains(sockets: Sockets, tree: CapTree) -> int:
    """Lower the caps of each domain above its limit; return the most microwatts by which least caps exceed one."""
    lacking = as_int64(0)
    for d in range(len(tree.parent)):
        begin, end = tree.devices[d, BEGIN], tree.devices[d, END]
        lacking = max(lacking, lower_between(sockets, begin, end, tree.limit_uw[d]))
        keep_between(sockets, begin, end)
    return lacking


@kernel
def keep_between(sockets: Sockets, begin: int, end: int) -> None:
    """Go on from the caps that were written for some devices."""
    for i in range(begin, end):
        sockets.cap_w[i] = sockets.new_cap_w[i]


@kernel
def sum_domains(sockets: Sockets, tree: CapTree) -> None:
    """Write the sums of the caps of each domain."""
    for d in range(len(tree.parent)):
        tree.sum_uw[d] = sum_between(sockets.cap_w, tree.devices[d, BEGIN], tree.devices[d, END])


@kernel
def take_out(sockets: Sockets, tree: CapTree) -> None:
    """Take what devices were lowered by from the sums of their domains, and leave it to the lowest ones."""
    for d in range(len(tree.parent)):
        begin, own, end = tree.devices[d, BEGIN], tree.devices[d, OWN], tree.devices[d, END]
        tree.given_uw[d] = 0
        for i in range(begin, end):
            tree.sum_uw[d] -= sockets.surplus_uw[i]
        for i in range(own, end):
            tree.given_uw[d] += sockets.surplus_uw[i]
            tree.want_uw[tree.first[d] + i - own] = sockets.want_uw[i]


@kernel
def hand_out(tree: CapTree, d: int) -> None:
    """Share what a domain has among what it feeds, and leave the rest to the domain above it.

    What a domain asks of the one above follows: as much as is asked for below it, and its limit leaves.
    """
    pool, up = tree.given_uw[d], tree.parent[d]
    given = share_below(tree, d) if pool > 0 else as_int64(0)
    above = d
    while above >= 0:
        tree.sum_uw[above] += given
        above = tree.parent[above]
    if up >= 0:
        tree.given_uw[up] += pool - given
    asked = as_int64(0)
    for e in range(tree.first[d], tree.first[d + 1]):
        asked += tree.want_uw[e]
    tree.want_uw[tree.place[d]] = min(asked, max(as_int64(0), tree.limit_uw[d] - tree.sum_uw[d]))


@kernel
def share_below(tree: CapTree, d: int) -> int:
    """Share what a domain was given among all below it, from the top down; return what the domain itself handed out.

    What one level does not share out evenly, less than a microwatt for each, stays unused in this step.
    """
    handed = as_int64(0)
    for c in range(d, tree.below[d] - 1, -1):
        pool = tree.given_uw[c]
        tree.given_uw[c] = 0
        if pool > 0:
            level = level_between(tree.want_uw, tree.first[c], tree.first[c + 1], pool)
            for e in range(tree.first[c], tree.first[c + 1]):
                share = min(tree.want_uw[e], level)
                tree.want_uw[e] -= share
                if c == d:
                    handed += share
                if tree.entry[e] < 0:
                    tree.given_uw[-1 - tree.entry[e]] += share
                    tree.sum_uw[-1 - tree.entry[e]] += share
    return handed


@kernel
def raise_caps(sockets: Sockets, tree: CapTree) -> None:
    """Raise each cap by what its device was given, and go on from there."""
    high = step_of(sockets.maximum_w)
    for d in range(len(tree.parent)):
        own = tree.devices[d, OWN]
        for i in range(own, tree.devices[d, END]):
            share = sockets.want_uw[i] - tree.want_uw[tree.first[d] + i - own]
            if share > 0:
                sockets.new_cap_w[i] = min(sockets.cap_w[i] + share / codes.MICRO, sockets.maximum_w[i * high])
    keep_between(sockets, 0, len(sockets.cap_w))


@kernel
def reset_domains(sockets: Sockets, tree: CapTree) -> None:
    """Give devices on which jobs have started their even share again, in the lowest domains first.

    Others above theirs give, and the reserve that all domains above have. Within a domain no even share is above what
    its limit feeds each device, so what moves there keeps the domains below it but for rounding to whole microwatts,
    which is taken back at the end.
    """
    moved = as_int64(0)
    for d in range(len(tree.parent)):
        begin, end = tree.devices[d, BEGIN], tree.devices[d, END]
        begun = as_int64(0)
        for i in range(begin, end):
            begun += sockets.begins[i]
        if begun > 0:
            spare, above = as_int64(codes.NO_CAP), d
            while above >= 0:
                used = sum_between(sockets.cap_w, tree.devices[above, BEGIN], tree.devices[above, END])
                spare = min(spare, tree.limit_uw[above] - used)
                above = tree.parent[above]
            reset_between(sockets, begin, end, tree.even_w, max(as_int64(0), spare))
            keep_between(sockets, begin, end)
            moved += begun
    if moved > 0:
        lower_domains(sockets, tree)


@entry
def even_shares(sockets: Sockets, tree: CapTree) -> None:
    """Write the even share of each device: the least share of a domain above it, within the hardware's limits."""
    low, high = step_of(sockets.minimum_w), step_of(sockets.maximum_w)
    for d in range(len(tree.parent) - 1, -1, -1):
        count = max(tree.devices[d, END] - tree.devices[d, BEGIN], 1)
        tree.sum_uw[d] = tree.limit_uw[d] // count
        if tree.parent[d] >= 0:
            tree.sum_uw[d] = min(tree.sum_uw[d], tree.sum_uw[tree.parent[d]])
        for i in range(tree.devices[d, OWN], tree.devices[d, END]):
            share = tree.sum_uw[d] / codes.MICRO
            tree.even_w[i] = min(max(share, sockets.minimum_w[i * low]), sockets.maximum_w[i * high])
