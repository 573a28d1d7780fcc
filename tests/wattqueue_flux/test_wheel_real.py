"""The wheel with compiled kernels inside a real Flux: its library decides, and there is no numba.

``WATTQUEUE_WHEEL`` names one that is built (``make wheel``); else it is built here, for this processor alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.package.test_wheel import pins
from tests.wattqueue_flux.fluxlab import IDLE_W, NAME, NET_W, instance, missing, real_flux, wait_for, write_config
from tools.wheel import build
from wattqueue.kernels.library import levels_of_this_processor

pytestmark = [pytest.mark.slow, pytest.mark.skipif(missing() is not None, reason=str(missing()))]
NODES, AT_ONCE, JOBS = 100, 10, 60


def compiled_wheel(folder: Path) -> Path:
    """The wheel that is named, or one of these sources."""
    named = os.environ.get("WATTQUEUE_WHEEL")
    return Path(named) if named else build(folder, levels=tuple(levels_of_this_processor()[-1:]))[-1]


@real_flux
@pytest.mark.skipif(not levels_of_this_processor(), reason="no wheel has machine code for this processor")
def test_the_compiled_wheel_runs_inside_flux_without_numba(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    python = str(tmp_path / "venv/bin/python")
    pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "-c", str(pins(tmp_path))]
    subprocess.run([*pip, f"{compiled_wheel(tmp_path)}[flux]"], check=True, capture_output=True)
    assert subprocess.run([python, "-c", "import numba"], capture_output=True, check=False).returncode == 1
    command = [str(tmp_path / "venv/bin/wattqueue"), "flux", "module"]
    file = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    assert file.startswith(str(tmp_path / "venv"))
    write_config(tmp_path, NODES, policy="flux-priority", cap_w=NODES * IDLE_W + AT_ONCE * NET_W)
    with instance(tmp_path, emulated=NODES, load=False) as lab:
        lab.run("module", "load", file, f"config={tmp_path}/live.toml")
        lab.submit(JOBS, seconds=1.0)
        wait_for("starts", lambda: lab.states()["RUN"] > 0)
        mapped = Path(f"/proc/{lab.module_pid()}/maps").read_text()
        assert f"{tmp_path}/venv/lib" in mapped
        assert "_compiled/kernels-" in mapped
        used = []

        def ended() -> bool:
            used.append(lab.used_w())
            return lab.states()["INACTIVE"] == JOBS

        wait_for("the end of all", ended, 120.0)
        assert max(used) == AT_ONCE * NET_W
        assert NAME in lab.run("module", "list")
