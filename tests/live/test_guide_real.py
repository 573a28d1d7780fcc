"""The guide (docs/guide/live.md, "Ten minutes") followed step by step on a real Slurm, with the units' settings.

/etc and /var/lib are those of a mount namespace of the test's own, so that the files lie where the guide puts them.
slurmctld runs in that namespace, and the controller in one below it with a read-only root, as ProtectSystem=strict
makes it. Only the account is another one: the guide creates ``wattqueue``, the test takes one that exists.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.live.procs import MARKER
from tests.live.releases import ChrootLab, lab_as
from tests.live.site import kept_rights, warm_kernels
from tests.live.slurmlab import OPERATOR, Done, SlurmLab, wait_for
from tests.program import IMPORTED_FROM

pytestmark = [pytest.mark.slurm, pytest.mark.compiled, pytest.mark.xdist_group("slurm-2")]
MACHINE = """
name = "cluster"
[[partitions]]
name = "p1"
nodes = 2
idle_w = 100.0
max_w = 300.0
[[partitions]]
name = "p2"
nodes = 2
idle_w = 100.0
max_w = 300.0
"""


class Guided(SlurmLab):
    """A Slurm whose slurmctld sees /etc and /var/lib of the test's own."""

    holder: subprocess.Popen[bytes]

    def make_folders(self) -> list[str]:
        """Make the folders; returns the commands that mount them."""
        shutil.copytree("/etc", self.root / "etcroot", symlinks=True)
        (self.root / "etcroot/systemd/system").mkdir(parents=True, exist_ok=True)
        (self.root / "etcroot/wattqueue").mkdir()
        (self.root / "varlib").mkdir()
        return [f"mount --bind {self.root}/etcroot /etc", f"mount --bind {self.root}/varlib /var/lib"]

    @property
    def inside(self) -> list[str]:
        """What runs a command in the namespace."""
        return ["nsenter", "-t", str(self.holder.pid), "-m"]

    def wattqueue(self, *arguments: str) -> Done:
        """Run the command as root in a shell of the namespace."""
        program = Path(shutil.which("python3") or "").parent
        env = {"PYTHONPATH": str(IMPORTED_FROM), "PATH": f"{program}:{self.env['PATH']}"}
        command = [str(executable())]
        if arguments[:2] == ("live", "install") and hidden():  # this host's Python lies where no unit could see it
            command = [sys.executable, "-c", LIFTED]
        return self.run([*self.inside, *command, *arguments], env=env, check=False)

    def as_unit(self, unit: str) -> list[str]:
        """ExecStart of an installed unit, under its account and with a root that it may not write."""
        text = (self.root / "etcroot/systemd/system" / unit).read_text()
        account = pwd.getpwnam(re.findall(r"^User=(.*)$", text, re.MULTILINE)[0])
        command = re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)[0]
        assert command.startswith("/"), "systemd wants an absolute path"
        assert "env " not in command, "and env finds no virtual environment"
        variables = " ".join(re.findall(r"^Environment=(.*)$", text, re.MULTILINE))
        ids = f"--reuid={account.pw_uid} --regid={account.pw_gid} --clear-groups"
        keep = " ".join(kept_rights())
        script = (
            f"mount -o remount,bind,ro / && mount -o remount,bind,ro /etc && "
            f"exec env -i PATH=/usr/bin:/bin PYTHONPATH={IMPORTED_FROM} {variables} "
            f"SLURM_CONF={self.env['SLURM_CONF']} {MARKER}={self.root} setpriv {ids} {keep} {command}"
        )
        return [*self.inside, "unshare", "-m", "/bin/sh", "-c", script]


