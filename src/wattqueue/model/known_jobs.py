"""The job table that parts of a policy receive: what users requested, and what has been observed so far.

A trace says how long each job ran and what it drew. No scheduler knows that before the job has ended, so parts get a
table of this type, which has no such columns (rule 11 of docs/semantics.md). In their place it has ``observed``: the
starts that the policy decided on, and the outcomes of jobs that have ended.

An oracle, a part that is meant to know the future, declares ``knows_future = True``. The table that it gets has the
workload itself behind ``truth``; ``parts/oracles.py`` decides which part is one.

No column is copied: a table for parts costs a few microseconds at any length of the workload.

``Past`` holds jobs that ended before a run begins: the history that an online estimator may start with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wattqueue.errors import InputError, PolicyError
from wattqueue.model import bounds
from wattqueue.model.jobs import Floats, Ints, Jobs, Labels

if TYPE_CHECKING:
    from wattqueue.model.consent import Consent

OUTCOMES = frozenset({"runtime_s", "mean_power_w", "max_power_w", "start_s", "profiles", "peak_power_w"})
"""Columns and methods of ``Jobs`` that nobody knows at a submission."""
OUTCOME_COLUMNS = frozenset(
    {
        *("energy_j", "energy_quality", "energy_from", "failed_counters", "state", "exit_code", "alone", "pclass"),
        *("partition_nodes", "cluster_nodes", "ran_partition", "ran_frequency_hz"),
    }
)
"""Columns of ``Jobs.extra`` that nobody knows at a submission: measurements, how a job ended, counts over a trace."""


@dataclass(frozen=True, slots=True, eq=False)
class Observed:
    """What has been observed of each job until now; NaN where nothing has. Shapes (n,); not to be written to."""

    start_s: Floats
    """Last start: when the policy started the job."""
    end_s: Floats
    """End; NaN until the job has ended."""
    mean_power_w: Floats
    """Mean watts of one unit over the run; NaN until the end, and where nothing was measured."""
    max_power_w: Floats
    """Highest watts of one unit; NaN until the end, and where nothing was measured."""

    @classmethod
    def nothing(cls, n: int) -> Self:
        """Return columns of NaN that share one element: they take no memory."""
        column = np.broadcast_to(np.nan, (n,))
        return cls(column, column, column, column)

    @property
    def ended(self) -> NDArray[np.bool_]:
        """Return which jobs have ended. Shape (n,)."""
        return ~np.isnan(self.end_s)

    @property
    def runtime_s(self) -> Floats:
        """Return end less last start, in seconds at the speed that the job had; NaN until the end. Shape (n,)."""
        found: Floats = self.end_s - self.start_s
        return found

    def current(self) -> Observed:
        """Return what has been observed by now. A driver may bring the columns up to date here, when they are read."""
        return self

    def take(self, index: NDArray[Any] | slice) -> Observed:
        """Return the rows of ``index``, in that order."""
        return Observed(self.start_s[index], self.end_s[index], self.mean_power_w[index], self.max_power_w[index])


class KnownColumns(dict[str, NDArray[Any]]):
    """Columns of ``Jobs.extra`` that are known at submission; an outcome raises PolicyError instead of KeyError."""

    def __init__(self, columns: Mapping[str, NDArray[Any]] | None = None, reader: str = "") -> None:
        """Take all columns but ``OUTCOME_COLUMNS``."""
        super().__init__({k: column for k, column in (columns or {}).items() if k not in OUTCOME_COLUMNS})
        self.reader = reader

    def __missing__(self, name: str) -> NDArray[Any]:
        if name in OUTCOME_COLUMNS:
            raise _unknown(self.reader, f'extra["{name}"]')
        raise KeyError(name)


@dataclass(frozen=True, slots=True, eq=False)
class KnownJobs:
    """A workload of n jobs as a scheduler knows it. Columns are those of ``Jobs``; shapes (n,).

    Reading an outcome of ``Jobs`` (``runtime_s``, ``start_s``, ``mean_power_w``, ``max_power_w``, ``profiles``) raises
    PolicyError. Arrays are shared with the workload and are not to be written to.
    """

    job_id: NDArray[Any]
    """Names of the jobs as the input gives them."""
    submit_s: Floats
    """Submission on the trace's clock. Jobs that are submitted later are in the table of a simulation, too."""
    nodes: Ints
    """Units that the job asks for."""
    walltime_s: Floats
    """Time limit, in seconds of work at reference speed."""
    user: Labels
    app: Labels
    partition: Labels
    _observed: Observed
    extra: Mapping[str, NDArray[Any]] = field(default_factory=KnownColumns)
    """Further columns that a format brought, but for ``OUTCOME_COLUMNS``."""
    consent: Consent | None = None
    """What may be done with jobs during a load target; None where no job states anything."""
    reader: str = ""
    """The part that the table was made for, as errors name it."""
    _truth: Jobs | None = None

    @classmethod
    def of(cls, jobs: Jobs, observed: Observed | None = None, *, reader: str = "", oracle: bool = False) -> Self:
        """Return the table of a workload for one part; with ``oracle`` the workload itself is its ``truth``."""
        return cls(
            jobs.job_id,
            jobs.submit_s,
            jobs.nodes,
            jobs.walltime_s,
            jobs.user,
            jobs.app,
            jobs.partition,
            Observed.nothing(len(jobs)) if observed is None else observed,
            KnownColumns(jobs.extra, reader),
            jobs.consent,
            reader,
            jobs if oracle else None,
        )

    @classmethod
    def build(cls, submit_s: ArrayLike, nodes: ArrayLike, walltime_s: ArrayLike, **more: Any) -> Self:
        """Return a table from plain sequences, where there is no trace. ``more`` takes every other field.

        Ids count from 1; users, applications and partitions are sequences of names, or ``Labels``.
        Raises: InputError with column and row in ``where`` for a figure outside its limits (``model.bounds``).
        """
        submit, wall = (np.ascontiguousarray(column, np.float64) for column in (submit_s, walltime_s))
        bounds.TIME_S.require_column(submit, "submit_s")
        bounds.UNITS.require_column(np.asarray(nodes), "nodes")
        bounds.DURATION_S.require_column(wall, "walltime_s")
        n = len(submit)
        for name in ("user", "app", "partition"):
            value = more.get(name)
            if not isinstance(value, Labels):
                more[name] = Labels.missing(n) if value is None else Labels.of(value)
        ids = np.asarray(more.pop("job_id", np.arange(1, n + 1, dtype=np.int64)))
        observed = more.pop("observed", None) or Observed.nothing(n)
        return cls(ids, submit, np.ascontiguousarray(nodes, np.int32), wall, _observed=observed, **more)

    def __len__(self) -> int:
        return len(self.submit_s)

    @property
    def observed(self) -> Observed:
        """Return starts and outcomes so far."""
        return self._observed.current()

    @property
    def truth(self) -> Jobs:
        """Return the workload with all outcomes, for an oracle. Raises: PolicyError for every other part."""
        if self._truth is None:
            raise PolicyError(
                "reads the recorded outcomes of jobs, and is not an oracle that was given a trace",
                where=self.reader or "jobs.truth",
                hint="an oracle declares knows_future = True, and runs in simulations only",
            )
        return self._truth

    def take(self, index: NDArray[Any] | slice) -> KnownJobs:
        """Return the rows of ``index`` (a mask, row numbers, or a slice, which copies nothing), in that order."""
        return replace(
            self,
            job_id=self.job_id[index],
            submit_s=self.submit_s[index],
            nodes=self.nodes[index],
            walltime_s=self.walltime_s[index],
            user=self.user.take(index),
            app=self.app.take(index),
            partition=self.partition.take(index),
            _observed=self.observed.take(index),
            extra=KnownColumns({name: column[index] for name, column in self.extra.items()}, self.reader),
            consent=None if self.consent is None else self.consent.take(index),
            _truth=None if self._truth is None else self._truth.take(index),
        )


