"""Prove a bound on every schedule; compare it with the best schedule known and the policy's own.

What is done stands in ``wattqueue_studies.bound``. Certificates are written before anything is printed.
"""

from __future__ import annotations

import json
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any

from wattqueue.options import option
from wattqueue.runs.options import SimulateOptions
from wattqueue.verbs import Printed, out_field, verb_of

if TYPE_CHECKING:
    from wattqueue.formats.tariff import Tariff
    from wattqueue.runs.perform import RunInputs
    from wattqueue_studies.bound.assess import Search

FEW_TRIES, MANY_TRIES = 300_000, 1_000_000
"""Lists that the search tries by default: up to 200 jobs, and for more."""


@dataclass(frozen=True)
class BoundVerb(Printed, SimulateOptions):
    """Options of the verb."""

    jobs: Any = option(
        None, "The directory of a run, or a workload as for simulate.", metavar="RUN|JOBS", positional=True
    )
    _: KW_ONLY
    window: int | None = option(None, "Jobs of a window. [all jobs]", kind=int, least=1, most=2_000)
    windows: int = option(1, "Windows, drawn by seeds 1, 2, ... among busy hours.", kind=int, least=1, most=1_000)
    tries: int | None = option(
        None, "Lists that the search for schedules tries. [300000, above 200 jobs 1000000]", kind=int, least=0,
        most=10**9,
    )  # fmt: skip
    steps: int = option(7_000, "Most steps of the ascent of prices.", kind=int, least=0, most=10**6)
    front: bool = option(False, "Add the front of turnaround and energy, at 10 rates.", kind=bool)
    prices: Path | None = option(None, "CSV of time and price: adds the bill of jobs. [EUR/MWh]", kind=Path)
    intensity: Path | None = option(None, "CSV of time and carbon intensity: adds their CO2. [gCO2/kWh]", kind=Path)
    wait_limit: float = option(
        24.0, "Hours that a job may wait, for bill and CO2.", kind=float, least=0.0, most=8_784.0
    )
    start: str | None = option(None, "Date of the trace's time 0, or of its first job where the trace has dates.")
    repair: bool = option(False, "Correct dates whose UTC offset contradicts their neighbours'.", kind=bool)
    verify: Path | None = option(None, "Prove the numbers of a file of certificates again.", kind=Path)
    out: Path | None = out_field("File of certificates (JSON). [of a run: bound.json in its directory]")

    @property
    def folder(self) -> Path | None:
        """Return the directory of the run; None for a workload."""
        from wattqueue.formats.rundir.folder import RUN

        source = Path(str(self.jobs))
        return source if source.is_dir() and (source / RUN).exists() else None

    def tariffs(self, inputs: RunInputs) -> list[tuple[Tariff, float]]:
        """Return prices and intensities on the clock of the workload, with the longest wait in seconds."""
        from wattqueue.formats.epoch import epoch_of
        from wattqueue.formats.tariff import parse_source, read_tariff

        if self.prices is None and self.intensity is None:
            return []
        asked = (self.prices, "--prices", "EUR/MWh"), (self.intensity, "--intensity", "gCO2/kWh")
        epoch_s = epoch_of(inputs.task.workload, inputs.jobs.submit_s, self.start)
        return [
            (read_tariff(parse_source(path, None, where, unit), epoch_s, repair=self.repair), 3_600.0 * self.wait_limit)
            for path, where, unit in asked
            if path is not None
        ]

    def search(self, inputs: RunInputs) -> Search:
        """Return how much is searched."""
        from wattqueue_studies.bound.assess import Search

        long = self.window is None or self.window > 200
        tries = self.tries if self.tries is not None else MANY_TRIES if long else FEW_TRIES
        return Search(tries, self.steps, front=10 if self.front else 0, tariffs=self.tariffs(inputs))

    def inputs(self) -> RunInputs:
        """Return the inputs of the run, or of the workload under the policy."""
        from wattqueue.errors import InputError
        from wattqueue.formats.rundir.folder import read_run
        from wattqueue.runs.perform import load
        from wattqueue.runs.record import recorded_inputs

        source = self.folder
        if source is None:
            return load(self.task())
        plain = BoundVerb(self.jobs)
        changed = [name for name in SimulateOptions.__dataclass_fields__ if getattr(self, name) != getattr(plain, name)]
        if changed:
            raise InputError(
                f"a run has its own {changed[0]}", where=source, hint=f"leave --{changed[0].replace('_', '-')} out"
            )
        inputs = recorded_inputs(source)
        read_run(source)  # refuses figures that were changed: a report puts the bound beside them
        return inputs


@verb_of(BoundVerb)
def run(options: BoundVerb) -> None:
    """Prove a bound on every schedule; compare it with the best schedule known and the policy's own."""
    from wattqueue.errors import InputError

    if options.jobs is None and options.verify is None:
        raise InputError("nothing to bound", where="RUN|JOBS", hint="name a run, a workload, or --verify FILE")
    if options.verify is not None:
        _verify(options, options.verify)
        return
    from wattqueue.formats.atomic_write import atomic_text
    from wattqueue.formats.rundir.bound_note import BOUND, bound_note
    from wattqueue.terminal import counting
    from wattqueue_studies.bound.store import stored
    from wattqueue_studies.bound.study import Windows, bound_windows

    inputs = options.inputs()
    chosen = Windows(options.window, range(1, options.windows + 1))
    with counting("bounding", "windows") as told:
        study = bound_windows(inputs, chosen, options.search(inputs), Path(str(options.jobs)).name, told, process_time)
    folder = options.folder
    out = options.out if options.out is not None or folder is None else folder / BOUND
    if out is not None:
        note = {} if folder is None else bound_note(folder, study.verdict())
        atomic_text(out, json.dumps({**note, **stored(study.proofs())}) + "\n")
    options.show(study.as_json, lambda: study.document().lines())
    if out is not None:
        options.say([f"certificates written to {out}: wattqueue bound --verify {out}"])


def _verify(options: BoundVerb, path: Path) -> None:
    """Prove the numbers of a file again, and that they are of the inputs, where these are given."""
    from wattqueue.formats.json_text import load_json
    from wattqueue_studies.bound.store import proven_again

    proofs = proven_again(load_json(path), str(path))
    if options.jobs is not None:
        from wattqueue_studies.bound.study import refuse_others

        inputs = options.inputs()
        refuse_others(proofs, inputs, options.tariffs(inputs))
    lines = [proof.line() for proof in proofs]
    options.show(
        lambda: {"file": str(path), "proven": [proof.figures() for proof in proofs]},
        lambda: [*lines, f"{path}: all numbers proven again"],
    )
