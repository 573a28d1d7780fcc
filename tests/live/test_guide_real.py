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
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.live.procs import MARKER
from tests.live.site import ROOT, warm_kernels
from tests.live.slurmlab import OPERATOR, Done, SlurmLab, wait_for

pytestmark = [pytest.mark.slurm, pytest.mark.compiled, pytest.mark.xdist_group("slurm")]
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


class GuideLab(SlurmLab):
    """A Slurm whose slurmctld sees /etc and /var/lib of the test's own."""

    holder: subprocess.Popen[bytes]

    def open_namespace(self) -> None:
        """Make the namespace, and keep it with a process that does nothing else."""
        shutil.copytree("/etc", self.root / "etcroot", symlinks=True)
        (self.root / "etcroot/systemd/system").mkdir(parents=True, exist_ok=True)
        (self.root / "etcroot/wattqueue").mkdir()
        (self.root / "varlib").mkdir()
        binds = f"mount --bind {self.root}/etcroot /etc && mount --bind {self.root}/varlib /var/lib"
        script = f"mount --make-rprivate / && {binds} && touch {self.root}/ready && exec sleep 3600"
        self.holder = subprocess.Popen(["unshare", "-m", "/bin/sh", "-c", script], env=self.env)
        wait_for("the namespace", (self.root / "ready").exists)

    @property
    def enter(self) -> list[str]:
        """What runs a command in the namespace."""
        return ["nsenter", "-t", str(self.holder.pid), "-m"]

    def start(self, name: str, argv: Sequence[str]) -> None:
        """Start a daemon; slurmctld in the namespace."""
        super().start(name, [*self.enter, *argv] if name == "slurmctld" else argv)

    def wattqueue(self, *arguments: str) -> Done:
        """Run the command as root in a shell of the namespace."""
        program = Path(shutil.which("python3") or "").parent
        env = {"PYTHONPATH": str(ROOT / "src"), "PATH": f"{program}:{self.env['PATH']}"}
        return self.run([*self.enter, str(executable()), "live", *arguments], env=env, check=False)

    def as_unit(self, unit: str) -> list[str]:
        """ExecStart of an installed unit, under its account and with a root that it may not write."""
        text = (self.root / "etcroot/systemd/system" / unit).read_text()
        account = pwd.getpwnam(re.findall(r"^User=(.*)$", text, re.MULTILINE)[0])
        command = re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)[0]
        assert command.startswith("/"), "systemd wants an absolute path"
        assert "env " not in command, "and env finds no virtual environment"
        variables = " ".join(re.findall(r"^Environment=(.*)$", text, re.MULTILINE))
        ids = f"--reuid={account.pw_uid} --regid={account.pw_gid} --clear-groups"
        keep = "--inh-caps=+dac_read_search --ambient-caps=+dac_read_search"  # an interpreter of root's, for the test
        script = (
            f"mount -o remount,bind,ro / && mount -o remount,bind,ro /etc && "
            f"exec env -i PATH=/usr/bin:/bin PYTHONPATH={ROOT}/src {variables} "
            f"SLURM_CONF={self.env['SLURM_CONF']} {MARKER}={self.root} setpriv {ids} {keep} {command}"
        )
        return [*self.enter, "unshare", "-m", "/bin/sh", "-c", script]


def executable() -> Path:
    from wattqueue.live.units import executable as found

    return found()


@pytest.fixture
def guide(real_slurm: None) -> Iterator[GuideLab]:
    folder = Path(os.path.realpath(f"/tmp/wattqueue-guide-{os.getpid()}"))  # noqa: S108 - other users walk here
    folder.mkdir(mode=0o755)
    lab = GuideLab(folder, nodes=4, licences_w=800)
    try:
        lab.open_namespace()
        yield lab
    finally:
        lab.down()
        lab.holder.kill()
        lab.holder.wait(60.0)
        lab.remove()


def test_the_guide_as_written(guide: GuideLab) -> None:
    lab = guide
    lab.up()
    etc, home = lab.root / "etcroot/wattqueue", lab.root / "varlib/wattqueue"
    (etc / "cluster.toml").write_text(MACHINE)
    observe = f'machine = "cluster.toml"\npolicy = "easy"\ncap = "1000W"\n[slurm]\nconf = "{lab.root}/etc/slurm.conf"\n'
    (etc / "live.toml").write_text(observe)
    config = ("--config", "/etc/wattqueue/live.toml")
    # before anything is installed: a job runs, another waits, neither carries watts
    early = lab.submit("-N1", "-p", "p1", seconds=600)
    lab.wait_states([early], ["RUNNING"])
    waiting = lab.submit("-N2", "-p", "p1", seconds=1)

    # 5: the account comes first; install refuses to guess it
    into = ("--write", "--into", str(lab.root / "etc"), "--units", "/etc/systemd/system")
    refused = lab.wattqueue("install", *config, *into)
    assert refused.code == 2
    assert "user" in refused.err
    (etc / "live.toml").write_text(f'user = "{OPERATOR}"\nmode = "control"\n{observe}')

    # 6: install, add the lines that it prints, install again
    first = lab.wattqueue("install", *config, *into)
    assert first.code == 1, first.err + first.out
    assert "JobSubmitPlugins" in first.out
    conf = lab.root / "etc/slurm.conf"
    lines = re.findall(r"^  ((?:JobSubmitPlugins|Licenses)=\S+)", first.out, re.MULTILINE)
    kept = [line for line in conf.read_text().splitlines() if not line.startswith("Licenses=")]
    conf.write_text("\n".join([*kept, *lines, ""]))
    lab.restart_controller()
    lab.wait_idle_or_busy()
    second = lab.wattqueue("install", *config, *into, "--apply")
    assert second.code == 0, second.err + second.out
    assert lab.field(early, "Licenses") == "watts:200"
    assert lab.field(waiting, "Licenses") == "watts:400"
    assert "Used=200" in lab.run(["scontrol", "-o", "show", "lic"]).out

    # 7: start the unit; systemd makes its StateDirectory
    home.mkdir(mode=0o711)
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

    # later somebody changes the account in the configuration, and forgets to install again
    (etc / "live.toml").write_text(f'user = "games"\nmode = "control"\n{observe}')
    forgotten = lab.wattqueue(*config, "--rounds", "1")
    assert forgotten.code == 2
    assert "job_submit.lua" in forgotten.err
