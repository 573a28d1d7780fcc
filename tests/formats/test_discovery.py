"""Formats are found: a file in the package's folder, one of another package, one of the user's own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import wattqueue as wq
from wattqueue.errors import InputError
from wattqueue.formats import read, workloads
from wattqueue.formats.read import read_workload, recognised
from wattqueue.formats.workload_format import LIKELY, NOT, POSSIBLE, SURE, WorkloadFile

ROOT = Path(__file__).parents[2]
OWN = '''
"""One job per line: submission, nodes, seconds."""
import numpy as np

from wattqueue import Jobs
from wattqueue.parts import NOT, SURE, Unusable, Workload, WorkloadFormat


def recognise(file):
    return SURE if file.lines[:1] == ["MINE"] else NOT


def read(file, options):
    rows = np.array([line.split() for line in file.lines[1:]], float)
    jobs = Jobs.build(*rows.T, walltime_s=np.full(len(rows), options.default_walltime_s or np.nan))
    return Workload(jobs, Unusable(), "mine", len(rows))


FORMAT = WorkloadFormat("mine", "my site's rows", recognise, read)
'''
DATA = "MINE\n0 2 60\n10 1 30\n"


@pytest.fixture(autouse=True)
def found_afresh() -> Iterator[None]:
    yield
    read.stock_formats.cache_clear()
    read.installed_formats.cache_clear()
    sys.modules.pop(f"{workloads.__name__}.mine", None)


def put(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_one_more_file_in_the_folder_is_one_more_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = put(tmp_path / "data", DATA)
    with pytest.raises(InputError):
        read_workload(data)
    folder = tmp_path / "folder"
    folder.mkdir()
    put(folder / "mine.py", OWN)
    put(folder / "_helper.py", "raise RuntimeError")
    monkeypatch.setattr(workloads, "__path__", [*workloads.__path__, str(folder)])
    read.stock_formats.cache_clear()
    assert recognised(WorkloadFile(data)).kind == "mine"
    assert read_workload(data).jobs.nodes.tolist() == [2, 1]
    with pytest.raises(InputError) as error:
        read_workload(put(tmp_path / "other", "hello\n"))
    assert "my site's rows" in str(error.value)


def test_a_format_of_another_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "their_format.py", OWN)
    info = tmp_path / "theirs-1.0.dist-info"
    info.mkdir()
    put(info / "METADATA", "Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    put(info / "entry_points.txt", "[wattqueue.formats]\nmine = their_format:FORMAT\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    read.installed_formats.cache_clear()
    data = put(tmp_path / "data", DATA)
    assert read_workload(data).format == "mine"
    assert read_workload(data, kind="mine").format == "mine"


def test_a_format_of_the_users_own_by_path(tmp_path: Path) -> None:
    own, data = put(tmp_path / "my_format.py", OWN), put(tmp_path / "data", DATA)
    out = tmp_path / "jobs.csv"
    call = [sys.executable, "-m", "wattqueue", "import", str(data), "--from", str(own), "--default-walltime", "90"]
    done = subprocess.run([*call, "-o", str(out)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert read_workload(out).jobs.walltime_s.tolist() == [90.0, 90.0]


@pytest.mark.parametrize("text", ["", "FORMAT = 1", "raise RuntimeError('no')", "def"])
def test_a_file_without_a_format_is_refused_by_name(tmp_path: Path, text: str) -> None:
    own = put(tmp_path / "own.py", text)
    with pytest.raises(InputError) as error:
        read_workload(put(tmp_path / "data", DATA), kind=str(own))
    assert str(error.value.where) == str(own)
    with pytest.raises(InputError):
        read_workload(tmp_path / "data", kind=str(tmp_path / "missing.py"))


def test_every_stock_format_states_itself() -> None:
    formats = read.stock_formats()
    assert [form.kind.replace("-", "_") for form in formats] == [
        path.stem for path in sorted(Path(workloads.__path__[0]).glob("[a-z]*.py"))
    ]
    assert len({form.summary for form in formats}) == len(formats)


def test_the_guide_lists_every_format() -> None:
    guide = (ROOT / "docs/guide/import.md").read_text(encoding="utf-8")
    table = guide.partition("| `--from` |")[2].partition("\n\n")[0]
    rows = [line.split("|")[1].strip(" `") for line in table.splitlines() if line.startswith("| `")]
    assert sorted(rows) == sorted(form.kind for form in read.stock_formats())


@pytest.mark.parametrize(
    ("text", "kind", "certain"),
    [
        ("submit_s,nodes\n", "table", SURE),
        ("; Version: 2.2\n", "swf", LIKELY),
        ("1 " * 18, "swf", LIKELY),
        ("1 " * 10, "swf", NOT),
        ("banner\nJobID|Submit|Elapsed|NNodes\n", "sacct", LIKELY),
        ("7|a|b\n", "sacct", POSSIBLE),
        ('{"jobs": []}', "slurm-json", LIKELY),
        ('{"jobs": [], "profiles": {}}', "batsim", SURE),
        ("[]", "batsim", NOT),
        ("job_id,queue\n", "eurora", NOT),
    ],
)
def test_how_certain_a_format_is(tmp_path: Path, text: str, kind: str, certain: int) -> None:
    assert read.find_format(kind).recognise(WorkloadFile(put(tmp_path / "a", text))) == certain


def test_a_run_names_the_file_that_states_its_format(tmp_path: Path) -> None:
    own, data = put(tmp_path / "my_format.py", OWN), put(tmp_path / "data", DATA)
    jobs = wq.read_jobs(data, kind=str(own))
    assert jobs.jobs.nodes.tolist() == [2, 1]
    assert sorted(jobs.task.hashes) == ["kind", "workload"], "a rerun compares both files"
