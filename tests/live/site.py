"""A lab with our script, and a controller of its own account: started, killed, asked about."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.live.drive import lab_machine, make_controller
from tests.live.fakeslurm import FakeSlurm
from tests.live.releases import lab_of, root_of, under_test
from tests.live.slurmlab import OPERATOR, PATIENCE_S, LabError, SlurmLab, wait_for
from tests.live.submit_script import with_data
from tests.program import IMPORTED_FROM
from wattqueue.kernels.cache import CACHE_DIR
from wattqueue.live.files.status import HEAD
from wattqueue.live.slurm.install import Settings, prolog
from wattqueue.live.slurm.submit_data import NodeWatts, SubmitData
from wattqueue.live.state.audit import rows_of, verify
from wattqueue.model.signals import Cap
from wattqueue.store.database import open_database

NET_W = 200
"""Watts of a node above idle: what a job of one node declares."""
TOTAL_W = 1600
MOST_WAITING = 40
"""As many jobs wait at most where a test submits for long: a queue that grows without end says nothing of progress."""
FAILED = frozenset({"FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "BOOT_FAIL", "OUT_OF_MEMORY", "DEADLINE"})
MACHINE = """
name = "lab"
[[partitions]]
name = "p1"
nodes = 4
idle_w = 100.0
max_w = 300.0
[[partitions]]
name = "p2"
nodes = 4
idle_w = 100.0
max_w = 300.0
"""


def as_account(account: str, *arguments: str) -> list[str]:
    """Python under an account of its own; it may read (not write) an interpreter of root's."""
    drop = ("setpriv", f"--reuid={account}", f"--regid={account}", "--clear-groups", *kept_rights())
    return [*drop, sys.executable, *arguments]


def as_operator(*arguments: str) -> list[str]:
    """The command line under the controller's own account."""
    return as_account(OPERATOR, "-c", "from wattqueue.cli import main; main()", *arguments)


def kept_rights() -> tuple[str, str]:
    """Options of setpriv: an account may read an interpreter of root's, and run commands of another release of Slurm.

    Those commands are in a folder that it has to enter.
    """
    more = ",+sys_admin,+sys_chroot,+sys_ptrace" if root_of(under_test()) is not None else ""
    return f"--inh-caps=+dac_read_search{more}", f"--ambient-caps=+dac_read_search{more}"


