"""The page of a controller of a real Slurm, in a browser: it shows what squeue, sinfo and the licences show."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from tests.live.site import Site, as_account, cap_text
from tests.live.slurmlab import OPERATOR, wait_for
from tests.page.served import look, served
from tests.report.chromium import Browser

pytestmark = [pytest.mark.slurm, pytest.mark.browser, pytest.mark.compiled, pytest.mark.xdist_group("arena-2")]
SERVE = "from wattqueue.live.files import liveness; liveness.OLD_S = 6.0; from wattqueue.cli import main; main()"
"""The program of the page; a silent controller counts as such after 6 s, not 20: the test waits for it three times."""
HANGS = "from wattqueue.live.features import capfile; capfile.refuse_pipe = lambda _: None; "
"""Has the controller read a pipe as its cap, as if it were a file of a file system that does not answer."""
SHOWN = """(() => {
  const cells = (id) => [...document.querySelectorAll(`#${id} tbody tr`)].map((row) => row.cells[0].textContent);
  const nodes = {};
  for (const one of document.querySelectorAll("#node-bars li"))
    nodes[one.dataset.state] = (nodes[one.dataset.state] || 0) + Number(one.dataset.count);
  return { waiting: cells("queue-list").sort(), running: cells("running-list").sort(), nodes,
    used: wattqueue.live.now.pool_w.used, open: wattqueue.live.now.pool_w.open };
})()"""


def of_slurm(site: Site) -> dict[str, Any]:
    """The same by Slurm's own commands."""
    states = site.lab.states()
    nodes: dict[str, int] = {}
    for line in site.lab.run(["sinfo", "-h", "-N", "-o", "%N %T"]).out.splitlines():
        state = line.split()[1].rstrip("*")
        nodes[state] = nodes.get(state, 0) + 1
    used, reserved = site.used_w()
    return {
        "waiting": sorted(job for job, state in states.items() if state == "PENDING"),
        "running": sorted(job for job, state in states.items() if state == "RUNNING"),
        "nodes": nodes, "used": used, "open": 1600 - reserved,
    }  # fmt: skip


def agrees(site: Site, browser: Browser) -> bool:
    """Whether page and Slurm agree, where Slurm shows the same before and after the look."""
    before = of_slurm(site)
    shown = browser.js(SHOWN)
    after = of_slurm(site)
    return before == after and bool(shown == before)


def test_the_page_shows_what_slurm_shows(site: Site, browser: Browser) -> None:
    cap = site.root / "live/cap.csv"
    cap.write_text(f"time_s,cap_w\n0,{cap_text(800)[:-1]}\n")
    site.program = HANGS + site.program
    config = site.begin("cap.csv")
    name = "<b>bold</b><script>alert(1)</script>"
    runs = [site.gated("-N", "2", "-J", name), site.gated("-N", "2")]
    waits = [site.gated("-N", "2", "-J", name) for _ in range(3)]
    site.wait_running(runs)
    with served(config, *as_account(OPERATOR, "-c", SERVE), env=site.env) as page:
        look(browser, page.url, token="")
        wait_for("the page to agree with Slurm", lambda: agrees(site, browser), step_s=0.3)
        shown = browser.js(SHOWN)
        assert shown["running"] == sorted(runs)
        assert shown["waiting"] == sorted(waits)
        assert shown["used"] == 800
        assert sum(shown["nodes"].values()) == 8
        assert "3 jobs wait for watts" in browser.js("document.querySelector('#summary').textContent")
        assert "bold" not in browser.js("document.body.innerText"), "no names without the token"

        site.open_gate(runs[0])  # it updates by itself: another one starts
        wait_for("one more to run", lambda: len(site.running()) == 2, step_s=0.1)
        wait_for("the page to agree again", lambda: agrees(site, browser), step_s=0.3)
        assert len(browser.js(SHOWN)["waiting"]) == 2

        assert site.child is not None
        os.kill(site.child.pid, signal.SIGSTOP)
        browser.wait("document.querySelector('#state').dataset.state === 'stopped'")
        os.kill(site.child.pid, signal.SIGCONT)
        browser.wait("document.querySelector('#state').hidden")
        site.lab.kill_controller()  # slurmctld: the controller runs and sees nothing
        browser.wait("document.querySelector('#state').dataset.state === 'blind'")
        site.lab.start_controller()
        browser.wait("document.querySelector('#state').hidden")
        text, pipe = cap.read_text(), cap.with_name("pipe")
        os.mkfifo(pipe, 0o644)
        pipe.replace(cap)  # a file system that does not answer: the controller reads and waits
        browser.wait("document.querySelector('#state').dataset.state === 'hung'")
        with cap.open("w") as answer:
            answer.write(text)
            cap.unlink()
            cap.write_text(text)
        browser.wait("document.querySelector('#state').hidden")
        site.kill()
        browser.wait("document.querySelector('#state').dataset.state === 'dead'")
        assert browser.errors() == []
