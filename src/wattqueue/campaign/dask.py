"""Cells on many machines: the workers of a Dask scheduler.

The scheduler is one that runs (``dask://host:port``), or one in this process whose workers are Slurm jobs
(``slurm``, through dask-jobqueue). Before any cell is sent, every worker reports its program and whether it sees the
folder of shared inputs: a worker with another version, or without the folder, would give wrong or missing rows.

Two peculiarities of the libraries shape this module. dask-jobqueue submits from a coroutine whose errors reach only a
log, so a submission is tried with ``sbatch --test-only`` first (``try_submission``). Dask logs every lost connection in
many lines; the errors raised here replace them (``_silence_dask``).
"""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

from wattqueue.campaign.backends import Backend, Local, NumberedCells
from wattqueue.campaign.cell import Cell, program
from wattqueue.campaign.file import SlurmTable
from wattqueue.campaign.shared import Shared
from wattqueue.campaign.work import Done, WorkerReport, perform, report_worker
from wattqueue.errors import CampaignError, InputError
from wattqueue.formats.times import duration_s
from wattqueue.model.plain_numbers import is_whole

if TYPE_CHECKING:
    from distributed import Client, Future

CONNECT_S = 5.0
"""Time for a scheduler to answer."""
WORKERS_S = 30.0
"""Time for the first worker of a running scheduler; Slurm's queue has its own setting (``[slurm] wait``)."""
SUBMIT_S = 60.0
"""Time for ``sbatch --test-only``."""
MOST_SENT = 1_000
"""Cells that the scheduler holds at a time: enough for a large cluster, few enough for its memory."""
SCHEMES = {"dask": "tcp", "tcp": "tcp", "tls": "tls"}
"""Schemes of ``--cluster`` and what Dask calls them."""


@contextmanager
def opened_backend(
    cluster: str | None = None, workers: int | None = None, slurm: SlurmTable | None = None
) -> Iterator[Backend]:
    """Open the backend of ``dask://host:port``, ``slurm``, or (None) the processes of this machine; close it at exit.

    ``workers`` counts processes here, or jobs of Slurm.

    Raises: InputError for another cluster; CampaignError where no scheduler answers or no worker comes up;
    ModuleNotFoundError without the extra ``scale``.
    """
    if cluster is None:
        with closing(Local(workers)) as local:
            yield local
        return
    _silence_dask()
    if cluster == "slurm":
        with _slurm_jobs(slurm or SlurmTable(), workers or 1) as backend:
            yield backend
        return
    if workers is not None:
        raise InputError("a running scheduler has a fixed set of workers", where="--workers", hint="leave it out")
    with _connected(scheduler_address(cluster), CONNECT_S) as client:
        _wait_for_workers(client, cluster, WORKERS_S)
        yield Dask(client)


def scheduler_address(cluster: str) -> str:
    """Return ``dask://host:port`` as Dask writes it. Raises: InputError."""
    scheme, found, place = cluster.partition("://")
    host, colon, port = place.rpartition(":")
    if not (found and scheme in SCHEMES and host and colon and is_whole(port) and int(port) < 65_536):
        raise InputError(f"{cluster!r} is not a cluster", where="--cluster", hint="write dask://host:port, or slurm")
    return f"{SCHEMES[scheme]}://{place}"


class Dask:
    """Runs cells on the workers of a scheduler."""

    def __init__(self, client: Client) -> None:
        """Use the scheduler of a connected client; the client stays the caller's to close."""
        self.client = client
        self.address = str(client.scheduler_info(n_workers=0)["address"])

    def results(self, cells: NumberedCells, shared: Shared) -> Iterator[Done]:
        """Yield what became of each cell. Dask repeats the cells of a worker that dies on other workers.

        Raises: CampaignError for an unusable worker, a scheduler that went away, or a cell that Dask gave up.
        """
        from distributed import CancelledError, KilledWorker, as_completed

        shared.mark()
        require_usable_workers(self.client.run(report_worker, shared, on_error="return"), shared)
        waiting = iter(cells)
        try:
            sent = as_completed(self._submit(islice(waiting, MOST_SENT), shared), loop=self.client.loop)  # type: ignore[no-untyped-call]
            for future in sent:
                done: Done = future.result()
                sent.update(self._submit(islice(waiting, 1), shared))  # type: ignore[no-untyped-call]
                yield done
        except (KilledWorker, CancelledError, TimeoutError, OSError) as error:
            raise _cluster_error(error, self.address) from error

    def _submit(self, cells: Iterable[tuple[int, Cell]], shared: Shared) -> list[Future[Done]]:
        """Send cells to the scheduler. A future that is forgotten, as when an error ends the loop, is cancelled."""
        return [self.client.submit(perform, index, cell, shared, program(), pure=False) for index, cell in cells]


