"""Device limits under a machine's power domains: their tree as the redistribution takes it, and what limits leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.kernels.codes import MICRO, NO_CAP
from wattqueue.model.machine import Machine
from wattqueue.model.supply_binding import binding_as_stated
from wattqueue.parts.contracts import Floats

if TYPE_CHECKING:
    from wattqueue.kernels.redistribution import Sockets
    from wattqueue.kernels.redistribution_by_domain import CapTree

ROOT = -1


@dataclass(frozen=True, eq=False)
class TreeOrder:
    """A tree in the order of ``CapTree``: domains of which each stands after all below it, devices by domain."""

    tree: CapTree
    devices: NDArray[np.int64]
    """The device at each place. Shape (S,)."""
    domains: NDArray[np.int64]
    """The domain at each place; -1 for the root. Shape (D + 1,)."""

    def even_w(self, minimum_w: Floats, maximum_w: Floats) -> Floats:
        """Return an even share of the least limit above each device, within the hardware's limits. Shape (S,)."""
        from wattqueue.kernels.redistribution import new_sockets
        from wattqueue.kernels.redistribution_by_domain import even_shares

        even_shares(new_sockets(np.empty(0), np.zeros(len(self.devices)), minimum_w, maximum_w), self.tree)
        return self.by_device(self.tree.even_w)

    def stepped(self, sockets: Sockets, rates: Floats) -> Floats:
        """Return the caps after a step. Shape (S,). Raises: InputError where least caps exceed a domain's limit."""
        from wattqueue.kernels.redistribution_by_domain import even_shares, step_by_domain

        sockets = type(sockets)(*(one if len(one) == 1 else one[self.devices] for one in sockets))
        even_shares(sockets, self.tree)
        lacking_uw = step_by_domain(sockets, self.tree, rates)
        if lacking_uw > len(sockets.cap_w):  # less is rounding to whole microwatts
            raise InputError(
                f"the least caps of the devices of a power domain sum to {lacking_uw / MICRO:g} W above its limit",
                where="supply",
                hint="lower minimum_w, or raise the limit",
            )
        return self.by_device(sockets.cap_w)

    def by_device(self, values: Floats) -> Floats:
        """Return figures in the tree's order by number of the device."""
        found = np.empty(len(values))
        found[self.devices] = values
        return found


def tree_of(parent: Sequence[int], of_device: NDArray[np.integer]) -> TreeOrder:
    """Return the tree of domains and devices; -1 as parent or domain stands for the root, which holds the budget.

    ``parent`` (D,): the domain that feeds each; ``of_device`` (S,): the lowest domain of each device. No limit is set.
    """
    from wattqueue.kernels.redistribution_by_domain import CapTree

    below: dict[int, list[int]] = {k: [] for k in range(ROOT, len(parent))}
    for k, above in enumerate(parent):
        below[above].append(k)
    order, stack = list[int](), [ROOT]
    while stack:  # each before what it feeds, the last one first: turned round, each stands after what it feeds
        order.append(stack.pop())
        stack += below[order[-1]]
    order.reverse()
    count, place = len(order), {k: at for at, k in enumerate(order)}
    at_device = np.array([place[int(k)] for k in of_device], np.int64)
    devices = np.argsort(at_device, kind="stable")
    own = np.bincount(at_device, minlength=count)
    ends = np.cumsum(own)
    first_below = np.arange(count)
    for at, k in enumerate(order):
        first_below[at] = min([at, *(first_below[place[j]] for j in below[k])])
    begins = np.concatenate([[0], ends])[first_below]
    first, entry, where = [0], list[int](), np.full(count, len(of_device) + count - 1)
    for at, k in enumerate(order):
        entry += range(int(ends[at] - own[at]), int(ends[at]))
        for j in below[k]:
            where[place[j]] = len(entry)
            entry.append(-1 - place[j])
        first.append(len(entry))
    tree = CapTree(
        np.array([-1 if k == ROOT else place[parent[k]] for k in order], np.int32), first_below.astype(np.int32),
        np.stack([begins, ends - own, ends], axis=1).astype(np.int32), np.array(first, np.int32),
        np.array(entry, np.int32), where.astype(np.int32), np.full(count, NO_CAP, np.int64),
        np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(len(of_device) + count, np.int64),
        np.zeros(len(of_device)),
    )  # fmt: skip
    return TreeOrder(tree, devices, np.array(order, np.int64))


@dataclass(frozen=True, eq=False)
class DomainCaps:
    """The power domains of a machine that can hold its devices back."""

    machine: Machine

    @property
    def bind(self) -> bool:
        """Whether some domain can hold devices back whose units draw no more than is stated."""
        return bool(self._binding.any())

    @cached_property
    def _binding(self) -> NDArray[np.bool_]:
        return binding_as_stated(self.machine)

    @cached_property
    def order(self) -> TreeOrder:
        """Return the tree of domains, with the devices of the machine."""
        supply, of_unit = self.machine.supply_tree, self.machine.device_of_unit
        first = np.unique(of_unit, return_index=True)[1]  # all units of a device have one domain
        return tree_of(supply.parent.tolist(), supply.of_unit[first])

    @cached_property
    def _fixed(self) -> tuple[Floats, Floats]:
        """Return the base of each domain in microwatts, through its losses, and the gain of its devices."""
        supply = self.machine.supply_tree
        return supply.input_uw([0.0] * len(self.machine.partitions)).astype(np.float64), supply.gain

    def at(self, now_s: float, budget_w: float) -> TreeOrder:
        """Return the tree with what the caps of the devices below each domain may sum to at a time."""
        base_uw, gain = self._fixed
        limits_w = np.array([domain.limit_at(now_s) for domain in self.machine.supply_tree.domains])
        limits_w[~self._binding] = np.inf
        room_uw = np.where(gain == 1.0, limits_w * MICRO - base_uw, (limits_w * MICRO - base_uw) / gain - 1.0)
        found = np.floor(np.clip(np.append(room_uw, budget_w * MICRO), 0.0, float(NO_CAP)))
        limit_uw = found.astype(np.int64)[self.order.domains]  # the root is the last, and has number -1
        return replace(self.order, tree=self.order.tree._replace(limit_uw=limit_uw))
