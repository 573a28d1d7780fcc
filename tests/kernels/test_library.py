"""Machine code that a wheel carries: what is refused, what calls it, and that it gives numba's results to the byte."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.sim.workloads import random_world
from tools.kernels.build import build, put_in_place
from tools.kernels.interface import entries, interface, layout_of
from tools.kernels.shim import Entry, shim
from wattqueue.kernels._numba.addresses import LAYOUTS, Layout, addresses_of, name_of
from wattqueue.kernels.library import LEVELS, MANIFEST, find_library, levels_of_this_processor, sources_digest
from wattqueue.kernels.mode import UNDOCUMENTED

ROOT = Path(__file__).parents[2]
LEVEL = (levels_of_this_processor() or ["none"])[-1]
needs_a_compiler = pytest.mark.skipif(
    shutil.which("cc") is None or LEVEL == "none", reason="needs a C compiler, and x86-64-v2"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a manifest and a file that stands for a library of the lowest level."""
    (tmp_path / "k.so").write_bytes(b"code")
    row = {"file": "k.so", "sha256": hashlib.sha256(b"code").hexdigest()}
    write(tmp_path, {"sources": sources_digest(), "levels": dict.fromkeys(LEVELS, row), "entries": []})
    return tmp_path


def write(folder: Path, manifest: object) -> None:
    (folder / MANIFEST).write_text(json.dumps(manifest))


def test_a_clone_has_no_library_and_no_problem(tmp_path: Path) -> None:
    assert find_library(tmp_path) == (None, "")


def test_a_library_of_these_sources_is_used(folder: Path) -> None:
    found, problem = find_library(folder)
    if LEVEL == "none":
        assert found is None
    else:
        assert found is not None
        assert (found.file, found.level, problem) == (folder / "k.so", LEVEL, "")


@pytest.mark.skipif(LEVEL == "none", reason="this processor has no level")
def test_what_cannot_be_used_is_refused_with_its_reason(folder: Path) -> None:
    manifest = json.loads((folder / MANIFEST).read_text())
    for change, reason in (
        ({"sources": "0" * 64}, "was made from other sources"),
        ({"levels": {"x86-64-v9": manifest["levels"][LEVEL]}}, "which this processor lacks"),
        ({"levels": {LEVEL: manifest["levels"][LEVEL] | {"sha256": "0" * 64}}}, "is damaged"),
        ({"levels": {LEVEL: manifest["levels"][LEVEL] | {"file": "gone.so"}}}, "cannot be read"),
    ):
        write(folder, manifest | change)
        found, problem = find_library(folder)
        assert found is None
        assert reason in problem
    (folder / MANIFEST).write_text("{")
    assert find_library(folder) == (None, f"{folder / MANIFEST} is damaged")


def test_levels_of_a_processor_end_at_the_first_that_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    info = tmp_path / "cpuinfo"
    second = "cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3"
    for flags, levels in (
        ("fpu", []),
        (second, ["x86-64-v2"]),
        (f"{second} avx512f avx512bw avx512cd avx512dq avx512vl", ["x86-64-v2"]),
        (f"{second} avx avx2 bmi1 bmi2 f16c fma abm movbe xsave", ["x86-64-v2", "x86-64-v3"]),
    ):
        info.write_text(f"processor : 0\nflags\t\t: {flags}\n")
        assert levels_of_this_processor(info) == levels
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert levels_of_this_processor(info) == []


@pytest.mark.skipif(not UNDOCUMENTED, reason="other modes have no entries to list")
def test_the_interface_has_every_entry_and_its_layouts() -> None:
    known = interface()
    assert set(known["entries"]) == set(entries())
    assert all(known["entries"].values())
    for name, text in known["layouts"].items():
        layout = layout_of(text)
        assert name_of(layout) == name
        assert len(layout[0]._fields) == len(layout[1])


def layout(value: object) -> Layout:
    """The layout of a tuple."""
    return LAYOUTS[str(addresses_of(value).dtype.names[0])]  # type: ignore[index]


def test_the_interface_has_the_loops_tuples() -> None:
    """A change of an element type is a change of the interface: the wheel's code would be refused at its first call."""
    simulation = random_world(3).simulation()
    simulation.go()
    found = simulation.view, simulation.truth, simulation.log, simulation.parts
    assert {name_of(layout(value)) for value in found} <= set(interface()["layouts"])


