"""Install job_submit.lua and the TaskProlog into Slurm's configuration folder, and check what is installed there.

job_submit.lua is what makes the cap hold without the controller: it gives every job its watts, limits its nodes,
and refuses changes by users. It is generated from a template (``share/job_submit.lua``) with a block of settings,
because slurmctld calls it for each submission under its locks and it must not read anything but the heartbeat.

The settings are a copy of the configuration at the time of the installation. If the configuration changes
afterwards, script and controller disagree, and some disagreements are dangerous:

=====================  ==============================================================================================
setting                what happens where it differs from the controller's configuration
=====================  ==============================================================================================
``OPERATORS``          the script refuses the controller's own updates: no job is ever released
``BEAT``               the script never sees the heartbeat: jobs are not held, the policy decides nothing
``NODE`` (watts)       jobs declare less than they can draw: the cap does not hold
``VERSION``            the template is that of another release of WattQueue
``WHOLE_POOL_W``       jobs are refused that would fit, or accepted that never start
``AWAY_S``             jobs are held when the release timer already lets Slurm schedule alone
=====================  ==============================================================================================

:func:`differences` compares the installed script with the configuration. ``live install`` prints the result, and
the controller refuses to start in control mode on the first three.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from wattqueue.errors import OutputError
from wattqueue.formats.atomic_write import atomic_text
from wattqueue.live.cluster import Finding
from wattqueue.live.slurm.commands import WORD
from wattqueue.live.slurm.sizing import Shape

LUA = "job_submit.lua"
SITE_LUA = "job_submit.site.lua"
PROLOG = "wattqueue_task_prolog.sh"
MARK = "WattQueue: every job carries watts"
"""First words of our script: a file without them is a site's own and is never overwritten."""
SETTINGS = re.compile(r"-- \[\[wattqueue settings\n.*?-- wattqueue settings\]\]", re.DOTALL)
_NODE_WATTS = re.compile(r'\["([^"]+)"\] = \{ watts = ([0-9]+)')
_NODE_SHAPES = re.compile(r'\["([^"]+)"\] = \{ watts = [^{]* shapes = \{\n(.*?)\n  \} \},', re.DOTALL)
_ANY_SIZE = 65534
"""Size of a partition that was not stated: no bound."""


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


class Settings(NamedTuple):
    """The settings of the script: figures by Slurm partition, and where the controller writes its heartbeat."""

    nodes: Mapping[str, NodeWatts]
    operators: Sequence[int]
    """Accounts (uid) that may change watts, size and holds of jobs; root always may."""
    beat: Path | None
    away_s: int
    whole_pool_w: int
    free: Sequence[str] = ()
    """Slurm partitions without any managed node, shared ones among them: their jobs carry no watts."""
    default_mb_per_cpu: int = 0
    """DefMemPerCPU of slurm.conf where memory is a consumable resource, else 0."""
    staff: Sequence[int] = ()
    """Accounts (uid) with Slurm's operator or administrator level: what they change is not refused."""
    memory: bool = True
    """Whether memory is a consumable resource, so that jobs on a node share it."""
    gres_bound: bool = True
    """Whether Slurm refuses a job whose greatest number of nodes has fewer generic resources than it asks for."""


def script(settings: Settings, site: Path | None = None) -> str:
    """Return job_submit.lua with these settings; ``site`` is a script of the site that is called first.

    Raises: OutputError for names that a script must not hold (they would be code).
    """
    text = shared(LUA)
    lines = ["-- [[wattqueue settings", f'local VERSION = "{version()}"', "local NODE = {"]
    for name, node in settings.nodes.items():
        if not WORD.fullmatch(name):
            raise OutputError(f"partition {name!r} cannot stand in a script", hint="letters, digits, _ . -")
        figures = f"watts = {node.watts}, least = {node.least}, size = {node.size}"
        lines.append(f'  ["{name}"] = {{ {figures}, held = {"true" if node.held else "false"}, shapes = {{')
        shapes = node.shapes or (Shape(node.cpus),)
        counts = node.counts or (None,) * len(shapes)
        lines += [f"    {_shape(shape, count)}," for shape, count in zip(shapes, counts, strict=True)]
        lines.append("  } },")
    free = [name for name in settings.free if WORD.fullmatch(name)]
    lines += ["}", "local FREE = { " + ", ".join(f'["{name}"] = true' for name in free) + " }"]
    lines.append(f"local DEAREST = {max((node.watts for node in settings.nodes.values()), default=0)}")
    operators = ", ".join(f"[{uid}] = true" for uid in settings.operators)
    staff = ", ".join(f"[{uid}] = true" for uid in sorted(settings.staff))
    lines += [
        f"local OPERATORS = {{ {operators} }}",
        f"local STAFF = {{ {staff} }}",
        f"local BEAT = {quoted(settings.beat)}",
    ]
    lines += [f"local AWAY_S = {settings.away_s}", f"local SITE = {quoted(site)}"]
    lines += [f"local WHOLE_POOL_W = {settings.whole_pool_w}"]
    lines += [f"local DEFAULT_MB_PER_CPU = {settings.default_mb_per_cpu}"]
    lines += [f"local MEMORY = {'true' if settings.memory else 'false'}"]
    lines += [f"local GRES_BOUND = {'true' if settings.gres_bound else 'false'}", "-- wattqueue settings]]"]
    return SETTINGS.sub(lambda _: "\n".join(lines), text)


