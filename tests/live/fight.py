"""A fight on a real Slurm: submissions that try to get above a limit, changes and kills of every part, then the end.

Slurm and script are installed as a site would: by what ``live install`` derives from the configuration.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from tests.live.adversary import Adversary, Killer, Poller, drain
from tests.live.outcomes import Outcomes, forgotten
from tests.live.releases import lab_of
from tests.live.site import Site, warm_kernels
from tests.live.slurmlab import OPERATOR
from wattqueue.live.config import load_config
from wattqueue.live.slurm.guard import Guard, guard_lines
from wattqueue.live.slurm.install import install

Record = Callable[[str, object], None]
Fighter = TypeVar("Fighter", bound=Site)
LOOK_S = 20.0
"""Time between two looks at the jobs that ended; slurmctld forgets them after ``MinJobAge``."""


def site_of(
    slurm_release: str,
    kind: type[Fighter],
    name: str,
    pool_w: int,
    *,
    cap: str,
    machine: str,
    slurm: str,
    **lab: object,
) -> Iterator[Fighter]:
    """A Slurm whose accounts are apart from this process's, with everything installed and no controller at work.

    ``cap``, ``machine`` and ``slurm``: as ``Site.configure`` takes them; ``lab``: as ``lab_of`` does.
    """
    folder = Path(os.path.realpath(f"/tmp/wattqueue-{name}-{os.getpid()}"))  # noqa: S108 - other users walk here
    folder.mkdir(mode=0o755)
    operator = pwd.getpwnam(OPERATOR)
    (folder / "live").mkdir(mode=0o755)
    os.chown(folder / "live", operator.pw_uid, operator.pw_gid)
    warm_kernels(folder / "cache", operator)
    trivial = "function slurm_job_submit(a, b, c) return slurm.SUCCESS end\n"
    trivial += "function slurm_job_modify(a, b, c, d) return slurm.SUCCESS end\nreturn slurm.SUCCESS\n"
    made = lab_of(slurm_release, folder, trivial, pool_w, extra=["MinJobAge=300"], **lab)
    try:
        made.up()
        site = kind(made)
        file = site.configure(cap, machine=machine, slurm=slurm, user=OPERATOR)
        config, commands = load_config(file), made.commands
        installed = Guard.of(config, commands)
        install(folder / "etc", installed.settings, None)
        guard_lines(installed, config, file, write=True)
        assert [one for one in installed.check(commands, folder / "etc") if one.fatal] == []
        yield site
        site.stop()
    finally:
        made.down()
        made.remove()


@contextlib.contextmanager
def kept_on_failure(site: Site) -> Iterator[None]:
    """Where what follows fails, copy logs and audit database to a folder that outlives the lab, and say where."""
    try:
        yield
    except BaseException:
        kept = Path(tempfile.mkdtemp(prefix="wattqueue-kept-"))
        for name in ("log", "live"):
            shutil.copytree(site.root / name, kept / name)
        sys.stderr.write(f"logs and audit of the lab: {kept}\n")
        raise


def fight(
    adversary: Adversary, killer: Killer, poller: Poller, seconds: float, kills: int, timeout_s: float,
    record_property: Record, *, to_last_kill: bool = False,
) -> None:  # fmt: skip
    """Submissions, changes by users and administrators, and kills for so long; then everything left ends.

    ``timeout_s``: see ``drain``. ``to_last_kill``: where the kills take longer than ``seconds``, go on until the last.

    Asserted: no poll saw running jobs that could draw more than a limit; every job that was durable at each crash of
    slurmctld ended exactly once (``outcomes`` says what durable means); all jobs ended that nothing kept from it.
    """
    site, outcomes = adversary.site, Outcomes(adversary.site)
    with kept_on_failure(site):
        killer.restart()
        site.wait_up()
        with poller:
            attack(adversary, killer, outcomes, seconds, kills, to_last_kill=to_last_kill)
            adversary.withdraw()
            cancelled = drain(site, timeout_s, outcomes.look)
        outcomes.look()
        lost = forgotten((site.root / "log/slurmctld.log").read_text(), killer.crashes)
        durable = [name for name, (job, _) in adversary.accepted.items() if job not in lost]
        left, violations = adversary.unended(cancelled), outcomes.violations(adversary.accepted, lost)
        figures = {
            **poller.figures(), "kills": killer.kills, "crashes": len(killer.crashes), **adversary.figures(),
            "durable": len(durable), "cancelled": cancelled, "left": left, "violations": violations,
        }  # fmt: skip
        for name, value in figures.items():
            record_property(name, value)
        sys.stderr.write(f"{figures}\n")
        assert poller.over == [], poller.over[:3]
        assert poller.polls > seconds * poller.polls_a_second, "the poller looked often"
        assert left == [], f"every job ends that nothing keeps from it: {left}\n{site.said()}"
        assert violations == [], violations
        assert killer.done == kills


def attack(
    adversary: Adversary, killer: Killer, outcomes: Outcomes, seconds: float, kills: int, *, to_last_kill: bool
) -> None:
    """Submit, change and kill for so long (see ``fight``); then wait for the controller."""
    site, random_ = adversary.site, adversary.random_
    begin = time.monotonic()
    next_kill = next_look = begin + seconds / (kills + 1)
    while (now := time.monotonic()) < begin + seconds or (to_last_kill and killer.done < kills):
        adversary.step()
        time.sleep(random_.uniform(0.0, adversary.pause_s))
        if now > next_kill and killer.done < kills:
            killer.kill()
            now = time.monotonic()
            each_s = max(0.0, begin + seconds - now) / (kills - killer.done + 1)
            next_kill = now + each_s * random_.uniform(0.5, 1.5)
        if now > next_look:
            outcomes.look()
            next_look = now + LOOK_S
    site.wait_up()
