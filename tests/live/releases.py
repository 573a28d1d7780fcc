"""Other releases of Slurm beside the installed one, each in a folder that holds a small Debian of its own.

``tools/slurm-releases.sh`` creates the folders (about 3 minutes and 0.6 GB each). ``lab_of`` brings up a lab of a
release: the installed one as it is, others by chroot in a mount namespace, so that nothing stays mounted at the end.
"""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from tests.live.fixtures import RELEASE
from tests.live.slurmlab import Done, SlurmLab, missing, wait_for

ROOTS = Path(os.environ.get("WATTQUEUE_SLURM_ROOTS", "/var/tmp/wattqueue-slurm"))  # noqa: S108 - large, and kept
DEBIAN = {"24.11": "trixie", "26.05": "forky"}
"""The release of Debian that holds each release of Slurm."""
COMMANDS = (
    "sacct",
    "sacctmgr",
    "salloc",
    "sbatch",
    "scancel",
    "scontrol",
    "sdiag",
    "sinfo",
    "sprio",
    "squeue",
    "srun",
    "sshare",
)
DAEMONS = ("slurmctld", "slurmd", "slurmdbd")


def root_of(release: str) -> Path | None:
    """The folder of a release's Debian; None for the installed one."""
    return None if _installed().startswith(f"{release}.") else ROOTS / DEBIAN.get(release, release)


def absent(release: str) -> str | None:
    """Why a release cannot be brought up here, None where it can."""
    reason = missing()
    if reason is not None:
        return reason
    root = root_of(release)
    if root is None:
        return None
    if release not in DEBIAN:
        return f"Slurm {release} is not at hand: {_installed()} is installed"
    if not (root / "usr/sbin/slurmctld").exists():
        return f"Slurm {release} is not at hand: `tools/slurm-releases.sh {DEBIAN[release]}` creates {root}"
    return None


def _installed() -> str:
    """Version of the installed Slurm, empty where there is none."""
    path = {"PATH": f"/usr/sbin:/sbin:{os.environ.get('PATH', '')}"}
    try:
        said = subprocess.run(["slurmctld", "-V"], env=path, capture_output=True, text=True, timeout=60.0, check=False)
    except OSError:
        return ""
    return said.stdout.split()[-1] if said.stdout.split() else ""


class ChrootLab(SlurmLab):
    """A Slurm of another release in the Debian at ``system``, which sees the lab's folder under its own name.

    munged and the test are the machine's own.
    """

    system: Path
    holder: subprocess.Popen[bytes]

    @property
    def bin_dir(self) -> str:
        """Wrappers that run the release's commands."""
        return str(self.root / "bin")

    def enter(self, user: str | None = None) -> list[str]:
        """What runs a command inside, as ``user``."""
        account = pwd.getpwnam(user or "root")
        who = [f"--userspec={account.pw_uid}:{account.pw_gid}", "--groups="]
        return ["nsenter", "-t", str(self.holder.pid), "-m", "chroot", *who, str(self.system)]

    def up(self) -> SlurmLab:
        """Mount what the release needs, write wrappers of its commands into ``bin``, and bring the lab up."""
        script = " && ".join([*self.mounts(), f"touch {self.root}/ready", "exec sleep 1000000"])
        self.holder = subprocess.Popen(["unshare", "-m", "/bin/sh", "-c", script], env=self.env, start_new_session=True)
        wait_for("the mounts", (self.root / "ready").exists)
        for command in COMMANDS:
            wrapper = self.root / "bin" / command
            # as the caller: the controller's account may enter by its capabilities (``site.as_operator``)
            inside = f"nsenter -t {self.holder.pid} -m chroot {self.system}"
            # by its whole path: with ``bin`` on the PATH, and there inside as well, the wrapper would find itself
            wrapper.write_text(f'#!/bin/sh\nexec {inside} /usr/bin/{command} "$@"\n')
            wrapper.chmod(0o755)
        return super().up()

    def down(self) -> None:
        super().down()
        self.holder.wait(60.0)

    def mounts(self) -> list[str]:
        """Commands of a shell that mount what the release needs, in the namespace of its daemons."""
        system, root = self.system, self.root
        empty = [f"mount -t tmpfs tmpfs {system}/{folder}" for folder in ("run", "tmp")]
        return [
            "mount --make-rprivate /", *empty, f"mkdir -p {system}{root}", f"mount --bind {root} {system}{root}",
            f"mount -t proc proc {system}/proc", f"mount --rbind /dev {system}/dev",
            f"mount --rbind /sys {system}/sys",
            f"touch {system}/etc/hosts", f"mount --bind /etc/hosts {system}/etc/hosts",
        ]  # fmt: skip

    def with_sys(self, tree: Path, argv: Sequence[str]) -> list[str]:
        script = f"mount --make-rprivate / && mount --bind {tree} {self.system}/sys"
        script += f" && exec chroot {self.system} {' '.join(argv)}"
        return ["nsenter", "-t", str(self.holder.pid), "-m", "unshare", "-m", "/bin/sh", "-c", script]

    def configure(self) -> None:
        super().configure()
        (self.root / "etc/cgroup.conf").write_text("CgroupPlugin=disabled\n")

    def start(self, name: str, argv: Sequence[str]) -> None:
        inside = Path(argv[0]).name in DAEMONS
        super().start(name, [*self.enter(), *argv] if inside else argv)

    def run(
        self,
        argv: Sequence[str],
        *,
        user: str | None = None,
        timeout_s: float = 120.0,
        check: bool = True,
        env: Mapping[str, str] | None = None,
    ) -> Done:
        if argv[0] in COMMANDS:
            where = ["env", "-C", str(self.root / "work")]  # as without a chroot: jobs write their output there
            return super().run([*self.enter(user), *where, *argv], timeout_s=timeout_s, check=check, env=env)
        return super().run(argv, user=user, timeout_s=timeout_s, check=check, env=env)

    def run_inside(self, argv: Sequence[str], *, user: str | None = None, timeout_s: float = 120.0) -> Done:
        where = ["env", "-C", str(self.root / "work")]
        return super().run([*self.enter(user), *where, *argv], timeout_s=timeout_s)


def under_test() -> str:
    """The release of the fixture ``slurm_release``: the one in WATTQUEUE_SLURM_RELEASE, or the installed one."""
    return os.environ.get(RELEASE, "") or ".".join(_installed().split(".")[:2])


Installed = TypeVar("Installed", bound=SlurmLab)
Other = TypeVar("Other", bound=ChrootLab)


def lab_of(release: str, folder: Path, lua: str | None = None, licences_w: int = 100_000, **more: Any) -> SlurmLab:
    """A lab of eight nodes; its ``bin`` holds the commands where the release is not the installed one.

    With accounting, as sites have it: without, Slurm 24.11 and 26.05 refuse a change of a job's partition at random
    ("Resource temporarily unavailable", 30 to 80 in a hundred). 26.05 knows no user ``nobody``.
    """
    return lab_as(SlurmLab, ChrootLab, release, folder, lua=lua, licences_w=licences_w, **more)


def lab_as(
    installed: type[Installed], other: type[Other], release: str, folder: Path, **more: Any
) -> Installed | Other:
    """A lab of one class where the release is the installed one, else of the other."""
    root = root_of(release)
    if root is None:
        return installed(folder, **more)
    lab = other(folder, **more)
    lab.system = root
    return lab