class GuideLab(Guided):
    """The installed Slurm; slurmctld alone is in the namespace."""

    def up(self) -> SlurmLab:
        """Make the namespace, keep it with a process that does nothing else, and bring the lab up."""
        script = " && ".join(
            ["mount --make-rprivate /", *self.make_folders(), f"touch {self.root}/ready", "exec sleep 3600"]
        )
        self.holder = subprocess.Popen(["unshare", "-m", "/bin/sh", "-c", script], env=self.env)
        wait_for("the namespace", (self.root / "ready").exists)
        return super().up()

    def start(self, name: str, argv: Sequence[str]) -> None:
        """Start a daemon; slurmctld in the namespace."""
        super().start(name, [*self.inside, *argv] if name == "slurmctld" else argv)

    def down(self) -> None:
        super().down()
        self.holder.wait(60.0)


class GuideChroot(Guided, ChrootLab):
    """A Slurm of another release; its Debian sees the same /var/lib, where the heartbeat is."""

    def mounts(self) -> list[str]:
        return [*super().mounts(), *self.make_folders(), f"mount --bind {self.root}/varlib {self.system}/var/lib"]


LIFTED = (
    "from wattqueue.live import units as u; u.require_usable = lambda *_: None; from wattqueue.cli import main; main()"
)


def hidden() -> bool:
    from wattqueue.live.units import _HIDDEN

    return any(Path(sys.executable).resolve().is_relative_to(folder) for folder in _HIDDEN)


def executable() -> Path:
    from wattqueue.live.units import executable as found

    return found()


@pytest.fixture
def guide(slurm_release: str) -> Iterator[Guided]:
    folder = Path(
        os.path.realpath(f"/srv/wattqueue-guide-{os.getpid()}")
    )  # other users walk here; units do not see /tmp
    folder.mkdir(mode=0o755)
    lab = lab_as(GuideLab, GuideChroot, slurm_release, folder, licences_w=800, nodes=4)
    try:
        lab.up()
        yield lab
    finally:
        lab.down()
        lab.remove()


