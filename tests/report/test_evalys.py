"""evalys 4, in a virtual environment of its own, reads jobs.csv and draws it."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.report.cases import generated_record
from wattqueue.formats.rundir.folder import write_run

DRAW = """
import json, sys
import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
from evalys.jobset import JobSet
from evalys.visu.gantt import plot_gantt

jobs = JobSet.from_csv(sys.argv[1])
jobs.plot(with_details=True)
details = plt.gcf()
details.savefig(sys.argv[2] + "/details.png")
plot_gantt(jobs, title="ours")
plt.gcf().savefig(sys.argv[2] + "/gantt.png")
frame = jobs.df
print(json.dumps({
    "jobs": len(frame),
    "units": int(jobs.MaxProcs),
    "mean_wait": float(frame.waiting_time.mean()),
    "busy": int(jobs.utilisation.load.max()),
    "panels": len(details.axes),
    "rectangles": sum(len(axis.patches) for axis in details.axes),
}))
"""


@pytest.mark.slow
def test_evalys_reads_and_draws_our_jobs(tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "evalys==4.0.7"]
    got = subprocess.run(install, capture_output=True, text=True, check=False)
    if got.returncode:
        pytest.skip(f"evalys cannot be installed here: {got.stderr.strip().splitlines()[-1]}")
    record = generated_record(200, 32)
    write_run(tmp_path / "run", record)
    drawn = subprocess.run(
        [python, "-c", DRAW, str(tmp_path / "run" / "jobs.csv"), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert drawn.returncode == 0, drawn.stderr[-2_000:]
    seen = json.loads(drawn.stdout.splitlines()[-1])
    assert seen["jobs"] == 200
    assert seen["units"] <= 32
    assert seen["mean_wait"] == pytest.approx(record.metrics["wait_s_mean"], rel=1e-6)
    assert seen["busy"] == record.power.busy_units.max()
    assert seen["panels"] >= 3
    assert seen["rectangles"] >= 200
    for picture in ("details.png", "gantt.png"):
        assert (tmp_path / picture).stat().st_size > 5_000, f"{picture} is empty ({sys.version})"
