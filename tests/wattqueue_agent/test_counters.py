"""Counters of a node by perf: its lines are added up, and where it does not count the agent says why."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.live.slurmlab import wait_for
from wattqueue_agent.config import CountersSection
from wattqueue_agent.counters import PerfCounters

SECTION = CountersSection(memory=("uncore_imc/cas_count_read/", "uncore_imc/cas_count_write/"))


def test_lines_of_perf_are_added_up() -> None:
    counters = PerfCounters(SECTION, 1.0)
    counters.add("# started on a day\n")
    for second in (1, 2):
        assert counters.read() == {} if second == 1 else counters.read()
        for event, value in (("cycles", 2000), ("instructions:u", 1000)):
            counters.add(f"     {second}.0001;{value};;{event};100;100.00;;\n")
        for event in SECTION.memory:
            counters.add(f"     {second}.0001;{10};;{event};100;100.00;;\n")
    assert counters.read() == {"cycles": 4000.0, "instructions": 2000.0, "transactions": 40.0}


def test_an_event_that_is_not_counted_leaves_no_counts() -> None:
    counters = PerfCounters(SECTION, 1.0)
    counters.add("     1.0001;2000;;cycles;100;100.00;;\n")
    counters.add("     1.0001;<not supported>;;instructions;0;100.00;;\n")
    assert (counters.read(), counters.problem) == ({}, "perf does not count instructions on this node")


@pytest.mark.parametrize("ends", [False, True])
def test_a_program_that_counts(tmp_path: Path, ends: bool) -> None:
    """A script in the place of perf, in its format; one that ends leaves its last word."""
    script = tmp_path / "perf"
    lines = "".join(f'echo "{{t}};{v};;{e};1;100.00;;" >&2\n' for e, v in
                    (("cycles", 300), ("instructions", 200), (SECTION.memory[0], 5)))  # fmt: skip
    body = (
        "echo 'no permission' >&2\n"
        if ends
        else f"for t in 1 2; do\n{lines.replace('{t}', '$t.0')}done\nexec sleep 60\n"
    )
    script.write_text(f"#!/bin/bash\n{body}")
    script.chmod(0o755)
    counters = PerfCounters(CountersSection(perf=str(script), memory=SECTION.memory[:1]), 0.1)
    counters.start()
    try:
        if ends:
            wait_for("its end", lambda: "ended: no permission" in counters.problem, 20.0)
            assert counters.read() == {}
        else:
            wait_for("counts", lambda: counters.read().get("cycles") in (300.0, 600.0), 20.0)
    finally:
        counters.close()


@pytest.mark.parametrize(("period_s", "interval_ms"), [(0.01, 100), (0.1, 100), (0.25, 250), (2.0, 2_000)])
def test_perf_counts_all_processors_in_intervals_of_a_tenth_of_a_second_at_least(
    tmp_path: Path, period_s: float, interval_ms: int
) -> None:
    script = tmp_path / "perf"
    script.write_text(f'#!/bin/bash\necho "$@" > {tmp_path}/words.part\nmv {tmp_path}/words.part {tmp_path}/words\n')
    script.chmod(0o755)
    counters = PerfCounters(CountersSection(perf=str(script), memory=("a", "b")), period_s)
    counters.start()
    try:
        wait_for("its words", (tmp_path / "words").exists, 20.0)
    finally:
        counters.close()
    words = f"stat -a -x ; -I {interval_ms} -e cycles -e instructions -e a -e b\n"
    assert (tmp_path / "words").read_text() == words


def test_perf_of_this_machine() -> None:
    """It counts, or (in a container) the problem names the event or the reason."""
    if shutil.which("perf") is None:
        pytest.skip("perf is not installed")
    counters = PerfCounters(CountersSection(memory=("cache-misses",)), 0.1)
    counters.start()
    try:
        wait_for("counts, or why there are none", lambda: counters.problem != "no counts yet", 20.0)
        assert bool(counters.read()) != bool(counters.problem)
    finally:
        counters.close()


def test_without_perf_there_are_no_counts() -> None:
    counters = PerfCounters(CountersSection(perf="/nonexistent/perf", memory=("a",)), 1.0)
    counters.start()
    assert counters.problem == "/nonexistent/perf cannot be run: No such file or directory"
