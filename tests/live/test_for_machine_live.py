"""The row ``combined`` in a live controller: what a site's configuration lets it have, and nothing that is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.fakeslurm import FakeSlurm
from wattqueue.live.assemble import assemble
from wattqueue.live.config import load_config
from wattqueue.live.controller import Controller

NODES = ["n0", "n1", "n2", "n3"]
MACHINE = """name = "four"
[[partitions]]
name = "p1"
nodes = 4
frequencies_hz = [2.6e9, 2.0e9]
idle_w = 100.0
max_w = 400.0
[known]
units = "units.csv"
"""
UNITS = "app,unit,watts\n" + "".join(f"cg,{unit},{300 + 10 * unit}\n" for unit in range(4))
BROKER = '[telemetry]\n{more}[telemetry.broker]\nhost = "localhost"\nuser = "controller"\npassword_file = "password"\n'
METER = '[telemetry]\nprometheus_url = "http://127.0.0.1:1"\n'


def controller_of(folder: Path, telemetry: str, slurm: str = "") -> Controller:
    """A controller of the row, assembled from files, in observe mode."""
    (folder / "password").write_text("secret")
    (folder / "password").chmod(0o600)
    (folder / "machine.toml").write_text(MACHINE)
    (folder / "units.csv").write_text(UNITS)
    (folder / "live.toml").write_text(
        f'machine = "machine.toml"\ncap = "1200W"\npolicy = "combined"\n{telemetry}{slurm}'
    )
    found = assemble(load_config(folder / "live.toml"), FakeSlurm({"p1": NODES}, 4000), lambda: 1e6)
    found.telemetry.close()
    found.run_dir.release()
    return found


@pytest.mark.parametrize(
    ("telemetry", "slurm", "ledger", "controls", "placement"),
    [
        ("", "", "predicted", ["slow-consenting"], "least-watts"),
        ("", '[slurm]\nplace_nodes = "never"\n', "predicted", ["slow-consenting"], "lowest"),
        (METER, "", "predicted", ["slow-consenting"], "least-watts"),
        (BROKER.format(more="track_running = true\n"), "", "measured", ["slow-consenting", "rapl-redistribution"],
         "least-watts"),
        (BROKER.format(more=""), "", "predicted", ["slow-consenting"], "least-watts"),
    ],
    ids=["nothing", "no places", "meter", "agents that are followed", "agents"],
)  # fmt: skip
def test_the_row_is_made_of_what_the_site_has(
    tmp_path: Path, telemetry: str, slurm: str, ledger: str, controls: list[str], placement: str
) -> None:
    controller = controller_of(tmp_path, telemetry, slurm)
    row = controller.planner.policy.row
    assert (row["ledger"], row["controls"], row["placement"]) == (ledger, controls, placement)
    left = [text for text in controller.standing if text.startswith("combined leaves out")]
    assert len(left) == len(row["left_out"])
    assert any("prices" in text for text in left)
    table = {"part": "unit-watts", "table": str(tmp_path / "units.csv")}
    assert row["estimator"] == (table if placement == "least-watts" else "maximum")
