"""Check what holds the cap without the controller: job_submit.lua, the licence pool, partitions, Slurm's release.

The controller decides what starts. While none is at work every job carries watts licences, and slurmctld admits jobs
under the pool (docs/cap-held.md: where it does not). This module derives the settings of job_submit.lua and its data
file from the configuration, and compares what is installed with them:

* at ``live install``, which prints the findings;
* at the start of the controller: in control mode a fatal finding ends it, since it would control nothing, or a cap
  that does not hold;
* in every round (``live.partitions``), because a site adds partitions and moves nodes while the controller runs.

Partitions. The machine file names some Slurm partitions, with each node in exactly one of them. On real sites
partitions overlap: a ``debug`` partition over the nodes of all others is the rule. A partition that the machine
file does not name but that holds managed nodes is *covering*: its jobs declare the watts of its dearest node,
nobody holds them, and Slurm schedules them under the pool. A partition without managed nodes is *free*: its jobs
carry no watts. So is one that shares its nodes (``[slurm] shared``): each of its nodes counts its maximum, and the
pool is smaller by it.

Jobs that were submitted before the installation carry no watts either. :func:`missing_watts` returns the updates
that give them some: for a waiting job with its number of nodes pinned, for a running one by the nodes it holds.
"""

from __future__ import annotations

import math
import os
import pwd
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from wattqueue.errors import InputError
from wattqueue.formats.atomic_write import atomic_text
from wattqueue.formats.cap import names_file, parse_cap
from wattqueue.live.cluster import (
    ChangeJob,
    JobFields,
    Node,
    Pool,
    SetDomains,
    SetPool,
    Snapshot,
    Write,
)
from wattqueue.live.config import GuardSection, LiveConfig
from wattqueue.live.driver import Finding
from wattqueue.live.features.supply import licences_of
from wattqueue.live.files.lease import BEAT
from wattqueue.live.files.supply_limits import GATE, RESOURCE
from wattqueue.live.goal import JobGoal, counted_text, job_writes
from wattqueue.live.managed import managed_machine, shared_nodes
from wattqueue.live.shared_nodes import SharedCount, SharedNodes
from wattqueue.live.slurm.budget_checks import (
    find_inexact,
    loses_licences_at_requeue,
    refuses_too_few_gres,
    requeue_text,
)
from wattqueue.live.slurm.commands import LICENCE, Slurm, SlurmError, read
from wattqueue.live.slurm.domain_lists import parse_pools
from wattqueue.live.slurm.hres import differences, holds_trees, layers_of, shown_layers
from wattqueue.live.slurm.install import LUA, Settings
from wattqueue.live.slurm.install import differences as script_differences
from wattqueue.live.slurm.lists import POOL, complete_lines, parse_pool
from wattqueue.live.slurm.observe import NODES, parse_nodes
from wattqueue.live.slurm.sizing import Shape
from wattqueue.live.slurm.submit_data import NodeWatts, SubmitData, findings, unreadable_for
from wattqueue.live.slurm.submit_text import SUBMIT_DATA, staff_in, staff_of
from wattqueue.live.units import GUARD_FILE, guard_text
from wattqueue.live.watts.domains import LiveDomains
from wattqueue.live.watts.fed import Limits, fed_by, limits_from, node_net_w
from wattqueue.live.world import Layout
from wattqueue.model.machine import Machine
from wattqueue.model.plain_numbers import is_whole

CONFIG = ("scontrol", "show", "config")
READ_OF_CONF = ("SelectTypeParameters", "DefMemPerCPU", "SLURM_VERSION")
"""Keys of slurm.conf that ``data_of`` reads."""


def layout_of(config: LiveConfig, slurm: Slurm, machine: Machine) -> Layout:
    """Match the nodes of Slurm with the units of the machine.

    Raises: MachineError where machine and Slurm differ or a maximum is not stated, SlurmError where no Slurm answers.
    """
    try:
        rows = [row for row, _ in _node_rows(slurm)]
    except SlurmError as error:
        hint = "live needs a machine where sinfo answers; [slurm] conf = FILE names another slurm.conf"
        raise SlurmError(error.what, where=error.where, hint=hint) from error
    layout = Layout.of(machine, rows, config.slurm.partitions)
    shared_nodes(config).refuse_mixed(layout, rows)
    for p in range(len(machine.partitions)):
        layout.most_net_w(p)  # raises where the maximum is missing: better now than in a round
    return layout


def _node_rows(slurm: Slurm) -> list[tuple[Node, Shape]]:
    """Read sinfo: one row per node *and partition*, not merged, since overlaps are what matters here."""
    return [row for line in complete_lines(read(slurm, NODES), "sinfo") for row in parse_nodes(line)]


