"""The tutorial docs/tutorials/observe.md works as printed on a real Slurm, and leaves it as it was."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.examples.shell_blocks import blocks_of, follow
from tests.live.slurmlab import SlurmLab, real
from tools.packages import ROOT
from wattqueue.kernels.cache import CACHE_DIR

PAGE = ROOT / "docs" / "tutorials" / "observe.md"


@real
def test_the_tutorial_works_as_printed_and_writes_nothing(lab: SlurmLab, tmp_path: Path) -> None:
    if lab.bin_dir:
        pytest.skip("the page takes Slurm's commands from the folders of the system: this release is not there")
    before = withheld(lab)
    own = {"WATTQUEUE_CACHE_DIR": str(CACHE_DIR.parent)}  # kernels that are compiled already
    printed = follow(PAGE, tmp_path, lab.env | own)
    assert len(printed) == len(blocks_of(PAGE))
    assert withheld(lab) == before, "observing withholds no licences"
    submitted = re.findall(r"Submitted batch job (\d+)", "".join(printed))  # others use the cluster at the same time
    comments = dict(lab.jobs(fields="%i|%k"))
    assert [comments[job] for job in submitted] == ["(null)"] * 2, "observing writes no comment"
    assert (tmp_path / "work" / "views.jsonl").is_file()


def withheld(lab: SlurmLab) -> str:
    """Slurm's reservations, by which a controller withholds what a cap leaves no room for."""
    return lab.run(["scontrol", "-o", "show", "reservation"], check=False).out
