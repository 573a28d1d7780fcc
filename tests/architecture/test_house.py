"""The rules of the house: who may import whom, compile, open files, read clocks; sizes."""

from __future__ import annotations

import ast
import subprocess
import sys

from tests.architecture.source import PACKAGE, Module, modules, of_every_module, run_time_imports
from tools.packages import CORE, packages
from wattqueue.policy.interfaces import AXES

FLOORS = [
    {"callable_package", "errors", "installed", "lazy", "options", "version"},
    {"model"},
    {"formats", "workload", "kernels", "parts"},
    {"store"},
    {"policy"},
    {"sim", "live"},
    {"runs"},
    {"campaign"},
    {"report", "checks"},
    {"evaluation", "page"},
    {"whatif", "terminal"},
    {"plan"},
    {"settlement"},
    {"incentives"},
    {"api", "verbs"},
    {"cli"},
    {"wattqueue_grid", "wattqueue_agent", "wattqueue_flux"},
    {"wattqueue_studies"},
]
"""Each floor may import the floors before it. On the last two stand the packages beside the core, each one area."""
SAME_FLOOR = {
    ("parts", "kernels"): "a part names its kernel by an integer of kernels/codes.py",
}
"""Who may import whom on one floor, and why. ``sim`` and ``live`` never import each other."""
NEVER = {
    ("sim", "formats"): "the simulator takes tables; runs reads them",
    ("sim", "workload"): "the simulator takes tables; runs generates them",
}
"""Who may not import a lower floor all the same, and why."""

MAY_OPEN = {
    *("formats", "store", "policy", "live", "page", "api", "cli"),
    *("wattqueue_grid.api", "wattqueue_grid.cli", "wattqueue_grid.openadr", "wattqueue_studies.cli"),
}
"""Areas and folders of packages beside the core."""
OPENS_TOO = {
    "kernels.cache": "the folder of compiled kernels",
    "kernels.library": "the compiled kernels of a wheel",
    "installed": "what other packages say of themselves",
    "model.quantities": "the table of quantities beside it, without readers of resources, which import archives",
    "campaign.campaign": "shared workloads are cleared away",
    "campaign.cell": "the sources that run",
    "campaign.result_store": "finished runs, kept while others go on",
    "campaign.work": "the lock under which one process compiles for all of its machine",
    "wattqueue_agent.limits_guard": "the connection to the broker",
    "wattqueue_agent.limits": "files of the kernel that hold limits and readings",
    "wattqueue_agent.originals": "what was found, kept until it is restored",
    "wattqueue_agent.run": "the lock of the node's only agent",
    "wattqueue_flux.emulated": "the files of a trial",
}
OPENING = {"open", "gzip.open", "io.open", "os.open", "os.replace", "os.remove", "os.makedirs", "os.mkdir"}
OPENING_METHODS = (
    ".open",
    ".read_text",
    ".write_text",
    ".read_bytes",
    ".write_bytes",
    ".mkdir",
    ".unlink",
    ".read_csv",
    ".write_csv",
    ".read_parquet",
    ".write_parquet",
    ".scan_parquet",
    ".scan_csv",
    ".savefig",
)
OPENING_ROOTS = ("tempfile.", "shutil.", "numpy.load", "numpy.save", "numpy.genfromtxt", "numpy.fromfile")

OWN_CLOCK = {"live", "page", "api", "cli", "wattqueue_grid.cli", "wattqueue_grid.openadr", "wattqueue_studies.cli"}
CLOCK_TOO = {
    "kernels.cache": "age of the folders of compiled kernels",
    "terminal": "the time left, and the time of a line of a log",
    "wattqueue_agent.keeper": "the end of a lease",
    "wattqueue_agent.run": "the clock of an agent",
    "wattqueue_flux.protocol": "the same failure is logged once a minute",
    "wattqueue_flux.scheduler": "the clock of a controller",
}
CLOCKS = {
    "time.time",
    "time.time_ns",
    "time.monotonic",
    "time.monotonic_ns",
    "time.perf_counter",
    "time.perf_counter_ns",
    "time.process_time",
    "time.localtime",
    "time.gmtime",
    "datetime.datetime.now",
    "datetime.datetime.utcnow",
    "datetime.datetime.today",
    "datetime.date.today",
    "uuid.uuid1",
    "uuid.uuid4",
    "os.urandom",
}
GIVEN_RANDOM = {"Generator", "BitGenerator", "SeedSequence", "PCG64", "Philox"}
"""What may be used of numpy.random; ``default_rng`` too, where it gets a seed."""