def settings_of(config: LiveConfig, slurm: Slurm) -> Settings:
    """Return the settings of job_submit.lua for this configuration and the Slurm as it is now.

    The pool is what the highest cap leaves above idle and beside shared nodes. Raises as :func:`layout_of`; InputError
    for an unknown account.
    """
    layout = layout_of(config, slurm, managed_machine(config))
    shared, rows = shared_nodes(config), _node_rows(slurm)
    beat = config.beat_dir.resolve() / BEAT
    staff = staff_of(slurm)
    if staff is None:
        staff = staff_in(beat.with_name(SUBMIT_DATA))
    data = data_of(layout, rows, slurm_config(slurm), staff, limits_from(layout.machine, time.time()))
    pool_w = whole_pool(config, layout.machine, shared, [row for row, _ in rows], layout.absent_uw / 1e6)
    domains = whole_domains(config, layout) if config.slurm.domains else {}
    hres = config.slurm.hres and licences_of(config, layout.machine) is not None
    return Settings(data, [uid_of(config)], beat, math.ceil(config.away_s), pool_w, domains, hres)


def data_of(
    layout: Layout,
    rows: Sequence[tuple[Node, Shape]],
    values: Mapping[str, str],
    staff: Sequence[int],
    limits: Limits = (),
) -> SubmitData:
    """Return what the data file says of nodes in one row per node and partition, with ``values`` of slurm.conf.

    ``limits``: those of the machine's power domains, as ``limits_from`` gives them.
    """
    shapes: dict[str, list[Shape]] = {}
    members: dict[str, list[str]] = {}
    for row, shape in rows:
        shapes.setdefault(row.partitions[0], []).append(shape)
        members.setdefault(row.partitions[0], []).append(row.name)
    nodes: dict[str, NodeWatts] = {}
    for name, names in members.items():
        parts = sorted({layout.row_of(layout.unit[node]) for node in names if node in layout.unit})
        if parts:
            # a covering partition may span machine partitions: its dearest node counts for all
            watts, least = (max(node_net_w(layout, part)[k] for part in parts) for k in (0, 1))
            counts = Counter(shapes[name])
            kinds = tuple(sorted(counts))
            cpus = min(shape.cpus for shape in kinds)
            held = name in layout.partition_of
            fed = fed_by(layout, [layout.unit[node] for node in names if node in layout.unit], least, limits)
            each = tuple(counts[one] for one in kinds)
            nodes[name] = NodeWatts(watts, least, cpus, len(names), kinds, held, each, fed if held else None)
    memory = "MEMORY" in values.get("SelectTypeParameters", "").upper()
    default = values.get("DefMemPerCPU", "")
    return SubmitData(
        nodes, [name for name in members if name not in nodes], staff,
        int(default) if memory and is_whole(default) else 0, memory,
        refuses_too_few_gres(values.get("SLURM_VERSION", "")),
    )  # fmt: skip


def uid_of(config: LiveConfig) -> int:
    """Return the account that the controller runs as. Raises InputError for one that does not exist."""
    if not config.user:
        return os.geteuid()
    try:
        return pwd.getpwnam(config.user).pw_uid
    except KeyError as error:
        hint = f"useradd --system {config.user}, or name another account"
        raise InputError(f"no account {config.user!r}", where="user", hint=hint) from error


def whole_pool(
    config: LiveConfig,
    machine: Machine,
    shared: SharedNodes | None = None,
    nodes: Sequence[Node] = (),
    absent_w: float = 0.0,
) -> int:
    """Return the watts of the licence in slurm.conf: the highest cap less idle watts, or what all nodes can draw.

    Less what shared nodes count at most, and nodes that only the machine file has (``absent_w``): it holds before the
    controller's first round, too.
    """
    most = machine.scope_max_w()
    if most is None:
        raise InputError("max_w is not stated", where=machine.name, hint="live needs it of every partition")
    shared = shared or SharedNodes()
    covered = shared.with_shared(machine, nodes)
    highest = float(parse_cap(config.cap, covered, below_idle=True).cap_w.max())
    highest -= shared.most_of_all_w(nodes) + absent_w
    return max(0, math.floor(min(highest, most) - machine.scope_idle_w()))


def whole_domains(config: LiveConfig, layout: Layout) -> dict[str, int]:
    """Return the count in slurm.conf of the licence of each power domain: what its highest limit leaves to jobs.

    A domain without a limit counts what its nodes can draw at most. Raises: as ``supply.licences_of``.
    """
    licences = licences_of(config, layout.machine)
    if licences is None:
        return {}
    domains, tree, found = LiveDomains(layout, licences=licences), layout.machine.supply_tree, dict[str, int]()
    for licence, k in domains.by_licence.items():
        highest_w = max(tree.domains[k].limits_w, default=tree.domains[k].least_limit_w)
        room_w = domains.room_under(k, highest_w) / 1e6
        most_w = sum(part.units * layout.most_net_w(part.partition) * part.gain for part in tree.below[k])
        found[licence] = math.floor(min(room_w, math.ceil(most_w)))
    return found


