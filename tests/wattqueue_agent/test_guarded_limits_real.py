"""Limits of nodes on a real Slurm, with each process of an installation: guard, planner, what publishes, agents.

Each has an account of its own. Powercap trees stand in for the nodes' processors; everything else is real: Slurm and
its jobs, agents, the broker with TLS and the access list of the guide.
"""

from __future__ import annotations

import os
import pwd
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.live.guard.site import GuardedSite
from tests.live.guard.test_guard_real import guarded
from tests.live.site import TOTAL_W, as_account
from tests.live.slurmlab import wait_for
from tests.wattqueue_agent.broker_site import BrokerSite, blocks, broker_site
from tests.wattqueue_agent.test_limits_guard_real import access_list
from wattqueue.live.config import load_config
from wattqueue.live.guard.limits_told import LimitsReader
from wattqueue.live.slurm.guard import Guard
from wattqueue.live.slurm.limits_file import limits_lines
from wattqueue.live.units import LIMITS_FILE

pytestmark = [pytest.mark.slurm, pytest.mark.compiled, pytest.mark.xdist_group("slurm-3")]
__all__ = ["guarded"]
NODES = [f"n{i}" for i in range(1, 9)]
PUBLISHER = "news"
"""The account of what publishes limits."""
OTHER_W, PACKAGE_W, BUSY_W, IDLE_W = 60.0, 120.0, 35.0, 20.0
"""Watts of a node beside its two packages; the most of a package, of one with a job, and of one without."""
BEFORE_W, AFTER_W = 2000, 1400
HOLD_S = 40.0
TELEMETRY = "[telemetry]\ntrack_running = true\nwarm_up_s = 3.0\n"


@dataclass
class Installation:
    """The installation; ``most_w`` is the greatest sum of limits in force at any look since ``watch``."""

    site: GuardedSite
    broker: BrokerSite
    most_w: float = 0.0
    busy_w: float = BUSY_W
    """What a package with a job would draw."""
    _end: threading.Event = field(default_factory=threading.Event)

    @property
    def socket(self) -> Path:
        return self.site.root / "live/limits/socket"

    def begin(self) -> None:
        """Configure all of them as ``live install`` does, and start them."""
        site, broker, home = self.site, self.broker, self.site.root / "live"
        self.socket.parent.mkdir(exist_ok=True)
        account = pwd.getpwnam(PUBLISHER)
        os.chown(self.socket.parent, account.pw_uid, account.pw_gid)
        config, guard = site.configure_both(f"{BEFORE_W}W", policy="e-pas-intel")
        there = f'limits_socket = "{self.socket}"\n'
        section = blocks("toml")[4].replace('"broker"', f'"localhost"\nport = {broker.port}')
        for name, real in (("password", "controller.password"), ("ca.crt", "broker.crt")):
            section = section.replace(f'"{name}"', f'"{broker.folder}/{real}"')
        section = section.replace("[telemetry]\n", TELEMETRY, 1)
        text = config.read_text().replace("[guard]\n", f"[guard]\n{there}", 1)
        config.write_text(f"{text}{section}[limits]\nhold_s = {HOLD_S}\nsilence_s = 3.0\n")
        guard.write_text(f'accepted = ["limits"]\n{there}{guard.read_text()}')
        loaded = load_config(config)
        limits_lines(Guard.of(loaded, site.lab.commands), loaded, config, write=True)
        file = home / LIMITS_FILE
        file.write_text(file.read_text().replace('"limits.password"', f'"{broker.folder}/limits.password"'))
        assert "keeps_cap = true" in file.read_text()
        for name, tree in broker.trees.items():
            tree.demand_w = [IDLE_W, IDLE_W]
            broker.start_agent(name, ("low = 60.0", "low = 25.0"), ("high = 150.0", f"high = {PACKAGE_W}"))
        self.publish()
        site.start_guard(guard)
        site.start(config)
        site.wait_up()

    def publish(self) -> None:
        """Start what publishes limits, and wait until it listens."""
        self.socket.unlink(missing_ok=True)
        argv = as_account(
            PUBLISHER, "-m", "wattqueue_agent.limits_guard", "-c", str(self.site.root / "live" / LIMITS_FILE)
        )
        self.broker.children["limits"] = self.site.spawn(argv, {**self.site.env, **self.broker.env})  # type: ignore[assignment]
        wait_for("its socket", self.socket.exists, 30.0, 0.05)

    def sum_w(self) -> float:
        """Watts of all nodes if each draws its limits."""
        return sum(OTHER_W + sum(tree.limits_w()) for tree in self.broker.trees.values())

    def load(self) -> None:
        """Have nodes with a job draw more than the others."""
        rows = self.site.lab.run(["squeue", "-h", "-t", "RUNNING", "-o", "%N"]).out.split()
        for name, tree in self.broker.trees.items():
            tree.demand_w = [self.busy_w if name in rows else IDLE_W] * 2

    def watch(self) -> None:
        """Look at the limits in force from now on, ten times a second."""

        def look() -> None:
            while not self._end.wait(0.1):
                self.most_w = max(self.most_w, self.sum_w())

        threading.Thread(target=look, daemon=True).start()

    def wait(self, what: str, ready: object) -> None:
        assert callable(ready)

        def now() -> bool:
            self.load()
            return bool(ready())

        try:
            wait_for(what, now, 120.0, 0.3)
        except Exception as error:
            told = LimitsReader(self.socket).ask()
            raise AssertionError(f"{error}\n{self.sum_w()} W {told}\n{self.site.log.read_text()[-3000:]}") from error

    def open_w(self) -> int:
        return TOTAL_W - self.site.used_w()[1]

    def is_open(self) -> bool:
        """Whether the guard leaves at least half of the pool: the maxima of eight jobs leave none."""
        return self.open_w() >= (AFTER_W - 800) / 2

    def end(self) -> None:
        self._end.set()


