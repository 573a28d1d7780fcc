"""Report what this host can read and change of a Slurm, for ``wattqueue doctor`` (``live.doctor``)."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from wattqueue.formats.slurm.sacct import ASK_FOR, sacct_command
from wattqueue.live.doctor import NO, PART, YES, Check, Find, Run, ask
from wattqueue.live.slurm.budget_checks import PARTITIONS, loses_licences_at_requeue, requeue_text, shared_in

COMMANDS = {
    "sacct": "no accounting from here: dump it on a login node, and import the file",
    "squeue": "the queue cannot be watched: nothing can be driven live from here",
    "scontrol": "jobs can neither be held nor released: nothing can be driven live from here",
    "sinfo": "the state of nodes is unknown: nothing can be driven live from here",
}
"""Slurm's commands, and what does not work without each."""
CONFIGURATIONS = ("etc/slurm/slurm.conf", "etc/slurm-llnl/slurm.conf", "run/slurm/conf/slurm.conf")
"""Where slurm.conf lies: Debian and RPM packages, older Debian, and the cache of a configless node."""


def examine_slurm(root: Path, run: Run, find: Find) -> Iterator[Check]:
    """Check commands, accounting, slurm.conf, release, energy plugin, and whether jobs get whole nodes."""
    there = {name: find(name) for name in COMMANDS}
    for name, cost in COMMANDS.items():
        path = there[name]
        yield Check("Slurm", name, YES if path else NO, path or "not found", "" if path else cost)
    if there["sacct"]:
        code, said = run(["sacct", "-n", "-X", "-S", "now-1hour"])
        first = next((line.strip() for line in said.splitlines() if line.strip()), "no answer")
        yield Check(
            "Slurm",
            "accounting",
            YES if code == 0 else NO,
            "sacct answers" if code == 0 else first[:100],
            "" if code == 0 else "no job history from here: run sacct where Slurm is configured",
        )
    if there["scontrol"]:
        yield from _release(run)
    text, where = _configuration(root, run, scontrol=there["scontrol"] is not None)
    if text is None:
        yield Check(
            "Slurm", "slurm.conf", NO, where, "partitions, nodes and the energy plugin have to be stated by hand"
        )
        return
    yield Check("Slurm", "slurm.conf", YES, where)
    yield _energy_plugin(text)
    yield _whole_nodes(text, run, scontrol=there["scontrol"] is not None)


def _whole_nodes(text: str, run: Run, *, scontrol: bool) -> Check:
    """Check whether jobs get whole nodes: everywhere, or by the settings of partitions. ``text``: of slurm.conf."""
    if "select/linear" in text.lower():
        return Check("Slurm", "whole nodes", YES, "jobs get whole nodes (select/linear)")
    code, shown = run(PARTITIONS) if scontrol else (-1, "")
    names = re.findall(r"^PartitionName=(\S+)", shown, re.M) if code == 0 else []
    shared = sorted(shared_in(shown)) if names else []
    cost = "energies of jobs that shared a node are labelled attributed"
    if not names:
        return Check("Slurm", "whole nodes", PART, "nodes can be shared (the partitions could not be asked)", cost)
    if not shared:
        return Check("Slurm", "whole nodes", YES, "jobs get whole nodes (all partitions are exclusive)")
    what = f"{len(shared)} of {len(names)} partitions share nodes: {', '.join(shared[:8])}"
    return Check("Slurm", "whole nodes", PART, what, cost)


def _release(run: Run) -> Iterator[Check]:
    """Check whether this release of Slurm keeps a job's licences when it is requeued.

    25.05.x and 25.11.0 to 25.11.6 do not, so that a requeued job would run outside the power budget. Without
    requeues (JobRequeue=0) the releases are safe; ``sbatch --requeue`` can still ask for one.
    """
    code, text = run(["scontrol", "show", "config"])
    version = re.search(r"^SLURM_VERSION\s*=\s*(\S+)", text, re.M) if code == 0 else None
    if version is None:
        return
    requeue = re.search(r"^JobRequeue\s*=\s*([0-9])", text, re.M)
    lost = loses_licences_at_requeue(version[1])
    off = requeue is not None and requeue[1] == "0"
    cost = "" if not lost or off else requeue_text(version[1])
    yield Check("Slurm", "release", PART if cost else YES, version[1], cost)


def _configuration(root: Path, run: Run, *, scontrol: bool) -> tuple[str | None, str]:
    """Return the text of slurm.conf, or what scontrol prints of it, and where it was found."""
    named = os.environ.get("SLURM_CONF") if root == Path("/") else None
    for path in [Path(named)] if named else [root / name for name in CONFIGURATIONS]:
        try:
            return path.read_text(encoding="utf-8", errors="replace"), str(path)
        except OSError:
            continue
    if scontrol:
        code, text = run(["scontrol", "show", "config"])
        if code == 0:
            return text, "scontrol show config"
    return None, "not found, or not readable"


def _energy_plugin(text: str) -> Check:
    """Check which plugin measures energy. Plugins are written with or without their ``acct_gather_energy/`` prefix."""
    found = re.search(r"^\s*AcctGatherEnergyType\s*=\s*(?:acct_gather_energy/)?(\S+)", text, re.I | re.M)
    plugins = found[1] if found else "none"
    if plugins.lower() in {"none", "(null)"}:
        cost = "jobs carry no energy: set AcctGatherEnergyType (rapl, ipmi, pm_counters, xcc)"
        return Check("Slurm", "energy plugin", NO, "none", cost)
    cost = "counts processors and memory only: state the rest of a node" if plugins.lower() == "rapl" else ""
    return Check("Slurm", "energy plugin", YES, plugins, cost)


def sacct_line(since: str, run: Run = ask, find: Find = shutil.which) -> str:
    """Return the command that dumps this site's accounting, with the columns that its sacct offers.

    Columns differ by release (``sacct --helpformat``); asking for an unknown one makes sacct fail altogether.
    """
    fields: Sequence[str] = ASK_FOR
    if find("sacct"):
        code, text = run(["sacct", "--helpformat"])
        known = {word.lower() for word in text.split()}
        if code == 0 and "jobid" in known:
            fields = [name for name in fields if name.lower() in known]
    return f"{sacct_command(since, fields)} > dump.psv"
