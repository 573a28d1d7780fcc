"""A real Prometheus that scrapes a real exporter, which reads a powercap tree: the whole way of a watt."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.procs import MARKER, end_all
from tests.live.slurmlab import free_ports, wait_for
from wattqueue.live.telemetry.base import Telemetry
from wattqueue.live.telemetry.prometheus import Prometheus

PROGRAMS = ("prometheus", "prometheus-node-exporter")
WATTS = 180.0


class Site:
    """One node with RAPL, its exporter, and Prometheus, on loopback."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.exporter_port, self.port = free_ports(2)
        self.stop = threading.Event()
        self.zone = folder / "sys/class/powercap/intel-rapl:0"
        self.zone.mkdir(parents=True)
        for name, text in (("name", "package-0"), ("max_energy_range_uj", "262143328850"), ("energy_uj", "0")):
            (self.zone / name).write_text(f"{text}\n")
        self.ticker = threading.Thread(target=self._tick, daemon=True)
        self.env = {"PATH": "/usr/bin:/bin", MARKER: str(folder)}
        self.children: dict[str, subprocess.Popen[bytes]] = {}

    def _tick(self) -> None:
        begin = time.monotonic()
        while not self.stop.wait(0.1):
            (self.zone / "energy_uj").write_text(f"{int((time.monotonic() - begin) * WATTS * 1e6)}\n")

    def start(self, *argv: str) -> None:
        with (self.folder / f"{argv[0]}.log").open("wb") as log:
            child = subprocess.Popen(argv, env=self.env, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
            self.children[argv[0]] = child

    def up(self) -> None:
        watchdog = Path(__file__).with_name("procs.py")
        self.watchdog = subprocess.Popen([sys.executable, str(watchdog), str(self.folder)], stdin=subprocess.PIPE)
        self.ticker.start()
        quiet = ("--collector.disable-defaults", "--collector.rapl", f"--path.sysfs={self.folder}/sys")
        self.start(PROGRAMS[1], *quiet, f"--web.listen-address=127.0.0.1:{self.exporter_port}")
        conf = self.folder / "prometheus.yml"
        conf.write_text(
            "global: {scrape_interval: 500ms}\nscrape_configs:\n- job_name: nodes\n  static_configs:\n"
            f"  - targets: ['127.0.0.1:{self.exporter_port}']\n    labels: {{node: n1}}\n"
        )
        where = (f"--config.file={conf}", f"--storage.tsdb.path={self.folder}/tsdb")
        self.start(PROGRAMS[0], *where, f"--web.listen-address=127.0.0.1:{self.port}")

    def down(self) -> None:
        self.stop.set()
        self.ticker.join(60.0)
        left = end_all(str(self.folder))
        for child in self.children.values():
            child.wait(60.0)
        assert self.watchdog.stdin is not None
        self.watchdog.stdin.close()
        self.watchdog.wait(60.0)
        assert not left


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    absent = [name for name in PROGRAMS if shutil.which(name, path="/usr/bin:/bin") is None]
    if absent:
        pytest.skip(f"not installed: {' '.join(absent)} (apt-get install {' '.join(PROGRAMS)})")
    place = Site(tmp_path)
    try:
        place.up()
        yield place
    finally:
        place.down()


def test_watts_come_through_and_go_stale_when_the_exporter_dies(site: Site) -> None:
    source = Prometheus(
        f"http://127.0.0.1:{site.port}",
        "rate(node_rapl_package_joules_total[3s])",
        label="node",
        fresh_query="timestamp(node_rapl_package_joules_total)",
    )
    telemetry = Telemetry([source], stale_s=2.0)

    def measured() -> bool:
        telemetry.read(time.time())
        return telemetry.node("n1", 400.0, time.time()).label == "measured"

    wait_for("a first sample", measured, step_s=0.2)

    def right() -> bool:  # the rate's first windows are not full yet
        return measured() and abs(telemetry.node("n1", 400.0, time.time()).power_w - WATTS) < 0.15 * WATTS

    wait_for(f"a rate of {WATTS} W", right, step_s=0.2)
    site.children[PROGRAMS[1]].kill()
    site.children[PROGRAMS[1]].wait(60.0)
    wait_for("the sample to go stale", lambda: not measured(), step_s=0.1)
    assert telemetry.node("n1", 400.0, time.time()).power_w == 400.0
    telemetry.close()
