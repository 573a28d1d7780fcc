"""The wheel with compiled kernels: the same bytes from two builds, every entry on every level, other file systems.

Without a compiler and without numba. Levels that this processor lacks run under qemu's emulation of a processor.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.package.test_wheel import pins
from tools.kernels.interface import interface
from tools.packages import ROOT
from wattqueue.kernels.library import LEVELS, MANIFEST, levels_of_this_processor
from wattqueue.kernels.mode import MODE

pytestmark = [
    pytest.mark.slow,
    pytest.mark.compiled,
    pytest.mark.xdist_group("wheel"),
    pytest.mark.skipif(shutil.which("cc") is None or sys.platform != "linux", reason="needs a C compiler, and Linux"),
    pytest.mark.skipif(MODE != "fast", reason="one build is enough"),
]
CALLERS = (
    "kernels/test_conformal_kernel.py kernels/test_history_kernel.py kernels/test_redistribution_kernel.py "
    "kernels/test_scale.py live/test_never_starts.py parts/test_app_history.py parts/test_least_cover.py "
    "parts/test_online_estimators.py parts/test_run_times.py policy/test_decide.py policy/test_device_power.py "
    "policy/test_fitting.py policy/test_overtaking.py policy/test_session.py policy/test_units_in_views.py "
    "policy/test_views.py sim/test_adaptive_ledger.py sim/test_control_step.py sim/test_corrected.py "
    "sim/test_delays.py sim/test_device_limits.py sim/test_gpus.py sim/test_in_flight_ledger.py "
    "sim/test_parking.py sim/test_planned_times.py sim/test_profiles.py sim/test_redistribution_control.py "
    "wattqueue_studies/test_bound_kernels.py"
)
"""Tests that between them call every entry."""
LONG = "flat_trees every_start_is stated_run_times round_on_a_snapshot told_with_units recent_jobs lost_telemetry"
"""Those among them that take longest, and call nothing that others do not call."""
EMULATED = {"x86-64-v2": "SandyBridge", "x86-64-v3": "Haswell"}
"""Processors that lack the next level, as qemu 7.2 names them; it knows no v4. The first has AVX: numpy needs it."""
FOREIGN = {"x86-64-v2": r"\tv[a-z0-9]+ ", "x86-64-v3": r"%zmm|%k[0-7]"}
"""What instructions beyond a level look like: AVX, AVX-512."""
MODES = {"NUMBA_DISABLE_JIT", "WATTQUEUE_PLAIN_NUMBA", "WATTQUEUE_CHECKED_NUMBA", "WATTQUEUE_SHIPPED"}
MAY_MOUNT = os.geteuid() == 0 and shutil.which("unshare") is not None


def in_mode(**settings: str) -> dict[str, str]:
    """An environment that states the mode of kernels by ``settings`` alone."""
    return {name: value for name, value in os.environ.items() if name not in MODES} | settings


def built(folder: Path, *levels: str) -> Path:
    """Both wheels, made in a folder of its own from the files of the repository; returns where they are.

    ``levels``: of these alone.
    """
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, folder / name)
    found = in_mode(SOURCE_DATE_EPOCH="1790000000", PYTHONPATH=f"{folder / 'src'}{os.pathsep}{folder}")
    subprocess.run([sys.executable, "-m", "tools.wheel", *levels], cwd=folder, env=found, check=True)
    return folder / "dist"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel with machine code."""
    (path,) = built(tmp_path_factory.mktemp("sources")).glob("*manylinux*.whl")
    return path


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the wheel and what it needs: no numba."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    python = folder / "venv/bin/python"
    pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    subprocess.run([*pip, "-c", str(pins(folder)), str(wheel)], check=True)
    return python


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Calls of every entry, as tests make them with kernels in plain Python."""
    file = tmp_path_factory.mktemp("calls") / "calls"
    tests = [f"tests/{name}" for name in CALLERS.split()]
    options = ["-q", "-p", "no:cacheprovider", "-p", "tests.kernels.recorder", "-m", "not slow and not compiled"]
    found = in_mode(NUMBA_DISABLE_JIT="1", WATTQUEUE_RECORDED_CALLS=str(file), HYPOTHESIS_PROFILE="ci-cover")
    options += ["-k", " and ".join(f"not {name}" for name in LONG.split())]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *tests],
        cwd=ROOT,
        env=found,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:]
    return file


def run(
    python: Path, *words: str, before: tuple[str, ...] = (), cwd: Path = ROOT, **settings: str
) -> subprocess.CompletedProcess[str]:
    """Run an environment's Python; no compiler is on its path."""
    env = {"PATH": str(python.parent), "HOME": str(cwd), **settings}
    return subprocess.run([*before, str(python), *words], cwd=cwd, env=env, capture_output=True, text=True, check=False)


