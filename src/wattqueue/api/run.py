"""``RunResult``: a finished run as metrics, tables, pictures and files; ``read_run`` reads one that was kept.

A result wraps the ``RunRecord`` that a run folder is written from and read back into, so everything that it offers is
the same for a run in memory and for one from a folder. Tables are built when they are first used, and kept.

A ``Picture`` is one figure of a run, as ``wattqueue plot`` draws it (``report.plot``). It takes a second or two the
first time, because matplotlib is imported then; so it is drawn when it is shown or saved, and once.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wattqueue.api.inputs import PathLike
from wattqueue.errors import InputError, one_of
from wattqueue.formats.atomic_folder import write_text
from wattqueue.formats.atomic_write import atomic_write
from wattqueue.formats.rundir import folder as run_folder
from wattqueue.formats.rundir.folder import RunRecord
from wattqueue.model.comparability import WorkDone
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Cap
from wattqueue.policy.interfaces import AXES
from wattqueue.policy.oracles import marked
from wattqueue.policy.rows import part_names, published_rows
from wattqueue.report import metric_table, plot, run_page
from wattqueue.report.document import Document
from wattqueue.report.figure import Figure
from wattqueue.report.figures import power
from wattqueue.report.html import Html
from wattqueue.report.load import of_record
from wattqueue.report.run import RunData

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure as ``wattqueue plot`` draws it, with its data."""

    figure: Figure
    """Columns in SI units, axes, and the sentence that states the result."""
    kind: str
    """Kind of picture; a key of ``report.plot.kinds``."""

    def __repr__(self) -> str:
        return f"<{self.figure.title}. {self.figure.says}>"

    @cached_property
    def svg(self) -> str:
        """Return the picture as SVG."""
        return plot.render(self.figure, self.kind, "svg").decode("utf-8")

    @cached_property
    def frame(self) -> pl.DataFrame:
        """Return the data of the picture as a polars frame, in SI units."""
        import polars as pl

        return pl.DataFrame(dict(self.figure.columns), nan_to_null=True)

    def save(self, path: PathLike) -> Path:
        """Write the picture; the ending of the name decides the format: .svg, .pdf, .png, or .csv for its data.

        Raises: InputError for another ending; OutputError.
        """
        file = Path(path)
        ending = file.suffix.removeprefix(".").lower()
        if ending == "csv":
            content = plot.data_csv(self.figure).encode("utf-8")
        elif ending in plot.FORMATS:
            content = plot.render(self.figure, self.kind, ending)
        else:
            known = ", ".join(f".{form}" for form in (*plot.FORMATS, "csv"))
            raise InputError("no picture ends like this", where=file, hint=f"any of {known}")
        with atomic_write(file) as temporary:
            temporary.write_bytes(content)
        return file

    def _repr_svg_(self) -> str:
        """Return what a notebook shows."""
        return self.svg


