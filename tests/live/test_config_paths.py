"""Relative paths of a controller's configuration start at its folder, whatever folder the controller runs in."""

from __future__ import annotations

from pathlib import Path

import pytest

from wattqueue.live.config import load_config
from wattqueue.live.release import read_settings
from wattqueue.policy.policy import load_policy

PART = """
import numpy as np
from wattqueue.parts.contracts import Prediction

class Flat:
    asked = "once"
    machine_figures = True

    def predict(self, jobs, machine):
        shape = (len(jobs), len(machine.option_partition))
        return Prediction(np.full(shape, 150.0), np.ones(shape))

    def learn(self, finished):
        pass
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of configuration; the process is in another one, in which files of the same names are."""
    etc, elsewhere = tmp_path / "etc", tmp_path / "elsewhere"
    for place in (etc, elsewhere):
        (place / "parts").mkdir(parents=True)
        (place / "my.toml").write_text('[row]\nestimator = "parts/flat.py:Flat"\n' if place is etc else "[other]\n")
        (place / "parts" / "flat.py").write_text(PART if place is etc else "")
    monkeypatch.chdir(elsewhere)
    return etc


def written(folder: Path, text: str) -> Path:
    path = folder / "live.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("my.toml:row", "{}/my.toml:row"),
        ("my.toml", "{}/my.toml"),
        ("parts/flat.py:Flat", "{}/parts/flat.py:Flat"),
        ("easy+estimator=parts/flat.py:Flat+order=fcfs", "easy+estimator={}/parts/flat.py:Flat+order=fcfs"),
        ("easy+pc-mean", "easy+pc-mean"),
        ("/opt/my.toml:row", "/opt/my.toml:row"),
        ("later.toml:row", "{}/later.toml:row"),
    ],
)
def test_a_policy_and_its_parts_stand_beside_the_file(folder: Path, policy: str, expected: str) -> None:
    config = load_config(written(folder, f'machine = "m"\npolicy = "{policy}"\n'))
    assert config.policy == expected.format(folder)


def test_a_row_names_its_files_from_its_own_folder(folder: Path) -> None:
    config = load_config(written(folder, 'machine = "m"\npolicy = "my.toml:row"\n'))
    assert load_policy(config.policy).row["estimator"] == f"{folder}/parts/flat.py:Flat"


def test_other_paths_stand_beside_the_file(folder: Path) -> None:
    text = 'machine = "m.toml"\nstate = "s.db"\nrecord = "views"\n[slurm]\nconf = "slurm.conf"\nbin_dir = "bin"\n'
    path = written(folder, text)
    config = load_config(path)
    assert (config.machine, config.state, config.record) == (f"{folder}/m.toml", f"{folder}/s.db", folder / "views")
    assert (config.slurm.conf, config.slurm.bin_dir) == (folder / "slurm.conf", f"{folder}/bin")
    release = read_settings(path)
    assert (release.conf, release.bin_dir, release.state) == (f"{folder}/slurm.conf", f"{folder}/bin", f"{folder}/s.db")


def test_names_stay_names(folder: Path) -> None:
    config = load_config(written(folder, 'machine = "marconi100"\ncap = "80%"\n[slurm]\nbin_dir = ""\n'))
    assert (config.machine, config.policy, config.cap, config.slurm.bin_dir) == ("marconi100", "easy", "80%", "")
