"""The page of what a cap would do, in a headless Chromium."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.report.chromium import Browser
from wattqueue.campaign.shared import Shared
from wattqueue.formats.table.job_table import write_table
from wattqueue.formats.tariff import parse_source
from wattqueue.model.jobs import Jobs
from wattqueue.runs.task import Task
from wattqueue.whatif.analysis import analyse
from wattqueue.whatif.page import document
from wattqueue.whatif.prepare import Question, prepare, run_caps

pytestmark = [pytest.mark.browser, pytest.mark.compiled]  # what a browser shows depends on no kernel

KINDS = "Object.values(wattqueue.charts).map(({figure}) => [figure.key, figure.kind])"
SIDEWAYS = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whatif")
    rng = np.random.default_rng(3)
    n = 400
    jobs = Jobs.build(
        np.cumsum(rng.exponential(700.0, n)).round(),
        rng.choice([1, 2, 4, 8], n),
        rng.lognormal(7.8, 1.0, n).round() + 1.0,
        user=rng.choice(["ann", "<b>bob</b>"], n),
        partition=rng.choice(["thin", "fat"], n),
        mean_power_w=rng.uniform(180.0, 340.0, n).round(),
    )
    write_table(folder / "jobs.csv", jobs)
    days = "".join(f"{day * 86_400},{100 - 20 * day}\n" for day in range(60))
    (folder / "prices.csv").write_text(f"time_s,price\n{days}")
    task = Task(str(folder / "jobs.csv"), nodes=16, node_watts="90:350")
    prices, intensity = (parse_source(folder / "prices.csv", unit, "-") for unit in ("EUR/MWh", "gCO2/kWh"))
    question = Question(task, "30%..100%", ("easy",), ("history-mean", "maximum"), 0.01, prices, intensity)
    setup = prepare(question)
    path = folder / "report.html"
    path.write_text(document(analyse(setup, run_caps(setup, Shared(folder / "shared"), workers=1))).html())
    return path


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (400, True)])
def test_all_pictures_are_drawn(browser: Browser, page: Path, width: int, dark: bool) -> None:
    browser.open(page, width=width, dark=dark)
    assert browser.errors() == []
    assert browser.js("wattqueue.errors") == []
    assert len(browser.requests()) == 1
    assert browser.js(KINDS) == [
        ["wait", "capcurve"],
        ["risk", "capcurve"],
        ["hours", "hours"],
        *([key, "capcurve-small"] for key in ("slowdown", "energy", "cost", "carbon")),
        ["users", "delayed_users"],
        ["partitions", "delayed_users"],
    ]
    assert browser.js(SIDEWAYS)
    assert "<b>bob</b>" in browser.js("document.body.textContent")
    assert browser.js("document.querySelectorAll('main b').length") == 0
    assert browser.js("[...document.querySelectorAll('.says')].every((s) => s.textContent.length > 20)")


def test_a_telephone_shows_the_answer_and_folds_the_rest(browser: Browser, page: Path) -> None:
    """14,500 pixels were one column of figures and tables."""
    browser.open(page, width=400)
    seen = "((e) => e.checkVisibility({ visibilityProperty: true }))"
    visible = f"[...document.querySelectorAll('.chart, main table')].filter({seen})"
    assert browser.js("document.documentElement.scrollHeight") < 2_500
    assert browser.js(f"{visible}.map((e) => e.closest('.card').id)") == ["verdicts"]
    browser.js("document.querySelector('#fig-wait .unfold').click()")
    assert browser.js(f"{visible}.length") == 2
    assert browser.js("wattqueue.charts.wait.chart.getWidth()") > 300
    browser.js("document.querySelector('#caps h2').click()")
    cells = f"[...document.querySelector('#caps tbody tr:last-child').cells].filter({seen}).length"
    # The name of the cap and its mean waits, and with a mark the mark; its button shows the others.
    assert browser.js(cells) in {2, 3, 4}
    more = "document.querySelector('#caps tbody tr:last-child .more')"
    browser.js(f"{more}.click()")
    assert browser.js(cells) > 5
    assert browser.js(f"{more}.getAttribute('aria-expanded')") == "true"
    assert browser.js(SIDEWAYS)
    browser.screen(1280, 900)
    browser.wait("!wattqueue.charts.energy.figure.element.querySelector('.unfold').checkVisibility()")
    assert browser.js(f"{visible}.length") == browser.js("document.querySelectorAll('.chart, main table').length")


def test_waits_of_two_configurations_far_apart_have_a_logarithmic_axis(browser: Browser, page: Path) -> None:
    browser.open(page)
    axis = "wattqueue.charts.wait.chart.getOption().yAxis[0]"
    browser.js("(() => { const { figure } = wattqueue.charts.wait; figure.extra.log = true; show(figure) })()")
    assert browser.js(f"{axis}.type") == "log"
    ticks = browser.js(f"{axis}.axisLabel.customValues.map({axis}.axisLabel.formatter)")
    assert len(ticks) >= 3
    assert all(ticks)
    assert browser.js("wattqueue.charts.energy.chart.getOption().yAxis[0].min") == 0


def test_a_configuration_can_be_taken_out(browser: Browser, page: Path) -> None:
    browser.open(page)
    lines = "wattqueue.charts.wait.chart.getOption().series.filter((s) => s.symbol === 'circle').length"
    assert browser.js(lines) == 2
    browser.js("document.querySelector('#fig-wait .key button').click()")
    assert browser.js(lines) == 1
    assert browser.js("document.activeElement.getAttribute('aria-pressed')") == "false"  # a button, and focus stays


def test_hours_zoom_with_the_keyboard(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.js("document.querySelector('#fig-hours .chart').focus()")
    browser.key("+")
    zoom = browser.js("(({start, end}) => end - start)(wattqueue.charts.hours.chart.getOption().dataZoom[0])")
    assert zoom == pytest.approx(50.0)


def test_the_keyboard_chooses_whose_hours_and_payers_are_shown(browser: Browser, page: Path) -> None:
    """One choice for all three pictures: title, sentence, table, what is drawn, and what is printed."""
    browser.open(page)
    chosen = "['hours', 'users', 'partitions'].map((k) => document.querySelector(`#fig-${k} select`).value)"
    drawn = "wattqueue.charts.users.chart.getOption().series.map((s) => s.data)"
    told = "document.querySelector('#fig-users .says').textContent"
    first = browser.js(drawn)
    assert browser.js(chosen) == ["easy, history-mean"] * 3
    assert browser.js(told).startswith("easy, history-mean: ")
    browser.js("document.querySelector('#fig-users details').open = true")
    browser.wait("document.querySelector('#fig-users table')")
    before = browser.js("document.querySelector('#fig-users table').innerText")
    browser.js("document.querySelector('#fig-hours select').focus()")
    browser.key("ArrowDown", number=40)
    browser.wait(f"{chosen}.every((name) => name === 'easy, maximum')")
    assert browser.js("document.activeElement.closest('figure').id") == "fig-hours"
    assert browser.js(told).startswith("easy, maximum: ")
    assert "(easy, maximum)" in browser.js("document.querySelector('#fig-hours .says').textContent")
    assert browser.js(drawn) != first
    assert browser.js("document.querySelector('#fig-users table').innerText") != before
    title = browser.js("document.querySelector('#fig-users h2').textContent")
    assert title in browser.js("document.querySelector('#fig-users .chart').getAttribute('aria-label')")
    paper = [{"name": "prefers-color-scheme", "value": "light"}]
    browser.call("Emulation.setEmulatedMedia", media="print", features=paper)
    shown = "[...document.querySelectorAll('.chosen')].map((e) => [getComputedStyle(e).display, e.textContent])"
    assert browser.js(shown) == [["block", "easy, maximum"]] * 3
    assert browser.js("getComputedStyle(document.querySelector('.choose').parentElement).display") == "none"
    browser.call("Emulation.setEmulatedMedia", media="")
    browser.js("document.querySelector('#fig-hours select').focus()")
    browser.key("ArrowUp", number=38)
    browser.wait(f"{chosen}.every((name) => name === 'easy, history-mean')")
    assert browser.js(drawn) == first
    assert browser.errors() == []
    assert browser.js("wattqueue.errors") == []
