"""A real Prometheus scrapes a controller's metrics, and the alert rules that we ship fire on them and end."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.live.drive import lab_machine, make_controller
from tests.live.fakeslurm import FakeSlurm
from tests.live.prometheus_site import PROMETHEUS, PrometheusSite, missing
from tests.live.slurmlab import wait_for
from wattqueue.live.features.capfile import CapFile
from wattqueue.live.reports.metrics import LiveMetrics, serve

RULES = Path(__file__).parents[2] / "src/wattqueue/live/share/alerts.yml"
NAMES = set(re.findall(r"alert: (\w+)", RULES.read_text(encoding="utf-8")))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[PrometheusSite]:
    if reason := missing([PROMETHEUS, "promtool"]):
        pytest.skip(reason)
    place = PrometheusSite(tmp_path)
    try:
        yield place
    finally:
        place.down()


def asked(site: PrometheusSite, path: str) -> Any:
    """The answer of Prometheus; empty while it starts."""
    try:
        return httpx.get(f"{site.url}/api/v1/{path}", timeout=10.0).json()["data"]
    except (httpx.HTTPError, ValueError):
        return {}


def firing(site: PrometheusSite) -> set[str]:
    alerts = asked(site, "alerts").get("alerts", [])
    return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}


def test_the_rules_are_valid_for_promtool() -> None:
    if reason := missing(["promtool"]):
        pytest.skip(reason)
    done = subprocess.run(["promtool", "check", "rules", str(RULES)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout


def test_rules_fire_on_what_a_controller_serves_and_end_with_it(site: PrometheusSite, tmp_path: Path) -> None:
    slurm = FakeSlurm({"p1": ["n1", "n2", "n3", "n4"], "p2": ["m1", "m2", "m3", "m4"]}, 1600)
    file = tmp_path / "cap.csv"
    slurm.now_s = time.time()
    file.write_text("time_s,cap_w\n0,2400\n")
    caps = CapFile(str(file), lab_machine())
    controller = make_controller(slurm, tmp_path / "site", lambda: slurm.now_s, cap=caps)
    assert isinstance(controller.meter, LiveMetrics)
    port = site.other_port
    server = serve(controller.meter, "127.0.0.1", port, "", lambda: "{}")
    # The same expressions without their delays, which are minutes.
    quick = tmp_path / "quick.yml"
    quick.write_text(re.sub(r"for: \w+", "for: 0s", RULES.read_text(encoding="utf-8")))

    def round_() -> None:
        slurm.now_s = time.time()
        assert controller.round() is not None

    def fires(wanted: set[str]) -> bool:
        round_()
        return firing(site) == wanted

    slurm.submit(1, 5000.0, watts=200)
    round_()
    site.scrape(port, rules=quick)

    def known() -> list[dict[str, Any]]:
        return [rule for group in asked(site, "rules").get("groups", []) for rule in group["rules"]]

    def scraped() -> bool:
        round_()
        mode = asked(site, "query?query=wattqueue_actuator_mode").get("result", [])
        return bool(mode) and all(rule["health"] == "ok" for rule in known()) and "WattQueueGone" not in firing(site)

    wait_for("the controller's metrics in Prometheus", scraped, step_s=0.5)
    assert {rule["name"] for rule in known()} == NAMES
    quiet = firing(site)
    assert quiet <= {"WattQueueBlind"}, "no node is measured here; nothing else is wrong"
    file.write_text("time_s,cap_w\n0,300\n")
    low = quiet | {"WattQueueCapBelowIdle", "WattQueueCountedAboveCap"}
    wait_for("the cap below idle", lambda: fires(low), step_s=0.5)
    file.write_text("no cap\n")
    wait_for("a cap that cannot be read", lambda: fires(low | {"WattQueueCapUnreadable"}), step_s=0.5)
    file.write_text("time_s,cap_w\n0,2400\n")
    wait_for("the end of the alerts", lambda: fires(quiet), step_s=0.5)
    server.shutdown()
    server.server_close()
    wait_for("the controller to be gone", lambda: "WattQueueGone" in firing(site), step_s=0.5)
    controller.audit.engine.dispose()
