"""A real Flux for tests: an instance without root, with emulated nodes on one broker, or with several real brokers.

``WATTQUEUE_FLUX`` names a flux, else the one on the PATH is taken; ``missing`` says why there is none. Commands run in
the instance through its socket; each has a timeout.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest

from wattqueue.formats.machine.file import write_machine
from wattqueue.model.machine import Machine, Partition
from wattqueue_flux import sched_wattqueue

F = TypeVar("F")
IDLE_W, MOST_W = 100.0, 300.0
NET_W = 200
PATIENCE_S = 60.0
MODULE = Path(sched_wattqueue.__file__)
NAME = "sched_wattqueue"
CHANGED = """
import importlib.util
import site

{change}

def mod_main(h, *args):
    spec = importlib.util.spec_from_file_location("the_module", {module!r})
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    site.addsitedir(str(module.folder_of(args)))
    change(h)
    module.mod_main(h, *args)
"""
"""The module, of which the function ``change`` changes something before it begins."""


def flux_program() -> str | None:
    """The flux to test with; None where there is none."""
    named = os.environ.get("WATTQUEUE_FLUX")
    return named or shutil.which("flux")


def missing() -> str | None:
    """Why no Flux can be started here, None where it can."""
    flux = flux_program()
    if flux is None:
        return "no flux: make flux-lab builds one; name it in WATTQUEUE_FLUX"
    done = subprocess.run(
        [flux, "python", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    runs, own = done.stdout.strip(), f"{sys.version_info.major}.{sys.version_info.minor}"
    return None if runs == own else f"{flux} runs Python {runs or 'of no version'}, these tests {own}"


def real_flux(test: F) -> F:
    """A test in a real Flux. They share one worker, so that rounds have a processor."""
    return cast(F, pytest.mark.flux(pytest.mark.compiled(pytest.mark.xdist_group("flux")(test))))


def change_module(folder: Path, change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have labs load a module that is changed; ``change``: Python that defines ``change(h)``, ``h`` Flux's handle."""
    path = folder / f"{NAME}.py"
    path.write_text(CHANGED.format(module=sched_wattqueue.__file__, change=change))
    monkeypatch.setattr(sys.modules[__name__], "MODULE", path)


