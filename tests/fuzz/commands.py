"""Command lines to fuzz: a valid one of every verb, the files that it reads, and mutations of both.

A line is made from a template (``TEMPLATES``) by leaving out, repeating and replacing words, and by adding any option
that the verb has; values come from a pool of good files, mutated files, folders in place of files, names that do not
exist, and words that look like numbers, times or syntax.

Left out: ``study`` (runs for minutes, takes no files) and ``live``'s commands that would reach a real Slurm.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import typer.main

from tests.fuzz.mutate import WORDS, mutated
from tests.fuzz.readers import COEFFICIENTS, EACCT, SACCT, SWF
from wattqueue.cli import _app

JOBS = "job_id,submit_s,nodes,walltime_s,runtime_s,user,app,mean_power_w,max_power_w\n" + "".join(
    f"{i},{i * 7 % 50},{1 + i % 4},{100 + i},{20 + i * 3 % 60},u{i % 3},a{i % 2},{150 + i},{200 + i}\n"
    for i in range(12)
)
MACHINE = (
    'name = "m"\ncap_scope = "machine"\n[[partitions]]\nname = "a"\nnodes = 8\nidle_w = 90.0\nmax_w = 300.0\n'
    "frequencies_hz = [2e9, 1e9]\ndvfs_alpha = 2.0\nboot_s = 10.0\n"
    '[[partitions]]\nname = "b"\nnodes = 4\nmax_w = 200.0\n'
)
POLICY = (
    '[one]\norder = "fcfs"\nbackfill = { part = "easy", queue_depth = 5 }\n'
    'estimator = { part = "history-mean", alpha = 1.0 }\n[two]\nledger = { part = "chance", epsilon = 0.1 }\n'
)
CAMPAIGN = (
    'machines = ["machine.toml"]\npolicies = ["easy", "policy.toml:one"]\ncaps = ["none", "80%"]\n'
    'estimators = ["oracle-max"]\n[[workloads]]\ntrace = "jobs.csv"\n'
)
LIVE = 'mode = "observe"\nmachine = "machine.toml"\nstate = "state"\npolicy = "easy"\ncap = "cap.csv"\n'
PART = (
    "from wattqueue.parts.order.fcfs import Fcfs\n"
    "class Mine:\n    def entries(self, jobs, prediction, machine):\n"
    "        return Fcfs().entries(jobs, prediction, machine)\n"
    "class Other:\n    period_s, events = 10.0, frozenset()\n    def act(self, view):\n        return []\n"
)
FILES = {
    "jobs.csv": JOBS,
    "trace.swf": SWF,
    "sacct.psv": SACCT,
    "machine.toml": MACHINE,
    "policy.toml": POLICY,
    "grid.toml": CAMPAIGN,
    "live.toml": LIVE,
    "part.py": PART,
    "cap.csv": "time_s,cap_w\n0,2000\n30,1500\n",
    "prices.csv": "time,price\n2024-01-01T00:00:00Z,50\n2024-01-01T01:00:00Z,-20\n",
    "eacct.csv": EACCT,
    "coefficients.csv": COEFFICIENTS,
    "empty": "",
}
PLAIN = ("--nodes", "8", "--node-watts", "90:300")
TEMPLATES: dict[str, tuple[tuple[str, ...], ...]] = {
    "simulate": (
        ("simulate", "jobs.csv", *PLAIN, "--cap", "2kW", "--out", "out", "--no-report"),
        ("simulate", "jobs.csv", "--machine", "machine.toml", "--policy", "policy.toml:one", "--cap", "cap.csv"),
        ("simulate", "trace.swf", "--nodes", "8", "--policy", "part.py:Mine", "--default-walltime", "2h"),
        ("simulate", "sacct.psv", *PLAIN, "--estimator", "history-mean", "--out", "out"),
        ("simulate", "fugaku:jobs=20", *PLAIN, "--seed", "3", "--cap", "90%"),
    ),
    "profiles": (("simulate", "marconi:days=0.01", "--machine", "marconi100", "--seed", "3", "--cap", "40%"),),
    "whatif": (
        ("whatif", "jobs.csv", *PLAIN, "--cap", "70%..100%:15%", "--workers", "1", "--estimator", "oracle-max"),
        (
            "whatif",
            "jobs.csv",
            *PLAIN,
            "--cap",
            "80%",
            "--workers",
            "1",
            "--prices",
            "prices.csv",
            "--start",
            "2024-01-01",
        ),
    ),
    "campaign": (("campaign", "grid.toml", "--jobs", "1", "--out", "grid"),),
    "import": (
        ("import", "sacct.psv", "-o", "new.csv", "--time-zone", "Europe/Berlin"),
        ("import", "trace.swf", "-o", "new.parquet", "--procs-per-node", "2", "--json"),
    ),
    "machine": (
        ("machine", "show", "machine.toml"),
        ("machine", "guess", "jobs.csv", "-o", "guess.toml"),
        ("machine", "list"),
    ),
    "policies": (("policies", "show", "policy.toml:one"), ("policies", "show", "easy"), ("policies",)),
    "check": (("check", "part.py:Mine"),),
    "report": (("report", "run"),),
    "compare": (("compare", "run", "run2", "-o", "compared"),),
    "rerun": (("rerun", "run", "--out", "again"),),
    "replay": (("replay", "run", "--out", "again"), ("replay", "run", "--jobs", "jobs.csv", "--cap", "70%")),
    "predict": (("predict", "eval", "jobs.csv", "--estimator", "last-job,history-mean", "-o", "scores", *PLAIN[2:]),),
    "apps": (
        ("apps", "import", "eacct.csv", "--hardware", "p1", "--database", "apps.db"),
        ("apps", "convert", "coefficients.csv", "c.bin", "--module", "p1"),
    ),
    "live": (("live", "status", "--config", "live.toml"), ("live", "audit", "--config", "live.toml")),
    "plot": (("plot", "run", "--only", "power", "--format", "svg", "-o", "figures"),),
}
WEIGHT = {"simulate": 12, "policies": 6, "machine": 6, "import": 8, "whatif": 3, "apps": 4, "live": 4, "campaign": 2}
"""How often a verb is drawn; 1 where it is not named: their runs take long, or they read little."""
NUMBERS = ("0", "-1", "1", "3", "2.5", "nan", "inf", "1e300", "9" * 30, "2147483648", "1e-9", "²", "0x10", "١")
TEXTS = (
    *(
        "none",
        "70%",
        "150%",
        "400kW",
        "1e400kW",
        "-5kW",
        "5",
        "90:300",
        "0:1e12",
        "nan:1",
        "24h",
        "2d",
        "1e300h",
        "easy",
    ),
    *("fcfs", "conservative", "naive", "oracle-mean", "linear", "history-mean:alpha=nan", "easy,fcfs", "marconi100"),
    *(
        "marconi:days=0.01",
        "marconi:days=nan",
        "fugaku:jobs=1e6",
        "cirne:jobs=-5",
        "cirne:jobs=20,load=",
        "nonesuch:x=1",
    ),
    *("60%..100%", "100%..60%", "1kW..2kW:1W", "0%..100%:0.0001%", "2024-01-01", "2024-13-01", "UTC", "Nowhere/X"),
    *("EUR/MWh", "x/y", "sacct", "swf", "csv", "power", "svg,,pdf", "dask://nowhere:1", "sqlite:///x.db", "a://b"),
)
PATHS: tuple[str, ...] = (
    *(
        "folder",
        "missing",
        "missing/deeper",
        "jobs.csv/below",
        "/dev/null",
        "/proc/self/none",
        "link",
        "out",
        "new.csv",
    ),
    *(*FILES, "policy.toml:one", "policy.toml:none", "policy.toml:", "part.py", "part.py:None", "run", "run2", "."),
)


def options_of(words: list[str]) -> list[str]:
    """Every option of the command that some words name."""
    with_help = typer.main.get_command(_app.build(words))
    command: Any = with_help
    for word in words:
        command = getattr(command, "commands", {}).get(word, command)
    return [name for parameter in command.params for name in parameter.opts if name.startswith("-")]


def command_line(verb: str, rng: random.Random, known: dict[tuple[str, ...], list[str]]) -> list[str]:
    """A mutation of one of the verb's templates."""
    words = list(rng.choice(TEMPLATES[verb]))
    head = tuple(word for word in words[:2] if word.isalpha())
    options = known.setdefault(head, options_of(list(head)))
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        value = rng.choice(rng.choice((NUMBERS, TEXTS, PATHS, PATHS, WORDS)))
        value = value.replace("\x00", "").encode("utf-8", "replace").decode()  # no process can be given those
        at = rng.randrange(len(head), len(words) + 1)
        step = rng.randrange(4)
        if step == 0 and at < len(words):
            words[at] = value
        elif step == 1 and at < len(words):
            del words[at]
        elif step == 2 and options:
            words += [rng.choice(options), value]
        else:
            words.insert(at, value)
    for forbidden in ("--jobs", "--workers"):  # processes of their own cannot be stopped by an alarm here
        while forbidden in words:
            at = words.index(forbidden)
            del words[at : at + 2]
    if verb in ("campaign", "whatif"):
        words += ["--jobs" if verb == "campaign" else "--workers", "1"]
    return words


def prepare(folder: Path, rng: random.Random | None, words: list[str], runs: Path | None) -> None:
    """Files for one command line, one of them mutated, mostly one that it reads; runs, a folder, a dangling link.

    Without ``rng`` nothing is mutated.
    """
    folder.mkdir()
    named = [name for name in FILES for word in words if name in word]
    chosen = rng.choice(named or [*FILES]) if rng is not None and rng.random() < 0.7 else ""
    for name, text in FILES.items():
        data = text.encode()
        (folder / name).write_bytes(mutated(data, rng) if rng is not None and name == chosen and data else data)
    (folder / "folder").mkdir()
    (folder / "link").symlink_to("nowhere")
    if runs is not None:
        for name in ("run", "run2"):
            shutil.copytree(runs, folder / name)
        if rng is not None and rng.random() < 0.5:
            file = rng.choice(sorted((folder / "run").iterdir()))
            file.write_bytes(mutated(file.read_bytes(), rng))