def test_a_shim_takes_addresses_lengths_and_numbers() -> None:
    text = shim(Entry("x", "wq_x_0", ("View", "<f8:2", "int"), {"View": 7}, "int64"))
    assert "int64_t wq_x_0(void * a0, void * a1, int64_t a1_0, int64_t a1_1, int64_t a2)" in text
    assert (
        "(&result, &error, NULL, NULL, 1, 56, a0, 1, 56, NULL, NULL, a1_0 * a1_1, 8, a1, a1_0, a1_1, 8 * a1_1, 8, a2)"
        in text
    )


MODES = {"NUMBA_DISABLE_JIT", "WATTQUEUE_PLAIN_NUMBA", "WATTQUEUE_CHECKED_NUMBA", "WATTQUEUE_SHIPPED"}


def copied(folder: Path) -> Path:
    """The core's sources in a folder of their own, where a library may be put."""
    shutil.copytree(
        ROOT / "src" / "wattqueue", folder / "wattqueue", ignore=shutil.ignore_patterns("__pycache__", "_compiled")
    )
    return folder / "wattqueue" / "kernels" / "_compiled"


def run(where: Path, program: str, **settings: str) -> str:
    """What a program prints that imports the sources in a folder."""
    env = {k: v for k, v in os.environ.items() if k not in MODES}
    env |= {"PYTHONPATH": str(where)} | settings
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=where, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


SCALE = """
import sys, numpy as np
from wattqueue.kernels.scale import watts_by_option
from wattqueue.kernels.mode import MODE
from wattqueue.errors import EngineError
r = np.random.default_rng(1)
out = np.zeros((5, 3))
idle, most, dynamic = r.uniform(20, 50, 3), r.uniform(300, 400, 3), r.uniform(.5, 1, 3)
watts_by_option(r.uniform(50, 300, 5), idle, most, dynamic, np.zeros(3), out)
print(MODE, "numba" in sys.modules, out.tobytes().hex())
if MODE == "shipped":
    for wrong in (out.T, out[:, 0], out.astype(np.float32)):
        try:
            watts_by_option(wrong, out[0], out[0], out[0], out[0], out)
        except EngineError as error:
            print(error.hint is not None)
"""


@pytest.mark.compiled
@needs_a_compiler
def test_an_entry_of_a_library_gives_numbas_bytes_and_refuses_other_types(tmp_path: Path) -> None:
    where = copied(tmp_path)
    build(where, (LEVEL,), only="scale")
    keep = {"WATTQUEUE_CACHE_DIR": str(tmp_path / "cache")}
    # the other entries are missing, which is an error as soon as one is declared: this module declares only its own
    shipped = run(tmp_path, SCALE, **keep).split()
    mode, numba, given = shipped[:3]
    assert (mode, numba, shipped[3:]) == ("shipped", "False", ["True"] * 3)
    assert run(tmp_path, SCALE, WATTQUEUE_SHIPPED="0", **keep).split() == ["fast", "True", given]
    folder = where.parent
    (where / f"kernels-{LEVEL}.so").write_bytes(b"damaged")
    assert run(tmp_path, SCALE, **keep).split() == ["fast", "True", given]
    assert not list(folder.glob("._compiled*"))


ROWS = """
import hashlib, sys, threading
import numpy as np
from wattqueue.errors import WattQueueError
from wattqueue.kernels.mode import MODE
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.signals import Cap
from wattqueue.policy.policy import load_policy
from wattqueue.policy.rows import published_rows
from wattqueue.sim.engine import simulate

r = np.random.default_rng(7)
n = 300
jobs = Jobs.build(
    np.sort(r.uniform(0, 40000, n)), r.integers(1, 9, n), r.lognormal(6, 1, n), walltime_s=r.lognormal(7.5, 1, n),
    mean_power_w=r.uniform(100, 300, n) * r.integers(1, 9, n), user=r.integers(0, 9, n).astype(str),
)
machine = Machine("m", (Partition("p", 24, idle_w=90.0, max_w=310.0),))
found = {}
simulate(jobs, machine, load_policy("easy"), cap=Cap.constant(5200.0))
at_begin = set(sys.modules)

def run(name):
    try:
        done = simulate(jobs, machine, load_policy(name), cap=Cap.constant(5200.0))
    except WattQueueError as error:
        found[name] = type(error).__name__
        return
    digest = hashlib.sha256()
    for value in (done.schedule.start_s, done.schedule.end_s, done.schedule.option):
        digest.update(np.ascontiguousarray(value).tobytes())
    found[name] = digest.hexdigest()

names = sorted(published_rows())
threads = [threading.Thread(target=lambda k=k: [run(name) for name in names[k::4]]) for k in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(MODE, "numba" in sys.modules, "llvmlite" in sys.modules)
print(sum(".kernels." in name for name in at_begin), "wattqueue.kernels.loop" in at_begin)
for name in names:
    print(name, found[name])
"""