@pytest.fixture
def limited(guarded: GuardedSite, tmp_path: Path) -> Iterator[Installation]:
    with broker_site(tmp_path, NODES, limit_w=PACKAGE_W, period_s=0.5, access=access_list()) as broker:
        here = Installation(guarded, broker)
        try:
            here.begin()
            yield here
        finally:
            here.end()


def test_limits_follow_a_cap_that_falls_and_jobs_end(limited: Installation) -> None:
    """Eight jobs that could draw 1,600 W run within a pool of 1,200 W, then of 600 W, because limits bound them.

    What publishes limits is killed: the guard counts the maximum of nodes until it is told again that limits hold.
    """
    site = limited.site
    jobs = [site.gated("-N1", "-t", "60", "-p", "p1,p2") for _ in range(8)]
    limited.wait("limits that keep the cap", lambda: limited.sum_w() <= BEFORE_W)
    limited.wait("eight jobs", lambda: site.running() == sorted(jobs, key=int))
    assert site.used_w()[0] < BEFORE_W - 800, "their licences follow what they draw"
    limited.busy_w = PACKAGE_W
    limited.wait("limits that share the cap", lambda: AFTER_W + 200 < limited.sum_w() <= BEFORE_W)
    (site.root / "live/cap.csv").write_text(f"time_s,cap_w\n0,{AFTER_W}\n")
    limited.wait("lower limits, read back", lambda: limited.sum_w() <= AFTER_W)
    limited.wait("a pool beside limits", limited.is_open)
    limited.watch()
    limited.broker.kill("limits")
    limited.wait("a pool without limits", lambda: limited.open_w() == 0)
    limited.publish()
    limited.wait("what is told", lambda: LimitsReader(limited.socket).ask().holds)
    limited.wait("a pool beside limits again", limited.is_open)
    assert limited.most_w <= AFTER_W, "whoever died, no limit was raised beyond the cap"
    assert site.running() == sorted(jobs, key=int)
    site.open_gate(*jobs)
    later = [site.lab.submit("-N1", "-t", "5", "--wrap=sleep 1") for _ in range(3)]
    limited.wait("later jobs", lambda: {site.lab.states().get(job, "COMPLETED") for job in later} == {"COMPLETED"})
    assert limited.most_w <= AFTER_W