def floor_of(area: str) -> int:
    for i, areas in enumerate(FLOORS):
        if area in areas:
            return i
    raise AssertionError(f"{area} stands on no floor: enter it in FLOORS")


def may_import(importer: str, imported: str) -> bool:
    if imported in ("", importer) or imported.startswith("_"):
        return True
    pair = (importer, imported)
    return pair not in NEVER and (floor_of(imported) < floor_of(importer) or pair in SAME_FLOOR)


def target_area(name: str) -> str:
    """``kernels`` of ``wattqueue.kernels.tree``; a package beside the core; empty for the core itself (the version)."""
    first, _, rest = name.partition(".")
    if first != CORE:
        return first
    second = rest.partition(".")[0]
    return second if (PACKAGE / second).is_dir() or (PACKAGE / f"{second}.py").is_file() else ""


@of_every_module
def test_imports_follow_the_arrows(module: Module) -> None:
    if module.area.startswith("__") or not module.area:
        return
    wrong = [
        f"{module.at(node)} imports {name}"
        for node, name in run_time_imports(module)
        if name.partition(".")[0] in packages() and not may_import(module.area, target_area(name))
    ]
    assert not wrong


def test_the_arrows_are_those_of_the_design() -> None:
    assert may_import("sim", "policy")
    assert may_import("cli", "live")
    assert may_import("evaluation", "campaign")
    assert may_import("wattqueue_studies", "wattqueue_grid")
    assert not may_import("sim", "runs")
    assert not may_import("sim", "formats")
    assert not may_import("sim", "workload")
    assert not may_import("model", "formats")
    assert not may_import("policy", "sim")
    assert not may_import("sim", "live")
    assert not may_import("live", "sim")
    assert not may_import("formats", "parts")
    assert may_import("wattqueue_grid", "live")
    assert not may_import("cli", "wattqueue_grid")
    assert not may_import("wattqueue_grid", "wattqueue_studies")


MAY_KNOW_SLURM = {
    "live.assemble": "connects what a configuration names",
    "live.guard.__main__": "connects what the guard's settings name",
    "live.guard.accounting": "runs the commands of Slurm, those of the accounting for a short time",
    "live.guard.client": "stands for commands and writes of Slurm",
    "live.guard.serve": "runs the commands of Slurm",
    "wattqueue_studies.cli.nightly": "runs sacct",
    "live.limits_guard.client": "takes what gives no answer as an error of the cluster",
}
"""Modules outside the driver that may import it, besides the command line."""


@of_every_module
def test_the_driver_of_slurm_is_known_where_controllers_are_assembled(module: Module) -> None:
    """Everything else in ``live`` works on the neutral types of ``live.cluster``."""
    if module.name.startswith("live.slurm") or module.area == "cli" or module.name in MAY_KNOW_SLURM:
        return
    wrong = [
        f"{module.at(node)} imports {name}"
        for node, name in run_time_imports(module)
        if name.startswith("wattqueue.live.slurm")
    ]
    assert not wrong


MAY_WRITE_TO_A_CLUSTER = {
    "live.apply": "each write passes the bound (live.watts.bound)",
    "live.cluster": "one write after the other, for drivers",
    "live.guard.client": "hands over to the guard, which checks each write again",
    "live.release": "releases into the pool while the controller is away",
    "cli.live": "install gives watts, uninstall takes the budget out",
}
"""Modules that carry out writes of a cluster."""


@of_every_module
def test_every_write_of_a_controller_passes_the_bound(module: Module) -> None:
    """Only the Applier carries writes out; the others work where no controller does."""
    if module.area not in ("live", "cli") or module.name.startswith("live.slurm"):
        return
    if module.name in MAY_WRITE_TO_A_CLUSTER:
        return
    wrong = [
        module.at(node)
        for node, name in module.calls()
        if name.endswith(("cluster.apply", ".apply_batch")) or name.rpartition(".")[2] == "apply_each"
    ]
    assert not wrong


@of_every_module
def test_only_one_folder_imports_the_compiler(module: Module) -> None:
    wrong = [
        f"{module.at(node)} imports {name}"
        for node, name in run_time_imports(module)
        if name.partition(".")[0] in ("numba", "llvmlite") and not module.name.startswith("kernels._numba")
    ]
    assert not wrong, "what is taken from numba stands in kernels/_numba, where it can be switched"


PART_FOLDERS = tuple(f"wattqueue.parts.{axis}." for axis in AXES)


