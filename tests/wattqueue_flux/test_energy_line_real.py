"""The end of a job's output under Flux says what energy it used, and whatever fails there changes nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.wattqueue_flux.fluxlab import Lab, instance, missing, real_flux, wait_for, write_config

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))


def lua_of(folder: Path) -> Path:
    """The script as ``wattqueue flux energy-line`` prints it."""
    argv = [sys.executable, "-c", "from wattqueue.cli import main; main()", "flux", "energy-line"]
    done = subprocess.run(
        [*argv, "--config", str(folder / "live.toml")], capture_output=True, text=True, timeout=60, check=True
    )
    (folder / "energy.lua").write_text(done.stdout)
    return folder / "energy.lua"


def output_of(lab: Lab, script: Path, *more: str, tasks: int = 2) -> tuple[str, str]:
    """What a job of some tasks wrote, and how it ended."""
    command = ["-o", f"userrc={script}", f"-n{tasks}", f"--output={lab.folder}/out", "sh", "-c", *more]
    (job,) = lab.run("submit", *command).split()
    wait_for("its end", lambda: lab.run("jobs", "-n", "-o", "{state}", job).strip() == "INACTIVE")
    return (lab.folder / "out").read_text(), lab.run("jobs", "-n", "-o", "{returncode}", job).strip()


@real_flux
def test_a_line_at_the_end_once_and_in_any_trouble_none(tmp_path: Path) -> None:
    write_config(tmp_path, 1, cap_w=10_000, more="period_s = 0.5\n[energy]\n")
    with instance(tmp_path) as lab:
        script = lua_of(tmp_path)
        running = tmp_path / f"run/energy/users/{os.getuid()}/jobs/running"
        text, status = output_of(lab, script, f"while ! [ -s {running} ]; do sleep 0.2; done; echo bye; exit 3")
        lines = text.splitlines()
        (said,) = [line for line in lines if "wattqueue: job f" in line]
        assert "Wh (modelled, preliminary" in said
        assert lines[-1] == said, "behind what all tasks wrote"
        assert lines.count("bye") == 2
        assert status == "3"

        script.write_text(script.read_text().replace("/users/", "/nowhere/"))
        assert output_of(lab, script, "echo bye") == ("bye\nbye\n", "0")
        silent = tmp_path / f"run/energy/nowhere/{os.getuid()}/jobs/running"  # as storage that does not answer
        silent.parent.mkdir(parents=True)
        os.mkfifo(silent)
        assert output_of(lab, script, "echo bye") == ("bye\nbye\n", "0")
        script.write_text(script.read_text().replace("io.popen", "io.none"))
        assert output_of(lab, script, "echo bye") == ("bye\nbye\n", "0")
