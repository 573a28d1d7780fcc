"""The data file of job_submit.lua: nodes, their resources and staff, which change while slurmctld runs.

The script in Slurm's configuration folder keeps what must hold without this file: where it is, the dearest node, the
pool, the controller's account. The rest stands here, in the run folder beside the heartbeat, where the controller
alone writes. It replaces the file when nodes, partitions or staff changed (``live.slurm.submit_file``); the script
compares the first line at each submission, and reads the rest where that line is another.

The file is lines of words and never code: a script that executed it (``dofile``) would run in slurmctld what anybody
put there. Its first line has a fixed length::

    wattqueue-submit 1 000001764152222 ...      version, time (s), bytes and Adler-32 checksum of the lines below
    memory yes                                  whether memory is a consumable resource
    gres-bound no                               whether Slurm refuses jobs whose most nodes have too few GPUs
    default-mb-per-cpu 0
    free login                                  a partition whose jobs carry no watts
    partition p1 300 100 2 yes                  watts and least watts of its dearest node, nodes, whether it is held
    feeds 1 2 rack 7                            nodes that power domains feed now, and ever; which one holds back most
    shape 16 2 16 32000 2 gpu=4                 CPUs, sockets, cores, MB, nodes (- if not known), generic resources
    staff 1001                                  an account with Slurm's operator or administrator level
    end

``submit_text`` reads and writes the file as a whole; this module derives its lines.

:func:`findings` compares the file with what it should say, for ``live install`` and ``doctor``.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from wattqueue.live.driver import Finding
from wattqueue.live.files.lease import AHEAD_S
from wattqueue.live.slurm.commands import WORD
from wattqueue.live.slurm.sizing import Shape
from wattqueue.live.slurm.submit_text import read_data, write_lines
from wattqueue.live.watts.fed import Fed

_PARTITION = re.compile(r"partition (\S+) ([0-9]+) ")
_ANY_SIZE = 65534
"""Size of a partition that was not stated: no bound."""
MOST_NODES, MOST = 10**6, 10**15
"""Greatest number of nodes and other figure that the script takes: their products with watts are exact in Lua."""


class NodeWatts(NamedTuple):
    """What one node of a Slurm partition declares in licences, and the resources that decide how many nodes jobs take.

    ``watts`` and ``least`` are whole net watts of the dearest node: at the highest and at the lowest frequency.
    """

    watts: int
    least: int
    cpus: int
    size: int = _ANY_SIZE
    """Nodes of the partition."""
    shapes: tuple[Shape, ...] = ()
    """The different nodes of the partition; empty: ``cpus`` alone is known."""
    held: bool = True
    """Whether the controller schedules its jobs, so that they wait for it."""
    counts: tuple[int, ...] = ()
    """Nodes of each shape; empty: not known, and no job is refused because they are too few."""
    fed: Fed | None = None
    """None where power domains feed all nodes."""


class SubmitData(NamedTuple):
    """What the file says."""

    nodes: Mapping[str, NodeWatts]
    """By Slurm partition that holds managed nodes."""
    free: Sequence[str] = ()
    """Slurm partitions without any managed node, shared ones among them: their jobs carry no watts."""
    staff: Sequence[int] = ()
    """Accounts (uid) with Slurm's operator or administrator level: what they change is not refused."""
    default_mb_per_cpu: int = 0
    """DefMemPerCPU of slurm.conf where memory is a consumable resource, else 0."""
    memory: bool = True
    """Whether memory is a consumable resource, so that jobs on a node share it."""
    gres_bound: bool = True
    """Whether Slurm refuses a job whose greatest number of nodes has fewer generic resources than it asks for."""

    @property
    def dearest_w(self) -> int:
        """Watts of the dearest managed node."""
        return max((node.watts for node in self.nodes.values()), default=0)


def body_of(data: SubmitData) -> str:
    """Return the lines below the first. A partition whose name is no single word is left out: it counts the dearest."""
    lines = [f"memory {_switch(data.memory)}", f"gres-bound {_switch(data.gres_bound)}"]
    lines.append(f"default-mb-per-cpu {min(data.default_mb_per_cpu, MOST)}")
    lines += [f"free {name}" for name in sorted(data.free) if WORD.fullmatch(name)]
    for name, node in sorted(data.nodes.items()):
        if WORD.fullmatch(name):
            lines += _partition(name, node)
    lines += [f"staff {uid}" for uid in sorted(data.staff)]
    return "\n".join([*lines, "end", ""])