def members(wheel: Path) -> dict[str, tuple[bytes, object]]:
    """What a wheel has of each file, in its order: its bytes, and what else is stored."""
    with zipfile.ZipFile(wheel) as found:
        return {i.filename: (found.read(i), (i.date_time, i.external_attr, i.compress_type)) for i in found.infolist()}


def test_two_builds_in_two_folders_give_the_same_bytes(wheel: Path, tmp_path: Path) -> None:
    """The second is of one level: one program makes all levels in the same way, a minute each."""
    again = built(tmp_path / "elsewhere", LEVELS[0])
    (plain,), (native,) = again.glob("*-any.whl"), again.glob("*manylinux*.whl")
    assert plain.read_bytes() == (wheel.parent / plain.name).read_bytes()
    first, second = members(wheel), members(native)
    assert [name for name in first if name in second] == list(second)
    differ = {Path(name).name for name in first if first[name] != second.get(name)}
    assert differ == {MANIFEST, "RECORD", *(f"kernels-{level}.so" for level in LEVELS[1:])}
    manifests = [json.loads(one[f"wattqueue/kernels/_compiled/{MANIFEST}"][0]) for one in (first, second)]
    assert manifests[0] | {"levels": {LEVELS[0]: manifests[0]["levels"][LEVELS[0]]}} == manifests[1]


def test_the_wheel_is_what_its_tag_says(wheel: Path, tmp_path: Path) -> None:
    """manylinux_2_28 asks for glibc 2.28 at most; no text relocations; symbols are named by entry."""
    zipfile.ZipFile(wheel).extractall(tmp_path)
    (sbom,) = tmp_path.glob("*.dist-info/sboms/wattqueue.cdx.json")
    assert {tool["name"] for tool in json.loads(sbom.read_text())["metadata"]["tools"]["components"]} == {
        "numba",
        "llvmlite",
        "cc",
    }
    folder = tmp_path / "wattqueue/kernels/_compiled"
    manifest = json.loads((folder / MANIFEST).read_text())
    symbols = {row["symbol"] for row in manifest["entries"]}
    assert {row["name"] for row in manifest["entries"]} == set(interface()["entries"])
    assert all(row["symbol"].startswith(f"wq_{row['name'].replace('.', '_')}_") for row in manifest["entries"])
    for level in LEVELS:
        file = str(folder / manifest["levels"][level]["file"])
        defined = subprocess.run(["nm", "-D", "--defined-only", file], check=True, capture_output=True, text=True)
        assert {line.split()[-1] for line in defined.stdout.splitlines()} == symbols
        needed = subprocess.run(["readelf", "-dV", file], check=True, capture_output=True, text=True).stdout
        assert "TEXTREL" not in needed
        code = subprocess.run(["objdump", "-d", file], check=True, capture_output=True, text=True).stdout
        assert level not in FOREIGN or re.search(FOREIGN[level], code) is None
        versions = [tuple(map(int, found.split("."))) for found in re.findall(r"GLIBC_([\d.]+)", needed)]
        assert versions
        assert max(versions) <= (2, 28)
    shown = subprocess.run(
        [sys.executable, "-m", "auditwheel", "show", str(wheel)], check=True, capture_output=True, text=True
    )
    found = re.search(r'"manylinux_2_(\d+)_x86_64"', shown.stdout)
    assert found is not None, shown.stdout
    assert int(found[1]) <= 28


