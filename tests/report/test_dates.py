"""Ticks at dates, the same in Python and JavaScript; equal curves; energy axes; names of metrics on every screen."""

from __future__ import annotations

import json
import shutil
import subprocess
from datetime import UTC, datetime
from importlib.resources import files

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report.cases import by_hand, generated
from wattqueue.report.figure import axis_of_time, equal_groups, equal_sentence
from wattqueue.report.figures import power, queue
from wattqueue.report.plot.shared import date_ticks

DAY = 86_400.0
NOON = datetime(2023, 12, 30, 12, tzinfo=UTC).timestamp()


@given(begin=st.floats(6e8, 4e9), length=st.floats(120.0, 20 * 365 * DAY), most=st.integers(3, 14))
def test_ticks_lie_in_the_span_and_rise(begin: float, length: float, most: int) -> None:
    ticks = date_ticks(begin, begin + length, most)
    times = [t for t, _ in ticks]
    assert times == sorted(set(times))
    assert all(begin <= t <= begin + length for t in times)
    assert len(ticks) <= max(most + 1, 23)
    assert all(text for _, text in ticks)


def test_ticks_are_midnights_hours_or_months() -> None:
    assert [text for _, text in date_ticks(NOON, NOON + 3 * DAY, 4)] == ["31 Dec", "1 Jan", "2 Jan"]
    assert [text for _, text in date_ticks(NOON, NOON + 6 * 3_600, 4)][:2] == ["30 Dec, 12:00", "14:00"]
    assert [text for _, text in date_ticks(NOON, NOON + 120 * DAY, 6)] == ["Jan 2024", "Feb", "Mar", "Apr"]
    assert axis_of_time(DAY, NOON).label == "date in 2023 (UTC)"
    assert axis_of_time(9 * DAY, NOON).label == "date, 2023 to 2024 (UTC)"


def test_the_page_has_the_same_ticks() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("no JavaScript engine on the command line; the browser tests draw the axes")
    source = files("wattqueue.report").joinpath("page/core.js").read_text(encoding="utf-8")
    begin, end = source.index("const WEEKDAYS"), source.index("function escaped")
    spans = [
        (NOON, NOON + length, most)
        for length in (7_200.0, 9 * 3_600.0, 3 * DAY, 40 * DAY, 400 * DAY)
        for most in (4, 9)
    ]
    program = f"{source[begin:end]}\nconsole.log(JSON.stringify({json.dumps(spans)}.map((s) => dateTicks(...s))))"
    done = subprocess.run([node, "-e", program], capture_output=True, text=True, check=True)
    assert [[(t, text) for t, text in ticks] for ticks in json.loads(done.stdout)] == [date_ticks(*s) for s in spans]


def test_a_trace_with_dates_has_them_on_its_time_axes() -> None:
    run = generated(50, 16)
    assert power.figure(run).x.label.startswith("time since first submission")
    assert "epoch_s" not in power.figure(run).extra
    object.__setattr__(run.about, "epoch_s", NOON)
    for figure in (power.figure(run), queue.figure(run)):
        assert figure.extra["epoch_s"] == NOON + run.first_s
        assert "UTC" in figure.x.label


def test_equal_curves_are_named() -> None:
    a, b = np.array([1.0, 2.0, np.nan]), np.array([1.0, 2.5, np.nan])
    assert equal_groups(["x", "y", "z"], [[a], [b], [a + 1e-12]]) == [["x", "z"]]
    assert "x = z" in equal_sentence(["x", "y", "z"], [[a], [b], [a]])
    assert equal_sentence(["x", "y"], [[a], [b]]) == ""
    assert equal_sentence(["x", "y"], [[a], [a]])


def test_the_headline_names_the_estimator() -> None:
    from wattqueue.report.run_page import title

    assert "history-mean" in title(by_hand())