def _cluster_error(error: BaseException, address: str) -> CampaignError:
    """Return the error for what ended a campaign on a cluster, in one line."""
    text = " ".join(str(error).split())
    what = "the scheduler went away" if "connection-lost" in text else f"the cluster gave up a run: {text[:200]}"
    return CampaignError(what, where=address, hint="finished runs are kept; check the cluster and start again")


def require_usable_workers(reports: dict[str, Any], shared: Shared) -> None:
    """Check that every worker runs this program and sees the shared folder. ``reports`` by address.

    A report is a WorkerReport, or the exception that the attempt raised (``on_error="return"``).

    Raises: CampaignError naming the first worker that cannot be used.
    """
    for worker, found in sorted(reports.items()):
        if not isinstance(found, WorkerReport):
            raise CampaignError(
                f"has no usable WattQueue ({type(found).__name__}: {found}); this process runs {program()}",
                where=f"worker {worker}",
                hint="install one version everywhere",
            )
        if found.program != program():
            raise CampaignError(
                f"runs {found.program}, this campaign {program()}",
                where=f"worker {worker}",
                hint="install one version everywhere",
            )
        if not found.folder:
            raise CampaignError(
                f"does not see {shared.folder}",
                where=f"worker {worker}",
                hint="put --out on a file system that all machines share",
            )


@contextmanager
def _connected(address: Any, timeout_s: float) -> Iterator[Client]:
    """Connect a client to a scheduler (an address or a cluster object). Raises: CampaignError where none answers."""
    from distributed import Client

    try:
        client = Client(address, timeout=timeout_s, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise CampaignError(
            f"no Dask scheduler answers within {timeout_s:g} s",
            where=str(address),
            hint="start one: dask scheduler; dask worker HOST:PORT",
        ) from error
    with client:
        yield client


def _wait_for_workers(client: Client, cluster: str, timeout_s: float) -> None:
    """Wait for the first worker. Raises: CampaignError."""
    try:
        client.wait_for_workers(1, timeout=timeout_s)
    except TimeoutError as error:
        raise CampaignError(
            f"no worker within {timeout_s:g} s", where=cluster, hint="start workers: dask worker HOST:PORT"
        ) from error


@contextmanager
def _slurm_jobs(table: SlurmTable, jobs: int) -> Iterator[Dask]:
    """Start a scheduler in this process, and workers as Slurm jobs. They end with it.

    Raises: CampaignError where Slurm would not take such a job, or none starts in time.
    """
    try:
        cluster = slurm_cluster(table)
    except (RuntimeError, ValueError, OSError) as error:
        text = " ".join(str(error).split())
        raise CampaignError(text, where="[slurm]", hint="check interface, memory and cores") from error
    with cluster:
        try_submission(cluster.job_script())
        cluster.scale(jobs=jobs)
        with _connected(cluster, CONNECT_S) as client:
            _wait_for_workers(client, "slurm", duration_s(table.wait, "slurm.wait") or WORKERS_S)
            yield Dask(client)


def try_submission(script: str) -> None:
    """Test whether Slurm would accept a job, without submitting it: errors of Dask's own submission reach no user.

    Raises: CampaignError with Slurm's own message.
    """
    try:
        done = subprocess.run(
            ["sbatch", "--test-only"], input=script, capture_output=True, text=True, check=False, timeout=SUBMIT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CampaignError("sbatch does not answer", where="slurm", hint="run this where Slurm is") from error
    if done.returncode:
        lines = [line.removeprefix("sbatch: error: ") for line in done.stderr.splitlines() if line.strip()]
        reason = " ".join((lines or ["no reason given"])[-1].split())
        raise CampaignError(f"sbatch refuses: {reason}", where="slurm", hint="check [slurm] of the campaign file")


def slurm_cluster(table: SlurmTable) -> Any:
    """Return dask-jobqueue's cluster for a campaign's ``[slurm]`` table; ``job_script()`` shows what it submits."""
    from dask_jobqueue.slurm import SLURMCluster

    return SLURMCluster(
        queue=table.partition,
        account=table.account,
        cores=table.cores,
        processes=table.processes,
        memory=table.memory,
        walltime=table.walltime,
        interface=table.interface,
        job_extra_directives=list(table.directives),
        job_script_prologue=list(table.prologue),
        log_directory=table.log_folder,
        python=sys.executable,
        scheduler_options={
            "dashboard": False,
            "dashboard_address": "localhost:0",
        },  # without pages it still takes a port
    )


def _silence_dask() -> None:
    """Silence Dask's loggers: it reports every lost connection in many lines; errors raised here need one."""
    import distributed  # noqa: F401 - sets levels of its own when it is loaded

    for name in ("distributed", "tornado", "asyncio"):
        known = [key for key in logging.root.manager.loggerDict if key.partition(".")[0] == name]
        for each in (name, *known):
            logging.getLogger(each).setLevel(logging.CRITICAL)
