"""What an input can make a reader allocate, or a run do, is bounded."""

from __future__ import annotations

import gzip
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from wattqueue.errors import InputError, MachineError, PolicyError
from wattqueue.formats import source
from wattqueue.formats.json_text import figure
from wattqueue.formats.machine.file import read_machine
from wattqueue.model.plain_numbers import is_whole, number_of
from wattqueue.model.power_sensor import PowerSensor
from wattqueue.model.profiles import PowerProfiles
from wattqueue.policy.policy import load_policy
from wattqueue.workload.generated import generate

MACHINE = """name = "m"
[[partitions]]
name = "a"
nodes = 4
idle_w = 50
max_w = 100
[sensor]
sample_s = {}
poll_s = {}
"""


@pytest.mark.parametrize("figure", ["1e-300", "1e300", "9e18", "1e-6", "-1.0"])
@pytest.mark.parametrize("key", ["sample_s", "poll_s"])
def test_periods_of_a_sensor_have_bounds(tmp_path: Path, key: str, figure: str) -> None:
    path = tmp_path / "m.toml"
    path.write_text(MACHINE.format(*(figure if k == key else "1.0" for k in ("sample_s", "poll_s"))))
    with pytest.raises((InputError, MachineError)) as refused:
        read_machine(path)
    assert key in str(refused.value)


def test_samples_of_a_reading_have_a_bound() -> None:
    PowerSensor(sample_s=0.001, poll_s=60.0)
    with pytest.raises(InputError):
        PowerSensor(sample_s=0.001, poll_s=1.0, average_s=86_400.0)


@pytest.mark.parametrize("period_s", [1e-300, 1e300])
def test_other_periods_have_bounds(period_s: float) -> None:
    with pytest.raises(InputError):
        PowerProfiles.from_samples([[1.0]], period_s=period_s)
    with pytest.raises(PolicyError):
        load_policy("easy", backfill={"part": "easy", "pass_interval_s": period_s})


@pytest.mark.parametrize(
    ("text", "whole"), [("7", True), ("9" * 18, True), ("9" * 19, False), ("²", False), ("٣", False), ("", False)]
)
def test_whole_numbers_are_ascii_digits(text: str, whole: bool) -> None:
    assert is_whole(text) is whole


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("7", 7.0),
        (" -.5e1 ", -5.0),
        ("1e999", np.inf),
        *((text, np.nan) for text in ("٣", "²", "1_0", "nan", "inf", "")),
    ],
)
def test_numbers_are_ascii_digits(text: str, number: float) -> None:
    np.testing.assert_equal(number_of(text), number)
    found = figure(text)
    assert found == (number if np.isfinite(number) else None)


def test_a_generator_takes_ascii_digits() -> None:
    with pytest.raises(InputError):
        generate("lightesp:nodes=٣", np.random.default_rng(0))


def test_a_gzip_file_that_unpacks_to_far_more_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "LEAST_UNPACKED", 1 << 20)
    path = tmp_path / "bomb.gz"
    with gzip.open(path, "wb") as out:
        for _ in range(64):
            out.write(b"0 0\n" * (1 << 18))
    with pytest.raises(InputError) as refused:
        sum(text.count(b" ") for _, text in source.line_blocks(path))
    assert str(refused.value.where) == str(path)


def test_a_gzip_file_of_text_is_read_whole(tmp_path: Path) -> None:
    text = b"".join(b"%d %d\n" % (k, k * k) for k in range(50_000))
    path = tmp_path / "t.gz"
    path.write_bytes(gzip.compress(text))
    with source.opened(path) as stream:
        assert stream.read() == text


SLOW = """
import numpy as np
import wattqueue as wq
from wattqueue.model.power_sensor import PowerSensor
from dataclasses import replace
from wattqueue.model.machine import Machine, Partition
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import simulate
from wattqueue.model.jobs import Jobs
from wattqueue.model.signals import Cap

machine = Machine("m", (Partition("a", 2, idle_w=50.0, max_w=100.0),), "machine")
machine = replace(machine, sensor=PowerSensor(sample_s=0.001, poll_s=0.001))
jobs = Jobs.build([0.0], [1], [4e9], walltime_s=[4e9], mean_power_w=[80.0])
policy = load_policy("easy", ledger="measured")
simulate(Jobs.build([0.0], [1], [1.0], mean_power_w=[80.0]), machine, policy, cap=Cap.constant(180.0))
print("running", flush=True)
simulate(jobs, machine, policy, cap=Cap.constant(180.0))
"""


@pytest.mark.compiled
@pytest.mark.usefixtures("signals_heard")
def test_a_run_that_only_reads_sensors_hears_a_signal() -> None:
    """Four years of readings each millisecond: the compiled loop returns to Python now and then."""
    with subprocess.Popen([sys.executable, "-c", SLOW], stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "running\n"
        time.sleep(0.5)
        running.send_signal(signal.SIGINT)
        try:
            assert running.wait(180) != 0
        finally:
            running.kill()
