"""Command lines to begin with: valid ones of every command, and one for each option that these leave out.

The second kind is made from the options that a command itself registered (``tests/fuzz/options.py``), with a value
of ``VALUES``: a new command or option without a line, or without a value, fails a test.
"""

from __future__ import annotations

from functools import cache

from tests.fuzz.options import Words, command_of, commands, names, options, value_of

PLAIN = ("--nodes", "8", "--node-watts", "90:300")
SITE = ("--targets", "called.csv", "--model", "model.toml")
LINES: tuple[Words, ...] = (
    ("simulate", "jobs.csv", *PLAIN, "--cap", "2kW", "--out", "out", "--no-report"),
    ("simulate", "jobs.csv", "--machine", "machine.toml", "--policy", "policy.toml:one", "--cap", "cap.csv"),
    ("simulate", "trace.swf", "--nodes", "8", "--policy", "part.py:Mine", "--default-walltime", "2h"),
    ("simulate", "sacct.psv", *PLAIN, "--estimator", "history-mean", "--out", "out"),
    ("simulate", "fugaku:jobs=20", *PLAIN, "--seed", "3", "--cap", "90%"),
    ("simulate", "jobs.csv", *PLAIN, "--targets", "called.csv", "--consent", "consent.toml", "--cap", "2kW"),
    ("simulate", "jobs.csv", *PLAIN, "--physics", "physics.toml", "--physics-error", "0.05", "--seed", "3"),
    ("simulate", "marconi:days=0.01", "--machine", "marconi100", "--seed", "3", "--cap", "40%"),
    ("whatif", "jobs.csv", *PLAIN, "--cap", "70%..100%:15%", "--workers", "1", "--estimator", "oracle-max"),
    ("whatif", "jobs.csv", *PLAIN, "--cap", "80%", "--workers", "1", "--prices", "prices.csv", "--start", "2024-01-01"),
    ("plan", "jobs.csv", *PLAIN, "--breaker", "2kW", "--load", "same", "--wait-rise", "50%"),
    ("plan", "jobs.csv", *PLAIN, "--breaker", "2kW", "--derate", "80%", "--derate-domain", "breaker"),
    ("plan", "jobs.csv", *PLAIN, "--breaker", "2kW", "--partition", "batch", "--estimator", "oracle-max"),
    ("plan", "trace.swf", *PLAIN, "--breaker", "2kW", "--power-quantiles", "quantiles.csv", "--column", "node_w"),
    ("campaign", "grid.toml", "--workers", "1", "--out", "grid"),
    ("import", "sacct.psv", "-o", "new.csv", "--time-zone", "Europe/Berlin"),
    ("import", "trace.swf", "-o", "new.parquet", "--procs-per-node", "2", "--json"),
    ("machine", "show", "machine.toml"),
    ("machine", "guess", "jobs.csv", "-o", "guess.toml"),
    ("machine", "list"),
    ("policies", "show", "policy.toml:one"),
    ("policies", "show", "easy"),
    ("policies",),
    ("check", "part.py:Mine"),
    ("flux", "module"),
    ("flux", "energy-line", "--config", "live.toml"),
    ("flux", "try", "-o", "trial", "--nodes", "10", "--jobs", "5", "--at-once", "2"),
    ("report", "run"),
    ("compare", "run", "run2", "-o", "compared"),
    ("rerun", "run", "--out", "again"),
    ("replay", "run", "--out", "again"),
    ("replay", "run", "--jobs", "jobs.csv", "--cap", "70%"),
    (
        *("predict", "eval", "jobs.csv", "--estimator", "last-job,history-mean+margin:factor=1.05"),
        *("-o", "scores", *PLAIN[2:]),
    ),
    ("apps", "import", "eacct.csv", "--hardware", "p1", "--database", "apps.db"),
    ("apps", "convert", "coefficients.csv", "-o", "c.bin", "--module", "p1"),
    ("apps", "learn", "bench.csv", "-o", "c.csv", "--module", "p1", "--worst-condition", "1e9"),
    ("apps", "list", "--database", "apps.db"),
    ("apps", "misfits", "ann", "--database", "apps.db"),
    ("plot", "run", "--only", "power", "--format", "svg", "-o", "figures"),
    ("pmc", "ratios", "perf.csv", "-o", "new.csv", "--name", "bt", "--mpstat", "mpstat.txt", "--cpus", "0-1"),
    ("pmc", "ratios", "readings.csv", "-o", "new.csv", "--name", "bt", "--bits", "32"),
    ("pmc", "predict", "kernels.csv", "apps.csv", "-o", "new.csv"),
    ("pmc", "learn", "energy.csv", "-o", "new.csv", "--days", "5"),
    ("pmc", "traffic", "traffic.csv", "-o", "new.parquet", "--sockets", "20"),
    ("settle", "targets.csv", "--contract", "contract.toml", "--meter", "meter.csv", "--start", "2024-01-01"),
    ("incentives", "settle", "run", *SITE, "--ledger", "ledger.db", "--consent", "consent.toml", "--cap", "2kW"),
    ("incentives", "statement", "u1", "--ledger", "ledger.db"),
    (
        *("incentives", "design", "jobs.csv", *SITE, *PLAIN, "--contract", "contract.toml", "--acceptance"),
        *("acceptance.toml", "--start", "2024-01-01", "--rates", "0,1", "--draws", "1", "--out", "out"),
    ),
    (
        *("incentives", "offer", "days.csv", *PLAIN, "--from", "08:00", "--for", "1h", "--limit", "80%"),
        *("--reliability", "0.5", "--confidence", "0.5", "--out", "offers.csv", "--model", "model.toml"),
    ),
    ("agent", "check", "--config", "agent.toml"),
    ("agent", "restore", "--state-dir", "agent"),
    ("agent", "run", "--config", "agent.toml", "--steps", "1"),
    ("openadr", "poll", "--config", "openadr.toml", "-o", "new.csv"),
    ("openadr", "follow", "--config", "openadr.toml"),
    ("openadr", "opt-out", "e1", "--config", "openadr.toml"),
    ("openadr", "opt-in", "e1", "--config", "openadr.toml"),
    ("bound", "fugaku:jobs=12", "--nodes", "800", *PLAIN[2:], "--tries", "20", "--steps", "5", "--out", "bound.json"),
    ("bound", "run", "--tries", "20", "--steps", "5"),
    ("nightly", "sacct.psv", "--machine", "machine.toml", "--cap", "2kW", "--day", "2026-10-25", "--bound", "0"),
    ("pick", "trace.swf", "--nodes", "8", "--row", "easy"),
    ("doctor",),
    ("doctor", "--json", "--live", "live.toml"),
    ("demo",),
    ("live", "--config", "live.toml", "--rounds", "1"),
    ("live", "install", "--config", "live.toml", "--into", "folder"),
    ("live", "uninstall", "--config", "live.toml", "--into", "folder"),
    ("live", "status", "--config", "live.toml"),
    ("live", "serve", "--config", "live.toml"),
    ("serve", "run", "--port", "0", "--names"),
    ("why", "run", "7"),
    ("why", "run", "7", "--json"),
    ("live", "export-hres", "fed.toml", "--nodes", "n[1-4]", "--out", "resources.yaml"),
    ("live", "export-hres", "fed.toml", "--nodes", "n[1-4]", "--check", "resources.yaml"),
    ("live", "why", "7", "--config", "live.toml"),
    ("live", "audit", "--config", "live.toml"),
    ("job", "7", "--config", "live.toml"),
    ("jobs", "--month", "2026-11", "--config", "live.toml"),
    ("budget", "--config", "live.toml"),
    ("budget", "set", "phys", "--amount", "10", "--config", "live.toml"),
    ("budget", "keep", "--once", "--config", "live.toml"),
    ("live", "release", "--config", "live.toml"),
    ("live", "replay", "views.jsonl"),
    *(words if words[1] not in ("chips", "replay", "variability") else (*words, "folder") for words in commands()
      if words[0] == "study"),
)  # fmt: skip
"""Lines that end with status 0, but those of ``REFUSED`` and ``PARSED``."""
REFUSED = {
    ("openadr", "poll"): "no VTN is there",
    ("live", "audit"): "no controller has run",
    ("budget",): "the site has no budgets",
    ("budget", "set"): "the site has no budgets",
    ("budget", "keep"): "the site has no budgets",
    ("live", "replay"): "a recording takes a controller",
    ("incentives", "statement"): "nothing is settled in an empty folder",
    ("apps", "list"): "the database is empty",
    ("apps", "misfits"): "the database is empty",
}
"""Commands that end with one line here, and why."""
PARSED = {
    **{words: "runs for minutes" for words in (*commands(), ("demo",)) if words[0] in ("study", "demo")},
    ("agent", "run"): "runs until stopped, beside a keeper; `agent check` reads the same file",
    ("openadr", "follow"): "runs until stopped; `openadr poll` reads the same files",
    ("live",): "runs until stopped, and asks a Slurm; `live status` reads the same file",
    ("serve",): "runs until stopped",
    ("live", "serve"): "runs until stopped; `live status` reads the same files",
    ("live", "install"): "writes into this machine's Slurm",
    ("live", "uninstall"): "writes into this machine's Slurm",
    ("live", "release"): "writes to a Slurm",
}
"""Commands whose lines are only parsed, and why."""
VALUES = {
    "--acceptance": "acceptance.toml", "--account": "phys", "--apps": "apps.csv", "--archer2": "empty",
    "--arch": "skylake",
    "--backfill": "easy", "--benchmark": "knn", "--breaker": "2kW",
    "--cap": "70%", "--carbon": "carbon.csv", "--cells": "empty",
    "--cluster": "dask://nowhere:1", "--coefficients": "coefficients.csv",
    "--column": "node_w", "--columns": "submit_s=submit",
    "--config": "live.toml", "--consent": "consent.toml", "--contract": "contract.toml", "--counterfactual": "run2",
    "--cpus": "0-1", "--detail-cap": "80%",
    "--at": "10", "--day": "2026-10-25",
    "--database": "apps.db", "--derate": "80%", "--derate-domain": "breaker",
    "--default-walltime": "2h", "--estimator": "history-mean",
    "--eurora": "empty", "--event": "event-1", "--factors": "factors.csv", "--folder": "folder", "--for": "1h,2h",
    "--format": "svg,pdf", "--from": "sacct", "--hardware": "p1", "--intensity": "prices.csv",
    "--intensity-unit": "gCO2/kWh", "--into": "folder", "--job": "7", "--jobs": "jobs.csv",
    "--lead": "30min", "--ledger": "ledger.db", "--load": "same", "--limit": "60%,2kW", "--live": "live.toml",
    "--machine": "machine.toml", "--measured": "empty", "--meter": "meter.csv", "--model": "model.toml",
    "--module": "p1", "--month": "2026-11",
    "--mpstat": "mpstat.txt", "--name": "bt", "--node-watts": "90:300", "--nodes": "empty", "--notice": "2h",
    "--only": "power", "--out": "out", "-o": "new.csv", "--partition": "batch", "--power-quantiles": "quantiles.csv",
    "--phases": "10",
    "--physics": "physics.toml", "--policy": "easy", "--port": "8436", "--price-unit": "EUR/MWh",
    "--prices": "prices.csv", "--profiles": "empty", "--ramps": "empty", "--rates": "0,2", "--risk": "5%",
    "--row": "fcfs", "--set": "backfill=easy",
    "--socket-name": "s1", "--start": "2024-01-01", "--starts": "recorded", "--state-dir": "agent",
    "--targets": "called.csv", "--time-zone": "Europe/Berlin", "--trace": "trace.swf", "--unit": "kWh",
    "--units": "folder",
    "--user": "0", "--project": "climate", "--qos": "phys-energy", "--journal": "journal.jsonl",
    "--verify": "missing.json", "--wait-rise": "50%", "--withdrawn": "withdrawn.csv",
}  # fmt: skip
"""A value of each option that takes a text or a path."""


@cache
def templates() -> dict[str, tuple[Words, ...]]:
    """Lines by verb: ``LINES``, and the first of a command with each option that none of its lines has."""
    found: dict[str, list[Words]] = {}
    for words in commands():
        lines = [line for line in LINES if command_of(line) == words]
        given = {word for line in lines for word in line}
        more = [
            (*lines[0], name, *(value_of(parameter, VALUES.get(name))))
            for name, parameter in options(words).items()
            if lines and not given & set(names(parameter))
        ]
        found.setdefault(words[0], []).extend((*lines, *more))
    return {verb: tuple(lines) for verb, lines in found.items()}
