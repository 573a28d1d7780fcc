"""EAMC on a real Slurm: the policy chooses partition and frequency of each job, and agents set the frequency.

Agents and their cpufreq trees stand on one node of each partition, and all other nodes are drained.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.live.drive import kept
from tests.live.site import TOTAL_W, Site, eamc_machine
from tests.live.slurmlab import wait_for
from tests.wattqueue_agent.broker_site import blocks, broker_site
from wattqueue.live.assemble import assemble
from wattqueue.live.config import load_config
from wattqueue.live.features.node_limits import NodeLimits
from wattqueue.live.slurm.cluster import SlurmCluster

pytestmark = [pytest.mark.slurm, pytest.mark.compiled, pytest.mark.xdist_group("slurm-3")]
NODES = {"n1": "p1", "n5": "p2"}
KHZ = (1_000_000, 3_100_000)
ALLOW = ("high = 150.0\n", 'high = 150.0\n[[allow]]\nlimit = "policy*"\nlow = 1.0e9\nhigh = 3.1e9\n')


def test_agents_set_the_frequency_that_eamc_chose_for_each_job(site: Site, tmp_path: Path) -> None:
    lab = site.lab
    site.keep_beating()
    others = ",".join(name for name in lab.names if name not in NODES)
    lab.run(["scontrol", "update", f"NodeName={others}", "State=DRAIN", "Reason=test"])
    try:
        with broker_site(tmp_path, list(NODES)) as broker:
            limit = {node: broker.add_cpufreq(node, KHZ) for node in NODES}
            for node in NODES:
                broker.start_agent(node, ALLOW)
            file = site.configure(f"{8 * 300 + TOTAL_W}W", machine=eamc_machine(), policy="eamc-priority-inc")
            section = blocks("toml")[4].replace('"broker"', f'"localhost"\nport = {broker.port}')
            for name, real in (("password", "controller.password"), ("ca.crt", "broker.crt")):
                section = section.replace(f'"{name}"', f'"{tmp_path}/{real}"')
            file.write_text(f"{file.read_text()}\n{section}")
            controller = assemble(load_config(file), SlurmCluster(lab.commands), time.time)
            chosen: dict[str, int] = {}

            def held_khz(node: str) -> int:
                return int(limit[node].read_text() or 0)

            def until(what: str, ready: object) -> None:
                assert callable(ready)
                wait_for(what, lambda: controller.round() is not None and bool(ready()), step_s=0.3)

            try:
                limits = kept(controller, NodeLimits)
                assert limits is not None
                until("the agents", lambda: set(limits.link.states) == set(NODES))
                jobs = [site.gated("-N1", "-p", "p1,p2", "-J", app) for app in "12345678"]
                while len(chosen) < len(jobs):
                    until("jobs that run", lambda: set(site.running()) - chosen.keys())
                    for job in set(site.running()) - chosen.keys():
                        node = lab.field(job, "NodeList")
                        (placed,) = (p for p in controller.planner.memory.placed.values() if p.key.name == job)
                        hertz = controller.planner.layout.machine.option_frequency_hz[placed.option]
                        chosen[job] = round(hertz / 1e3)
                        until(f"{chosen[job]} kHz on {node}", lambda n=node, j=job: held_khz(n) == chosen[j])
                        site.open_gate(job)
                until("what was found", lambda: {held_khz(node) for node in NODES} == {KHZ[-1]})
            finally:
                controller.telemetry.close()
                controller.run_dir.release()
        assert len(set(chosen.values())) > 1, "applications differ in their best frequency"
    finally:
        lab.run(["scontrol", "update", f"NodeName={others}", "State=RESUME"])