@dataclass
class Lab:
    """A running instance with the module's configuration in ``folder``."""

    folder: Path
    uri: str
    broker: subprocess.Popen[bytes]
    flux: str
    loaded: bool = True

    def run(self, *command: str, check: bool = True, timeout_s: float = 3 * PATIENCE_S) -> str:
        """Run a command of flux in the instance; return what it printed."""
        environment = {**os.environ, "FLUX_URI": self.uri, "COLUMNS": "1000", "FLUX_URI_RESOLVE_LOCAL": "t"}
        done = subprocess.run(
            [self.flux, *command], capture_output=True, text=True, timeout=timeout_s, check=False, env=environment
        )
        if check and done.returncode:
            raise AssertionError(f"flux {' '.join(command)}: {done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def load(self, *more: str, check: bool = True) -> str:
        """Load the module with the configuration of the folder."""
        site = sysconfig.get_paths()["purelib"]
        config = self.folder / "live.toml"
        said = self.run(
            "module", "load", str(MODULE), f"site={site}", f"config={config}", *more, check=check, timeout_s=180
        )
        self.loaded = True
        return said

    def unload(self) -> None:
        """Unload it."""
        self.run("module", "unload", NAME)
        self.loaded = False

    def configure(self, text: str) -> None:
        """Give Flux another configuration."""
        (self.folder / "conf" / "lab.toml").write_text(text)
        self.run("config", "reload")

    def reload(self) -> None:
        """Load it again, in the regular way."""
        self.unload()
        self.load()

    def submit(self, count: int, *more: str, seconds: float = 1.0, nodes: int = 1) -> list[str]:
        """Submit jobs that only last; return their ids."""
        lasting = f"--setattr=exec.test.run_duration={seconds:g}s"
        many = [f"--cc=1-{count}"] if count > 1 else []
        return self.run("submit", *many, lasting, f"-N{nodes}", *more, "true", timeout_s=300).split()

    def jobs(self, *, ended: bool = True) -> list[dict[str, Any]]:
        """All jobs, ended ones too, as ``flux jobs`` shows them."""
        which = ("-a", "--count=100000") if ended else ("-c0",)
        found = json.loads(self.run("jobs", *which, "--json"))
        return cast(list[dict[str, Any]], found["jobs"])

    def states(self) -> Counter[str]:
        """Number of jobs by state."""
        return Counter(str(job["state"]) for job in self.jobs())

    def starts_of(self, job: str) -> int:
        """How often a job was given resources."""
        return sum('"alloc"' in line for line in self.run("job", "eventlog", "-f", "json", job).splitlines())

    def used_w(self) -> int:
        """Watts of the jobs that hold nodes, by the ``alloc`` events in which they were written."""
        active = [job for job in self.jobs() if job["state"] in ("RUN", "CLEANUP")]
        return sum(int(job["annotations"]["wattqueue"]["watts"]) for job in active)

    def stats(self) -> dict[str, Any]:
        """Statistics of the module."""
        return cast(dict[str, Any], json.loads(self.run("module", "stats", NAME)))

    def module_pid(self, name: str = NAME) -> int:
        """Process of a module in Python."""
        children = subprocess.run(["ps", "-o", "pid=,comm=", "--ppid", str(self.broker_pid())], capture_output=True,
                                  text=True, check=True)  # fmt: skip
        return next(int(line.split()[0]) for line in children.stdout.splitlines() if name in line)

    def broker_pid(self) -> int:
        """Process of the broker."""
        return int(self.run("getattr", "broker.pid").strip())

    def cap(self, text: str) -> None:
        """Write the cap's file."""
        (self.folder / "cap.csv").write_text(text)

    def cap_w(self, watts: float) -> None:
        """Let jobs have so many watts above the idle watts of all nodes from now on."""
        self.cap(f"time_s,cap_w\n0,{watts:.0f}\n")

    def log(self) -> str:
        """What the instance logged."""
        return self.run("dmesg")


def wait_for(what: str, ready: Callable[[], bool], timeout_s: float = PATIENCE_S, step_s: float = 0.1) -> float:
    """Wait; return how long it took."""
    begin = time.monotonic()
    while not ready():
        if time.monotonic() - begin > timeout_s:
            raise AssertionError(f"never: {what}")
        time.sleep(step_s)
    return time.monotonic() - begin


def until(path: Path) -> tuple[str, ...]:
    """The command of a job that ends once a file exists, however busy this machine is."""
    return "sh", "-c", f"while ! [ -e {path} ]; do sleep 0.1; done"


def write_config(folder: Path, nodes: int, *, policy: str = "easy", cap_w: float, more: str = "") -> None:
    """Write the files of a controller."""
    write_machine(folder / "machine.toml", Machine("lab", (Partition("all", nodes, idle_w=IDLE_W, max_w=MOST_W),)))
    (folder / "cap.csv").write_text(f"time_s,cap_w\n0,{cap_w:.0f}\n")
    (folder / "live.toml").write_text(
        f'machine = "machine.toml"\npolicy = "{policy}"\ncap = "cap.csv"\nmode = "control"\n'
        f'state = "live.db"\nrun_dir = "run"\nrecord = "views.jsonl"\n{more}\n[flux]\n'
    )


@contextmanager
def instance(
    folder: Path, *, emulated: int = 0, brokers: int = 1, nopanic: bool = True, config: str = "", load: bool = True,
    cores: str = "0-3", properties: str = "", more: Sequence[str] = (),
) -> Iterator[Lab]:  # fmt: skip
    """Start an instance; with ``emulated`` nodes on one broker in place of its own. The module is loaded."""
    flux = flux_program()
    assert flux is not None
    ready = folder / "uri"
    (folder / "conf").mkdir(exist_ok=True)
    (folder / "conf" / "lab.toml").write_text(config)
    command = ["env", "--ignore-signal=XFSZ"]  # a limit of file size stands for a full disk
    command += [flux, "start", f"--config-path={folder / 'conf'}", *more]
    names = f"node[1-{emulated}]" if emulated > 1 else "node1"
    command += [f"-Shostlist={names}"] if emulated else []  # what drains nodes looks up their names there
    command += [f"--test-size={brokers}", "--test-exit-mode=leader"] if brokers > 1 else []
    command += ["-Sbroker.module-nopanic=1"] if nopanic else []
    script = f'echo "$FLUX_URI" > {ready}.new; mv {ready}.new {ready}; sleep 100000'
    log = (folder / "flux.log").open("wb")
    broker = subprocess.Popen([*command, "bash", "-c", script], stdout=log, stderr=log, start_new_session=True)
    try:
        wait_for("an instance", ready.exists, 120.0)
        lab = Lab(folder, ready.read_text().strip(), broker, flux)
        lab.run("module", "unload", "sched-simple")
        if emulated:
            lab.run("module", "unload", "resource")
            encoded = lab.run("R", "encode", f"-r0-{emulated - 1}", f"-c{cores}", "-H", names, *properties.split())
            lab.run("kvs", "put", f"resource.R={encoded.strip()}")
            lab.run("module", "load", "resource", "noverify", "monitor-force-up")
        if load:
            lab.load()
        yield lab
    finally:
        with suppress(ProcessLookupError):
            os.killpg(broker.pid, signal.SIGTERM)
        try:
            broker.wait(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(broker.pid, signal.SIGKILL)
            broker.wait(timeout=20)
        log.close()
