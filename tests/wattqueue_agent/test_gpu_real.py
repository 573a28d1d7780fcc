"""A real NVIDIA GPU as the agent reads it. Nothing is set: a GPU may be lent, or at work.

Skipped, with the reason, where there is none. With PyTorch the readings are taken under load, else of an idle GPU.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.wattqueue_agent.test_agent import NOW_S, Library
from wattqueue.live.agents import AgentState
from wattqueue_agent.agent import Agent
from wattqueue_agent.hardware import GpuLimit, find_limits, gpu_limits
from wattqueue_agent.limits import Bounds
from wattqueue_agent.meter import PowerMeter
from wattqueue_agent.originals import Originals

LOAD = """
import sys, time, torch
work_s, pause_s = map(float, sys.argv[1:])
a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
print("ready", flush=True)
while True:
    until = time.monotonic() + work_s
    while time.monotonic() < until:
        for _ in range(10):
            a @ a
        torch.cuda.synchronize()
    time.sleep(pause_s)
"""
STEADY_S = 3.0
"""After this a mean over a second is no longer one of before and after a change."""


@pytest.fixture
def gpu() -> GpuLimit:
    found = gpu_limits()
    if not found:
        pytest.skip("no NVIDIA GPU here, or no driver, or no nvidia-ml-py")
    return found[0]


@contextmanager
def under_load(work_s: float, pause_s: float) -> Iterator[None]:
    """Have the GPU work and pause in turn, where PyTorch can; else it stays as it is."""
    if find_spec("torch") is None:
        time.sleep(STEADY_S)
        yield
        return
    argv = [sys.executable, "-c", LOAD, str(work_s), str(pause_s)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            time.sleep(STEADY_S)
            yield
        finally:
            child.kill()


@pytest.fixture
def busy(gpu: GpuLimit) -> Iterator[GpuLimit]:
    with under_load(1.0, 0.0):
        yield gpu


@pytest.fixture
def swinging(gpu: GpuLimit) -> Iterator[GpuLimit]:
    with under_load(1.0, 1.0):
        yield gpu


def test_the_limit_lies_in_its_range(gpu: GpuLimit, tmp_path: Path) -> None:
    assert gpu.name.startswith("gpu-GPU-")
    low_w, high_w = gpu.range().low, gpu.range().high
    assert 0 < low_w <= gpu.read() <= high_w
    assert gpu.name in find_limits(tmp_path, tmp_path, gpus=True)


def readings_of(gpu: GpuLimit, count: int, every_s: float) -> list[float]:
    """Return so many readings of a meter; the one at its begin is left out."""
    meter, watts = PowerMeter({gpu.name: gpu}), []
    meter.read(time.monotonic())
    for _ in range(count):
        time.sleep(every_s)
        watts.append(meter.read(time.monotonic())[gpu.name])
    assert meter.problems == ()
    return watts


def test_watts_are_those_of_the_energy_counter(busy: GpuLimit) -> None:
    """Ten readings, one a second, beside the energy of that time; its counter has steps of 0.1 s."""
    begin_s, begin_j = time.monotonic(), busy.energy_j()
    watts = readings_of(busy, 10, 1.0)
    seconds, end_j = time.monotonic() - begin_s, busy.energy_j()
    assert begin_j is not None
    assert end_j is not None
    assert sum(watts) / len(watts) == pytest.approx((end_j - begin_j) / seconds, rel=0.03)
    assert max(watts) <= 1.02 * busy.read(), "the limit holds the mean over a second"


def test_watts_of_a_load_that_comes_and_goes(swinging: GpuLimit) -> None:
    """Of reads that are three of its periods apart."""
    watts = readings_of(swinging, 3, 6.0)
    assert max(watts) / min(watts) < 1.15


def test_an_agent_states_its_watts_and_its_limit(gpu: GpuLimit, tmp_path: Path) -> None:
    agent = Agent(
        "n1", "one", {gpu.name: gpu}, lambda _: Bounds(1.0, 1e4), Originals(tmp_path, tmp_path, tmp_path, True)
    )
    state = AgentState.parse(agent.step(NOW_S, 0.0).text())
    assert state.problems == ()
    assert state.power_w[gpu.name] > 0
    assert state.metered == (gpu.name,)


def test_the_fake_answers_as_nvml_does(gpu: GpuLimit) -> None:
    """The kinds of the answers, of all that is read; ``test_agent`` tests what is written with it."""
    fake = Library()
    fake.energy_mj = 1
    for name in ("PowerManagementLimitConstraints", "PowerManagementLimit", "TotalEnergyConsumption"):
        real = getattr(gpu.library, f"nvmlDeviceGet{name}")(gpu.handle)
        faked = getattr(fake, f"nvmlDeviceGet{name}")(None)
        numbers = (list, tuple)
        assert isinstance(real, numbers) == isinstance(faked, numbers)
        assert all(isinstance(one, int) for one in (real if isinstance(real, numbers) else [real]))
    assert issubclass(gpu.library.NVMLError, Exception)
