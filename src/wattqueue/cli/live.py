"""Control a real Slurm under a power cap, or only observe it.

``wattqueue live --config FILE`` runs the controller; the subcommands install it, show its status and its audit log,
release jobs while it is away, and repeat recorded decisions. Functions import what they call: the command line must
start fast, and ``release`` must work when half of the package does not.

The commands in the order in which a site meets them:

- ``install``: show or write job_submit.lua and the TaskProlog, list what slurm.conf needs, and what does not fit;
- ``live --config FILE``: the controller, in the mode of the file (observe, advise or control);
- ``uninstall``: take all of that out again;
- ``why``: why a job waits, for its user;
- ``status``: what the last round saw and did, from the file that each round writes;
- ``serve``: the operator page, from the same files; ``export-hres``: power domains as a file for Slurm;
- ``audit``: the writes to Slurm, and whether the log was changed afterwards;
- ``release``: release held jobs while the controller is away, with as little of the package as possible;
- ``replay``: decide recorded views again, to test a new version against an old recording.

Exit status beside the usual ones (``cli/__init__``): ``install --write`` ends with 1 where something installed makes
the cap ineffective; ``release`` has the statuses of its help.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from wattqueue.cli._live_hres import export_hres
from wattqueue.cli._live_page import serve
from wattqueue.cli._live_status import status_rows
from wattqueue.errors import InputError
from wattqueue.terminal import say
from wattqueue.verbs import Printed, verb_of

if TYPE_CHECKING:
    from wattqueue.live.cluster import Node
    from wattqueue.live.config import LiveConfig
    from wattqueue.live.restore import Restorer
    from wattqueue.live.slurm.cluster import SlurmCluster
    from wattqueue.live.slurm.guard import Guard

app = typer.Typer(rich_markup_mode=None)
app.command()(serve)
app.command()(export_hres)
Mode = Literal["observe", "advise", "control"]
"""Modes of the controller: write nothing; write comments on jobs; steer Slurm."""
ConfigOption = Annotated[Path, typer.Option("--config", "-c", help="The controller's TOML file.", show_default=False)]
"""The option of every command that needs the configuration; ``live`` itself has it as optional."""


@app.callback(invoke_without_command=True)
def run(
    context: typer.Context,
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="The controller's TOML file.", show_default=False)
    ] = None,
    mode: Annotated[Mode | None, typer.Option(help="observe, advise or control, in place of the file's.")] = None,
    rounds: Annotated[
        int, typer.Option(min=0, max=2**31 - 1, help="Stop after so many rounds; 0: run until stopped.")
    ] = 0,
    standby: Annotated[
        bool, typer.Option("--standby", help="Wait while another controller on the same database is at work.")
    ] = False,
) -> None:
    """Run the controller: it observes, and in control mode writes to Slurm. The default writes nothing."""
    # Typer calls this for every subcommand, too: without --config it is only an error where no subcommand follows.
    # typer calls this function before every subcommand as well.
    if context.invoked_subcommand is not None:
        return
    # --config is optional for typer only, because the subcommands have an option of their own.
    if config is None:
        raise typer.BadParameter(
            "live needs --config FILE, or a command: install, status, serve, why, audit, release, replay"
        )
    from wattqueue.live.assemble import assemble, refuse_second, run_until_stopped, stand_by
    from wattqueue.live.config import load_config
    from wattqueue.terminal import warn_of_cache

    settings = load_config(config)
    warn_of_cache()
    if mode is not None:
        # The option wins over the file, so that an installed controller can be watched in observe mode first.
        settings = settings.model_copy(update={"mode": mode})
    waiting = partial(stand_by, say=say) if standby else refuse_second
    if not run_until_stopped(assemble(settings, waiting=waiting), settings, say, rounds):
        # A thread still compiles. Leaving through the interpreter's own end would wait for it, or crash in it.
        sys.stdout.flush()
        os._exit(0)


@app.command()
def install(
    config: ConfigOption,
    into: Annotated[Path, typer.Option(help="Slurm's configuration folder.")] = Path("/etc/slurm"),
    write: Annotated[bool, typer.Option("--write", help="Write the files; without it they are only shown.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the difference to what is installed.")] = False,
    units: Annotated[
        Path | None, typer.Option(help="Write the systemd units into this folder (/etc/systemd/system).")
    ] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Give watts to jobs that were submitted before the installation.")
    ] = False,
) -> None:
    """Install job_submit.lua and the TaskProlog; print what slurm.conf needs and what does not fit.

    Exit status 1: something that is installed makes the cap or the control ineffective.
    """
    from wattqueue.live.config import load_config
    from wattqueue.live.partitions import inspect_partitions
    from wattqueue.live.slurm import install as files
    from wattqueue.live.slurm.connect import connect
    from wattqueue.live.slurm.examine_guard import guard_warnings
    from wattqueue.live.slurm.guard import Guard, guard_lines
    from wattqueue.live.slurm.limits_file import limits_lines
    from wattqueue.live.units import require_usable, write_units
    from wattqueue.live.warm_up import prepared_for

    settings = load_config(config)
    # Showing the script needs no account; anything that writes does: installed for the wrong account, the script would
    # refuse the controller's own updates.
    # Without any of the three nothing is changed, so a configuration that is not finished can be inspected.
    changes = (write or apply or units is not None) and not dry_run
    if changes and not settings.user:
        hint = 'create it (useradd --system wattqueue), and set user = "wattqueue"'
        raise InputError("the account of the controller is not stated", where=config, hint=hint)
    if units is not None and not dry_run:  # before anything is written
        require_usable(settings, config)
    cluster = connect(settings)
    guard = Guard.of(settings, cluster.slurm)
    scripts = settings.frequency_dir, None if settings.energy is None else settings.energy.place(settings.run_dir)
    if dry_run:
        write = apply = False
        units = None
        difference = files.changes(into, guard.settings, *scripts)
        for line in difference or ["nothing would change"]:
            print(line)
    elif write:
        for line in files.install(into, guard.settings, *scripts):
            print(line)
    elif not changes:
        print(files.script(guard.settings), end="")
        print(f"-- not written; with --write it goes to {into / files.LUA}, its data to {guard.settings.data_file}")
    if units is not None:
        for line in (*write_units(units, settings, config), *prepared_for(units, settings)):
            print(line)
    of_guard = guard_lines(guard, settings, config, write=write)
    of_guard += limits_lines(guard, settings, config, write=write)
    lacks = guard_warnings(guard, settings, config)
    for text in (*of_guard, *guard.shared_lines(), *_licence_lines(settings), *lacks):
        print(text)
    print("slurm.conf needs these lines:")
    for line in files.slurm_conf_lines(into, guard.settings, *scripts):
        print(f"  {line}")
    nodes = _jobs_without_watts(guard, cluster, apply=apply)
    # after the files were written, so that what is checked is what slurmctld will read
    findings = [*guard.check(cluster.slurm, into), *guard.check_data(cluster.slurm, time.time())]
    for one in findings:
        print(f"{'error' if one.fatal else 'warning'}: {one.what}")
    for text in inspect_partitions(guard.layout, nodes, guard.shared):
        print(f"note: {text}")
    # Without --write nothing was installed, so findings are information and no failure.
    if write and any(one.fatal for one in findings):
        raise typer.Exit(1)


@app.command()
def uninstall(
    config: ConfigOption,
    into: Annotated[Path, typer.Option(help="Slurm's configuration folder.")] = Path("/etc/slurm"),
    units: Annotated[Path | None, typer.Option(help="Folder of the systemd units.")] = None,
    write: Annotated[bool, typer.Option("--write", help="Do it; without it only shown.")] = False,
) -> None:
    """Remove the power budget from Slurm: open the pool, take watts off jobs, remove the files.

    Parked jobs continue, and drained nodes take jobs again. Limits of nodes end when the controller's word expires.

    Exit status 3: a controller is at work, or jobs are held for one, so nothing was done.
    """
    from wattqueue.live.cluster import SetPool
    from wattqueue.live.config import load_config
    from wattqueue.live.release import AT_WORK, at_work, held_for_controller, read_settings
    from wattqueue.live.slurm import install as files
    from wattqueue.live.slurm.connect import connect
    from wattqueue.live.slurm.guard import without_watts
    from wattqueue.live.slurm.submit_text import SUBMIT_DATA
    from wattqueue.live.units import units_in

    settings = load_config(config)
    cluster = connect(settings)
    snapshot = cluster.observe()
    who, held = at_work(read_settings(config), time.time()), held_for_controller(snapshot)
    if who or held:
        step = f"stop {who}" if who else f"release {len(held)} held jobs (wattqueue live release --force)"
        print(f"nothing is done before this: {step}")
        raise typer.Exit(AT_WORK)
    restorer = _restorer(settings.state)
    writes = without_watts(snapshot)
    if restorer is not None:  # into the open pool, and before jobs lose their watts
        opened = sum(isinstance(one, SetPool) for one in writes)
        writes[opened:opened] = restorer.writes(snapshot, time.time(), now=True)
    for one in writes:
        if write:
            cluster.apply(one)
            if restorer is not None:
                restorer.note(one)
        print(f"{'done: ' if write else ''}{one.kind} {one.target}: {one.after}")
    for path in units_in(units) if units is not None else ():
        if write:
            path.unlink()
        print(f"{'removed' if write else 'would remove'} {path}")
    data_file = settings.beat_dir.resolve() / SUBMIT_DATA
    would = [f"would remove {path}" for path in (into / files.LUA, data_file)]
    for line in files.uninstall(into, data_file) if write else would:
        print(line)
    print("take these lines out of slurm.conf, and restart slurmctld:")
    print("  JobSubmitPlugins=lua  # unless the site has a script of its own\n  Licenses=watts:...")


def _licence_lines(settings: LiveConfig) -> list[str]:
    """Return what the configuration decides about licences: their watts at the start, and whether they are lowered.

    Raises: InputError where they are to be lowered and nothing bounds what jobs draw later.
    """
    from wattqueue.live.features.agent_controls import load_live_policy
    from wattqueue.live.features.configured import rules_of
    from wattqueue.live.managed import managed_machine, site_of
    from wattqueue.live.watts.lowering import conditions_of, licence_rules, require_condition

    policy, _ = load_live_policy(settings.policy, site=site_of(settings, managed_machine(settings)))
    rules, agents = rules_of(settings), settings.telemetry.broker is not None
    require_condition(policy, conditions_of(policy, rules.overshoot, agents=agents), follows=rules.track_running)
    found = licence_rules(policy, rules.overshoot, follows=rules.track_running, agents=agents)
    return [f"{name}: {text}" for name, text in found.rows()]


def _jobs_without_watts(guard: Guard, cluster: SlurmCluster, *, apply: bool) -> Sequence[Node]:
    """Print the updates that give watts to jobs without any; run them with ``--apply``. Return the nodes.

    One that fails is printed and does not end the others: a job may end at any moment.

    These jobs were submitted before job_submit.lua was installed, so the licence pool does not count them.
    """
    from wattqueue.live.cluster import ClusterError
    from wattqueue.live.slurm.guard import missing_watts

    snapshot = cluster.observe()
    writes = missing_watts(snapshot, guard.layout, guard.settings)
    if writes:
        print(f"{len(writes)} jobs carry no watts{'' if apply else '; --apply runs these updates'}:")
    for write in writes:
        outcome = ""
        if apply:
            try:
                cluster.apply(write)
                outcome = "done: "
            except ClusterError as error:
                outcome = f"failed ({error}): "
        print(f"  {outcome}job {write.target}: {write.after} ({write.why})")
    return snapshot.nodes


@app.command()
@verb_of(Printed)
def status(printed: Printed, config: ConfigOption) -> None:
    """What the controller saw and did last; as JSON with the age of the heartbeat."""
    from rich.console import Console
    from rich.table import Table

    from wattqueue.live.config import load_config
    from wattqueue.live.files.reading import as_written
    from wattqueue.live.files.status import STATUS, compiling_since, heartbeat_of, read_status

    settings = load_config(config)
    since_s = compiling_since(settings.run_dir, time.time())
    if since_s is not None:  # what an earlier controller saw and did says nothing about this one
        _show_compiling(since_s, printed)
        return
    values = read_status(settings.run_dir)
    # The age shows whether the controller still runs: the file stays when it has ended.
    with as_written(settings.run_dir / STATUS, "status of this version of the controller"):
        age_s = time.time() - float(values["time_s"])
        beat = heartbeat_of(settings.run_dir, values["mode"], time.time(), settings.away_s)
        values |= {"age_s": age_s, "heartbeat_age_s": beat.age_s, "problems": [*beat.problems, *values["problems"]]}
        text = json.dumps(values, sort_keys=True, indent=1)
        table = Table(title=f"wattqueue live, {values['mode']}, {age_s:.0f} s ago", show_header=False)
        for name, value in status_rows(values):
            table.add_row(name, value)
    printed.show(lambda: text, lambda: Console().print(table))


def _show_compiling(since_s: float, printed: Printed) -> None:
    """Print that a controller compiles before its first round, and since when (seconds since the epoch)."""
    for_s = time.time() - since_s
    at = time.strftime("%H:%M:%S", time.localtime(since_s))
    printed.show(
        lambda: {"compiling_for_s": for_s, "compiling_since_s": since_s},
        lambda: [
            f"the controller is starting: compiling since {at} ({for_s:.0f} s), once for this version",
            "until its first round Slurm schedules alone, under the pool as it was left",
        ],
    )


@app.command()
@verb_of(Printed)
def why(
    printed: Printed,
    job: Annotated[str, typer.Argument(help="A job, a task (12_3), or an array.", show_default=False)],
    config: Annotated[Path, typer.Option("--config", "-c", help="The controller's TOML file.")] = Path(
        "/etc/wattqueue/live.toml"
    ),
) -> None:
    """Why a job waits, and when it may start at the earliest; for every user.

    Exit status 1: the controller has no waiting job of this name.
    """
    from wattqueue.live.config import load_config
    from wattqueue.live.reports import why as reasons

    folder = load_config(config).run_dir
    found, mode = reasons.read_why(folder, job), reasons.read_mode(folder)
    with reasons.written(folder):
        consent = reasons.read_consent(folder, job)
        lines = [] if mode == "control" or not found else [reasons.NO_CONTROL.format(mode=mode)]
        lines += [reasons.consent_sentence(name, record) for name, record in consent]
        lines += [reasons.sentence(name, record) for name, record in found]
    if not found:
        lines.append(f"job {job} does not wait (it runs, has ended, or was submitted in the last seconds)")
    printed.show(lambda: {"jobs": dict(found), "consent": dict(consent), "mode": mode}, lambda: lines)
    if not found:
        raise typer.Exit(1)


@app.command()
@verb_of(Printed)
def audit(
    printed: Printed,
    config: ConfigOption,
    verify: Annotated[bool, typer.Option("--verify", help="Check every row against the chain.")] = False,
    job: Annotated[str | None, typer.Option(help="Rows about one job or node.")] = None,
    last: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="The last so many rows.")] = 20,
) -> None:
    """Every write to Slurm with who, why, before and after."""
    from wattqueue.errors import OutputError
    from wattqueue.live.config import load_config
    from wattqueue.live.files.reading import read_secret
    from wattqueue.live.files.status import HEAD
    from wattqueue.live.state.audit import open_log, rows_of
    from wattqueue.live.state.audit import verify as check

    settings = load_config(config)
    engine = open_log(settings.state)
    if verify:
        # Without a key the chain still detects changed and missing rows, but whoever can write the log can compute it
        # again.
        key = read_secret(settings.audit_key_file).encode() if settings.audit_key_file is not None else b""
        verdict = check(engine, key, settings.run_dir / HEAD)
        if verdict.broken:
            text = f"row {verdict.broken} of {verdict.rows}: {verdict.reason}"
            raise OutputError(text, where="audit", hint="the log was changed: compare with a backup")
        printed.show(lambda: {"rows": verdict.rows, "changed": 0}, lambda: [f"{verdict.rows} rows, none changed"])
        return
    # Asked for one job, all of its rows are printed: its history is short, and the first row matters most.
    rows = rows_of(engine, target=job, last=0 if job else last)
    printed.show(lambda: {"rows": list(rows)}, lambda: map(_audit_line, rows))


def _audit_line(row: Mapping[str, Any]) -> str:
    """Return a row of the audit log as a line."""
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(row["time_us"] / 1e6))
    what = f"{row['kind']} {row['target']}: {row['before']} -> {row['after']}" if row["kind"] else row["after"]
    return f"{row['number']:>7} {at} {row['who']} {row['event']} {what} {row['why']}".rstrip()


@app.command()
def release(
    config: ConfigOption,
    force: Annotated[bool, typer.Option("--force", help="Even while the controller was seen lately.")] = False,
) -> None:
    """While the controller is away: release the jobs it holds; Slurm schedules alone, under the pool.

    Jobs that were parked for a load target continue, and drained nodes come back, when it is over; with --force now.

    Exit status: 0 if every release succeeded, 1 if some failed, 2 if Slurm cannot be read, 3 while a controller runs.
    """
    from wattqueue.live.release import TIMEOUT_S, BestEffortLog, at_work, licences_of, read_settings, release_all
    from wattqueue.live.slurm.cluster import SlurmCluster
    from wattqueue.live.slurm.commands import Commands

    # Not load_config: a release must work with a configuration that the controller would refuse.
    settings = read_settings(config)
    environment = {"SLURM_CONF": settings.conf} if settings.conf else {}
    cluster = SlurmCluster(Commands(TIMEOUT_S, environment, settings.bin_dir), domains=licences_of(settings))

    def audit() -> Any:
        """Open the audit log; called by BestEffortLog, which catches whatever fails here."""
        from wattqueue.live.config import load_config
        from wattqueue.live.features.configured import audit_of
        from wattqueue.live.state.database import open_state

        return audit_of(load_config(config), open_state(settings.state), "release")

    # opening the state upgrades its tables, which must not happen beside a controller of an earlier version
    alone = force or not at_work(settings, time.time())
    journal, restorer = (BestEffortLog(audit), _restorer(settings.state)) if alone else (None, None)
    done = release_all(settings, cluster, force=force, say=say, journal=journal, restorer=restorer)
    for text in done.failed:
        say(text)
    taken_back = f", took {done.restored} parked jobs and drained nodes back" if done.restored else ""
    print(f"released {done.released} jobs{taken_back}" + (f": {done.at_work} is at work" if done.at_work else ""))
    raise typer.Exit(done.exit_status)


def _restorer(state: str) -> Restorer | None:
    """Return what takes back what a controller did for a load target; None where its state cannot be read."""
    try:
        from wattqueue.live.restore import restorer_of

        return restorer_of(state)
    except Exception as error:  # noqa: BLE001 - a release must work whatever has ended the controller
        say(f"what the controller parked and drained is not known: {error}")
        return None


@app.command()
@verb_of(Printed)
def replay(
    printed: Printed,
    views: Annotated[Path, typer.Argument(help="A recording of a controller (record = FILE).", show_default=False)],
    policy: Annotated[
        str | None, typer.Option(help="In place of the recorded policy: a row, or FILE.py:PART.", show_default=False)
    ] = None,
) -> None:
    """Decide recorded rounds again and compare with what was decided then, byte for byte."""
    from wattqueue.errors import OutputError
    from wattqueue.live.recordings.replay import replay as again
    from wattqueue.policy.policy import load_policy

    # All views are compared even after a difference: the count shows whether a change concerns one case or all.
    count = different = first = 0
    for number, recorded, decided in again(views, None if policy is None else load_policy(policy)):
        count += 1
        if recorded != decided:
            different, first = different + 1, first or number
    if different:
        raise OutputError(
            f"{different} of {count} rounds are decided otherwise, the first in line {first}", where=views
        )
    printed.show(lambda: {"rounds": count}, lambda: [f"{count} rounds, each decided as it was then"])