def _shape(shape: Shape, count: int | None) -> str:
    gres = ", ".join(f'["{name}"] = {count}' for name, count in shape.gres if WORD.fullmatch(name))
    figures = f"cpus = {shape.cpus}, sockets = {shape.sockets}, cores = {shape.cores}, mb = {shape.memory_mb}"
    if count is not None:
        figures += f", count = {count}"
    return f"{{ {figures}, gres = {{ {gres} }} }}"


def version() -> str:
    """Return the version mark of this release's template: a hash, so that it changes exactly when the script does."""
    return hashlib.sha256(shared(LUA).encode()).hexdigest()[:12]


def differences(installed: str, settings: Settings) -> list[Finding]:
    """Compare the text of an installed script with what this configuration would install.

    The order is that of importance. A script that is not ours is one fatal difference.
    """
    if MARK not in installed:
        return [Finding("job_submit.lua is not WattQueue's: jobs carry no watts", fatal=True)]
    found, wanted = _settings_of(installed), _settings_of(script(settings))
    out = []
    allowed = set(re.findall(r"\[([0-9]+)\]", found.get("OPERATORS", "")))
    missing = [uid for uid in settings.operators if uid != 0 and str(uid) not in allowed]
    if missing:
        text = f"it refuses the controller's own account (uid {missing[0]}): it was installed for another `user`"
        out.append(Finding(text, fatal=True))
    if found.get("BEAT") != wanted["BEAT"]:
        text = f"it looks for the heartbeat in {found.get('BEAT')}, the controller writes {wanted['BEAT']}"
        out.append(Finding(text, fatal=True))
    watts = {name: int(value) for name, value in _NODE_WATTS.findall(installed)}
    for name, node in settings.nodes.items():
        if watts.get(name, node.watts if node.held is False else -1) < node.watts:
            text = f"partition {name}: it declares {watts.get(name, 0)} W for a node that can draw {node.watts} W"
            out.append(Finding(text, fatal=True))
    out += _other_free(found, installed, settings)
    out += _other_nodes(installed, settings)
    if found.get("STAFF") != wanted["STAFF"]:
        out.append(Finding("accounts with Slurm's operator level: others than at the installation", fatal=False))
    names = {"VERSION": "its version is that of another release", "WHOLE_POOL_W": "the whole pool", "AWAY_S": "away_s"}
    names["GRES_BOUND"] = "jobs with too few nodes for their GPUs are refused as another release of Slurm does"
    for key, what in names.items():
        if found.get(key) != wanted[key]:
            text = f"{what}: {found.get(key, 'not stated')} installed, {wanted[key]} configured"
            out.append(Finding(text, fatal=False))
    return out


def _other_free(found: Mapping[str, str], installed: str, settings: Settings) -> list[Finding]:
    """Return the partitions whose jobs carry watts in only one of script and configuration."""
    free = set(re.findall(r'\["([^"]+)"\]', found.get("FREE", "")))
    held = set(re.findall(r'\["([^"]+)"\] = \{ watts = [^{]*held = true', installed))
    bare = [
        Finding(f"partition {name}: its jobs carry no watts, and it has managed nodes", fatal=True)
        for name in settings.nodes
        if name in free
    ]
    stuck = "its jobs carry watts and wait for the controller, which does not schedule it"
    return bare + [Finding(f"partition {name}: {stuck}", fatal=False) for name in settings.free if name in held]


def _other_nodes(installed: str, settings: Settings) -> list[Finding]:
    """Return the partitions whose nodes had other resources at the installation: jobs may be refused for them."""
    text = "other resources of its nodes than at the installation: jobs may be counted or refused for those"
    there, wanted = _resources_of(installed), _resources_of(script(settings))
    changed = [name for name, shapes in wanted.items() if there.get(name, shapes) != shapes]
    return [Finding(f"partition {name}: {text}", fatal=False) for name in changed]


def _resources_of(text: str) -> dict[str, str]:
    """Sizes and shapes of the partitions of a script as text, by name."""
    return dict(_NODE_SHAPES.findall(text))