class Site:
    """A lab with our script, and a controller of its own account that can be started and killed."""

    own = "live"
    """Folder of the controller's own files: database, and a run folder with its status."""

    def __init__(self, lab: SlurmLab) -> None:
        self.lab, self.root = lab, lab.root
        self.child: subprocess.Popen[str] | None = None
        self.started_s = 0.0
        self.log = self.root / "log/controller.out"
        self._stop_beating = threading.Event()

    def configure(self, cap: str, *, machine: str = MACHINE, slurm: str = "", **more: Any) -> Path:
        home = self.root / "live"
        more = {"period_s": 0.3, "away_s": 5.0, **more}
        lines = [f"{k} = {v!r}" if not isinstance(v, bool) else f"{k} = {str(v).lower()}" for k, v in more.items()]
        (home / "machine.toml").write_text(machine)
        text = f"""
machine = "machine.toml"
cap = "{cap}"
mode = "control"
run_dir = "run"
record = "views.jsonl"
{chr(10).join(lines)}
[slurm]
conf = "{self.root}/etc/slurm.conf"
write_priority = false
bin_dir = "{self.lab.bin_dir}"
{slurm}
"""
        file = home / "live.toml"
        file.write_text(text)
        return file

    @property
    def env(self) -> dict[str, str]:
        """The environment of the controller: the lab's, and compiled kernels that it may read."""
        own = {"PYTHONPATH": str(IMPORTED_FROM), "WATTQUEUE_CACHE_DIR": str(self.root / "cache")}
        return {**os.environ, **self.lab.env, **own}

    program = "from wattqueue.cli import main; main()"
    """What the controller's process runs."""

    def start(self, config: Path) -> None:
        self.started_s = time.time()
        argv = as_account(OPERATOR, "-c", self.program, "live", "--config", str(config))
        self.child = self.spawn(argv, self.env)

    def spawn(self, argv: Sequence[str], env: Mapping[str, str]) -> subprocess.Popen[str]:
        """Start a process whose output goes into the log."""
        with self.log.open("a") as out:
            return subprocess.Popen(argv, env=env, stdout=out, stderr=out, text=True, stdin=subprocess.DEVNULL)

    def keep_beating(self) -> None:
        """Have job_submit.lua hold what comes until a controller writes its own heartbeat, or ``set_beat`` is called.

        A thread renews heartbeat and lease, in place: one in the future is no heartbeat, and one that a controller
        writes meanwhile is another file.
        """
        run_dir = self.root / "live/run"
        run_dir.mkdir(exist_ok=True)
        home = self.root.joinpath("live").stat()
        os.chown(run_dir, home.st_uid, home.st_gid)
        self.end_beating()
        self.set_beat(0.0)
        stopped, path = self._stop_beating, run_dir / "beat"
        written = path.stat()

        def beat() -> None:
            nonlocal written
            while not stopped.wait(1.0):
                with path.open("r+") as file:
                    now = os.fstat(file.fileno())
                    if (now.st_ino, now.st_mtime_ns) != (written.st_ino, written.st_mtime_ns):
                        return  # a controller's own
                    file.write(f"control {int(time.time())}\n")
                    file.flush()
                    written = os.fstat(file.fileno())
                self._renew_lease(int(time.time()))

        threading.Thread(target=beat, daemon=True).start()

    def end_beating(self) -> None:
        """Let the heartbeat grow old."""
        self._stop_beating.set()
        self._stop_beating = threading.Event()

    def set_beat(self, age_s: float) -> None:
        """Give heartbeat and lease that age, from now on."""
        self.end_beating()
        self._write_beat(age_s)

    def _write_beat(self, age_s: float) -> None:
        run, at_s = self.root / "live/run", int(time.time() - age_s)
        # Replaced as a whole: job_submit.lua takes an empty file for no heartbeat, and lets jobs start.
        written = run / "beat.new"
        written.write_text(f"control {at_s}\n")
        os.chown(written, run.stat().st_uid, run.stat().st_gid)
        written.replace(run / "beat")
        self._renew_lease(at_s)

    def _renew_lease(self, at_s: int) -> None:
        """Give the lease another time, in place and of the same length.

        A controller never finds it empty, which would end it, and one that takes it meanwhile puts another file there.
        """
        with contextlib.suppress(FileNotFoundError), (self.root / "live/run/lease").open("r+") as file:
            token = file.read().partition(" ")[0]
            file.seek(0)
            file.write(f"{token} {at_s:012d}\n")

    def gated(self, *options: str) -> str:
        """Submit a job that ends when the test says so (``open_gate``), not after some seconds."""
        gates = self.root / "gates"
        gates.mkdir(exist_ok=True, mode=0o755)
        return self.lab.submit(*options, f"--wrap=until [ -e {gates}/$SLURM_JOB_ID ]; do sleep 0.1; done")

    def open_gate(self, *jobs: str) -> None:
        """Let these jobs end, and wait until they have (and hold no watts any more)."""
        for job in jobs:
            (self.root / "gates" / job).touch()
        self.lab.wait_states(jobs, ["COMPLETED"])

    def begin(self, cap: str, **more: Any) -> Path:
        """Configure a controller, start it and wait for its first round; returns its configuration."""
        config = self.configure(cap, **more)
        self.start(config)
        self.wait_up()
        return config

    def release(self, config: Path) -> subprocess.CompletedProcess[str]:
        """Call ``live release`` as its timer does, by the controller's account."""
        argv = as_operator("live", "release", "--config", str(config))
        return subprocess.run(argv, env=self.env, capture_output=True, text=True, timeout=PATIENCE_S, check=False)

    def kill(self) -> None:
        assert self.child is not None
        self.child.kill()
        self.child.wait(600.0)
        self.child = None

    def stop(self) -> None:
        self.end_beating()
        if self.child is not None:
            self.child.send_signal(signal.SIGTERM)
            self.child.wait(600.0)
            self.child = None

    def wait_up(self, since_s: float | None = None) -> None:
        """Wait for a round of the controller that ended after ``since_s``, by default after its start."""
        beat, since_s = self.root / "live/run/beat", self.started_s if since_s is None else since_s

        def there() -> bool:
            self.require_up()
            return beat.exists() and beat.stat().st_mtime >= since_s

        self.wait("the controller's beat", there)

    @property
    def status(self) -> Path:
        """The controller's status file."""
        return self.root / self.own / "run/status.json"

    def said(self) -> str:
        """The controller's last status and the end of its output, for the message of a test that fails."""
        status = self.status
        ended = "" if self.child is None or self.child.poll() is None else f"it ended with {self.child.returncode}\n"
        output = self.log.read_text()[-3000:] if self.log.exists() else ""
        return f"{ended}{status.read_text() if status.exists() else 'no status'}\n{output}"

    def wait(self, what: str, ready: Callable[[], bool], timeout_s: float = 600.0) -> None:
        """Wait for long: beside other tests a round takes many times as long. A failure says what there is."""
        try:
            wait_for(what, ready, timeout_s, 0.1)
        except LabError as error:
            raise LabError(f"{error}\n{self.lab.jobs()}\n{self.said()}") from error

    def crowded(self) -> bool:
        """Whether so many jobs wait that none should be added: on a busy host jobs take longer than they say."""
        return list(self.lab.states().values()).count("PENDING") >= MOST_WAITING

    def require_up(self) -> None:
        """Raise with the end of its log where the controller has ended."""
        if self.child is None or self.child.poll() is not None:
            raise AssertionError(self.log.read_text()[-3000:])

    def running(self) -> list[str]:
        """Jobs that run, in order of their ids."""
        return sorted((job for job, state in self.lab.states().items() if state == "RUNNING"), key=int)

    def wait_running(self, jobs: Sequence[str]) -> None:
        """Wait until each of these jobs runs."""
        self.lab.wait_states(jobs, ["RUNNING"])

    def wait_used(self, watts: int) -> None:
        """Wait until running jobs hold so many watts of the pool."""
        wait_for(f"{watts} W in use", lambda: self.used_w()[0] == watts, step_s=0.1)

    def wait_open(self, watts: int) -> None:
        """Wait until so many watts of the pool are open to jobs."""
        wait_for(f"{watts} W open", lambda: TOTAL_W - self.used_w()[1] == watts, step_s=0.1)

    def wait_started(self, jobs: Sequence[str]) -> None:
        """Wait until each job has been started, whether it runs still or not."""
        self.lab.wait_states(jobs, ["RUNNING", "COMPLETING", "COMPLETED"])

    def used_w(self) -> tuple[int, int]:
        """Watts in use, and watts that a reservation sets aside."""
        text = self.lab.run(["scontrol", "-o", "show", "lic"]).out
        fields = dict(piece.split("=") for piece in text.split() if "=" in piece)
        return int(fields["Used"]), int(fields["Reserved"])

    def wait_ended(self, jobs: Sequence[str], limit_w: int) -> int:
        """Wait until every job is completed; returns the most watts that were ever in use."""
        peak = 0

        def done() -> bool:
            nonlocal peak
            peak = max(peak, self.used_w()[0])
            states = self.lab.states()
            bad = {job: states.get(job, "GONE") for job in jobs} if FAILED & set(states.values()) else {}
            assert not FAILED & set(bad.values()), f"{bad}\n{self.log.read_text()[-3000:]}"
            return all(states.get(job, "GONE") in ("COMPLETED", "COMPLETING") for job in jobs)

        try:
            wait_for(f"{len(jobs)} jobs to end", done, 2 * PATIENCE_S, 0.1)
        except LabError as error:
            raise LabError(f"{error}\n{self.lab.jobs()}\n{self.log.read_text()[-3000:]}") from error
        assert peak <= limit_w
        return peak

    def check_audit(self) -> list[dict[str, Any]]:
        engine = open_database(self.root / self.own / "wattqueue-live.db")
        try:
            assert verify(engine, head=self.status.with_name(HEAD)).broken == 0
            return [dict(row) for row in rows_of(engine)]
        finally:
            engine.dispose()


