"""A real Slurm with a guard and a planner, each a process of an account of its own."""

from __future__ import annotations

import os
import pwd
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.live.site import NET_W, Site, as_account
from tests.live.slurmlab import OPERATOR, OTHER_USER, wait_for
from wattqueue.kernels.cache import CACHE_DIR
from wattqueue.live.units import GUARD_FILE

PLANNER = OTHER_USER
"""An account without any right in Slurm."""


SECTION = f'[guard]\nsocket = "run/socket"\nrun_dir = "run"\nplanner = "{PLANNER}"\n'
"""Of the planner's configuration."""


class GuardedSite(Site):
    """A site whose controller has no rights; its guard runs under the operator's account."""

    guard: subprocess.Popen[str] | None = None

    own = "live/planner"

    def behind_guard(self, config: Path) -> None:
        """Have the planner's own files lie in a folder of its account, with compiled kernels."""
        own, account = self.root / self.own, pwd.getpwnam(PLANNER)
        own.mkdir(exist_ok=True)
        shutil.copytree(CACHE_DIR, own / "cache" / CACHE_DIR.name)  # it may not compile for minutes
        for path in (own, *own.rglob("*")):
            os.chown(path, account.pw_uid, account.pw_gid)
        text = config.read_text().replace('run_dir = "run"', 'run_dir = "planner/run"', 1)
        text = text.replace('"views.jsonl"', '"planner/views.jsonl"')
        config.write_text(f'state = "planner/wattqueue-live.db"\n{text}')

    def configure_both(self, cap: str, **more: Any) -> tuple[Path, Path]:
        """Write both files; return that of the planner, of which ``more`` are keys, and that of the guard."""
        home = self.root / "live"
        (home / "cap.csv").write_text(f"time_s,cap_w\n0,{cap.removesuffix('W')}\n")
        config = self.configure("cap.csv", user=OPERATOR, slurm=SECTION, **more)
        self.behind_guard(config)
        guard = home / "guard.toml"
        guard.write_text(
            f'socket = "run/socket"\nrun_dir = "run"\nplanner = "{PLANNER}"\ncap = "cap.csv"\n'
            f"without_jobs_w = 800\naway_s = 5.0\n[node_w]\np1 = {NET_W}\np2 = {NET_W}\n"
            f'[slurm]\nconf = "{self.root}/etc/slurm.conf"\nbin_dir = "{self.lab.bin_dir}"\n'
        )
        return config, guard

    def start_guard(self, file: Path) -> None:
        """Start the guard, and wait until it listens."""
        socket = self.root / "live/run/socket"
        socket.unlink(missing_ok=True)
        self.guard = self.spawn(as_account(OPERATOR, "-m", "wattqueue.live.guard", "-c", str(file)), self.env)
        wait_for("the guard's socket", socket.exists, step_s=0.1)

    def start(self, config: Path) -> None:
        """Start the planner under an account without rights."""
        argv = as_account(PLANNER, "-c", "from wattqueue.cli import main; main()", "live", "--config", str(config))
        self.child = self.spawn(argv, {**self.env, "WATTQUEUE_CACHE_DIR": str(self.root / "live/planner/cache")})
        self.started_s = 0.0

    def start_standby(self, config: Path) -> None:
        """Start another planner, which waits for the first one's lease; from now on it is the one to be stopped."""
        code = "from wattqueue.cli import main; main()"
        argv = as_account(PLANNER, "-c", code, "live", "--config", str(config), "--standby")
        elsewhere = ("unshare", "--uts", "sh", "-c", 'hostname elsewhere && exec "$@"', "sh", *argv)
        env = {**self.env, "WATTQUEUE_CACHE_DIR": str(self.root / "live/planner/cache")}
        self.child = self.spawn(elsewhere, env)

    def begin_both(self, cap: str) -> tuple[Path, Path]:
        """Configure and start both; return their files."""
        files = self.configure_both(cap)
        self.start_guard(files[1])
        self.start(files[0])
        self.wait_up()
        return files

    def stop_guard(self) -> None:
        """End the guard, if it runs."""
        if self.guard is not None:
            self.guard.send_signal(signal.SIGCONT)
            self.guard.terminate()
            self.guard.wait(60.0)
            self.guard = None

    def beat_age_s(self) -> float:
        """Return the age of the heartbeat by the file's time."""
        return time.time() - (self.root / "live/run/beat").stat().st_mtime


class Arena(GuardedSite):
    """A site in which a kill takes the planner, the guard, or both."""

    random_ = random.Random(4)

    def start(self, config: Path) -> None:
        """Start what does not run, the guard first: the planner asks it at its start."""
        if self.guard is None:
            self.start_guard(config.with_name(GUARD_FILE))
        if self.child is None:
            super().start(config)

    def kill(self) -> None:
        """Kill one of the two, or both."""
        whom = self.random_.choice(("planner", "guard", "both"))
        if whom != "planner" and self.guard is not None:
            self.guard.kill()
            self.guard.wait(60.0)
            self.guard = None
        if whom != "guard":
            super().kill()

    def stop(self) -> None:
        """End both."""
        super().stop()
        self.stop_guard()