MODULES = """
import sys
from wattqueue.cli import main
sys.argv = ["wattqueue", "simulate", "trace.swf", "--nodes", "4"]
try:
    main()
except SystemExit as ended:
    assert not ended.code
names = list(sys.modules)
print(sum(name.partition(".")[0] == "wattqueue" for name in names), len(names))
"""


@pytest.mark.slow
@needs_a_compiler
def test_every_row_gives_the_same_bytes_from_the_library_and_from_numba(tmp_path: Path) -> None:
    """Four threads at a time; the folder cannot be written, as in an installation for all users."""
    where = copied(tmp_path)
    build(where, (LEVEL,))
    printed = subprocess.run(
        ["readelf", "-d", str(where / f"kernels-{LEVEL}.so")], check=True, capture_output=True, text=True
    )
    assert "TEXTREL" not in printed.stdout
    where.chmod(0o555)
    try:
        head, modules, *shipped = run(tmp_path, ROWS).splitlines()
        (tmp_path / "trace.swf").write_text("; MaxNodes: 4\n1 0 -1 60 2 -1 -1 2 90 -1 1 1 1 1 1 1 -1 -1\n")
        own, every = map(int, run(tmp_path, MODULES).splitlines()[-1].split())
    finally:
        where.chmod(0o755)
    assert head == "shipped False False"
    assert (own <= 122, every <= 340) == (True, True), (own, every)
    count, source_imported = modules.split()
    assert (int(count) <= 32, source_imported) == (True, "False"), "a plain run imports no source of a kernel it calls"
    other, _, *compiled = run(tmp_path, ROWS, WATTQUEUE_SHIPPED="0").splitlines()
    assert other == "fast True True"
    assert shipped == compiled
    assert sum(len(line.split()[1]) == 64 for line in shipped) > 30, "most rows run on this machine"


@pytest.mark.slow
@needs_a_compiler
def test_two_builds_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        build(tmp_path / name, (LEVEL,), only="actions")
    first, second = ((tmp_path / name / f"kernels-{LEVEL}.so").read_bytes() for name in ("a", "b"))
    assert first == second


def test_builds_at_once_leave_one_of_them_whole(tmp_path: Path) -> None:
    place, count = tmp_path / "_compiled", 6
    failed: list[BaseException] = []

    def builds(name: str) -> None:
        for k in range(40):
            made = tmp_path / f".{name}-{k}"
            made.mkdir()
            for file in ("a", "b"):
                (made / file).write_text(made.name)
            try:
                put_in_place(made, place)
            except OSError as error:
                failed.append(error)

    threads = [threading.Thread(target=builds, args=(str(k),)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert (place / "a").read_text() == (place / "b").read_text()
    assert list(tmp_path.iterdir()) == [place]


def test_without_library_and_numba_a_long_run_is_refused(tmp_path: Path) -> None:
    where = copied(tmp_path)
    assert not where.exists()
    (tmp_path / "blocked.py").write_text(BLOCKED)
    said = run(tmp_path, f"import blocked\n{FEW_AND_MANY}").split("\n")
    assert said[0] == "python True"
    assert said[1] == "40 jobs ran"
    assert "2,001 jobs" in said[2]
    assert "make wheel" in said[2]
    assert "wattqueue[parts]" in said[2]


BLOCKED = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("numba", "llvmlite"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Blocked())
"""
FEW_AND_MANY = """
import importlib.util
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "numba" else real(name, package)
import numpy as np
from wattqueue.errors import InputError
from wattqueue.kernels.mode import MODE, WITHOUT_COMPILER
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import simulate
print(MODE, WITHOUT_COMPILER)
for n in (40, 2001):
    jobs = Jobs.build(np.arange(n) * 10.0, np.ones(n, int), np.full(n, 5.0))
    try:
        simulate(jobs, Machine("m", (Partition("p", 4),)), load_policy("easy"))
        print(n, "jobs ran")
    except InputError as error:
        print(error)
"""
