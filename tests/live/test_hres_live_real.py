"""A controller beside Slurm 26.05 that holds the power domains by itself: the fight of the racks.

``WATTQUEUE_ADVERSARIAL_S`` and ``WATTQUEUE_KILLS`` set duration and kills (60 s and 6).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.live.fight import site_of
from tests.live.releases import absent
from tests.live.site import Site
from tests.live.slurmlab import USER
from tests.live.test_domains_real import MACHINE, check_fight, check_refusals
from tests.live.test_hres_real import RELEASE
from wattqueue.formats.machine.file import load_machine
from wattqueue.live.config import load_config
from wattqueue.live.slurm.examine_live import examine_live
from wattqueue.live.slurm.hres import hres_text, layers_of

pytestmark = [pytest.mark.slow, pytest.mark.slurm, pytest.mark.compiled, pytest.mark.xdist_group("arena")]
NAMES = [f"n{k}" for k in range(1, 17)]


@pytest.fixture(scope="module")
def hres_hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A Slurm of sixteen nodes that has read the exported file before anything is installed."""
    reason = absent(RELEASE)
    if reason is not None:
        pytest.skip(reason)
    file: Path = tmp_path_factory.mktemp("hres") / "machine.toml"
    file.write_text(MACHINE)
    machine = load_machine(file)
    yield from site_of(
        RELEASE, Site, "hres", 3200, cap="4800W", machine=MACHINE, slurm="hres = true", nodes=16,
        domains="watts_gate:1", resources=hres_text(machine, layers_of(machine, NAMES)),
    )  # fmt: skip


def test_no_job_gets_above_a_rack_that_slurm_holds(
    hres_hall: Site, record_property: Callable[[str, object], None]
) -> None:
    seconds, kills = (
        float(os.environ.get(f"WATTQUEUE_{name}", d)) for name, d in (("ADVERSARIAL_S", 60), ("KILLS", 6))
    )
    check_fight(hres_hall, seconds, int(kills), 3, record_property)


def test_a_job_that_no_domain_feeds_is_refused_by_its_name(hres_hall: Site) -> None:
    check_refusals(hres_hall)


def test_a_job_of_components_is_refused_by_name(hres_hall: Site) -> None:
    """Slurm's backfill would start its components beyond the resource."""
    argv = ["sbatch", "--parsable", "-N1", "-p", "p1", ":", "-N1", "-p", "p2", "--wrap=sleep 1"]
    done = hres_hall.lab.run(argv, user=USER, check=False)
    assert done.code != 0
    assert "under power domains no job of several components can start" in done.err


def test_doctor_says_what_slurm_holds(hres_hall: Site) -> None:
    config = hres_hall.root / "live/live.toml"
    said = [f"{one.found} {one.cost}" for one in examine_live(load_config(config), hres_hall.lab.commands, file=config)]
    assert any(line.startswith("r1: 0 of 250 W in use (layer n[1-4])") for line in said), said
    assert any("not held: jobs that nobody pinned" in line for line in said), said
