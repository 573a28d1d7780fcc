"""A real Dask scheduler and workers on loopback; processes that are killed; disks that run full."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.campaign.cluster import ROOT, Cluster, cluster, wait_for
from tests.campaign.processes import members
from tests.live.releases import root_of, under_test
from tests.live.slurmlab import SlurmLab, missing
from tests.program import IMPORTED_FROM
from wattqueue.campaign.dask import opened_backend, scheduler_address, slurm_cluster
from wattqueue.campaign.file import SlurmTable
from wattqueue.errors import CampaignError, InputError
from wattqueue.kernels.cache import CACHE_DIR

GRID = """
workloads = ["marconi:days=1,load=0.9"]
machines = ["marconi100"]
policies = ["easy", "first-fit"]
estimators = ["maximum", "history-mean"]
caps = ["none", "20%", "30%"]
seeds = "1..5"
"""
RUNS, SOURCES = 60, 5
pytestmark = pytest.mark.usefixtures("signals_heard")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the grid, and what one process makes of it."""
    folder = tmp_path_factory.mktemp("campaign")
    (folder / "grid.toml").write_text(GRID)
    done = finish(start(folder, "alone", "--workers", "1"))
    assert done.returncode == 0, done.stderr
    return folder


def start(
    home: Path, out: str, *options: str, most_bytes: int | None = None, file: str = "grid.toml"
) -> subprocess.Popen[str]:
    code = "from wattqueue.cli import main; main()"
    if most_bytes is not None:
        code = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({most_bytes}, {most_bytes})); {code}"
    call = [sys.executable, "-c", code, "campaign", str(home / file), "--out", str(home / out), *options]
    return subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def finish(process: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
    out, err = process.communicate(timeout=400)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def said(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The lines of an error, without progress."""
    return [
        line for line in done.stderr.splitlines() if not line.startswith(("campaign: ", "Compiling", "Waiting for"))
    ]


def kept(home: Path, out: str) -> int:
    """Finished runs in a folder."""
    path = home / out / "finished.jsonl"
    return max(path.read_bytes().count(b"\n") - SOURCES, 0) if path.exists() else 0


def midway(home: Path, out: str, process: subprocess.Popen[str]) -> None:
    wait_for("some runs", lambda: kept(home, out) >= 10 or process.poll() is not None)
    assert process.poll() is None
    assert kept(home, out) < RUNS


def table(home: Path, out: str) -> bytes:
    return (home / out / "results.parquet").read_bytes()


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Cluster]:
    with cluster(tmp_path / "dask", "a", "b") as found:
        yield found


@pytest.mark.slow
def test_a_worker_killed_midway_changes_no_byte(home: Path, two: Cluster) -> None:
    process = start(home, "cluster", "--cluster", two.address)
    midway(home, "cluster", process)
    two.kill("a")
    done = finish(process)
    assert done.returncode == 0, done.stderr
    assert said(done) == []
    assert f"{RUNS} runs done" in done.stdout
    assert table(home, "cluster") == table(home, "alone")


@pytest.mark.slow
def test_a_scheduler_that_goes_away_keeps_what_is_finished(home: Path, two: Cluster) -> None:
    process = start(home, "lost", "--cluster", two.address)
    midway(home, "lost", process)
    two.kill("scheduler")
    done = finish(process)
    assert done.returncode == 2
    assert len(said(done)) == 1, done.stderr
    assert "the scheduler went away" in said(done)[0]
    before = kept(home, "lost")
    assert not (home / "lost" / "results.parquet").exists()
    done = finish(start(home, "lost", "--workers", "2"))
    assert f"{RUNS - before} runs done, {before} kept" in done.stdout, done.stderr
    assert table(home, "lost") == table(home, "alone")


@pytest.mark.slow
def test_the_whole_campaign_killed_midway(home: Path) -> None:
    process = start(home, "killed", "--workers", "2")
    midway(home, "killed", process)
    process.send_signal(signal.SIGKILL)
    wait_for("its workers to leave", lambda: not members(process.pid))
    finish(process)
    before = kept(home, "killed")
    done = finish(start(home, "killed", "--workers", "2"))
    assert done.returncode == 0, done.stderr
    assert f"{RUNS - before} runs done, {before} kept" in done.stdout
    assert table(home, "killed") == table(home, "alone")


@pytest.mark.slow
def test_interrupted(home: Path) -> None:
    process = start(home, "stopped", "--workers", "2")
    midway(home, "stopped", process)
    os.killpg(process.pid, signal.SIGINT)
    done = finish(process)
    assert done.returncode == 130
    assert "Traceback" not in done.stderr
    wait_for("workers to leave", lambda: not members(process.pid))


@pytest.mark.slow
def test_a_disk_that_runs_full_loses_nothing(home: Path, tmp_path: Path) -> None:
    trace = "".join(
        f"{i} {i * 10} -1 {60 + i % 7 * 30} {1 + i % 5} -1 -1 {1 + i % 5} 400 -1 1 1 1 1 -1 -1 -1 -1\n"
        for i in range(1, 80)
    )
    (tmp_path / "trace.swf").write_text(trace)
    caps = ", ".join(f'"{i}%"' for i in range(71, 101))
    (tmp_path / "grid.toml").write_text(
        f'workloads = ["trace.swf"]\nnodes = 8\nnode_watts = "95:190.7"\ncaps = [{caps}]'
    )
    whole = finish(start(tmp_path, "whole", "--workers", "2"))
    assert whole.returncode == 0, whole.stderr
    lines = (tmp_path / "whole" / "finished.jsonl").read_bytes().count(b"\n")
    done = finish(start(tmp_path, "full", "--workers", "2", most_bytes=20_000))
    assert done.returncode == 2
    assert len(said(done)) == 1, done.stderr
    assert "finished.jsonl: could not be written: File too large" in said(done)[0]
    finished = (tmp_path / "full" / "finished.jsonl").read_bytes()
    assert finished.endswith(b"\n")
    before = finished.count(b"\n") - 1
    assert 5 < before < lines - 1
    again = finish(start(tmp_path, "full", "--workers", "2"))
    assert f"{30 - before} runs done, {before} kept" in again.stdout, again.stderr
    assert table(tmp_path, "full") == table(tmp_path, "whole")


@pytest.mark.slow
def test_a_worker_of_another_version(home: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "wattqueue"
    shutil.copytree(IMPORTED_FROM / "wattqueue", other, ignore=shutil.ignore_patterns("__pycache__"))
    file = other / "version.py"
    file.write_text(file.read_text().replace('__version__ = "', '__version__ = "0.0.9-'))
    with cluster(tmp_path / "dask") as found:
        found.worker("old", tmp_path / "other")
        done = finish(start(home, "mixed", "--cluster", found.address))
    assert done.returncode == 2
    assert len(said(done)) == 1, done.stderr
    line = said(done)[0]
    assert "wattqueue: worker tcp://127.0.0.1:" in line
    assert "runs wattqueue 0.0.9-0" in line
    assert "this campaign wattqueue 0." in line
    assert kept(home, "mixed") == 0


@pytest.mark.slow
def test_a_worker_without_this_program(home: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "wattqueue"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text('__version__ = "0.0.1"')
    with cluster(tmp_path / "dask") as found:
        found.worker("old", tmp_path / "other")
        done = finish(start(home, "none", "--cluster", found.address))
    assert done.returncode == 2
    assert len(said(done)) == 1, done.stderr
    assert "ModuleNotFoundError" in said(done)[0]


@pytest.mark.slow
def test_a_scheduler_without_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wattqueue.campaign.dask.WORKERS_S", 0.5)
    with (
        cluster(tmp_path / "dask") as found,
        pytest.raises(CampaignError) as caught,
        opened_backend(found.address),
    ):
        pass
    assert caught.value.where == found.address
    assert "0.5 s" in caught.value.what


@pytest.mark.slow
def test_nobody_answers(home: Path) -> None:
    done = finish(start(home, "nobody", "--cluster", "dask://127.0.0.1:1"))
    assert done.returncode == 2
    assert len(said(done)) == 1, done.stderr
    assert "tcp://127.0.0.1:1: no Dask scheduler answers within 5 s" in said(done)[0]


@pytest.mark.slow
def test_workers_do_not_compile(tmp_path: Path) -> None:
    """Kernels are compiled by one process, and nothing is added by the workers' runs."""
    (tmp_path / "grid.toml").write_text(GRID.replace("1..5", "1..2").replace('"easy", ', '"easy", "conservative", '))
    cache = tmp_path / "cache"
    environment = {"WATTQUEUE_CACHE_DIR": str(cache)}
    warm = [sys.executable, "-c", "from wattqueue.campaign.work import compile_once; compile_once()"]
    subprocess.run(warm, check=True, env=os.environ | environment, timeout=600)

    def compiled() -> dict[str, int]:
        return {p.name: p.stat().st_mtime_ns for p in cache.rglob("*.nb[ic]")}

    before = compiled()
    assert before
    call = [sys.executable, "-c", "from wattqueue.cli import main; main()", "campaign", str(tmp_path / "grid.toml")]
    done = subprocess.run(
        [*call, "--workers", "2"],
        check=False,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert "Compiling" not in done.stderr
    assert compiled() == before


def test_addresses() -> None:
    assert scheduler_address("dask://host:8786") == "tcp://host:8786"
    assert scheduler_address("tls://host:8786") == "tls://host:8786"
    for wrong in ("dask://host", "host:8786", "dask://:1", "dask://host:99999", "http://host:80"):
        with pytest.raises(InputError) as caught:
            scheduler_address(wrong)
        assert caught.value.where == "--cluster"


def test_what_slurm_is_asked_for() -> None:
    pytest.importorskip("dask_jobqueue")
    table = SlurmTable(
        partition="p1", account="me", cores=2, processes=2, memory="1GB", walltime="00:10:00",
        directives=("--qos=high",), prologue=("module load python",), interface="lo",
    )  # fmt: skip
    with slurm_cluster(table) as found:
        script = found.job_script()
    for line in ("-p p1", "-A me", "-t 00:10:00", "--qos=high"):
        assert f"#SBATCH {line}" in script
    assert "module load python" in script
    assert "--nthreads 1" in script
    assert "--nworkers 2" in script
    assert sys.executable in script


@pytest.mark.parametrize(
    ("script", "said_by_sbatch"),
    [
        (
            "#!/bin/sh\necho 'sbatch: error: invalid partition specified: p9' >&2; exit 1",
            "invalid partition specified: p9",
        ),
        ("#!/bin/sh\nexit 1", "sbatch refuses"),
        (None, "sbatch"),
    ],
)
def test_what_slurm_would_not_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None, said_by_sbatch: str
) -> None:
    if script is not None:
        (tmp_path / "sbatch").write_text(script)
        (tmp_path / "sbatch").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CampaignError) as caught, opened_backend("slurm", 1, SlurmTable(interface="lo")):
        pass
    assert caught.value.where == "slurm"
    assert said_by_sbatch in caught.value.what


def test_no_such_network() -> None:
    pytest.importorskip("dask_jobqueue")
    with pytest.raises(CampaignError) as caught, opened_backend("slurm", 1, SlurmTable(interface="nonet0")):
        pass
    assert caught.value.where == "[slurm]"
    assert "nonet0" in caught.value.what


def test_jobs_go_with_this_machine_or_slurm() -> None:
    pytest.importorskip("distributed")
    with pytest.raises(InputError) as caught, opened_backend("dask://127.0.0.1:1", 2):
        pass
    assert caught.value.where == "--workers"


def test_without_the_extra(tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text(GRID)
    block = "import sys; sys.modules['distributed'] = None; from wattqueue.cli import main; main()"
    call = [sys.executable, "-c", block, "campaign", str(tmp_path / "grid.toml"), "--cluster", "dask://127.0.0.1:1"]
    done = subprocess.run(call, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 2
    assert "pip install 'wattqueue[scale]'" in said(done)[0], done.stderr


@pytest.fixture
def slurm() -> Iterator[SlurmLab]:
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    if root_of(under_test()) is not None:
        pytest.skip("Dask calls the sbatch of the installed Slurm")
    folder = Path(tempfile.mkdtemp(prefix="wattqueue-lab-"))
    lab = SlurmLab(folder, nodes=2, accounting=False)
    try:
        yield lab.up()
    finally:
        lab.down()
        lab.remove()


@pytest.mark.slow
@pytest.mark.slurm
def test_workers_that_slurm_starts(home: Path, slurm: SlurmLab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two jobs of a real Slurm run the grid, one of them is cancelled midway, and none is left."""
    (home / "slurm.toml").write_text(
        f'{GRID}[slurm]\npartition = "p1"\nmemory = "1GB"\nwalltime = "00:20:00"\ninterface = "lo"\n'
        f'log_folder = "{slurm.root}/work"\n'
    )
    monkeypatch.setenv("WATTQUEUE_CACHE_DIR", str(CACHE_DIR.parent))
    for name, value in slurm.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", f"{IMPORTED_FROM}{os.pathsep}{ROOT}")
    process = start(home, "slurm", "--cluster", "slurm", "--workers", "2", file="slurm.toml")
    midway(home, "slurm", process)
    running = slurm.run(["squeue", "-h", "-o", "%i %T"]).out.split()
    assert "RUNNING" in running
    slurm.run(["scancel", running[0]])
    done = finish(process)
    assert done.returncode == 0, done.stderr
    assert said(done) == []
    assert table(home, "slurm") == table(home, "alone")
    wait_for("jobs to end", lambda: slurm.run(["squeue", "-h"]).out.strip() == "")
