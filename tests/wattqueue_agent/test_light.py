"""An agent runs on nodes without numba and polars. The agents of a broker's site, too, are started like this."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.wattqueue_agent.broker_site import ABSENT, LIGHT
from tests.wattqueue_agent.powercap_tree import PowercapTree


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", LIGHT, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)


@pytest.mark.parametrize("name", ABSENT)
def test_what_is_absent_there_cannot_be_imported(name: str) -> None:
    code = LIGHT.replace("from wattqueue.cli import main", f"import {name}")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"ModuleNotFoundError: No module named '{name}'" in done.stderr


def test_an_agent_shows_its_node_and_restores_limits(tmp_path: Path) -> None:
    PowercapTree(tmp_path / "powercap", [120.0], 150.0)
    config = tmp_path / "agent.toml"
    config.write_text(
        'powercap = "powercap"\ncpufreq = "cpufreq"\nstate_dir = "state"\ngpus = false\n'
        '[broker]\nhost = "localhost"\n[[allow]]\nlimit = "package-*"\nlow = 60.0\nhigh = 150.0\n'
        '[counters]\nmemory = ["cache-misses"]\n'
    )
    done = run("agent", "check", "-c", config)
    assert (done.returncode, done.stderr) == (0, "")
    assert "package-0" in done.stdout
    assert run("agent", "restore", "--state-dir", tmp_path / "state").returncode == 0


def test_an_agent_runs_its_steps_and_restores_its_limits(tmp_path: Path) -> None:
    """Without a broker it goes on, and says so."""
    tree = PowercapTree(tmp_path / "powercap", [120.0], 150.0)
    config = tmp_path / "agent.toml"
    config.write_text(
        'powercap = "powercap"\ncpufreq = "cpufreq"\nstate_dir = "state"\ngpus = false\nperiod_s = 0.1\n'
        '[broker]\nhost = "localhost"\nport = 1\n[[allow]]\nlimit = "package-*"\nlow = 60.0\nhigh = 150.0\n'
    )
    done = run("agent", "run", "-c", config, "--steps", "3")
    assert done.returncode == 0, done.stderr
    assert "no connection to localhost:1" in done.stderr or "not connected yet" in done.stderr
    assert tree.limits_w() == [150.0]
