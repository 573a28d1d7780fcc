"""A real Slurm for tests: munge, slurmctld, N slurmd, slurmdbd on MariaDB, from Debian packages, on loopback.

Everything lives in one folder and carries one marker in its environment; ``down`` ends every process
with that marker, and a watchdog does the same if the test process dies. Nothing listens beyond
loopback. Each call has a timeout. ``missing()`` says why the lab cannot run here.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar, cast

import pytest

from tests.live.procs import MARKER, end_all
from wattqueue.live.slurm.commands import Commands

PACKAGES = "slurm-wlm slurmdbd slurm-client munge mariadb-server lua-socket slurm-wlm-mysql-plugin prometheus"
PROGRAMS = (
    "munged",
    "slurmctld",
    "slurmd",
    "slurmdbd",
    "mariadbd",
    "mariadb-install-db",
    "scontrol",
    "unshare",
)
PATIENCE_S = 180.0
"""How long a state is awaited before it counts as never: the machine may be busy with anything else."""
REPAIR_AFTER_S = 15.0
"""How long a node may stay in one state other than idle before the lab acts."""
LIVE = frozenset({"PENDING", "RUNNING", "STOPPED", "SUSPENDED", "CONFIGURING", "COMPLETING"})
"""States of jobs that have not ended."""
F = TypeVar("F")
LAUNCH = re.compile(r"Launching batch (?:job |JobId=)(\d+) ")
"""What slurmd logs when it starts a job's script: the first form up to 24.11."""
USER = "news"
OTHER_USER = "games"
OPERATOR = "daemon"
"""The account that plays the controller: not root, operator of Slurm, nothing more."""


def real(test: F) -> F:
    """A test in a real Slurm, one after another on one worker.

    Files of the other groups run beside, each in another Slurm on another worker (``FIRST`` in tests/conftest.py).
    """
    return cast(F, pytest.mark.slurm(pytest.mark.compiled(pytest.mark.xdist_group("slurm")(test))))


class LabError(RuntimeError):
    """The lab did not come up, or a call to it failed; the text holds the logs' ends."""


def missing() -> str | None:
    """Why no real Slurm can be brought up here, None where it can."""
    if os.geteuid() != 0:
        return "a real Slurm needs root (slurmd of several nodes, jobs of several users)"
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    absent = [name for name in PROGRAMS if shutil.which(name, path=path) is None]
    if absent:
        return f"not installed: {' '.join(absent)} (apt-get install --no-install-recommends {PACKAGES})"
    return None


RESUMED_S = 5.0
"""How often it is looked for nodes that Slurm drained while jobs are awaited."""


def wait_for(what: str, ready: Callable[[], bool], timeout_s: float = PATIENCE_S, step_s: float = 0.05) -> float:
    """Wait until ``ready()``; returns the seconds it took. Raises LabError naming what was awaited."""
    begin = time.monotonic()
    while not ready():
        if time.monotonic() - begin > timeout_s:
            raise LabError(f"{what}: not within {timeout_s:g} s")
        time.sleep(step_s)
    return time.monotonic() - begin


def free_ports(count: int) -> list[int]:
    """Ports on loopback that nobody listens on just now, from below the ephemeral range."""
    found: list[int] = []
    port = 20000 + (os.getpid() * 131) % 9000
    while len(found) < count:
        port += 1
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                found.append(port)
    return found


@dataclass(frozen=True)
class Done:
    """What a command said: exit code, both outputs and the seconds it took."""

    code: int
    out: str
    err: str
    took_s: float