def _settings_of(text: str) -> dict[str, str]:
    """The one-line settings of a script by name."""
    block = SETTINGS.search(text)
    return dict(re.findall(r"^local (\w+) = (.*)$", block[0], re.MULTILINE)) if block else {}


def prolog(folder: Path) -> str:
    """Return the TaskProlog that reads per-job frequencies from ``folder``. Raises OutputError for an odd path."""
    if not re.fullmatch(r"[\w./\-]+", str(folder)):
        raise OutputError(f"{str(folder)!r} cannot stand in a script", hint="letters, digits, _ . / -")
    return shared("task_prolog.sh").replace("@FOLDER@", str(folder))


def shared(name: str) -> str:
    """Return a file that comes with the package."""
    return (files("wattqueue.live.slurm") / "share" / name).read_text()


def quoted(path: Path | None) -> str:
    """Return a path as a Lua string. Raises OutputError for one that would need escapes."""
    text = "" if path is None else str(path)
    if not re.fullmatch(r"[\w./\- ]*", text):
        raise OutputError(f"{text!r} cannot stand in a script", hint="letters, digits, blanks, _ . / -")
    return f'"{text}"'


def install(folder: Path, settings: Settings, frequencies: Path | None) -> list[str]:
    """Write both files into Slurm's configuration folder; returns what was done.

    A job_submit.lua of the site is moved to job_submit.site.lua (never over one that is there) and called before
    ours. slurmctld reads the script again when its modification time changes, so nothing has to be restarted.

    Raises: OutputError where the folder cannot be written.
    """
    done: list[str] = []
    ours, site = folder / LUA, folder / SITE_LUA
    try:
        if ours.exists() and MARK not in ours.read_text(errors="replace"):
            if site.exists():
                raise OutputError(f"{ours.name} and {site.name} are both a site's own", where=folder, hint="join them")
            ours.rename(site)
            done.append(f"kept the site's own script as {site}")
    except OSError as error:
        raise OutputError(f"cannot be written: {error.strerror}", where=folder, hint="run it as SlurmUser") from error
    # slurmctld may read the script at any moment, and half a script would end its plugin.
    atomic_text(ours, script(settings, site if site.exists() else None), mode=0o644)
    done.append(f"wrote {ours}")
    if frequencies is not None:
        atomic_text(folder / PROLOG, prolog(frequencies), mode=0o755)
        done.append(f"wrote {folder / PROLOG}")
    return done


def changes(folder: Path, settings: Settings, frequencies: Path | None) -> list[str]:
    """Return the difference that ``install`` would make to the files in a folder, as a unified diff.

    Empty where nothing would change. A script of the site is shown as renamed.
    """
    ours, site = folder / LUA, folder / SITE_LUA
    before = _text_of(ours)
    lines = []
    if before and MARK not in before:
        lines.append(f"rename {ours} to {site}")
        before, site_there = "", True
    else:
        site_there = site.exists()
    wanted = {ours: (before, script(settings, site if site_there else None))}
    if frequencies is not None:
        wanted[folder / PROLOG] = (_text_of(folder / PROLOG), prolog(frequencies))
    for path, (old, new) in wanted.items():
        source = str(path) if old else "/dev/null"
        lines += difflib.unified_diff(old.splitlines(), new.splitlines(), source, str(path), lineterm="")
    return lines


def uninstall(folder: Path) -> list[str]:
    """Remove our files from Slurm's configuration folder and put the site's own script back; return what was done.

    A job_submit.lua that is not ours stays. Raises: OutputError where the folder cannot be written.
    """
    done = []
    ours, site = folder / LUA, folder / SITE_LUA
    try:
        if ours.exists() and MARK in _text_of(ours):
            if site.exists():
                site.replace(ours)
                done.append(f"put the site's own script back as {ours}")
            else:
                ours.unlink()
                done.append(f"removed {ours}")
        if (folder / PROLOG).exists():
            (folder / PROLOG).unlink()
            done.append(f"removed {folder / PROLOG}")
    except OSError as error:
        raise OutputError(f"cannot be written: {error.strerror}", where=folder, hint="run it as SlurmUser") from error
    return done


def _text_of(path: Path) -> str:
    """Return the text of a file; empty where there is none."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def slurm_conf_lines(folder: Path, settings: Settings, frequencies: Path | None) -> list[str]:
    """Return the lines that slurm.conf needs for all this."""
    lines = ["JobSubmitPlugins=lua", f"Licenses=watts:{settings.whole_pool_w}"]
    lines.append("SchedulerParameters=bf_licenses   # added to what stands there")
    if frequencies is not None:
        lines.append(f"TaskProlog={folder / PROLOG}")
    return lines
