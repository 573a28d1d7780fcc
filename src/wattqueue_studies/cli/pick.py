"""Forecast the next day of a queue under many rows, and say which would be best; nothing is switched.

What is done stands in ``wattqueue_studies.pick``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

from wattqueue.options import option
from wattqueue.runs.options import CAP, JobOptions
from wattqueue.verbs import Printed, verb_of

if TYPE_CHECKING:
    from wattqueue_studies.pick.advice import Advice, Regret
    from wattqueue_studies.pick.history import QueueHistory


@dataclass(frozen=True)
class PickVerb(Printed, JobOptions):
    """Options of the verb."""

    _: KW_ONLY
    cap: str | None = option(None, f"{CAP} [the machine's]")
    at: str | None = option(None, "Instant: a date, or seconds of the trace. [the last submission or start]")
    row: Sequence[str] = option((), "Another row to forecast, in place of 20 of compiled parts.", many=True)
    regret: int | None = option(
        None, "Instead: follow the advice over these last days.", kind=int, least=14, most=3_650
    )
    gain: float = option(
        0.1, "With --regret: switch where the forecast is shorter by this share.", kind=float, least=0, most=1
    )

    def history(self, *, recorded: bool) -> QueueHistory:
        """Return the record's history, or that of a queue that has not begun."""
        import numpy as np

        from wattqueue.errors import InputError
        from wattqueue.formats.cap import parse_cap
        from wattqueue.formats.read import ReadOptions, read_workload
        from wattqueue.runs.task import machine_cap, machine_of, task_workload
        from wattqueue.workload.generated import is_generated
        from wattqueue_studies.pick.history import QueueHistory

        task = self.task()
        if is_generated(task.workload):
            workload = task_workload(task)
        else:
            options = ReadOptions(
                default_walltime_s=task.default_walltime_s, procs_per_node=task.procs_per_node, queued=recorded
            )
            workload = read_workload(self.path, options)
        task, machine, _ = machine_of(task, None, workload)
        jobs = workload.jobs
        widest = max(partition.units for partition in machine.partitions)
        jobs = jobs.take(np.flatnonzero(jobs.nodes <= widest))
        jobs = jobs.take(np.argsort(jobs.submit_s, kind="stable"))
        cap = parse_cap(self.cap, machine) if self.cap is not None else machine_cap(machine)
        found = QueueHistory.empty(jobs, machine, cap)
        if recorded:
            if jobs.start_s is None:
                raise InputError("has no start of any job", where=task.workload, hint="--regret needs none")
            found.start_s[:] = np.nan_to_num(jobs.start_s, nan=np.inf)
            found.end_s[:] = found.start_s + np.minimum(jobs.runtime_s, jobs.walltime_s)
        return found

    @property
    def path(self) -> Any:
        """Return the path of the record."""
        from pathlib import Path

        return Path(str(self.jobs))


@verb_of(PickVerb)
def run(options: PickVerb) -> None:
    """Forecast the next day of a queue under many rows, and say which would be best; nothing is switched."""
    from wattqueue_studies.pick.advice import ROWS, advise, regret

    rows = tuple(options.row) or ROWS
    if options.regret is not None:
        import copy

        from wattqueue.terminal import counting
        from wattqueue_studies.pick.history import QueueHistory

        one = options.history(recorded=False)
        with counting("following", "rows") as told:
            found = regret(
                lambda: QueueHistory.empty(one.jobs, one.machine, copy.deepcopy(one.cap)), rows,
                options.regret, seed=options.seed, gain=options.gain, told=told,
            )  # fmt: skip
        options.show(found.values, lambda: _regret_lines(found))
        return
    history = options.history(recorded=True)
    now_s = _instant(options, history)
    advice = advise(history, now_s, rows, options.seed)
    waiting, running = len(history.waiting(now_s)), len(history.running(now_s))
    counts = {"now_s": now_s, "waiting": waiting, "running": running}
    values = {**counts, "wait_s": advice.wait_s, "left_out": advice.left_out}
    options.show(lambda: values, lambda: _lines(advice, waiting, running))


def _instant(options: PickVerb, history: QueueHistory) -> float:
    """Return the instant that is asked for. Raises: InputError for one before the record."""
    import numpy as np

    from wattqueue.errors import InputError
    from wattqueue.formats.epoch import parse_date

    jobs = history.jobs
    began = history.start_s[np.isfinite(history.start_s)]
    last = max(float(jobs.submit_s[-1]), float(began.max(initial=-np.inf)))
    if options.at is None:
        return last + 1.0
    try:
        now_s = float(options.at)
    except ValueError:
        now_s = parse_date(options.at, "--at")
    if not jobs.submit_s[0] < now_s <= last + 1.0:
        raise InputError(
            f"{now_s:.0f} s is not in the record", where="--at", hint=f"from {jobs.submit_s[0]:.0f} to {last:.0f} s"
        )
    return now_s


def _lines(advice: Advice, waiting: int, running: int) -> list[str]:
    """Return the advice as text."""
    from wattqueue.report import words
    from wattqueue.report.document import Table

    rows = [(row, words.span(wait)) for row, wait in advice.wait_s.items()]
    table = Table(("Row", "mean wait"), rows, f"The next 24 h: {waiting:,} jobs wait, {running:,} run", kinds=["", "n"])
    gain = "On the records of the guide such advice, followed for weeks, showed no gain over the best fixed row."
    above = "A forecast does not show time above the cap: rows that predict watts may exceed it."
    left_out = [f"{row} is left out: {why}" for row, why in advice.left_out.items()]
    return [*table.lines(), f"{advice.best} has the shortest forecast. {gain} {above}", *left_out]


def _regret_lines(found: Regret) -> list[str]:
    """Return what following the advice gains as text."""
    from wattqueue.report import words
    from wattqueue.report.compare.stats import with_interval
    from wattqueue.report.document import Table

    rows = [(row, words.span(wait)) for row, wait in sorted(found.fixed_s.items(), key=lambda each: each[1])]
    rows.append((f"the advice, {found.switches} switches", words.span(found.advised_s)))
    table = Table(("Row", "mean wait"), rows, "Mean wait a job", kinds=["", "n"])
    pairs = ((found.chosen, "best before", found.beside_chosen), (found.best, "best afterwards", found.beside_best))
    return [*table.lines(), *(f"beside {row} ({why}): {with_interval(one)} s a job" for row, why, one in pairs)]