def warm_kernels(cache: Path, account: pwd.struct_passwd) -> None:
    """Compile the pass once, here, and give the controller's account a copy: it need not compile again."""
    slurm = FakeSlurm({"p1": ["n1"], "p2": ["n2"]}, 10)
    slurm.submit(1, 1.0, watts=1)
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        make_controller(slurm, where, lambda: 1e6, cap=Cap.constant(1e4), machine=lab_machine(2)).round()
    shutil.copytree(CACHE_DIR, cache / CACHE_DIR.name)
    for path in (cache, *cache.rglob("*")):
        os.chown(path, account.pw_uid, account.pw_gid)


def bring_up(release: str, **more: Any) -> Iterator[SlurmLab]:
    """A lab of eight nodes with our script; the folder ``live`` belongs to the controller's account.

    ``more`` is for ``lab_of``.
    """
    folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="wattqueue-drive-", dir="/tmp")))
    folder.chmod(0o755)  # other users walk here
    operator = pwd.getpwnam(OPERATOR)
    home = folder / "live"
    home.mkdir(mode=0o755)
    os.chown(home, operator.pw_uid, operator.pw_gid)
    warm_kernels(folder / "cache", operator)
    nodes = {name: NodeWatts(NET_W, NET_W, 16 if name == "p1" else 8) for name in ("p1", "p2")}
    settings = Settings(SubmitData(nodes), [operator.pw_uid], home / "run/beat", 5, TOTAL_W)
    (home / "run").mkdir(mode=0o711)
    os.chown(home / "run", operator.pw_uid, operator.pw_gid)
    (folder / "bin").mkdir()
    reads = folder / "bin/prolog.sh"
    reads.write_text(prolog(home / "freq"))
    reads.chmod(0o755)
    (home / "freq").mkdir()
    os.chown(home / "freq", operator.pw_uid, operator.pw_gid)
    lab = lab_of(release, folder, with_data(settings), TOTAL_W, task_prolog=reads, **more)
    try:
        yield lab.up()
    finally:
        lab.down()
        lab.remove()


def cap_text(net_w: int) -> str:
    """A cap that leaves so many watts above the idle watts of eight nodes."""
    return f"{8 * 100 + net_w}W"


def eamc_machine() -> str:
    """Paper 1's first two partitions, four nodes each, with the watts that the lab's script declares."""
    parts = []
    for name, frequencies in (("p1", (2.7e9, 2.4e9, 2.1e9, 1.8e9)), ("p2", (3.1e9, 2.7e9, 2.4e9, 2.1e9))):
        parts.append(
            f'[[partitions]]\nname = "{name}"\nnodes = 4\nfrequencies_hz = {list(frequencies)}\n'
            "idle_w = 300.0\nmax_w = 500.0\n"
        )
    return 'name = "eamc-lab"\n' + "\n".join(parts)
