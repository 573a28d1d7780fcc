"""The first compile in ``wattqueue live`` is announced, and answers SIGTERM."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.live.drive import make_controller
from tests.live.record import FILES, RECORDED
from tests.live.site import MACHINE
from tests.live.test_controller import TRACKED, Meter, make_slurm
from wattqueue.live.warm_up import PATIENCE_S, run_small_pass, run_small_rounds, warm_up
from wattqueue.model.signals import Cap
from wattqueue.policy.policy import load_policy

CONFIG = 'machine = "m.toml"\ncap = "1800W"\n[slurm]\nbin_dir = "bin"\n'


def recorded_commands(folder: Path) -> None:
    """Programs that print what a real Slurm's commands printed."""
    folder.mkdir()
    for program in ("sinfo", "squeue", "scontrol"):
        cases = [
            f'"{" ".join(argv[1:])}") cat {RECORDED / name}.txt ;;'
            for name, argv in FILES.items()
            if argv[0] == program
        ]
        file = folder / program
        file.write_text("\n".join(["#!/bin/sh", 'case "$*" in', *cases, "esac", ""]))
        file.chmod(file.stat().st_mode | stat.S_IXUSR)


def test_a_pass_that_is_there_is_not_announced() -> None:
    said: list[str] = []
    assert warm_up(threading.Event(), said.append, lambda: None)
    assert said == []


def test_a_long_compile_is_announced_and_a_stop_does_not_wait_for_it() -> None:
    said: list[str] = []
    stop, never = threading.Event(), threading.Event()
    threading.Timer(PATIENCE_S * 1.5, stop.set).start()

    def compile_for_long() -> None:
        never.wait()

    assert not warm_up(stop, said.append, compile_for_long)
    never.set()
    assert [line.startswith("compiling") for line in said] == [True]


def test_an_error_is_left_to_the_first_round() -> None:
    def wrong() -> None:
        raise ValueError

    assert warm_up(threading.Event(), lambda _: None, wrong)


def test_the_small_pass_is_one_that_starts_a_job() -> None:
    assert run_small_pass() == 1


def test_small_rounds_teach_the_policy_nothing_and_write_nothing(tmp_path: Path) -> None:
    slurm = make_slurm()
    policy = load_policy("easy+pc-adaptive-1", estimator="history-mean")
    controller = make_controller(
        slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(2000.0), rules=TRACKED, sources=(Meter(slurm),),
        policy=policy,
    )  # fmt: skip
    kept, before = sorted(path.name for path in tmp_path.iterdir()), pickle.dumps(policy)
    assert run_small_rounds(controller.planner) >= 1
    assert sorted(path.name for path in tmp_path.iterdir()) == kept
    assert pickle.dumps(policy) == before
    assert (controller.planner.memory.ledger, list(controller.planner.predictor.learned)) == ("", [])
    assert slurm.writes == []


MISSED = """
import importlib, pkgutil, sys
from pathlib import Path
import wattqueue.kernels
from tests.live.drive import make_controller
from tests.live.test_controller import TRACKED, Meter, make_slurm, run
from wattqueue.live.warm_up import run_small_rounds
from wattqueue.model.signals import Cap

def compiled():
    names = [f"wattqueue.kernels.{one.name}" for one in pkgutil.iter_modules(wattqueue.kernels.__path__)]
    modules = [importlib.import_module(name) for name in names]
    found = {name: value for module in modules for name, value in vars(module).items() if hasattr(value, "dispatcher")}
    return {(name, str(one)) for name, value in found.items() for one in value.dispatcher.signatures}

slurm = make_slurm()
controller = make_controller(
    slurm, Path(sys.argv[1]), lambda: slurm.now_s, cap=Cap.constant(1300.0), rules=TRACKED, sources=(Meter(slurm),),
    policy=sys.argv[2],
)
run_small_rounds(controller.planner)
before = compiled()
for k in range(8):
    slurm.submit(1, 20.0, watts=200, limit_s=60.0, partition="p1,p2")
    run(controller, slurm, 16)
assert sum(job.state == "COMPLETED" for job in slurm.jobs.values()) >= 2
print(len(before), sorted({name for name, _ in compiled() - before}))
"""


@pytest.mark.compiled
@pytest.mark.parametrize("policy", ["easy", "easy+pc-adaptive-1", "easy+pc-inflight", "easy-sjbf+rt-quantile"])
def test_no_round_meets_a_kernel_that_is_not_compiled(policy: str, tmp_path: Path) -> None:
    """In a process of its own: here other tests have compiled them all."""
    env = {k: v for k, v in os.environ.items() if k != "NUMBA_DISABLE_JIT"}
    argv = [sys.executable, "-c", MISSED, str(tmp_path), policy]
    root = Path(__file__).parents[2]  # the script imports from tests
    done = subprocess.run(argv, env=env, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    count, missed = done.stdout.split(maxsplit=1)
    assert missed.strip() == "[]"
    assert int(count) >= 5


@pytest.mark.compiled
@pytest.mark.slow
def test_sigterm_during_the_compile_ends_the_controller(tmp_path: Path) -> None:
    (tmp_path / "m.toml").write_text(MACHINE)
    (tmp_path / "live.toml").write_text(CONFIG.replace('"bin"', f'"{tmp_path}/bin"'))
    recorded_commands(tmp_path / "bin")
    env = {k: v for k, v in os.environ.items() if k != "NUMBA_DISABLE_JIT"}
    env |= {"WATTQUEUE_CACHE_DIR": str(tmp_path / "cache")}
    argv = [sys.executable, "-c", "from wattqueue.cli import main; main()", "live", "--config", "live.toml"]
    with subprocess.Popen(argv, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        lines = iter(child.stdout.readline, "")
        assert any("compiling" in line for line in lines)
        child.send_signal(signal.SIGTERM)
        rest = child.stdout.read()
        assert child.wait() == 0
    assert "compiled in" not in rest
    assert not (tmp_path / "run/status.json").exists(), "no round ran"
    assert not (tmp_path / "run/lease").exists()
    shutil.rmtree(tmp_path / "cache")