def test_the_guide_as_written(guide: Guided) -> None:
    lab = guide
    etc, home = lab.root / "etcroot/wattqueue", lab.root / "varlib/wattqueue"
    (etc / "cluster.toml").write_text(MACHINE)
    observe = f'machine = "cluster.toml"\npolicy = "easy"\ncap = "1000W"\n[slurm]\nconf = "{lab.root}/etc/slurm.conf"\n'
    observe += f'bin_dir = "{lab.bin_dir}"\n'
    (etc / "live.toml").write_text(observe)
    config = ("--config", "/etc/wattqueue/live.toml")
    # before anything is installed: a job runs, another waits, neither carries watts
    early = lab.submit("-N1", "-p", "p1", seconds=600)
    lab.wait_states([early], ["RUNNING"])
    waiting = lab.submit("-N2", "-p", "p1", seconds=1)

    # 5: the account comes first; install refuses to guess it
    into = ("--write", "--into", str(lab.root / "etc"), "--units", "/etc/systemd/system")
    refused = lab.wattqueue("live", "install", *config, *into)
    assert refused.code == 2
    assert "user" in refused.err
    (etc / "live.toml").write_text(f'user = "{OPERATOR}"\nmode = "control"\n{observe}')

    # 6: look at what would change, install, add the lines that it prints, install again
    tried = lab.wattqueue("live", "install", *config, *into, "--dry-run")
    assert tried.code == 0, tried.err
    assert "+local WHOLE_POOL_W = " in tried.out
    assert not (lab.root / "etc/job_submit.lua").exists()
    first = lab.wattqueue("live", "install", *config, *into)
    assert first.code == 1, first.err + first.out
    assert "JobSubmitPlugins" in first.out
    conf = lab.root / "etc/slurm.conf"
    lines = re.findall(r"^  ((?:JobSubmitPlugins|Licenses)=\S+)", first.out, re.MULTILINE)
    kept = [line for line in conf.read_text().splitlines() if not line.startswith("Licenses=")]
    conf.write_text("\n".join([*kept, *lines, ""]))
    lab.restart_controller()
    lab.wait_idle_or_busy()
    second = lab.wattqueue("live", "install", *config, *into, "--apply")
    assert second.code == 0, second.err + second.out
    assert lab.field(early, "Licenses") == "watts:200"
    assert lab.field(waiting, "Licenses") == "watts:400"
    assert "Used=200" in lab.run(["scontrol", "-o", "show", "lic"]).out

    assert "nothing would change" in lab.wattqueue("live", "install", *config, *into, "--dry-run").out

    # 7: start the unit; its StateDirectory is there, since the data file of the script lies in it
    assert (home / "run/submit.data").exists()
    account = pwd.getpwnam(OPERATOR)
    warm_kernels(home / "cache", account)
    os.chown(home, account.pw_uid, account.pw_gid)
    lab.start("controller", lab.as_unit("wattqueue-live.service"))
    beat = home / "run/beat"
    log = lab.root / "log/controller.out"

    def beating() -> bool:
        assert lab.daemons["controller"].poll() is None, log.read_text()
        return beat.exists()

    wait_for("the heartbeat where the script looks for it", beating)
    job = lab.submit("-N1", "-p", "p1,p2", seconds=1)
    lab.wait_states([job], ["COMPLETED"])
    assert f"release {job}" in log.read_text(), "it was held, and the controller's own account could release it"
    timer = lab.run(lab.as_unit("wattqueue-live-release.service"), check=False)
    assert timer.code == 3, timer.err

    doctor = lab.wattqueue("doctor", "--live", "/etc/wattqueue/live.toml")
    found = re.findall(r"^  (\w+) +(\S+) ", doctor.out.partition("\nLive\n")[2].partition("\n\n")[0], re.MULTILINE)
    names = ("heartbeat", "pool", "installation", "submit", "partitions")
    assert found == [("yes", name) for name in names], doctor.out
    lab.run(["scontrol", "update", "PartitionName=p2", "OverSubscribe=NO"])
    shares = lab.wattqueue("doctor", "--live", "/etc/wattqueue/live.toml").out
    assert re.findall(r"partition (\w+) shares nodes", shares) == ["p2"], shares
    lab.run(["scontrol", "update", "PartitionName=p2", "OverSubscribe=EXCLUSIVE"])

    # later somebody changes the account in the configuration, and forgets to install again
    (etc / "live.toml").write_text(f'user = "games"\nmode = "control"\n{observe}')
    forgotten = lab.wattqueue("live", *config, "--rounds", "1")
    assert forgotten.code == 2
    assert "job_submit.lua" in forgotten.err

    # and takes it out again, once no controller is at work and no job waits for one: what runs goes on without watts
    (etc / "live.toml").write_text(f'user = "{OPERATOR}"\nmode = "control"\n{observe}')
    out = ("--write", "--into", str(lab.root / "etc"), "--units", str(lab.root / "etcroot/systemd/system"))
    at_work = lab.wattqueue("live", "uninstall", *config, *out)
    assert at_work.code == 3, at_work.err + at_work.out
    controller = lab.daemons.pop("controller")
    controller.terminate()
    controller.wait(60.0)
    held = lab.wattqueue("live", "uninstall", *config, *out)
    assert held.code == 3, held.err + held.out
    released = lab.wattqueue("live", "release", *config, "--force")
    assert released.code == 0, released.err + released.out
    removed = lab.wattqueue("live", "uninstall", *config, *out)
    assert removed.code == 0, removed.err + removed.out
    assert not (lab.root / "etc/job_submit.lua").exists()
    assert not (home / "run/submit.data").exists()
    assert not list((lab.root / "etcroot/systemd/system").glob("wattqueue-*"))
    assert {lab.field(job, "Licenses") for job in (early, waiting)} <= {"", "(null)"}
    assert lab.states()[early] == "RUNNING"
    conf.write_text("\n".join(kept))
    lab.restart_controller()
    lab.wait_idle_or_busy()
    free = lab.submit("-N1", "-p", "p2", seconds=1)
    lab.wait_states([free], ["COMPLETED"])
    assert lab.field(free, "Licenses") in ("", "(null)")
