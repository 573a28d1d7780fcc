"""The page in a browser: it shows what it is sent, as text, at every width, and says when that is old."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.page.served import Served, configure, look, served
from tests.page.test_server import NAME, USER, fill
from tests.report.chromium import Browser
from wattqueue.live.files.liveness import ProcessId
from wattqueue.live.files.page_files import HISTORY, PAGE

pytestmark = pytest.mark.browser


def change(folder: Path, name: str, **values: Any) -> None:
    """Write values into a state file, as a controller does."""
    file = folder / "run" / name
    text = json.dumps(json.loads(file.read_text()) | values)
    file.with_suffix(".new").write_text(text)
    file.with_suffix(".new").replace(file)


@pytest.fixture
def shown(tmp_path: Path) -> Iterator[tuple[Path, Served]]:
    fill(tmp_path)
    now_s = time.time()
    rows = [
        f"{int(now_s) - 60 * k},1400,{1100 if 100 < k < 200 else 1400},{900 + k % 90},,2,3" for k in range(600, 0, -1)
    ]
    (tmp_path / "run" / HISTORY).write_text("\n".join(rows) + "\n")
    change(tmp_path, "status.json", time_s=now_s)
    change(tmp_path, PAGE, time_s=now_s, process=ProcessId.own(), domains=DOMAINS)
    with served(configure(tmp_path)) as page:
        yield tmp_path, page


DOMAINS = [["feed", "", 30_000, 40_000], *([f"rack{k:03}", "feed", 100 * k, 1_000] for k in range(1, 13))]
"""Name, what feeds it, counted watts, limit: the 12th rack is above its own."""


def text(browser: Browser, selector: str) -> str:
    found = browser.js(f"document.querySelector({selector!r}).innerText")
    assert isinstance(found, str)
    return found


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (400, False), (1280, True), (400, True)])
def test_it_is_whole_at_every_width(shown: tuple[Path, Served], browser: Browser, width: int, dark: bool) -> None:
    _, page = shown
    look(browser, page.url, width=width, dark=dark)
    browser.wait("document.querySelector('#power-chart').dataset.ready")
    assert browser.js("document.documentElement.scrollWidth") == width
    outside = "[...document.querySelectorAll('main *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1)"
    assert browser.js(f"{outside}.filter(e => !e.closest('.list') && e.offsetParent).map(e => e.outerHTML)") == []
    ground = browser.js("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(14, 19, 25)") == dark
    assert browser.js("wattqueue.errors") == []
    assert browser.errors() == [], "nothing that the security policy forbids"
    assert [url for url in browser.requests() if not url.startswith(page.url)] == []


def test_power_domains_have_limit_and_counted_watts(shown: tuple[Path, Served], browser: Browser) -> None:
    folder, page = shown
    look(browser, page.url, width=400)
    browser.wait("document.querySelectorAll('#domain-map li').length === 13")
    assert text(browser, "#domain-map li").split("\n") == ["feed", "30 kW of 40 kW"]
    last = "#domain-map li:last-child"
    assert text(browser, last).split("\n") == ["rack012", "1.2 kW of 1 kW, above it", "fed by feed"]
    kinds = browser.js("[...document.querySelectorAll('#domain-map li')].map(e => e.className)")
    assert kinds == [""] * 10 + ["full", "over", "over"]
    change(folder, PAGE, domains=[], time_s=time.time())
    browser.wait("document.querySelector('#domains').hidden")


def test_names_are_text(shown: tuple[Path, Served], browser: Browser) -> None:
    _, page = shown
    look(browser, page.url)
    browser.wait("document.querySelectorAll('#queue-list td.app').length && document.querySelector('#running-list td')")
    assert browser.js("[...document.querySelectorAll('td.app')].every(e => e.textContent === " + json.dumps(NAME) + ")")
    assert browser.js("document.querySelectorAll('main img').length") == 0
    assert text(browser, "#problems li") == f"user {USER} misnamed {NAME}"


def test_without_the_token_there_are_none(shown: tuple[Path, Served], browser: Browser) -> None:
    _, page = shown
    look(browser, page.url, token="")
    browser.wait("document.querySelectorAll('#queue-list td').length")
    whole = text(browser, "body")
    assert USER not in whole
    assert NAME not in whole
    assert "1 problem" in whole
    assert browser.js("document.querySelector('#signin').hidden") is False


def test_it_updates_by_itself(shown: tuple[Path, Served], browser: Browser) -> None:
    folder, page = shown
    look(browser, page.url)
    assert text(browser, "#summary").startswith("1.40 of 1.40 kW") or "kW" in text(browser, "#summary")
    change(folder, "status.json", counted_w=1234.0, limit_w=5678.0, cap_w=5678.0, time_s=time.time())
    browser.wait("document.querySelector('#summary').textContent.startsWith('1.23 of 5.68 kW')")


def test_a_tooltip_makes_no_style(shown: tuple[Path, Served], browser: Browser) -> None:
    _, page = shown
    look(browser, page.url)
    browser.wait("document.querySelector('#power-chart').dataset.ready")
    browser.js("document.querySelector('#power-chart').scrollIntoView({block: 'center'})")
    browser.js("window.box = document.querySelector('#power-chart').getBoundingClientRect()")
    box = browser.js("[box.x, box.y, box.width, box.height]")
    for step in range(5):
        browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=box[0] + box[2] / 3 + step, y=box[1] + box[3] / 2)
    time.sleep(0.3)
    assert browser.errors() == []
    assert browser.js("wattqueue.errors") == []
    assert browser.js("document.querySelectorAll('#power-chart .tip').length") == 0


def test_it_says_when_the_controller_is_old_dead_or_hangs(shown: tuple[Path, Served], browser: Browser) -> None:
    folder, page = shown
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        started = int(Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19])
        change(folder, PAGE, process=ProcessId(os.uname().nodename, child.pid, started))
        change(folder, "status.json", time_s=time.time())
        look(browser, page.url)
        assert browser.js("document.querySelector('#state').hidden")
        change(folder, "status.json", time_s=time.time() - 90.0)
        browser.wait("document.querySelector('#state').dataset.state === 'hung'")
        assert "hangs" in text(browser, "#state")
        assert browser.js("document.body.classList.contains('stale')")
        change(folder, PAGE, process=("elsewhere.example", 1, 1))
        browser.wait("document.querySelector('#state').dataset.state === 'stale'")
        change(folder, PAGE, process=ProcessId(os.uname().nodename, child.pid, started))
        change(folder, "status.json", time_s=time.time())
        browser.wait("document.querySelector('#state').hidden")
        child.kill()
        child.wait()
    browser.wait("document.querySelector('#state').dataset.state === 'dead'")
    assert "has ended" in text(browser, "#state")


def test_it_says_when_its_own_server_is_gone(shown: tuple[Path, Served], browser: Browser) -> None:
    _, page = shown
    look(browser, page.url)
    page.process.terminate()
    page.process.wait(180.0)
    browser.wait("document.querySelector('#state').dataset.state === 'lost'")
    assert "does not answer" in text(browser, "#state")
