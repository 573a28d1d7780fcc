"""Random submissions and changes, the same to a Slurm without and with job_submit.lua: what differs is the script's.

Three rounds over one cluster, which differ in the script alone: ``stock`` (none), ``away`` (ours, no controller at
work: Slurm itself examines what the script made of the request) and ``held`` (ours, a controller at work: Slurm
examines nothing that is held, so the script has to refuse what can never start). All commands of a round run in one
shell, some five milliseconds each.
"""

from __future__ import annotations

import os
import random
import shlex
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.live.slurmlab import LIVE, USER, SlurmLab

ROUNDS = ("stock", "away", "held")
STOCK = """
function slurm_job_submit(jd, parts, uid) return slurm.SUCCESS end
function slurm_job_modify(jd, rec, parts, uid) return slurm.SUCCESS end
return slurm.SUCCESS
"""
PARTITIONS = ("p1", "p2", "debug", "p1,p2", "p2,debug", "small", "mixed", "mixed,p1", "later", "nowhere", "p1,nowhere")
"""``small`` takes two nodes a job at most, ``mixed`` holds nodes that are down, drained and future, ``later`` a future
one alone; nobody knows ``nowhere``."""
_NODE = "NodeHostname=localhost NodeAddr=127.0.0.1 Port=1 CoresPerSocket=16 Feature=fast"
EXTRA = (
    f"NodeName=d[1-2] {_NODE} Sockets=2 RealMemory=64000 State=DOWN",
    f"NodeName=f[1-2] {_NODE} Sockets=4 RealMemory=128000 State=FUTURE",
    "PartitionName=small Nodes=n[1-4] MaxNodes=2 MaxTime=60 OverSubscribe=EXCLUSIVE State=UP",
    "PartitionName=mixed Nodes=n4,d[1-2],f1 OverSubscribe=EXCLUSIVE State=UP",
    "PartitionName=later Nodes=f2 OverSubscribe=EXCLUSIVE State=UP",
)
"""Lines of slurm.conf beside those of a lab of four nodes."""


NEVER = frozenset({"PartitionNodeLimit", "PartitionConfig", "BadConstraints"})
"""Reasons of jobs that Slurm accepts and never starts: more nodes or CPUs than the partition has."""
DRAINED = "n2"


Draw = Callable[[], list[str]]
"""Draws some options."""


class Mismatch(NamedTuple):
    """A request that a Slurm with the script answers otherwise than one without."""

    round: str
    request: str
    stock: str
    """What Slurm says without the script; empty where it accepts."""
    ours: str
    reason: str = ""
    """Why the job waits in a Slurm without the script."""


