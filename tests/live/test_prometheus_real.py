"""A real Prometheus that scrapes a real exporter, which reads a powercap tree: the whole way of a watt."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.prometheus_site import PROMETHEUS, PrometheusSite, missing
from tests.live.slurmlab import wait_for
from wattqueue.live.telemetry.base import Telemetry
from wattqueue.live.telemetry.prometheus import Prometheus

PROGRAMS = (PROMETHEUS, "prometheus-node-exporter")
WATTS = 180.0


class Site(PrometheusSite):
    """One node with RAPL, its exporter, and Prometheus, on loopback."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.exporter_port = self.other_port
        self.stop = threading.Event()
        self.zone = folder / "sys/class/powercap/intel-rapl:0"
        self.zone.mkdir(parents=True)
        for name, text in (("name", "package-0"), ("max_energy_range_uj", "262143328850"), ("energy_uj", "0")):
            (self.zone / name).write_text(f"{text}\n")
        self.ticker = threading.Thread(target=self._tick, daemon=True)

    def _tick(self) -> None:
        begin = time.monotonic()
        while not self.stop.wait(0.1):
            (self.zone / "energy_uj").write_text(f"{int((time.monotonic() - begin) * WATTS * 1e6)}\n")

    def up(self) -> None:
        self.ticker.start()
        quiet = ("--collector.disable-defaults", "--collector.rapl", f"--path.sysfs={self.folder}/sys")
        self.start(PROGRAMS[1], *quiet, f"--web.listen-address=127.0.0.1:{self.exporter_port}")
        self.scrape(self.exporter_port, "{node: n1}")

    def down(self) -> None:
        self.stop.set()
        if self.ticker.is_alive():
            self.ticker.join(60.0)
        super().down()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    if reason := missing(PROGRAMS):
        pytest.skip(reason)
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
