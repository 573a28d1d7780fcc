"""Replay a workload on a machine under a policy and a power cap.

The flow is that of every verb that runs something: options become a ``runs.task.Task`` of plain values, ``load`` reads
and checks all inputs, ``perform`` simulates and computes the metrics, then the run's directory is written (atomically,
with the recipe that ``rerun`` needs) and the table printed. Nothing is written if any step before fails.

Imports of the simulator are inside the function, so that the help does not wait for them. Errors of inputs are
InputError, MachineError and PolicyError with file and hint; OutputError where the directory cannot be written.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from wattqueue.runs.options import SimulateOptions
from wattqueue.verbs import Printed, out_field, report_field, verb_of


@dataclass(frozen=True)
class SimulateVerb(Printed, SimulateOptions):
    """Options of the verb."""

    _: KW_ONLY
    out: Path | None = out_field("Directory for jobs.csv, metrics.json and the rest.")
    report: bool = report_field()


@verb_of(SimulateVerb)
def run(options: SimulateVerb) -> None:
    """Replay a workload on a machine under a policy and a power cap."""
    from wattqueue.policy.oracles import marked, oracles_of
    from wattqueue.policy.rows import is_for_machine
    from wattqueue.runs.perform import load, perform, refuse_if_none_fits
    from wattqueue.runs.task import policy_row

    # All inputs are read before the progress bar begins, so that an error of a file is not drawn over.
    inputs = load(options.task())
    from wattqueue.cli._table import show
    from wattqueue.terminal import running

    folder = options.out
    with running("simulating", quiet=options.quiet) as progress:
        outcome = perform(inputs, progress)
    # A run in which every job was rejected has no waits to print: nearly always a wrong machine or cap.
    refuse_if_none_fits(outcome)
    if folder is not None:
        from wattqueue.cli._write import write

        # Looked at before writing, since the file exists afterwards in either case.
        done = "overwrote" if (folder / "run.toml").exists() else "wrote"
        write(folder, outcome, report=options.report)
    heading = f"{inputs.policy.name}, cap {options.cap}" if options.cap else inputs.policy.name
    heading = marked(heading, oracles_of(inputs.policy))
    title = f"{Path(str(options.jobs)).name} on {inputs.machine.name}"
    options.show(lambda: outcome.metrics, lambda: show(title, [(heading, outcome.metrics)]))
    made, named = list[str](), policy_row(inputs.task)
    if is_for_machine(named):
        from wattqueue.policy.for_machine import expansion

        made = expansion(inputs.policy.name, named, inputs.machine, inputs.policy.row)
    said = [f"{sentence}." for sentence in (*made, *(f"Note: {what}" for what in outcome.run.without_effect))]
    options.say([*said, *remarks(outcome.run.notes, inputs.jobs.origin, len(inputs.unusable))])
    if not outcome.run.schedule.ran.all():
        from wattqueue.model.comparability import WorkDone
        from wattqueue.terminal import say_never_ran

        say_never_ran([("", WorkDone.of(outcome.run.jobs, outcome.run.schedule))])
    if folder is not None:
        names = ", ".join(
            ("jobs.csv", "metrics.json", "power.parquet", "run.toml", *(("report.html",) if options.report else ()))
        )
        options.say([f"{done} {folder}: {names}"])


def remarks(notes: dict[str, int], origin: str, unusable: int) -> list[str]:
    """Return what a reader of the table should know: generated jobs, unusable rows, counts of the run's notes.

    ``notes`` maps a remark of the run to the number of jobs or events that it concerns; ``origin`` is that of the job
    table (``measured`` or ``generated``); ``unusable`` is the number of rows of the trace that were left out.
    """
    found = ["The workload is generated, not measured."] if origin == "generated" else []
    found += [f"{unusable:,} rows of the trace are unusable (unusable.csv lists them)."] if unusable else []
    return found + [f"Note: {what}: {count:,}." for what, count in notes.items()]