@dataclass(frozen=True, eq=False)
class RunResult:
    """A finished run. In a notebook it shows its metrics and the power against the cap.

    Example::

        run.metrics["wait_s_mean"] / 3600
        run.jobs.group_by("user").agg(pl.col("waiting_time").mean())
        run.jobs.to_pandas()
        run.report("out.html")
    """

    record: RunRecord
    """Everything that a run folder keeps: schedule, power series, recipe."""
    notes: dict[str, int] = field(default_factory=dict)
    """Remarks of the simulator, with the number of times that each applies; empty for a run that was read."""

    def __repr__(self) -> str:
        said = f"; {self.work.text}" if self.work.text else ""
        return f"<run of {len(self.record.jobs):,} jobs on {self.machine.name}: {self.label}{said}>"

    @property
    def without_effect(self) -> list[str]:
        """Return a sentence for each part of the policy that could not act: what it lacked, and what gives it that."""
        return list(self.record.facts.get("without_effect", ()))

    @cached_property
    def work(self) -> WorkDone:
        """Return how many jobs never ran and why, and what decides whether two runs may be compared."""
        return self.record.work

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """Return the keys and values of metrics.json, named as in docs/semantics.md; None where a figure is missing."""
        # Through JSON, so that values have the types that a reader of the file gets.
        found: dict[str, Any] = json.loads(run_folder.metrics_json(self.record))
        return found

    @cached_property
    def jobs(self) -> pl.DataFrame:
        """Return the columns of jobs.csv as a polars frame, one row per usable job; null for what never happened."""
        return run_folder.jobs_table(self.record)

    @cached_property
    def power(self) -> pl.DataFrame:
        """Return the columns of power.parquet as a polars frame: each row holds from its ``time_s`` to the next."""
        return run_folder.power_table(self.record)

    @property
    def machine(self) -> Machine:
        """Return the machine of the run."""
        return self.record.machine

    @property
    def cap(self) -> Cap:
        """Return the cap of the run."""
        return self.record.cap

    @property
    def label(self) -> str:
        """Return policy, parts that are not the policy's own, and cap, as comparisons name the run."""
        about, facts = self.data.about, self.record.facts
        published, row = published_rows().get(facts.get("task", {}).get("policy"), {}), facts.get("policy", {})
        usual = {**row, "estimator": "maximum", **published}
        changed = [axis for axis in AXES if row.get(axis, usual.get(axis)) != usual.get(axis)]
        own = [about.estimator if axis == "estimator" else f"{axis}={part_names(row[axis])}" for axis in changed]
        limit = about.cap if about.cap else "of its own" if self.cap.limited else ""
        label = ", ".join(word for word in (about.policy, *own, f"cap {limit}" if limit else "") if word)
        return marked(label, about.oracle)

    @cached_property
    def data(self) -> RunData:
        """Return the run as reports and pictures take it."""
        return of_record(self.record)

    def report(self, path: PathLike) -> Path:
        """Write the report of the run as one HTML file that opens without a network, and return its path.

        Raises: OutputError.
        """
        page = Path(path)
        write_text(page, run_page.report(self.data))
        return page

    def save(self, folder: PathLike) -> Path:
        """Write the folder of the run, as ``wattqueue simulate --out`` does without the report; return its path.

        ``wattqueue rerun``, ``compare``, ``plot`` and ``report`` take the folder. A run of jobs or parts that exist
        in memory only cannot be repeated by ``rerun``.

        Raises: OutputError.
        """
        run_folder.write_run(Path(folder), self.record)
        return Path(folder)

    def plot(self, name: str = "power", path: PathLike | None = None) -> Picture:
        """Return one figure of the run, which a notebook shows; with ``path``, write it as SVG, PDF, PNG or CSV too.

        Figures are ``power``, ``gantt``, ``queue``, ``wait``, ``slowdown`` and, where the run has the data for them,
        ``prediction`` and ``users``.

        Raises: InputError for an unknown name, or without matplotlib; OutputError.
        """
        if find_spec("matplotlib") is None:
            raise InputError("needs the package matplotlib", where="plot", hint="pip install 'wattqueue[plot]'")
        drawn = {figure.key: (figure, kind) for figure, kind in run_page.pictures(self.data)}
        if name not in drawn:
            raise InputError(f"unknown figure {name!r}", where="plot", hint=one_of(name, drawn))
        picture = Picture(*drawn[name])
        if path is not None:
            picture.save(path)
        return picture

    def _repr_html_(self) -> str:
        """Return what a notebook shows: heading, sentence, power against the cap, metrics, remarks.

        The picture is left out where neither trace nor machine state watts, as in the report, and without matplotlib.
        """
        from wattqueue.api.notebook import COLUMNS, QUIET, SHOWN, SOFT, document_html, metrics_html

        data, metrics = self.data, self.record.metrics
        drawn = data.has_watts and find_spec("matplotlib") is not None
        picture = plot.inline(power.figure(data, COLUMNS), "power") if drawn else ""
        found = metric_table.rows(metrics)
        zero = {name for name in QUIET if metric_table.says_nothing(name, metrics)}
        main = [row for row in found if row.name in SHOWN and row.name not in zero]
        more = [row for row in found if row not in main]
        half = (len(main) + 1) // 2
        columns = "".join(
            f'<div style="flex:1 1 320px">{metrics_html(part)}</div>' for part in (main[:half], main[half:])
        )
        fold = f'<details><summary style="{SOFT};cursor:pointer">All metrics</summary>{metrics_html(more)}</details>'
        return document_html(
            Document(
                title=run_page.title(data),
                eyebrow=run_page.eyebrow(data),
                lede=run_page.lede(data),
                text=[
                    Html(picture),
                    Html(f'<div style="display:flex;flex-wrap:wrap;gap:0 24px;margin-top:6px">{columns}</div>'),
                    Html(fold if more else ""),
                    *(f"{count:,} × {what}" for what, count in self.notes.items()),
                    *(f"{sentence}." for sentence in self.without_effect),
                ],
            )
        )


def read_run(folder: PathLike) -> RunResult:
    """Read a run from the folder that ``wattqueue simulate --out`` or ``RunResult.save`` wrote.

    Raises: InputError or MachineError naming the file that is missing or not a run's.
    """
    return RunResult(run_folder.read_run(Path(folder)))
