"""The tutorial docs/tutorials/flux.md works as printed on a real Flux, and leaves none of its processes behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.examples.shell_blocks import blocks_of, follow
from tests.live.procs import MARKER, end_all, marked
from tests.wattqueue_flux.fluxlab import flux_program, missing, real_flux, wait_for
from tools.packages import ROOT
from wattqueue.kernels.cache import CACHE_DIR

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))
PAGE = ROOT / "docs" / "tutorials" / "flux.md"


@real_flux
def test_the_tutorial_works_as_printed(tmp_path: Path) -> None:
    flux = flux_program()
    assert flux is not None
    own = {
        MARKER: str(tmp_path),
        "PATH": f"{Path(flux).parent}:{os.environ['PATH']}",
        "WATTQUEUE_CACHE_DIR": str(CACHE_DIR.parent),  # kernels that are compiled already
    }
    try:
        printed = follow(PAGE, tmp_path, own)
        wait_for("the end of the instance", lambda: not marked(str(tmp_path)))
    finally:
        end_all(str(tmp_path))
    assert len(printed) == len(blocks_of(PAGE)) > 6
    assert "sched_wattqueue, queue depth unlimited" in printed[1]