@of_every_module
def test_nothing_but_parts_and_studies_imports_a_part(module: Module) -> None:
    """A part states what it needs (``parts/contracts.py``); what reads that works for every part that states it."""
    if module.area in ("parts", "study") or module.name.startswith("wattqueue_studies"):
        return
    wrong = [
        f"{module.at(node)} imports {name}"
        for node, name in run_time_imports(module)
        if name.startswith(PART_FOLDERS) and not name.removeprefix("wattqueue.parts.").split(".")[1].startswith("_")
    ]
    assert not wrong


def test_plain_mode_uses_documented_numba_alone() -> None:
    """No private attribute, no keyword of a decorator beyond those that numba's reference manual lists."""
    tree = next(module.tree for module in modules() if module.name == "kernels._numba.plain")
    nodes = list(ast.walk(tree))
    imported = {(n.module, a.name) for n in nodes if isinstance(n, ast.ImportFrom) for a in n.names}
    assert {name for module, name in imported if (module or "").startswith("numba")} == {
        "njit",
        "from_dtype",
        "typeof_impl",
    }
    assert not [n.attr for n in nodes if isinstance(n, ast.Attribute) and n.attr.startswith("_")]
    marks = [n for n in nodes if isinstance(n, ast.Call) and ast.unparse(n.func) == "njit"]
    keywords = {k.arg for mark in marks for k in mark.keywords}
    assert keywords
    assert keywords <= {"nopython", "nogil", "cache", "error_model", "fastmath", "boundscheck"}


def stands_in(module: Module, places: set[str]) -> bool:
    """Whether a module is one of some folders or below one."""
    parts = module.name.split(".")
    return any(".".join(parts[:n]) in places for n in range(1, len(parts) + 1))


def opens(name: str) -> bool:
    if "importlib.resources." in name:  # data of the package itself is part of the program
        return False
    return name in OPENING or name.endswith(OPENING_METHODS) or name.startswith(OPENING_ROOTS)


@of_every_module
def test_only_some_open_files(module: Module) -> None:
    if stands_in(module, MAY_OPEN) or module.name in OPENS_TOO:
        return
    assert not [f"{module.at(node)} {name}" for node, name in module.calls() if opens(name)]


def reads_own_clock_or_chance(node: ast.Call, name: str) -> bool:
    if name in CLOCKS or name.startswith(("random.", "secrets.")):
        return True
    if not name.startswith("numpy.random."):
        return False
    what = name.split(".")[2]
    return not (what in GIVEN_RANDOM or (what == "default_rng" and (node.args or node.keywords)))


@of_every_module
def test_time_and_chance_are_handed_in(module: Module) -> None:
    if stands_in(module, OWN_CLOCK) or module.name in CLOCK_TOO:
        return
    assert not [f"{module.at(node)} {name}" for node, name in module.calls() if reads_own_clock_or_chance(node, name)]


DIGIT_TESTS = {"isdigit", "isdecimal", "isnumeric"}
"""Methods of str that hold for texts which ``int`` refuses, or reads in other scripts: ``is_whole`` does not."""


@of_every_module
def test_whole_numbers_are_recognised_in_one_place(module: Module) -> None:
    if module.name == "model.plain_numbers":
        return
    for node in module.nodes:
        assert not (isinstance(node, ast.Attribute) and node.attr in DIGIT_TESTS), module.at(node)


@of_every_module
def test_sizes(module: Module) -> None:
    assert module.lines <= 600, f"{module.path.relative_to(module.root)} has {module.lines} lines"
    long = [f"{module.at(f)} {f.name}" for f in module.functions() if (f.end_lineno or 0) - f.lineno + 1 > 80]
    assert not long, "functions of more than 80 lines"


@of_every_module
def test_every_module_says_what_it_is(module: Module) -> None:
    assert ast.get_docstring(module.tree)


def test_most_functions_are_short() -> None:
    lengths = sorted((f.end_lineno or 0) - f.lineno + 1 for m in modules() for f in m.functions())
    assert lengths[int(0.9 * len(lengths))] <= 30, "nine functions in ten have at most 30 lines"


def test_light_parts_load_nothing_heavy() -> None:
    look = (
        "import sys, wattqueue.model.jobs, wattqueue.model.machine, wattqueue.formats, wattqueue.parts.contracts\n"
        "print(sorted({'polars', 'numba', 'sklearn', 'matplotlib', 'scipy', 'sqlalchemy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