def slurm_config(slurm: Slurm) -> dict[str, str]:
    """Return slurm.conf as slurmctld has it, by key. Raises SlurmError where it does not answer."""
    text = read(slurm, CONFIG)
    return {m[1]: m[2].strip() for m in re.finditer(r"^([A-Za-z_]\w*)\s*= (.*)$", text, re.MULTILINE)}


@dataclass(frozen=True)
class Guard:
    """What should be installed (``settings``), and which nodes of Slurm are managed (``layout``)."""

    settings: Settings
    layout: Layout
    shared: SharedNodes = field(default_factory=SharedNodes)
    shared_count: SharedCount = field(default_factory=SharedCount)
    """What the shared nodes count now, by their states alone."""
    shared_most_w: float = 0.0
    """What they count if all are open."""

    @classmethod
    def of(cls, config: LiveConfig, slurm: Slurm) -> Guard:
        """Derive all of it from a configuration. Raises as :func:`settings_of`."""
        shared, layout = shared_nodes(config), layout_of(config, slurm, managed_machine(config))
        nodes = [row for row, _ in _node_rows(slurm)]
        return cls(settings_of(config, slurm), layout, shared, shared.count(nodes), shared.most_of_all_w(nodes))

    def shared_lines(self) -> list[str]:
        """Return what a person should know about shared nodes; empty where there are none."""
        if not self.shared.partitions:
            return []
        names, count = ", ".join(sorted(self.shared_count.partitions)), self.shared_count
        return [f"{count.open} shared nodes ({names}) count {count.watts:,.0f} W, whatever runs there"]

    def check(self, slurm: Slurm, folder: Path | None = None) -> list[Finding]:
        """Compare Slurm and the installed job_submit.lua with what should be there.

        ``folder`` is Slurm's configuration folder; None: that of slurmctld, as far as it can be read from this host.
        """
        values = slurm_config(slurm)
        found: list[Finding] = []
        if "lua" not in values.get("JobSubmitPlugins", "").split(","):
            found.append(Finding("slurm.conf has no JobSubmitPlugins=lua: jobs carry no watts", fatal=True))
        licences = read(slurm, POOL)
        pool = parse_pool(licences)
        if pool is None:
            found.append(Finding(f"slurm.conf has no Licenses={LICENCE}:N: there is no pool", fatal=True))
        pools = parse_pools(licences, (*self.settings.domains, GATE))
        found += missing_domains(pools, self.settings.domains, gated=self.settings.hres)
        if self.settings.hres:
            found += missing_layers(licences, self.layout, values.get("SLURM_VERSION", ""))
        # the script should refuse what exceeds the pool as slurm.conf states it, which may be more than today's cap
        expected = self.settings if pool is None else self.settings._replace(whole_pool_w=pool.total)
        script = (folder or Path(values.get("SLURM_CONF", "/etc/slurm/slurm.conf")).parent) / LUA
        try:
            found += script_differences(script.read_text(errors="replace"), expected)
        except OSError as error:
            text = f"{script} cannot be read ({error.strerror}): whether it fits this configuration is not known"
            found.append(Finding(text, fatal=False))
        found += find_inexact(slurm, values, self.settings.data.nodes.keys())
        version = values.get("SLURM_VERSION", "")
        if loses_licences_at_requeue(version) and values.get("JobRequeue", "1") != "0":
            found.append(Finding(requeue_text(version), fatal=False))
        return found

    def check_data(self, slurm: Slurm, now_s: float) -> list[Finding]:
        """Compare the script's data file with what it should say. Not at a controller's start: it writes the file."""
        path = self.settings.data_file
        if path is None:
            return []
        found = findings(path, self.settings.data, now_s)
        if hidden := unreadable_for(path, slurm_config(slurm).get("SlurmUser", "")):
            found.append(Finding(f"{hidden}: every partition counts at the dearest node", fatal=False))
        return found


def missing_layers(licences: str, layout: Layout, version: str) -> Iterator[Finding]:
    """Compare the hierarchical resource that Slurm shows with a machine's power domains; ``licences``: its list."""
    if not holds_trees(version):
        text = f"Slurm {version} does not hold power domains as a hierarchical resource (25.11.7, 26.05.2 and later do)"
        yield Finding(f"{text}: leave slurm.hres out, and name licences in slurm.domains", fatal=True)
        return
    for text in differences(layers_of(layout.machine, layout.names), [one for one, _ in shown_layers(licences)]):
        advice = "wattqueue live export-hres writes resources.yaml, scontrol reconfigure reads it"
        yield Finding(f"hierarchical resource {RESOURCE}: {text} ({advice})", fatal=True)


