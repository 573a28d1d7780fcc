"""Progress of long work: a bar on a terminal, lines in a file, nothing in a pipe or with ``--quiet``."""

from __future__ import annotations

import io
import os
import pty
import re
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest
from numba.core import event

import wattqueue as wq
from tools.packages import ROOT
from wattqueue import terminal
from wattqueue.kernels._numba.compiling import PLAIN_RUN
from wattqueue.model.jobs import Jobs
from wattqueue.sim import engine
from wattqueue.verbs import Printed


@contextmanager
def screen(monkeypatch: pytest.MonkeyPatch, after_s: float) -> Iterator[Callable[[], str]]:
    """A terminal in place of stderr; yields what a person reads there. Bars are shown after ``after_s``."""
    monkeypatch.setattr(terminal, "SHOW_AFTER_S", after_s)
    monkeypatch.setattr(terminal, "MOVED_S", 0.0)
    ours, theirs = pty.openpty()

    def shown() -> str:
        """All that was written; a terminal hands it over in pieces, and a moment later. A bar never stops writing."""
        stream.flush()
        pieces, end_s = [], time.monotonic() + 1.0
        while time.monotonic() < end_s and select.select([ours], [], [], 0.2)[0]:
            pieces.append(os.read(ours, 1 << 16))
        return b"".join(pieces).decode()

    with os.fdopen(theirs, "w") as stream, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", stream)
        yield shown
    os.close(ours)


def test_a_bar_has_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    with screen(monkeypatch, 0.0) as shown, terminal.running("simulating") as tell:
        assert tell is not None
        tell(10, 100)
        tell(60, 100)
        text = plain(until(shown, "60/100"))
    assert "simulating" in text
    assert re.search(r"60/100 *jobs [0-9-]+:[0-9-]+", text)


def test_short_work_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with screen(monkeypatch, 2.0) as shown:
        with terminal.running("simulating") as tell:
            assert tell is not None
            tell(10, 100)
            tell(100, 100)
        assert shown() == ""


def plain(text: str) -> str:
    """What a terminal shows, without its codes."""
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)


def test_work_that_counts_nothing_shows_how_long_it_has_lasted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while it does nothing that could call back, and until something else is shown or printed."""
    with screen(monkeypatch, 0.05) as shown:
        with terminal.working():
            assert "working" in plain(until(shown, "working"))
            with terminal.running("simulating") as tell:
                assert "simulating" in plain(until(shown, "simulating")), "before its first call"
                assert tell is not None
                tell(1, 4)
                assert "1/4 jobs" in plain(until(shown, "1/4"))
            assert "working" in plain(until(shown, "working"))
            Printed().say(["a result"])
            shown()
            time.sleep(0.3)
            assert shown() == "", "nothing is drawn over results"
        with terminal.working(quiet=True):
            time.sleep(0.2)
        assert shown() == ""


def until(shown: Callable[[], str], word: str) -> str:
    """What is written until a word is there."""
    text, end_s = "", time.monotonic() + 180.0
    while word not in text and time.monotonic() < end_s:
        text += shown()
    return text


def test_steps_are_counted_as_they_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    with screen(monkeypatch, 0.0) as shown:
        assert list(terminal.followed("drawing", "abc", "figures")) == ["a", "b", "c"]
        assert "2/3 figures" in plain(shown())
    assert list(terminal.followed("drawing", "abc")) == ["a", "b", "c"]


@pytest.mark.compiled
def test_kernels_are_counted_while_they_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "say_if_compiling", lambda: True)
    with screen(monkeypatch, 0.0) as shown, terminal.running("simulating"):
        with event.trigger_event("numba:compile"):
            pass
        assert f"compiling 1/{PLAIN_RUN} kernels" in re.sub(" +", " ", plain(until(shown, "kernels")).replace("━", ""))


def test_kernels_are_not_drawn_as_the_work_that_waits_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the bar is shown between two kernels."""

    def watch(tell: Callable[[int, int], None]) -> Callable[[], None]:
        tell(3, 40)
        return lambda: None

    monkeypatch.setattr(terminal, "say_if_compiling", lambda: True)
    monkeypatch.setattr("wattqueue.kernels.cache.watch_compiler", watch)
    with screen(monkeypatch, 0.3) as shown, terminal.running("simulating"):
        text = plain(until(shown, "3/40"))
    assert "compiling" in text
    assert "3/40 kernels" in text
    assert "simulating" not in text


def test_a_bar_that_is_due_while_an_inner_one_begins_is_not_shown_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with screen(monkeypatch, 60.0), terminal.working():
        (outer,) = terminal._LateBar.open
        hide = outer.hide

        def hide_and_be_due() -> None:
            hide()
            outer.show()

        monkeypatch.setattr(outer, "hide", hide_and_be_due)
        with terminal.running("simulating"):
            assert outer.shown is None


@pytest.mark.parametrize("context", [terminal.running, terminal.counting], ids=["running", "counting"])
def test_quiet_shows_nothing(context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with screen(monkeypatch, 0.0) as shown:
        with context("simulating", quiet=True) as tell:
            assert tell is None
        assert shown() == ""


def lines_in(stream: IO[str], monkeypatch: pytest.MonkeyPatch, *, anywhere: bool = False) -> bool:
    """Whether work of 20 runs is told to a stream."""
    monkeypatch.setattr(sys, "stderr", stream)
    with terminal.counting("campaign", anywhere=anywhere) as tell:
        if tell is None:
            return False
        for done in range(1, 21):
            tell(done, 20)
    return True


def test_a_file_has_a_line_for_each_tenth_and_a_pipe_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "log").open("w") as log:
        assert lines_in(log, monkeypatch)
    lines = (tmp_path / "log").read_text().splitlines()
    assert len(lines) == 10
    assert lines[0].startswith("campaign: 2 of 20 runs, ")
    assert all(line.endswith(" s left") for line in lines)
    ours, theirs = os.pipe()
    with os.fdopen(ours) as read, os.fdopen(theirs, "w") as pipe:
        assert not lines_in(pipe, monkeypatch)
        pipe.close()
        assert read.read() == ""
    asked = io.StringIO()  # as a notebook's
    assert lines_in(asked, monkeypatch, anywhere=True)
    assert asked.getvalue().count("\n") == 10


def test_simulate_tells_while_a_part_in_python_acts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiled loop reports each 400,000 events, which passes in Python need minutes for."""
    monkeypatch.setattr(engine, "_EVENTS_IN_PYTHON", 4)
    told = io.StringIO()
    monkeypatch.setattr(sys, "stderr", told)
    jobs = Jobs.build(np.arange(40) * 10.0, [1] * 40, [25.0] * 40)
    part = f"{ROOT / 'examples' / 'custom_backfill.py'}:ShortestFirst"
    wq.simulate(jobs, nodes=2, settings=[f"backfill={part}"], progress=True)
    assert told.getvalue().count("simulating: ") > 5
    assert "of 40 jobs" in told.getvalue()