def _refusal(name: str) -> property:
    """Return a property that raises PolicyError with the reason why an outcome cannot be read."""

    def refuse(jobs: KnownJobs) -> NoReturn:
        raise _unknown(jobs.reader, name)

    return property(refuse, doc="Not known before the job has ended.")


# One property for each name, out of sight of type checkers: these report an outcome that is read as no attribute.
# ``__getattr__`` would do the same, and make every other column slower to read.
for _name in sorted(OUTCOMES):
    setattr(KnownJobs, _name, _refusal(_name))


def _unknown(reader: str, name: str) -> PolicyError:
    """Return the error for reading an outcome."""
    return PolicyError(
        f"reads {name}, which nobody knows before the job has ended",
        where=reader or f"jobs.{name}",
        hint="use walltimes, predictions and jobs.observed; an oracle declares knows_future = True and reads "
        "jobs.truth",
    )


@dataclass(frozen=True, slots=True, eq=False)
class Past:
    """Jobs that have ended, in order of their ends.

    Raises: InputError for ends that fall, are not finite, or are not one per job.
    """

    jobs: Jobs
    end_s: Floats
    """End of each job on the trace's clock, not falling. Shape (n,)."""

    def __post_init__(self) -> None:
        if len(self.end_s) != len(self.jobs):
            raise InputError(f"{len(self.jobs)} jobs with {len(self.end_s)} ends", where="past")
        bounds.TIME_S.require_column(self.end_s, "end_s", where="past")
        if (np.diff(self.end_s) < 0).any():
            raise InputError("ends must not fall", where="past", hint="use Past.before()")

    def __len__(self) -> int:
        return len(self.end_s)

    @classmethod
    def before(cls, jobs: Jobs, end_s: Floats, now_s: float) -> Self:
        """Return the jobs of a replayed trace that had ended by ``now_s``; NaN ends never did. Shapes (n,)."""
        order = np.argsort(end_s, kind="stable")
        rows = order[: int(np.searchsorted(end_s[order], now_s, side="right"))]
        return cls(jobs.take(rows), end_s[rows])

    def user_codes(self, names: tuple[str, ...]) -> NDArray[np.int32]:
        """Return each job's user as an index into ``names`` of another table; -1 where it is not there. Shape (n,)."""
        return _codes(self.jobs.user, names)

    def app_codes(self, names: tuple[str, ...]) -> NDArray[np.int32]:
        """Return each job's application as an index into ``names``; -1 where it is not there. Shape (n,)."""
        return _codes(self.jobs.app, names)


def _codes(column: Labels, names: tuple[str, ...]) -> NDArray[np.int32]:
    """Translate the codes of a column to those of other names, by name."""
    if column.names == names:
        return column.codes
    place = {name: i for i, name in enumerate(names)}
    found = np.array([*(place.get(name, -1) for name in column.names), -1], np.int32)
    codes: NDArray[np.int32] = found[column.codes]
    return codes