def _partition(name: str, node: NodeWatts) -> Iterator[str]:
    yield f"partition {name} {node.watts} {node.least} {min(node.size, MOST_NODES)} {_switch(node.held)}"
    if node.fed is not None:
        yield f"feeds {node.fed.now} {node.fed.most} {' '.join(node.fed.domain.split()) or '?'}"
    shapes = node.shapes or (Shape(node.cpus),)
    for shape, count in zip(shapes, node.counts or ("-",) * len(shapes), strict=True):
        # fewer units of a resource than there are only make a job need more nodes
        gres = [f"{name}={min(units, MOST)}" for name, units in shape.gres if re.fullmatch(r"[A-Za-z0-9_\-]+", name)]
        words = [shape.cpus, shape.sockets, shape.cores, min(shape.memory_mb, MOST), count, *gres]
        yield " ".join(["shape", *map(str, words)])


def _switch(on: bool) -> str:
    return "yes" if on else "no"


def write_data(path: Path, data: SubmitData, now_s: float) -> None:
    """Replace the file. Raises: OutputError."""
    write_lines(path, body_of(data), now_s)


def findings(path: Path, data: SubmitData, now_s: float) -> list[Finding]:
    """Compare the file with what it should say, in the order of importance."""
    found, wanted = read_data(path), body_of(data)
    if isinstance(found, str):
        text = f"{path} {found}: every partition counts at the dearest node until the controller has written it"
        return [Finding(text, fatal=False)]
    out = []
    if found.at_s > now_s + AHEAD_S:
        out.append(Finding(f"{path} was written {found.at_s - now_s:.0f} s in the future: set the clock", fatal=False))
    watts = {name: int(value) for name, value in _PARTITION.findall(found.body)}
    low = [name for name, node in data.nodes.items() if watts.get(name, node.watts) < node.watts]
    for name in low:
        text = f"partition {name}: it declares {watts[name]} W for a node that can draw {data.nodes[name].watts} W"
        out.append(Finding(text, fatal=True))
    out += _other_free(found.body, data)
    there, now = _blocks(found.body), _blocks(wanted)
    changed = [name for name in sorted(there.keys() | now.keys()) if there.get(name) != now.get(name)]
    text = f"{path.name} says something else than it should: a controller at work writes it within a minute"
    return [*out, *(Finding(f"{name}: {text}", fatal=False) for name in changed)]


def _other_free(body: str, data: SubmitData) -> list[Finding]:
    """Return the partitions whose jobs carry watts in only one of file and configuration."""
    free = set(re.findall(r"^free (\S+)$", body, re.MULTILINE))
    held = set(re.findall(r"^partition (\S+) .* yes$", body, re.MULTILINE))
    text = "its jobs carry no watts, and it has managed nodes"
    bare = [Finding(f"partition {name}: {text}", fatal=True) for name in data.nodes if name in free]
    stuck = "its jobs carry watts and wait for the controller, which does not schedule it"
    return bare + [Finding(f"partition {name}: {stuck}", fatal=False) for name in data.free if name in held]


def _blocks(body: str) -> dict[str, list[str]]:
    """Lines by what they are about: a partition with its shapes, or the first word."""
    out: dict[str, list[str]] = {}
    name = ""
    for line in body.splitlines():
        kind, _, rest = line.partition(" ")
        if kind not in ("shape", "feeds"):
            name = f"partition {rest.partition(' ')[0]}" if kind == "partition" else kind
        out.setdefault(name, []).append(line)
    return out


def unreadable_for(path: Path, user: str) -> str:
    """Return which folder or file the modes keep an account from reading; empty where it may.

    ``user`` is as ``scontrol show config`` prints SlurmUser: ``slurm(64030)``. Access lists are not looked at.
    """
    match = re.fullmatch(r"(\S+)\(([0-9]+)\)", user)
    if match is None or match[2] == "0":
        return ""
    uid, groups = int(match[2]), set[int]()
    with contextlib.suppress(KeyError):  # slurmctld runs on another host, with an account of its own
        groups.update(os.getgrouplist(match[1], pwd.getpwuid(uid).pw_gid))
    for one in (*reversed(path.parents), path):
        try:
            there = one.stat()
        except OSError:
            return ""  # a finding of its own
        shift = 6 if there.st_uid == uid else 3 if there.st_gid in groups else 0
        needed = stat.S_IXOTH if one != path else stat.S_IROTH
        if not there.st_mode >> shift & needed:
            return f"{one} does not let {match[1]} read {path.name}"
    return ""