def missing_domains(pools: Mapping[str, Pool], domains: Mapping[str, int], *, gated: bool = False) -> list[Finding]:
    """Compare the licences of power domains in slurm.conf with their counts; ``gated``: the gate is needed anyway.

    More than a limit leaves is withheld by the controller, but not before its first round; with less, jobs wait.
    """
    found = []
    for name, count in (*domains.items(), *([(GATE, 1)] if domains or gated else ())):
        if name not in pools:
            found.append(Finding(f"slurm.conf has no licence {name}:{count} (a power domain)", fatal=True))
        elif pools[name].total != count:
            text = f"slurm.conf has {name}:{pools[name].total}, a power domain with {count} W for jobs"
            found.append(Finding(text, fatal=name == GATE))
    return found


def without_watts(snapshot: Snapshot) -> list[Write]:
    """Return the writes that take the power budget off a Slurm: the whole pool open, no job with watts, domains open.

    Once slurm.conf has no licence ``watts``, a job that still names it could not start.
    """
    writes: list[Write] = []
    if snapshot.pool is not None and snapshot.pool.open_w != snapshot.pool.total:
        total = snapshot.pool.total
        writes.append(SetPool(LICENCE, str(snapshot.pool.open_w), str(total), total, why="uninstall"))
    for row in snapshot.jobs:
        if row.watts >= 0 and (row.pending or row.active) and row.state != "completing":
            before, fields = f"watts={row.watts}", JobFields(watts=-1, domains=() if row.domains else None)
            writes.append(ChangeJob(row.key.name, before, "no watts", fields, why="uninstall", key=row.key))
    withheld = [(name, pool.open_w) for name, pool in snapshot.domains.items()]
    whole = tuple((name, pool.total) for name, pool in snapshot.domains.items())
    if withheld != [*whole]:
        writes.append(SetDomains("domains", counted_text(withheld), counted_text(whole), whole, why="uninstall"))
    return writes


def missing_watts(snapshot: Snapshot, layout: Layout, settings: Settings) -> list[Write]:
    """Return the updates that give watts to jobs without any on managed nodes, running jobs first.

    They are the jobs that were there before job_submit.lua was installed. A running job's watts are those of the
    nodes it holds, each at its maximum; the pool may be exceeded by that, and then admits nothing until it is not. A
    waiting job's are its nodes times the dearest node of its partitions, and its number of nodes is pinned.
    """
    running, waiting = [], []
    for row in snapshot.jobs:
        if row.watts >= 0:
            continue
        held = [name for name in row.node_names if name in layout.unit] if row.active else []
        if held:
            watts = sum(layout.most_net_w(layout.row_of(layout.unit[name])) for name in held)
            running.append(job_writes(row, JobGoal(row.key, watts=watts, why="it ran before the installation"), {}))
        elif row.pending:
            nodes = settings.data.nodes
            dear = max((nodes[p].watts for p in row.partition.split(",") if p in nodes), default=-1)
            if dear >= 0:
                count = max(row.nodes, row.most_nodes)
                goal = JobGoal(row.key, watts=dear * count, node_count=count, why="it waited before the installation")
                waiting.append(job_writes(row, goal, {}))
    return [write for writes in (*running, *waiting) for write in writes]


def guard_lines(guard: Guard, config: LiveConfig, file: Path, *, write: bool) -> list[str]:
    """Write the configuration of the process with the rights (``live.guard``) where there is none, or return its lines.

    ``file``: The controller's configuration, beside which it stands. Nothing where the controller has no guard.
    """
    if config.guard is None:
        return []
    text = guard_file_text(guard, config, config.guard)
    return lines_of_file(text, file.parent / GUARD_FILE, "the guard", write=write)


def lines_of_file(text: str, path: Path, whose: str, *, write: bool) -> list[str]:
    """Write the configuration of a process with rights where there is none; return its lines, or what was done."""
    if not write:
        return [f"# {path}, for {whose}:", *text.splitlines()]
    if path.exists():
        same = path.read_text(errors="replace") == text
        return [f"{path} is as it should be" if same else f"note: {path} differs from what this configuration gives"]
    atomic_text(path, text, mode=0o644)
    return [f"wrote {path}: read it, it is what {whose} checks against"]


def guard_file_text(guard: Guard, config: LiveConfig, section: GuardSection) -> str:
    """Return what the configuration of the process with the rights should say."""
    machine = guard.layout.machine
    cap_w = math.nan if names_file(config.cap) else float(parse_cap(config.cap, machine).cap_w.max())
    node_w = {name: node.watts for name, node in guard.settings.data.nodes.items()}
    without_jobs_w = (
        machine.scope_idle_w() + guard.layout.absent_uw / 1e6 + guard.shared_most_w
    )  # whichever are drained now come back
    return guard_text(config, section, node_w, guard.settings.data.free, without_jobs_w, cap_w)
