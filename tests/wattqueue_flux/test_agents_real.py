"""Agents of nodes under WattQueue as the scheduler of a real Flux: what they measure is learned, limits reach them.

Four real brokers with real processes, a real mosquitto, an agent for each broker. The nodes' processors alone are
stand-ins: their watts follow the frequency that their agents set.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from pathlib import Path
from typing import Any, cast

import pytest

from tests.wattqueue_agent.broker_site import BrokerSite, blocks, broker_site
from tests.wattqueue_agent.test_target_agents_real import MACHINE, TARGET_W, TOP_HZ
from tests.wattqueue_flux.fluxlab import NAME, Lab, instance, missing, real_flux, until, wait_for
from wattqueue.live.consent_tags import CONSENT
from wattqueue_flux.nodes import ids_of

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))
NODES = tuple(f"{socket.gethostname()}-{rank}" for rank in range(4))
SETTINGS = """
machine = "machine.toml"
policy = "dr-running"
cap = "1200 W"
mode = "control"
state = "live.db"
run_dir = "run"
targets = "targets.csv"
period_s = 1.0
[flux]
[consent]
every_s = 0.2
[limits]
hold_s = 12.0
silence_s = 4.0
"""


def write_files(site: BrokerSite, policy: str) -> None:
    broker = blocks("toml")[4].replace('"broker"', f'"localhost"\nport = {site.port}')
    broker = broker.replace('"password"', '"controller.password"').replace('"ca.crt"', '"broker.crt"')
    # Counted watts follow what is measured; what jobs may draw beyond them is accepted here.
    tracked = '[telemetry]\ntrack_running = true\naccepted_overshoot = "50%"\nwarm_up_s = 2.0\n'
    broker = broker.replace("[telemetry]\n", tracked, 1)
    (site.folder / "machine.toml").write_text(MACHINE)
    (site.folder / "live.toml").write_text(SETTINGS.replace("dr-running", policy) + broker)
    for node in NODES:
        site.start_agent(node)


def target(folder: Path) -> None:
    now_s = time.time()
    rows = f"{now_s - 1},{now_s + 900},{TARGET_W},W,3600,g\n"
    (folder / "targets.part").write_text("start_s,end_s,limit,unit,notice_s,correlation_id\n" + rows)
    (folder / "targets.part").rename(folder / "targets.csv")


def hertz(site: BrokerSite, lab: Lab, job: str) -> set[float]:
    """Frequencies of the nodes of a job."""
    return {site.trees[NODES[rank]].hertz() for rank in ids_of(lab.run("jobs", "-no", "{ranks}", job).strip(" []\n"))}


def status(folder: Path) -> dict[str, Any]:
    """The controller's status."""
    return cast(dict[str, Any], json.loads((folder / "run" / "status.json").read_text()))


def measured_w(folder: Path) -> float:
    """Watts of all nodes as agents measure them."""
    return float(status(folder)["measured_w"])


@real_flux
def test_a_target_slows_the_nodes_of_consenting_jobs_through_their_agents(tmp_path: Path) -> None:
    with broker_site(tmp_path, NODES, top_hz=TOP_HZ) as site:
        write_files(site, "dr-running")
        with instance(tmp_path, brokers=4) as lab:
            tag = "--setattr=system.wattqueue.consent=" + CONSENT.partition(":")[2]
            slow = lab.run("submit", "-N2", tag, "sleep", "900").strip()
            fast = lab.run("submit", "-N2", "sleep", "900").strip()
            wait_for("starts", lambda: lab.states()["RUN"] == 2)
            wait_for("measured nodes", lambda: status(tmp_path)["telemetry"]["measured"] == len(NODES))
            full_w = lab.stats()["used_w"]
            target(tmp_path)
            wait_for("slower nodes", lambda: hertz(site, lab, slow) == {TOP_HZ / 2})
            assert hertz(site, lab, fast) == {TOP_HZ}
            wait_for("their watts", lambda: measured_w(tmp_path) <= TARGET_W)
            wait_for("what they count", lambda: lab.stats()["used_w"] < full_w - 100)

            os.kill(lab.module_pid(), signal.SIGKILL)  # limits end with their holds, and agents restore what they found
            wait_for("its end", lambda: NAME not in lab.run("module", "list"))
            wait_for("restored nodes", lambda: hertz(site, lab, slow) == {TOP_HZ})
            assert lab.states() == {"RUN": 2}
            lab.load()
            wait_for("slower nodes again", lambda: hertz(site, lab, slow) == {TOP_HZ / 2})
            assert hertz(site, lab, fast) == {TOP_HZ}

            (tmp_path / "targets.csv").unlink()
            wait_for("full speed", lambda: hertz(site, lab, slow) == {TOP_HZ})
            wait_for("their watts", lambda: measured_w(tmp_path) > TARGET_W)
            lab.run("cancel", slow, fast)
            wait_for("the end of both", lambda: lab.states()["INACTIVE"] == 2)
            assert lab.stats()["used_w"] == 0


@real_flux
def test_later_jobs_of_an_application_count_what_agents_measured_of_earlier_ones(tmp_path: Path) -> None:
    with broker_site(tmp_path, NODES, top_hz=TOP_HZ) as site:
        for tree in site.trees.values():
            tree.demand_w = [60.0, 60.0]
        write_files(site, "easy+estimator=app-mean")
        with instance(tmp_path, brokers=4) as lab:
            own = "--setattr=system.wattqueue.app=hpl"
            lab.run("submit", "-N2", own, *until(tmp_path / "go"))
            wait_for("a start", lambda: lab.states()["RUN"] == 1)
            assert lab.stats()["used_w"] == 2 * 200, "nothing is known of it"
            wait_for("measured nodes", lambda: 700.0 < measured_w(tmp_path) < 740.0)
            time.sleep(5.0)  # so much of it is measured
            (tmp_path / "go").touch()
            wait_for("its end", lambda: lab.states()["INACTIVE"] == 1)
            wait_for("what was learned", lambda: learned(lab) < 2 * 100)


@real_flux
def test_watts_follow_measurements_and_their_end_whatever_the_period(tmp_path: Path) -> None:
    """No event of a job, and no periodic round for minutes."""
    with broker_site(tmp_path, NODES, top_hz=TOP_HZ) as site:
        for tree in site.trees.values():
            tree.demand_w = [60.0, 60.0]
        write_files(site, "easy")
        file = tmp_path / "live.toml"
        file.write_text(file.read_text().replace("period_s = 1.0", "period_s = 300.0"))
        file.write_text(file.read_text().replace("[telemetry]\n", "[telemetry]\nstale_s = 3.0\n", 1))
        with instance(tmp_path, brokers=4) as lab:
            job = lab.run("submit", "-N2", "sleep", "900").strip()
            wait_for("a start", lambda: lab.states()["RUN"] == 1)
            full_w = lab.stats()["used_w"]
            wait_for("what is measured", lambda: lab.stats()["used_w"] < full_w)
            for node in NODES:
                site.kill(node)
            wait_for("the end of what was measured", lambda: status(tmp_path)["telemetry"]["measured"] == 0)
            lab.run("cancel", job)


def learned(lab: Lab) -> int:
    """What another job of the application counts."""
    job = lab.run("submit", "-N2", "--setattr=system.wattqueue.app=hpl", "sleep", "900").strip()
    wait_for("a start", lambda: lab.stats()["used_w"] > 0)
    used_w = int(lab.stats()["used_w"])
    lab.run("cancel", job)
    wait_for("its end", lambda: lab.stats()["used_w"] == 0)
    return used_w