def random_request(r: random.Random) -> list[str]:
    """Options of one submission: most are possible, many are not, some are nonsense."""
    size: list[Draw] = [
        lambda: [f"-N{r.choice([1, 1, 2, 3, 4, 5, 9])}"],
        lambda: [f"-N{r.randint(1, 3)}-{r.randint(2, 9)}"],
        lambda: [f"-n{r.choice([1, 4, 8, 9, 16, 17, 24, 33, 48, 49, 100])}"],
        lambda: [f"-n{r.randint(1, 12)}", f"-c{r.choice([1, 2, 3, 8, 9, 16, 17, 40])}"],
        lambda: [f"-N{r.randint(1, 4)}", f"-n{r.choice([1, 2, 4, 8, 32, 40, 64])}"],
        lambda: [f"-N{r.randint(1, 3)}", f"--ntasks-per-node={r.choice([1, 2, 8, 9, 16, 17])}"],
        lambda: [f"-n{r.randint(1, 12)}", f"--ntasks-per-node={r.randint(1, 4)}"],
        lambda: [f"-n{r.randint(1, 12)}", f"--ntasks-per-socket={r.randint(1, 4)}"],
        lambda: [f"-n{r.randint(1, 20)}", f"--ntasks-per-core={r.randint(1, 2)}"],
        lambda: [f"-c{r.choice([1, 8, 9, 16, 17, 32, 64, 65])}"],
        lambda: [f"-n{r.choice([1, 20, 100])}", "-O"],
        list,
    ]
    memory: list[Draw] = [
        lambda: [f"--mem={r.choice(['0', '1000', '31000', '32000', '32001', '60G', '900G'])}"],
        lambda: [f"--mem-per-cpu={r.choice(['100', '2000', '2001', '4000', '4001', '8000', '33000', '900G'])}"],
        lambda: [f"--mem-per-gpu={r.choice(['1000', '8000', '17000', '40000'])}", f"--gpus={r.randint(1, 5)}"],
    ]
    gpus: list[Draw] = [
        lambda: [f"--gpus={r.choice([1, 2, 4, 5, 8, 9, 20])}"],
        lambda: [f"--gpus-per-node={r.choice([1, 4, 5])}"],
        lambda: [f"--gpus-per-task={r.choice([1, 2, 5])}", f"-n{r.randint(1, 5)}"],
        lambda: [f"--gres=gpu:{r.choice([1, 4, 5])}"],
        lambda: [f"--gpus={r.randint(1, 4)}", f"--cpus-per-gpu={r.choice([1, 4, 5, 17])}"],
    ]
    places: list[Draw] = [
        lambda: ["-w", r.choice(["n1", "n3", "n[1-2]", "n[1-3]", "n[2-3]", "d1", "f1", "x7"])],
        lambda: ["-x", r.choice(["n1", "n[1-2]", "n[3-4]", "n[1-4]", "d[1-2]"])],
        lambda: ["-C", r.choice(["fast", "slow", "fast|slow"])],
        lambda: ["--contiguous"],
    ]
    cores: list[Draw] = [
        lambda: [f"--mincpus={r.choice([1, 8, 9, 16, 17, 33])}"],
        lambda: [f"--sockets-per-node={r.choice([1, 2, 3])}"],
        lambda: [f"--cores-per-socket={r.choice([1, 8, 9, 16])}"],
        lambda: [f"--threads-per-core={r.choice([1, 2])}"],
        lambda: ["--hint=nomultithread"],
        lambda: ["--exclusive"],
        lambda: [f"--tmp={r.choice([0, 1, 100])}"],
    ]
    others: list[Draw] = [
        lambda: ["-t", r.choice(["1", "59", "61", "1000"])],
        lambda: ["--array=0-2"],
        lambda: ["--begin=now+1hour"],
        lambda: ["-H"],
        lambda: ["--use-min-nodes"],
        lambda: ["--spread-job"],
        lambda: ["--switches=1"],
        lambda: ["--nice=10"],
    ]
    out = r.choice(size)()
    for group, share in ((memory, 0.4), (gpus, 0.25), (places, 0.2), (cores, 0.25), (others, 0.2)):
        if r.random() < share:
            out += r.choice(group)()
    if r.random() < 0.85:
        out += ["-p", r.choice(PARTITIONS)]
    return out


UPDATES = (
    "TimeLimit=3", "TimeLimit=100000", "Comment=again", "JobName=other", "StartTime=now", "StartTime=now+100",
    "Requeue=0", "ExcNodeList=n1", "ExcNodeList=x7", "ReqNodeList=n1", "ReqNodeList=x7", "Features=fast",
    "Features=slow", "QOS=nothing", "Account=nothing", "MailUser=me", "WorkDir=/tmp", "Deadline=now+9000",
    "Dependency=afterany:1", "Dependency=afterok:x", "Contiguous=yes", "Reservation=nothing", "Switches=1",
    "DelayBoot=1", "StdOut=/dev/null", "Nice=5", "TimeMin=1",
)  # fmt: skip
"""Changes by the user of a waiting job that the power budget has nothing to do with."""


def submissions(requests: Sequence[Sequence[str]]) -> list[list[str]]:
    """The commands that submit these requests."""
    return [["sbatch", "--parsable", "-o", "/dev/null", *one, "--wrap=sleep 1"] for one in requests]


def answers(lab: SlurmLab, commands: Sequence[Sequence[str]], user: str = USER) -> list[tuple[int, str]]:
    """Exit status and output of each command, run one after the other in one shell by ``user``."""
    script = lab.root / "work" / "commands.sh"
    lines = [f'{shlex.join(argv)} </dev/null 2>&1; echo "=$?"' for argv in commands]
    script.write_text("\n".join(lines) + "\n")
    script.chmod(0o644)
    done = lab.run_inside(["/bin/sh", str(script)], user=user, timeout_s=60.0 + 0.3 * len(commands))
    out: list[tuple[int, str]] = []
    text: list[str] = []
    for line in done.out.splitlines():
        if line.startswith("=") and line[1:].isdigit():
            out.append((int(line[1:]), " ".join(text)))
            text = []
        else:
            text.append(line)
    assert len(out) == len(commands), done.err
    return out


def install_script(lab: SlurmLab, text: str) -> None:
    """Put a script in force; slurmctld reads it again when its time stamp, in whole seconds, is another."""
    path = lab.root / "etc/job_submit.lua"
    before = path.stat().st_mtime
    path.write_text(text)
    os.utime(path, (before + 2.0, before + 2.0))


