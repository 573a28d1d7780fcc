"""Slurm 26.05 holds power domains by itself: the exported file, no controller at work, limits never passed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.live.drive import lab_machine
from tests.live.releases import absent, lab_of
from tests.live.slurmlab import LIVE, PATIENCE_S, LabError, SlurmLab
from wattqueue.formats.slurm.hostlist import expand
from wattqueue.live.slurm.hres import differences, hres_text, layers_of, shown_layers
from wattqueue.model.machine import Machine
from wattqueue.model.supply import SupplyDomain

pytestmark = [pytest.mark.slow, pytest.mark.slurm, pytest.mark.xdist_group("slurm")]
RELEASE = "26.05"
RACKS = (
    SupplyDomain(name="r1", parent="row", nodes="p1[1-2]", limit_w=200.0 + 310.0),
    SupplyDomain(name="r2", parent="row", nodes="p1[3-4]", limit_w=200.0 + 310.0),
    SupplyDomain(name="row", parent="hall", limit_w=400.0 + 510.0),
    SupplyDomain(name="r3", parent="hall", nodes="p2", limit_w=400.0 + 410.0),
    SupplyDomain(name="hall", limit_w=800.0 + 810.0),
)
"""Of nodes that draw 100 W idle: what racks, a row and the hall may draw above it."""


def machine() -> Machine:
    bare = lab_machine()
    return Machine("lab", bare.partitions, supply=RACKS)


@pytest.fixture
def hres_lab(lab_folder: Path) -> Iterator[SlurmLab]:
    reason = absent(RELEASE)
    if reason is not None:
        pytest.skip(reason)
    lab = lab_of(RELEASE, lab_folder)
    lab.resources = hres_text(machine(), layers_of(machine(), lab.names))
    try:
        yield lab.up()
    finally:
        lab.down()
        lab.remove()


def test_slurm_shows_the_tree_that_was_exported(hres_lab: SlurmLab) -> None:
    """Layer by layer, nodes and counts; and after a limit was lowered in the file and Slurm has read it again."""
    lab, layers = hres_lab, layers_of(machine(), hres_lab.names)
    shown = lab.run(["scontrol", "-o", "show", "licenses"]).out
    assert differences(layers, [one for one, _ in shown_layers(shown)]) == []
    lower = replace(machine(), supply=(replace(RACKS[0], limit_w=450.0), *RACKS[1:]))
    (lab.root / "etc/resources.yaml").write_text(hres_text(lower, layers_of(lower, lab.names)))
    lab.run(["scontrol", "reconfigure"])
    shown = lab.run(["scontrol", "-o", "show", "licenses"]).out
    found = [one for one, _ in shown_layers(shown)]
    assert differences(layers_of(lower, lab.names), found) == []
    assert differences(layers, found) == ["r1 has 250 W, the machine file says 310 W"]
    (lab.root / "etc/resources.yaml").write_text(hres_text(machine(), layers))
    lab.run(["scontrol", "reconfigure"])


def test_no_layer_is_passed_and_every_job_that_fits_ends(hres_lab: SlurmLab) -> None:
    """Jobs of one to three nodes at 50 to 200 W; one at 320 W a node fits no rack, and is refused."""
    lab, layers = hres_lab, layers_of(machine(), hres_lab.names)
    watts: dict[str, int] = {}
    for k in range(24):
        partition, nodes, each = ("p1", "p2")[k % 2], 1 + k % 3, (50, 100, 150, 200)[k % 4]
        if partition == "p2" and nodes * each > 400:
            each = 100
        job = lab.submit("-N", str(nodes), "-p", partition, f"--resources=power:{each}", seconds=2.0)
        watts[job] = each
    with pytest.raises(LabError, match="node configuration is not available"):
        lab.submit("-N", "1", "-p", "p1", "--resources=power:320")
    until, looks, most = time.monotonic() + 2 * PATIENCE_S, 0, 0.0
    while time.monotonic() < until:
        rows = {row[0]: row for row in lab.jobs()}
        running = [(watts[job], expand(row[4])) for job, row in rows.items() if job in watts and row[1] == "RUNNING"]
        for layer in layers:
            drawn = sum(each * len(set(names) & set(layer.nodes)) for each, names in running)
            assert drawn <= layer.count, layer
            most = max(most, drawn / layer.count)
        looks += 1
        if not any(job in watts and row[1] in LIVE for job, row in rows.items()):
            break
        time.sleep(0.2)
    states = lab.states()
    assert not [job for job in watts if states.get(job, "COMPLETED") in LIVE]
    assert looks > 10
    assert most > 0.5, "limits came near"
