"""The machines and jobs of the study, from the design in its claims.toml."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.supply import SupplyDomain
from wattqueue_studies.frame.published import stated_design

HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Design:
    """What is drawn and simulated; see claims.toml."""

    racks: int
    nodes: int
    rows: int
    idle_w: float
    watts: tuple[float, ...]
    max_w: float
    jobs: int
    widest: int
    run_s: tuple[float, float]
    row_share: float
    contract_share: float
    seeds: int
    bounds: tuple[int, ...]
    breaker_nodes: int
    rack_nodes: tuple[int, ...]
    error: float
    derated: float
    derated_h: tuple[float, float]
    gpu_limits_w: tuple[float, ...]
    hall: dict[str, float]
    mixes: dict[str, tuple[float, float]]

    @classmethod
    def stated(cls) -> Design:
        """Return the design of claims.toml."""
        return cls(**stated_design("wattqueue_studies.domains"))

    def draw(self, seed: int, *, error: float = 0.0) -> Jobs:
        """Return the jobs of a seed, all submitted at 0. ``max_power_w`` is what is counted, the mean what is drawn.

        With an error of watts the two differ; nothing draws more than the stated maximum.
        """
        rng, n = np.random.default_rng(seed), self.jobs
        nodes = np.floor(np.exp(rng.uniform(0.0, np.log(self.widest + 1.0), n))).astype(np.int64)
        run_s = np.exp(rng.uniform(np.log(self.run_s[0]), np.log(self.run_s[1]), n))
        counted = rng.choice(self.watts, n)
        net = counted - self.idle_w
        if error:
            net = np.minimum(net * np.exp(rng.normal(0.0, error, n)), self.max_w - self.idle_w)
        return Jobs.build(
            np.zeros(n), np.clip(nodes, 1, self.widest), run_s, mean_power_w=self.idle_w + net, max_power_w=counted,
            origin="generated",
        )  # fmt: skip

    def machine(self, limits_w: tuple[float, float], nodes: int) -> Machine:
        """Return racks of so many nodes with limits by turns, watts above idle, below rows and a contract."""
        racks = [
            SupplyDomain(
                name=f"rack{k + 1:03}", parent=f"row{k * self.rows // self.racks + 1:02}", limit_w=limits_w[k % 2],
                nodes=f"p[{k * nodes + 1}-{k * nodes + nodes}]",
            )
            for k in range(self.racks)
        ]  # fmt: skip
        below = dict[str, float]()
        for k, rack in enumerate(racks):
            below[rack.parent] = below.get(rack.parent, 0.0) + limits_w[k % 2]
        rows = [SupplyDomain(name=n, parent="contract", limit_w=self.row_share * w) for n, w in below.items()]
        contract = self.contract_share * self.row_share * sum(below.values())
        top = SupplyDomain(name="contract", limit_w=contract)
        part = Partition("p", self.racks * nodes, idle_w=self.idle_w, max_w=self.max_w)
        return Machine("racks", (part,), "dynamic", supply=(*racks, *rows, top))

    def mixed(self, mix: str) -> Machine:
        """Return the machine of the first table."""
        whole = self.nodes * (self.max_w - self.idle_w)
        first, second = self.mixes[mix]
        return self.machine((first * whole, second * whole), self.nodes)

    def behind_breakers(self, nodes: int) -> Machine:
        """Return the machine of the second table: so many nodes a rack behind the same breakers."""
        limit = self.breaker_nodes * (self.max_w - self.idle_w)
        return self.machine((limit, limit), nodes)

    def derate(self, machine: Machine) -> Machine:
        """Return the machine with the first row derated for some hours."""
        begin, end = self.derated_h

        def lowered(domain: SupplyDomain) -> SupplyDomain:
            if domain.name != "row01" or domain.limit_w is None:
                return domain
            watts = (domain.limit_w, self.derated * domain.limit_w, domain.limit_w)
            return replace(domain, limit_w=None, limit_s=(0.0, begin * HOUR_S, end * HOUR_S), limits_w=watts)

        return replace(machine, supply=tuple(map(lowered, machine.supply)))

    def gpu_hall(self, limit_w: float) -> Machine:
        """Return as many nodes of GPUs as a hall feeds at a limit, which jobs may have, or none."""
        hall = self.hall
        node_w = hall["max_w"] - hall["of_node"] * (hall["gpu_max_w"] - limit_w)
        caps = (hall["gpu_max_w"],) if limit_w == hall["gpu_max_w"] else (hall["gpu_max_w"], limit_w)
        part = Partition(
            "gpu", int(hall["mw"] * 1e6 / node_w), idle_w=hall["idle_w"], max_w=hall["max_w"],
            gpus_per_node=int(hall["of_node"]), gpu_idle_w=hall["gpu_idle_w"], gpu_max_w=hall["gpu_max_w"],
            gpu_caps_w=caps,
        )  # fmt: skip
        return Machine("hall", (part,))

    def draw_for_gpus(self, seed: int) -> Jobs:
        """Return the jobs of a seed for whole nodes of GPUs, all submitted at 0."""
        rng, hall = np.random.default_rng(seed), self.hall
        n = int(hall["jobs"])
        nodes = np.floor(np.exp(rng.uniform(0.0, np.log(hall["widest"] + 1.0), n))).astype(np.int64)
        run_s = np.exp(rng.uniform(np.log(self.run_s[0]), np.log(self.run_s[1]), n))
        gpu_w = rng.uniform(hall["least_gpu_w"], hall["most_gpu_w"], n)
        watts = hall["idle_w"] + hall["of_node"] * (gpu_w - hall["gpu_idle_w"])
        return Jobs.build(np.zeros(n), nodes, run_s, mean_power_w=watts, origin="generated")


def without_tree(machine: Machine) -> Machine:
    """Return the machine with its contract alone: one cap."""
    top = next(domain for domain in machine.supply if not domain.parent)
    return replace(machine, supply=(replace(top, nodes="p"),))