def set_round(lab: SlurmLab, name: str, ours: str, beat: Path) -> None:
    """Begin a round."""
    install_script(lab, STOCK if name == "stock" else ours)
    beat.parent.mkdir(exist_ok=True)
    # no heartbeat, or one that stays young for the whole round
    beat.write_text(f"control {int(time.time()) if name == 'held' else 0}\n")


def cancel_all(lab: SlurmLab) -> None:
    """Cancel every job."""
    lab.run(["scancel", "--state=PENDING", f"--user={USER}"], check=False)
    lab.run(["scancel", f"--user={USER}"], check=False)


def compare_submissions(
    lab: SlurmLab, requests: Sequence[Sequence[str]], ours: str, beat: Path, batch: int = 500
) -> tuple[list[Mismatch], dict[str, int]]:
    """Submit all requests in each round; return what differs from the first round, and how many each accepted."""
    found, accepted = [], dict.fromkeys(ROUNDS, 0)
    for first in range(0, len(requests), batch):
        part = requests[first : first + batch]
        stock: list[tuple[int, str]] = []
        reasons: dict[str, str] = {}
        for name in ROUNDS:
            set_round(lab, name, ours, beat)
            said = answers(lab, submissions(part))
            if name == "stock":
                stock, reasons = said, dict(row[:2] for row in lab.jobs(fields="%A|%r"))
            cancel_all(lab)
            accepted[name] += sum(code == 0 for code, _ in said)
            if name == "stock":
                continue
            for one, before, now in zip(part, stock, said, strict=True):
                if (before[0] == 0) != (now[0] == 0):
                    reason = "" if before[0] else reasons.get(job_of(before[1]), "gone")
                    texts = (before[1] if before[0] else "", now[1] if now[0] else "")
                    found.append(Mismatch(name, shlex.join(one), *texts, reason))
    set_round(lab, "stock", ours, beat)
    refused = sorted({one.request for one in found if one.ours and one.reason not in NEVER})
    never = {request for request, is_so in zip(refused, never_start(lab, refused), strict=True) if is_so}
    found = [one for one in found if one.reason not in NEVER and not (one.ours and one.request in never)]
    return found, accepted


def never_start(lab: SlurmLab, requests: Sequence[str], timeout_s: float = 6.0) -> list[bool]:
    """Which of these requests a Slurm without the script never starts: nobody holds them, and no node is drained."""
    if not requests:
        return []
    lab.run(["scontrol", "update", f"NodeName={DRAINED}", "State=RESUME"], check=False)  # refused for one that is idle
    plain = [[word for word in shlex.split(one) if word != "-H" and "--begin" not in word] for one in requests]
    said = answers(lab, submissions(plain))
    since, left = time.monotonic(), -1
    while time.monotonic() - since < timeout_s:
        states = dict(row[:2] for row in lab.jobs(fields="%A|%T"))
        if left != (left := sum(state in LIVE for state in states.values())):
            since = time.monotonic()
        time.sleep(0.5)
    cancel_all(lab)
    lab.run(["scontrol", "update", f"NodeName={DRAINED}", "State=DRAIN", "Reason=test"])
    return [code != 0 or states.get(job_of(text)) in ("PENDING", "FAILED", None) for code, text in said]


def job_of(text: str) -> str:
    """The id of a job in what sbatch printed, behind its warnings."""
    return text.rsplit(maxsplit=1)[-1].split(";", maxsplit=1)[0]


def compare_changes(
    lab: SlurmLab, changes: Sequence[Sequence[str]], ours: str, beat: Path
) -> tuple[list[Mismatch], dict[str, int]]:
    """Apply each list of changes to a waiting job of its own in each round; return as ``compare_submissions``."""
    found, accepted = [], dict.fromkeys(ROUNDS, 0)
    stock: list[tuple[int, str]] = []
    for name in ROUNDS:
        set_round(lab, name, ours, beat)
        jobs = [job_of(text) for _, text in answers(lab, submissions([["-N4", "-p", "debug,p1"]] * len(changes)))]
        commands = [["scontrol", "update", f"JobId={job}", *one] for job, one in zip(jobs, changes, strict=True)]
        said = answers(lab, commands)
        cancel_all(lab)
        accepted[name] = sum(code == 0 for code, _ in said)
        if name == "stock":
            stock = said
            continue
        for one, before, now in zip(changes, stock, said, strict=True):
            if (before[0] == 0) != (now[0] == 0):
                texts = (before[1] if before[0] else "", now[1] if now[0] else "")
                found.append(Mismatch(name, shlex.join(one), *texts))
    return found, accepted
