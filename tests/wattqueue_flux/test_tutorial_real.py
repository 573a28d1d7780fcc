"""The tutorial docs/tutorials/flux.md, and the guide's trial, work as printed on a real Flux and leave no process."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.examples.shell_blocks import blocks_of, follow
from tests.live.procs import MARKER, end_all, marked
from tests.program import wattqueue
from tests.wattqueue_flux.fluxlab import flux_program, missing, real_flux, wait_for
from tools.packages import ROOT
from wattqueue.kernels.cache import CACHE_DIR

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))
PAGE = ROOT / "docs" / "tutorials" / "flux.md"


@pytest.fixture
def own(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Variables of processes that end with the test."""
    flux = flux_program()
    assert flux is not None
    yield {
        MARKER: str(tmp_path),
        "PATH": f"{Path(flux).parent}:{os.environ['PATH']}",
        "WATTQUEUE_CACHE_DIR": str(CACHE_DIR.parent),  # kernels that are compiled already
    }
    end_all(str(tmp_path))


@real_flux
def test_the_tutorial_works_as_printed(own: dict[str, str], tmp_path: Path) -> None:
    printed = follow(PAGE, tmp_path, own)
    wait_for("the end of the instance", lambda: not marked(str(tmp_path)))
    assert len(printed) == len(blocks_of(PAGE)) > 6
    assert "sched_wattqueue, queue depth unlimited" in printed[1]


@real_flux
def test_the_trial_of_the_guide_holds_its_cap_to_its_end(own: dict[str, str], tmp_path: Path) -> None:
    done = wattqueue("flux", "try", cwd=tmp_path)
    command = done.stdout.strip()
    assert command == "flux start -Sbroker.module-nopanic=1 bash flux-trial/start.sh"
    env = {**os.environ, **own}
    ran = subprocess.run(
        command.split(), cwd=tmp_path, env=env, capture_output=True, text=True, check=True, timeout=400
    )
    said = ran.stdout
    counts = [
        (int(row[1]), int(row[2])) for row in re.finditer(r"^(\d+) running jobs count (\d+) W of 10000 W$", said, re.M)
    ]
    assert max(jobs for jobs, _ in counts) == 50
    assert max(watts for _, watts in counts) == 10_000
    assert said.rstrip().endswith("all 200 jobs have ended")
    assert ".err[0]" not in ran.stderr