@dataclass
class SlurmLab:
    """A Slurm of ``nodes`` emulated nodes: the first half in partition p1, the rest in p2.

    The last ``shared`` of them are in neither, but in partition ``s``, whose jobs share nodes.

    ``licences_w`` is the count of the ``watts`` licence in slurm.conf. ``accounting`` adds MariaDB
    and slurmdbd; ``energy`` gives each slurmd a /sys of its own with pm_counters and cpufreq files;
    ``gpus`` gives each node of p1 so many GPUs (device files of the machine's loop devices: nothing is done to them);
    ``overlap`` adds the partition ``debug`` over all nodes, as most sites have.
    """

    root: Path
    nodes: int = 8
    licences_w: int = 100_000
    accounting: bool = True
    energy: bool = False
    gpus: int = 0
    overlap: bool = False
    shared: int = 0
    memory: bool = False
    """Whether memory is a consumable resource, so that --mem-per-cpu decides the number of nodes."""
    domains: str = ""
    """Licences of power domains, as slurm.conf states them."""
    resources: str = ""
    """Content of resources.yaml; empty for no such file."""
    lua: str | None = None
    task_prolog: Path | None = None
    extra: Sequence[str] = ()
    scheduler: str = "sched_interval=1,bf_interval=1,bf_licenses,bf_one_resv_per_job,bf_window=1440"
    env: dict[str, str] = field(default_factory=dict)
    daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    node_w: dict[str, float] = field(default_factory=dict)
    repairs: list[str] = field(default_factory=list)
    """What ``wait_idle`` had to do to which node, in which state."""
    _stop: threading.Event = field(default_factory=threading.Event)
    _ticker: threading.Thread | None = None
    _watchdog: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        for name in ("etc", "run", "log", "state", "spool", "munge", "sql", "sys", "work", "bin"):
            (self.root / name).mkdir(parents=True, exist_ok=True)
        (self.root / "work").chmod(0o1777)
        for folder in (self.root, *self.root.parents):  # job users must be able to walk here
            with contextlib.suppress(PermissionError):
                folder.chmod(folder.stat().st_mode | 0o011)
        keep = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "HOME": str(self.root / "work")}
        keep["SLURM_CONF"] = str(self.root / "etc/slurm.conf")
        keep["MYSQL_UNIX_PORT"] = str(self.root / "run/sql.sock")
        keep[MARKER] = str(self.root)
        self.env.update(keep)
        self.ports = free_ports(2 + self.nodes)

    # -- configuration -------------------------------------------------------------------------
    @property
    def names(self) -> tuple[str, ...]:
        """Names of the nodes, in order."""
        return tuple(f"n{i}" for i in range(1, self.nodes + 1))

    def configure(self) -> None:
        """Write slurm.conf, slurmdbd.conf, cgroup.conf and the plugins' files."""
        etc, whole_nodes = self.root / "etc", self.nodes - self.shared
        half = whole_nodes // 2
        common = "NodeHostname=localhost NodeAddr=127.0.0.1 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=32000"
        gres = f" Gres=gpu:{self.gpus}" if self.gpus else ""
        node_lines = [
            f"NodeName={name} {common} Sockets={2 if i < half else 1} Port={self.ports[2 + i]} State=UNKNOWN"
            f"{gres if i < half else ''}"
            for i, name in enumerate(self.names)
        ]
        lines = [*self._plain_lines(), *node_lines]
        if self.gpus:
            lines.append("GresTypes=gpu")
            devices = f"NodeName=n[1-{half}] Name=gpu File=/dev/loop[0-{self.gpus - 1}]\n"
            (etc / "gres.conf").write_text(devices)
        whole = "MaxTime=INFINITE OverSubscribe=EXCLUSIVE State=UP"
        lines.append(f"PartitionName=p1 Nodes=n[1-{half}] Default=YES {whole}")
        lines.append(f"PartitionName=p2 Nodes=n[{half + 1}-{whole_nodes}] {whole}")
        if self.shared:
            nodes = f"n[{whole_nodes + 1}-{self.nodes}]"
            lines.append(f"PartitionName=s Nodes={nodes} MaxTime=INFINITE OverSubscribe=NO State=UP")
        if self.overlap:
            lines.append(f"PartitionName=debug Nodes=ALL {whole}")
        (etc / "slurm.conf").write_text("\n".join([*lines, *self.extra, ""]))
        # 22.05 initialises a cgroup plugin whatever the process tracker; the v1 one asks for no mount
        (etc / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        if self.lua is not None:
            (etc / "job_submit.lua").write_text(self.lua)
        if self.resources:
            (etc / "resources.yaml").write_text(self.resources)
        if self.accounting:
            self._configure_dbd()

    def _plain_lines(self) -> Iterator[str]:
        run, log = self.root / "run", self.root / "log"
        yield f"ClusterName=lab\nSlurmctldHost={socket.gethostname().split('.')[0]}(127.0.0.1)"
        yield f"SlurmctldPort={self.ports[0]}\nSlurmUser=root\nSlurmdUser=root"
        yield f"AuthType=auth/munge\nCredType=cred/munge\nAuthInfo=socket={run}/munge.sock"
        yield "CommunicationParameters=NoInAddrAny,NoCtldInAddrAny"
        yield f"StateSaveLocation={self.root}/state\nSlurmdSpoolDir={self.root}/spool/%n"
        yield f"SlurmctldPidFile={run}/slurmctld.pid\nSlurmdPidFile={run}/slurmd.%n.pid"
        yield f"SlurmctldLogFile={log}/slurmctld.log\nSlurmdLogFile={log}/slurmd.%n.log"
        yield f"ProctrackType=proctrack/linuxproc\nTaskPlugin={'task/affinity' if self.energy else 'task/none'}"
        yield "MpiDefault=none\nSwitchType=switch/none\nReturnToService=2\nSlurmdParameters=config_overrides"
        select = "CR_Core_Memory" if self.memory else "CR_Core"
        yield f"SelectType=select/cons_tres\nSelectTypeParameters={select}\nSchedulerType=sched/backfill"
        yield f"SchedulerParameters={self.scheduler}\nPriorityType=priority/basic"
        yield "SlurmctldDebug=info\nSlurmdDebug=info\nSlurmctldTimeout=120\nSlurmdTimeout=300\nInactiveLimit=0"
        yield "KillWait=2\nMinJobAge=3600\nMessageTimeout=60\nMaxJobCount=30000\nMailProg=/bin/true"
        yield f"Licenses=watts:{self.licences_w}{',' if self.domains else ''}{self.domains}"
        yield f"JobAcctGatherType=jobacct_gather/{'linux' if self.energy else 'none'}"
        suspend, resume = self._power_programs()
        yield f"SuspendProgram={suspend}\nResumeProgram={resume}\nSuspendTime=360000"
        yield "SuspendTimeout=3\nResumeTimeout=120"
        if self.lua is not None:
            yield "JobSubmitPlugins=lua"
        if self.task_prolog is not None:
            yield f"TaskProlog={self.task_prolog}"
        if self.energy:
            yield "AcctGatherEnergyType=acct_gather_energy/pm_counters\nAcctGatherNodeFreq=1"
            yield "JobAcctGatherFrequency=task=1,energy=1\nCpuFreqGovernors=UserSpace,OnDemand,Performance"
        if self.accounting:
            yield "AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=127.0.0.1"
            yield f"AccountingStoragePort={self.ports[1]}\nAccountingStoragePass={run}/munge.sock"
            yield "AccountingStorageTRES=energy,license/watts\nAccountingStoreFlags=job_comment"
            yield "AccountingStorageEnforce=associations"

    def _power_programs(self) -> tuple[Path, Path]:
        """Scripts that end and start a slurmd: what a site's SuspendProgram and ResumeProgram do."""
        suspend, resume = self.root / "bin/suspend.sh", self.root / "bin/resume.sh"
        head = f"#!/bin/bash\nexport PATH={self.env['PATH']} SLURM_CONF={self.env['SLURM_CONF']} {MARKER}={self.root}\n"
        head += 'for n in $(scontrol show hostnames "$1"); do\n'
        pid = f"{self.root}/run/slurmd.$n.pid"
        suspend.write_text(f"{head}  [ -f {pid} ] && kill $(cat {pid})\ndone\nexit 0\n")
        # the program inherits blocked signals: without --default-signal the new slurmd ignores TERM
        start = "env --default-signal setsid /usr/sbin/slurmd -N $n -b </dev/null >/dev/null 2>&1"
        resume.write_text(f"{head}  {start}\ndone\nexit 0\n")
        for script in (suspend, resume):
            script.chmod(0o755)
        return suspend, resume

    def _configure_dbd(self) -> None:
        conf = self.root / "etc/slurmdbd.conf"
        run = self.root / "run"
        conf.write_text(
            f"AuthType=auth/munge\nAuthInfo=socket={run}/munge.sock\nDbdHost=localhost\nDbdAddr=127.0.0.1\n"
            f"CommunicationParameters=NoInAddrAny\nDbdPort={self.ports[1]}\nSlurmUser=root\nDebugLevel=info\nLogFile={self.root}/log/slurmdbd.log\n"
            f"PidFile={run}/slurmdbd.pid\nStorageType=accounting_storage/mysql\nStorageHost=localhost\n"
            "StorageUser=slurm\nStoragePass=lab\nStorageLoc=slurm_acct\nCommitDelay=0\n"
        )
        conf.chmod(0o600)

    # -- up and down ---------------------------------------------------------------------------
    def up(self) -> SlurmLab:
        """Bring everything up and wait until all nodes are idle. Raises LabError with the logs' ends."""
        watchdog = Path(__file__).with_name("procs.py")
        self._watchdog = subprocess.Popen(
            [sys.executable, str(watchdog), str(self.root)], stdin=subprocess.PIPE, start_new_session=True
        )
        try:
            self.configure()
            self._start_munge()
            if self.accounting:
                self._start_sql()
                self._start_dbd()
            self.start_controller()
            for name in self.names:
                self.start_node(name)
            if self.energy:
                self._ticker = threading.Thread(target=self._tick, daemon=True)
                self._ticker.start()
            self.wait_idle()
        except BaseException as error:
            ends = self.log_ends()
            self.down()
            raise LabError(f"{error}\n{ends}") from error
        return self

    def down(self) -> None:
        """End every process of the lab. Raises LabError if one would not go."""
        self._stop.set()
        if self._ticker is not None:
            self._ticker.join(60.0)
        left = end_all(str(self.root))
        for daemon in self.daemons.values():
            daemon.wait(60.0)
        if self._watchdog is not None and self._watchdog.stdin is not None:
            self._watchdog.stdin.close()
            self._watchdog.wait(60.0)
        for name in self.names:
            with contextlib.suppress(OSError):
                (self.root / "run" / f"slurmd.{name}.pid").unlink()
        if left:
            raise LabError(f"processes {left} would not end")

    def remove(self) -> None:
        """Remove the lab's folder."""
        shutil.rmtree(self.root, ignore_errors=True)

    def start(self, name: str, argv: Sequence[str]) -> None:
        """Start a daemon in the foreground of a session of its own; its output goes to a log."""
        with (self.root / "log" / f"{name}.out").open("ab") as out:
            self.daemons[name] = subprocess.Popen(
                argv, env=self.env, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True, cwd="/"
            )

    def _wait_up(self, name: str, ready: Callable[[], bool]) -> None:
        """Wait until a daemon answers. Raises LabError at once where it has ended instead."""

        def there() -> bool:
            if self.daemons[name].poll() is not None:
                raise LabError(f"{name} ended with status {self.daemons[name].returncode}")
            return ready()

        wait_for(name, there)

    def _start_munge(self) -> None:
        key = self.root / "munge/key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        sock, home = self.root / "run/munge.sock", self.root / "munge"
        files = [f"--{part}-file={home}/{part}" for part in ("pid", "log", "seed", "key")]
        self.start("munged", ["munged", "-F", "--force", f"--socket={sock}", *files, "--num-threads=4"])
        self._wait_up("munged", sock.exists)

    def _start_sql(self) -> None:
        data, sock = self.root / "sql/data", self.root / "run/sql.sock"
        # Starting servers clear their folder for temporary tables, whose they ever are: each lab has its own.
        own_tmp = self.root / "sql/tmp"
        own_tmp.mkdir()
        common = [f"--datadir={data}", f"--tmpdir={own_tmp}", "--user=root"]
        small = ["--innodb-buffer-pool-size=64M", "--innodb-flush-log-at-trx-commit=0", "--innodb-log-file-size=16M"]
        quiet = ["--auth-root-authentication-method=normal", "--skip-test-db"]
        self.run(["mariadb-install-db", "--no-defaults", *common, *quiet], timeout_s=PATIENCE_S)
        own = [f"--socket={sock}", "--skip-networking", f"--pid-file={self.root}/run/sql.pid"]
        self.start("mariadbd", ["mariadbd", "--no-defaults", *common, *own, *small])
        client = ["--no-defaults", "-uroot", f"--socket={sock}"]
        self._wait_up("mariadbd", lambda: self.run(["mariadb-admin", *client, "ping"], check=False).code == 0)
        grant = "create database slurm_acct; grant all on slurm_acct.* to slurm@localhost identified by 'lab'"
        self.run(["mariadb", *client, "-e", grant])

    def _start_dbd(self) -> None:
        self.start("slurmdbd", ["slurmdbd", "-D"])
        ready = ["sacctmgr", "-n", "show", "cluster"]
        self._wait_up("slurmdbd", lambda: self.run(ready, check=False).code == 0)
        self.run(["sacctmgr", "-i", "add", "cluster", "lab"], check=False)
        self.run(["sacctmgr", "-i", "add", "account", "all"])
        for user in ("root", USER, OTHER_USER, OPERATOR):
            level = ["AdminLevel=Operator"] if user == OPERATOR else []
            self.run(["sacctmgr", "-i", "add", "user", user, "Account=all", *level])

    def start_controller(self) -> None:
        """Start slurmctld and wait until it answers."""
        self.start("slurmctld", ["slurmctld", "-D", "-i"])
        self._wait_up("slurmctld", lambda: self.run(["scontrol", "ping"], check=False).out.find("UP") >= 0)

    def kill_controller(self) -> None:
        """SIGKILL slurmctld, as a crash would."""
        daemon = self.daemons.pop("slurmctld")
        daemon.kill()
        daemon.wait(60.0)

    def restart_controller(self, *, crash: bool = False) -> None:
        """Stop slurmctld in order (or kill it) and start it again."""
        if crash:
            self.kill_controller()
        else:
            daemon = self.daemons.pop("slurmctld")
            daemon.terminate()
            daemon.wait(60.0)
        self.start_controller()

    def kill_node(self, name: str) -> None:
        """SIGKILL one slurmd; its jobs run on."""
        daemon = self.daemons[f"slurmd.{name}"]
        daemon.kill()
        daemon.wait(60.0)

    def start_node(self, name: str) -> None:
        """Start one slurmd; with ``energy`` in a mount namespace of its own with its own /sys."""
        argv = ["/usr/sbin/slurmd", "-D", "-N", name, "-b"]
        if self.energy:
            tree = self.root / "sys" / name
            self._make_sys(tree)
            argv = self.with_sys(tree, argv)
        self.start(f"slurmd.{name}", argv)

    def with_sys(self, tree: Path, argv: Sequence[str]) -> list[str]:
        """What starts a daemon that sees ``tree`` as its /sys."""
        script = f"mount --make-rprivate / && mount --bind {tree} /sys && exec {' '.join(argv)}"
        return ["unshare", "-m", "/bin/sh", "-c", script]

    def _make_sys(self, tree: Path) -> None:
        counters = tree / "cray/pm_counters"
        counters.mkdir(parents=True, exist_ok=True)
        (tree / "fs/cgroup").mkdir(parents=True, exist_ok=True)
        self.write_counters(counters, 100.0, 0.0)
        values = {
            "scaling_available_frequencies": "2600000 2100000 1800000 1200000",
            "scaling_available_governors": "ondemand performance userspace",
            "scaling_governor": "ondemand",
            "scaling_min_freq": "1200000",
            "scaling_max_freq": "2600000",
            "cpuinfo_min_freq": "1200000",
            "cpuinfo_max_freq": "2600000",
            "scaling_cur_freq": "2600000",
            "scaling_setspeed": "0",
        }
        for cpu in range(os.cpu_count() or 1):
            folder = tree / f"devices/system/cpu/cpu{cpu}/cpufreq"
            folder.mkdir(parents=True, exist_ok=True)
            (folder.parent / "topology").mkdir(exist_ok=True)
            for name, value in values.items():
                (folder / name).write_text(value + "\n")

    @staticmethod
    def write_counters(folder: Path, power_w: float, energy_j: float) -> None:
        """Write a Cray-style power and energy counter pair, stamped now."""
        stamp = int(time.time() * 1e6)
        for name, text in (("power", f"{power_w:.0f} W {stamp} us\n"), ("energy", f"{energy_j:.0f} J {stamp} us\n")):
            with (folder / name).open("r+" if (folder / name).exists() else "w") as file:
                file.write(text)
                file.truncate()

    def _tick(self) -> None:
        """Feed the counters: each node draws ``node_w`` (100 W unless a test says otherwise)."""
        energy = dict.fromkeys(self.names, 0.0)
        last = time.monotonic()
        while not self._stop.wait(0.25):
            now = time.monotonic()
            for name in self.names:
                power = self.node_w.get(name, 100.0)
                energy[name] += power * (now - last)
                self.write_counters(self.root / "sys" / name / "cray/pm_counters", power, energy[name])
            last = now

    # -- calls ---------------------------------------------------------------------------------
    @property
    def bin_dir(self) -> str:
        """The folder of Slurm's commands, as ``[slurm] bin_dir`` names it; empty where they are on the PATH."""
        return ""

    @property
    def commands(self) -> Commands:
        """Slurm's commands as the driver runs them."""
        return Commands(60.0, {"SLURM_CONF": self.env["SLURM_CONF"]}, self.bin_dir)

    def run(
        self,
        argv: Sequence[str],
        *,
        user: str | None = None,
        timeout_s: float = 120.0,
        check: bool = True,
        env: Mapping[str, str] | None = None,
    ) -> Done:
        """Run one command in the lab as ``user``. Raises LabError where it fails, unless ``check`` is off."""
        ids: dict[str, object] = {}
        if user is not None:
            account = pwd.getpwnam(user)
            ids = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        begin = time.monotonic()
        done = subprocess.run(  # type: ignore[call-overload]
            list(argv),
            check=False,
            env={**self.env, **(env or {})},
            capture_output=True,
            text=True,
            timeout=timeout_s,
            cwd=self.root / "work",
            stdin=subprocess.DEVNULL,
            **ids,
        )
        took_s = time.monotonic() - begin
        if check and done.returncode != 0:
            raise LabError(f"{' '.join(argv)}: exit {done.returncode}: {done.stderr.strip()} {done.stdout.strip()}")
        return Done(done.returncode, done.stdout, done.stderr, took_s)

    def run_inside(self, argv: Sequence[str], *, user: str | None = None, timeout_s: float = 120.0) -> Done:
        """Run a program where Slurm's own commands are on the PATH, whatever their release."""
        return self.run(argv, user=user, timeout_s=timeout_s)

    def submit(self, *options: str, seconds: float = 1.0, user: str = USER, check: bool = True) -> str:
        """Submit a job that sleeps (or what ``--wrap`` says); returns its id (empty where the submission failed)."""
        base = ["sbatch", "--parsable", "-o", "/dev/null", f"--wrap=sleep {seconds}"]
        done = self.run([*base, *options], user=user, check=check)
        return done.out.strip().split(";")[0]

    def allocate(self, *options: str, user: str = USER) -> str:
        """Make an allocation in which nothing runs; returns its id (empty where it was refused)."""
        said = self.run(["salloc", "--no-shell", *options], user=user, check=False).err
        return str(next(iter(re.findall(r"Granted job allocation (\d+)", said)), ""))

    def jobs(self, *, fields: str = "%i|%T|%r|%P|%N|%W") -> list[list[str]]:
        """Rows of squeue, finished jobs of the last minutes included."""
        text = self.run(["squeue", "-h", "-r", "-t", "all", "-o", fields]).out
        return [line.split("|") for line in text.splitlines()]

    def states(self) -> dict[str, str]:
        """State of each job by id."""
        return {row[0]: row[1] for row in self.jobs(fields="%i|%T")}

    def job_names(self) -> dict[str, str]:
        """Name of each job by id; names with bars or line ends in them are left out."""
        return {row[0]: row[1] for row in self.jobs(fields="%i|%j") if len(row) == 2}

    def field(self, job: str, name: str, *, epoch: bool = False) -> str:
        """One field of ``scontrol -o show job``; with ``epoch`` a time in seconds, empty where there is none."""
        env = {"SLURM_TIME_FORMAT": "%s"} if epoch else {}
        text = self.run(["scontrol", "-o", "show", "job", job], env=env).out
        start = text.index(f" {name}=") + len(name) + 2
        value = text[start:].split(" ", 1)[0].strip()
        return "" if epoch and not value.isdigit() else value

    def node_states(self) -> dict[str, str]:
        """State of each node as sinfo prints it; empty where slurmctld does not answer."""
        rows = self.run(["sinfo", "-h", "-N", "-a", "-o", "%N %T"], check=False).out.splitlines()
        return dict(row.split(" ", 1) for row in rows if " " in row)

    def wait_idle(self, fine: Collection[str] = ("idle",)) -> None:
        """Wait until every node is idle, or in another state of ``fine``; a node that stays in none is repaired.

        On a busy machine a slurmd misses a message now and then, and Slurm then leaves its node down or completing
        until somebody acts. A node in one state for ``REPAIR_AFTER_S`` is resumed; if that does not help, its slurmd
        is restarted. Each repair is kept in ``repairs`` and printed. Raises LabError with the states at the end.
        """
        since: dict[str, tuple[str, float]] = {}
        tries: dict[str, int] = {}

        def idle() -> bool:
            states, now = self.node_states(), time.monotonic()
            for name, state in states.items():
                if since.get(name, ("", 0.0))[0] != state:
                    since[name] = (state, now)
                elif state not in fine and now - since[name][1] > REPAIR_AFTER_S:
                    tries[name] = tries.get(name, 0) + 1
                    self.repair(name, state, restart=tries[name] > 1)
                    since[name] = (state, now)
            return len(states) == self.nodes and set(states.values()) <= set(fine)

        try:
            wait_for("all nodes idle", idle)
        except LabError as error:
            raise LabError(f"{error}: {self.node_states()}; repairs: {self.repairs}") from error

    def repair(self, name: str, state: str, *, restart: bool) -> None:
        """Bring a node back: a dead slurmd is started (with ``restart`` any is), then the node is resumed."""
        daemon = self.daemons.get(f"slurmd.{name}")
        dead = daemon is None or daemon.poll() is not None
        if daemon is not None and restart and not dead:
            daemon.kill()
            daemon.wait(60.0)
            dead = True
        text = f"{name} was {state}: {'slurmd started, ' if dead else ''}node set down and resumed"
        self.repairs.append(text)
        sys.stderr.write(f"lab {self.root.name}: {text}\n")
        if dead:
            self.start_node(name)
        # down first: it ends what completes, which a resume alone does not
        for change in (["State=DOWN", "Reason=lab"], ["State=RESUME"]):
            self.run(["scontrol", "update", f"NodeName={name}", *change], check=False)

    def resume_duplicates(self) -> None:
        """Resume nodes that Slurm drained because a job id came twice, as staff would.

        A slurmctld that is killed right after a submission gives the same id out again; a slurmd that has run it
        already reports it, and its node stays drained until somebody acts.
        """
        rows = self.run(["sinfo", "-h", "-N", "-a", "-o", "%N %E"], check=False).out.splitlines()
        for name, _, reason in (row.partition(" ") for row in rows):
            if "Duplicate jobid" in reason:
                self.run(["scontrol", "update", f"NodeName={name}", "State=RESUME"], check=False)

    def wait_idle_or_busy(self) -> None:
        """Wait until every node answers, idle or not (after a restart they are unknown for some seconds)."""

        def there() -> bool:
            rows = self.run(["sinfo", "-h", "-N", "-o", "%T"], check=False).out.split()
            if {"drained", "draining"} & set(rows):
                self.resume_duplicates()
            return len(rows) == self.nodes and set(rows) <= {"idle", "allocated", "mixed", "completing"}

        wait_for("all nodes to answer", there)

    def wait_states(self, jobs: Iterable[str], states: Iterable[str]) -> None:
        """Wait until each of ``jobs`` is in one of ``states``."""
        wanted, allowed = set(jobs), set(states)
        looked = time.monotonic()

        def there() -> bool:
            nonlocal looked
            now = self.states()
            if time.monotonic() - looked > RESUMED_S:
                looked = time.monotonic()
                self.resume_duplicates()
            return all(now.get(job, "GONE") in allowed for job in wanted)

        wait_for(f"jobs {sorted(wanted)} in {sorted(allowed)}", there, step_s=0.1)

    def wait_considered(self, job: str) -> str:
        """Wait until Slurm's scheduler has looked at a pending job and left it; the reason that it gives."""

        def given() -> bool:
            return self.field(job, "Reason") not in ("None", "(null)", "BeginTime")

        wait_for(f"Slurm to consider job {job}", given, step_s=0.1)
        return self.field(job, "Reason")

    def clear(self) -> None:
        """Cancel every job, wake and resume every node, drop reservations: ready for the next test."""
        rows = self.jobs(fields="%i|%T")
        live = [r[0] for r in rows if r[1] in LIVE]
        if live:
            self.run(["scancel", "-s", "KILL", "-b", *live], check=False)
            self.run(["scancel", *live], check=False)
        for line in self.run(["scontrol", "-o", "show", "reservation"], check=False).out.splitlines():
            if line.startswith("ReservationName="):
                name = line.split()[0].split("=")[1]
                self.run(["scontrol", "delete", f"ReservationName={name}"], check=False)
        self.wait_idle()

    def launches(self, jobs: Iterable[str]) -> dict[str, int]:
        """How often the script of each job was launched, by the logs of all slurmd; slurmctld 26.05 logs no start."""
        logs = [log.read_text(errors="replace") for log in (self.root / "log").glob("slurmd.*.log")]
        found = Counter(job for log in logs for job in LAUNCH.findall(log))
        return {job: found[job] for job in jobs}

    def log_ends(self, lines: int = 12) -> str:
        """The last lines of each log, for an error's text."""
        parts = []
        for log in sorted((self.root / "log").glob("*")):
            tail = log.read_text(errors="replace").splitlines()[-lines:]
            parts.append("\n".join([f"--- {log.name}", *tail]))
        return "\n".join(parts)