@pytest.mark.parametrize("level", LEVELS)
def test_every_entry_gives_the_bytes_of_plain_python_from_four_threads(
    python: Path, calls: Path, level: str, tmp_path: Path
) -> None:
    """The processor lacks the next level, whose instructions would end the program."""
    before = tuple[str, ...]()
    if level in EMULATED:
        if not (qemu := shutil.which("qemu-x86_64-static") or shutil.which("qemu-x86_64")):
            pytest.skip("needs qemu (tools/system-packages.sh emulation)")
        before = (qemu, "-cpu", EMULATED[level])
    elif level not in levels_of_this_processor():
        pytest.skip(f"neither this processor nor qemu has {level}")
    # The processor that /proc/cpuinfo states is the host's: this level alone is left in a copy of the package.
    site = subprocess.run(
        [str(python), "-c", "import wattqueue; print(wattqueue.__path__[0])"],
        check=True, capture_output=True, text=True, cwd=tmp_path,
    ).stdout.strip()  # fmt: skip
    shutil.copytree(site, tmp_path / "wattqueue")
    file = tmp_path / "wattqueue/kernels/_compiled" / MANIFEST
    manifest = json.loads(file.read_text())
    file.write_text(json.dumps(manifest | {"levels": {level: manifest["levels"][level]}}))
    done = run(python, "-m", "tests.kernels.recorded_calls", str(calls), before=before, PYTHONPATH=f"{tmp_path}:{ROOT}")
    assert done.returncode == 0, done.stderr
    mode, *rows = done.stdout.splitlines()
    assert mode == f"shipped {level}"
    found = {name: (int(equal), int(made)) for name, equal, made in map(str.split, rows)}
    assert set(found) >= set(interface()["entries"])
    assert [name for name, (equal, made) in found.items() if equal < made or made == 0] == []


SWF = "".join(f"{i} {10 * i} -1 100 2 -1 -1 2 200 -1 1 1 1 -1 1 -1 -1 -1\n" for i in range(1, 41))
SIMULATE = ("-m", "wattqueue", "simulate", "few.swf", "--nodes", "4", "--policy", "easy", "--json")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "few.swf").write_text(SWF)
    return tmp_path


def test_it_needs_neither_a_compiler_nor_numba(python: Path, place: Path) -> None:
    assert run(python, "-c", "import numba", cwd=place).returncode == 1
    assert shutil.which("cc", path=str(python.parent)) is None
    done = run(python, *SIMULATE, cwd=place)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["jobs_completed"] == 40


@pytest.mark.skipif(not MAY_MOUNT, reason="only root mounts")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("ro", ""),
        ("ro,noexec", "is on a file system from which nothing may be executed (noexec), and numba is not installed"),
    ],
)
def test_a_package_on_a_read_only_file_system_works(python: Path, place: Path, options: str, said: str) -> None:
    """Where its code may not be executed, one line says so, and that plain Python stands for it."""
    package = next(python.parents[1].glob("lib/*/site-packages/wattqueue"))
    mount = f'mount --bind {package} {package} && mount -o remount,bind,{options} {package} && exec "$@"'
    whole = run(python, *SIMULATE, cwd=place)
    before, path = ("/usr/bin/unshare", "-m", "/bin/sh", "-c", mount, "sh"), f"{python.parent}:/usr/bin:/bin:/sbin"
    done = run(python, *SIMULATE, before=before, cwd=place, PATH=path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == whole.stdout
    assert done.stderr.count("\n") == (1 if said else 0), done.stderr
    assert said in done.stderr


CALL_COST = """
import statistics, sys, time
import numpy as np
from wattqueue.kernels.calls import bind, list_changed_caps, net_of_start, set_budget
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.signals import Cap
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import NodeEvents, Simulation
n = 40
jobs = Jobs.build(np.arange(n) * 10.0, np.ones(n, int), np.full(n, 5.0), mean_power_w=np.full(n, 200.0))
machine = Machine("m", (Partition("p", 4, idle_w=50.0, max_w=300.0),))
view = Simulation(jobs, machine, load_policy("easy"), Cap.constant(900.0), None, NodeEvents.none()).view
bound, plain = bind(net_of_start, view), lambda: None
def cost(call, *given):
    found = []
    for _ in range(200):
        begin = time.process_time_ns()
        for _ in range(500):
            call(*given)
        found.append((time.process_time_ns() - begin) / 500)
    return min(found)
empty = cost(plain)
print(cost(net_of_start, view, 0, 0, 0), cost(bound, 0, 0, 0), cost(set_budget, view), empty)
"""


def test_a_call_costs_a_microsecond(python: Path, place: Path) -> None:
    """In processor time, least of many: other programs lengthen the others."""
    done = run(python, "-c", CALL_COST, cwd=place)
    assert done.returncode == 0, done.stderr
    *costs, _ = map(float, done.stdout.split())
    assert max(costs) <= 1000.0, costs
