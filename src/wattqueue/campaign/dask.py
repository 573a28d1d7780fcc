"""Cells on many machines: the workers of a Dask scheduler, through joblib's Dask backend.

The scheduler is one that runs (``dask://host:port``), or one in this process whose workers are Slurm jobs
(``slurm``, through dask-jobqueue). Workers need this very program, and the folder in which shared inputs lie.
"""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from wattqueue.campaign.backends import Backend, Local, Places, spread
from wattqueue.campaign.file import SlurmTable
from wattqueue.campaign.program import program
from wattqueue.campaign.shared import Shared
from wattqueue.campaign.work import Done, Seen, look
from wattqueue.errors import CampaignError, InputError
from wattqueue.formats.duration import duration_s

if TYPE_CHECKING:
    from distributed import Client

CONNECT_S = 5.0
WORKERS_S = 30.0
SUBMIT_S = 60.0
SCHEMES = {"dask": "tcp", "tcp": "tcp", "tls": "tls"}


@contextmanager
def opened_backend(
    cluster: str | None = None, workers: int | None = None, slurm: SlurmTable | None = None
) -> Iterator[Backend]:
    """Who runs cells: ``dask://host:port``, ``slurm``, or (None) the processes of this machine.

    ``workers`` counts processes here, or jobs of Slurm.

    Raises: InputError for another cluster; CampaignError where no scheduler answers or no worker comes up;
    ModuleNotFoundError without the extra ``scale``.
    """
    if cluster is None:
        yield Local(workers)
        return
    _quiet()
    if cluster == "slurm":
        with _slurm_jobs(slurm or SlurmTable(), workers or 1) as backend:
            yield backend
        return
    if workers is not None:
        raise InputError("a running scheduler has the workers it has", where="--jobs", mend="leave it out")
    with _connected(scheduler_address(cluster), CONNECT_S) as client:
        _wait_for_workers(client, cluster, WORKERS_S)
        yield Dask(client)


def scheduler_address(cluster: str) -> str:
    """``dask://host:port`` as Dask writes it. Raises: InputError."""
    scheme, found, place = cluster.partition("://")
    host, colon, port = place.rpartition(":")
    if not (found and scheme in SCHEMES and host and colon and port.isdigit() and int(port) < 65_536):
        raise InputError(f"{cluster!r} is no cluster", where="--cluster", mend="dask://host:port, or slurm")
    return f"{SCHEMES[scheme]}://{place}"


class Dask:
    """The workers of a scheduler that a client is connected to."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.address = str(client.scheduler_info(n_workers=0)["address"])

    def results(self, cells: Places, shared: Shared) -> Iterator[Done]:
        """As Backend says. A worker that dies is forgotten, and what it had done again by others."""
        from joblib import parallel_config

        shared.mark()
        check(self.client.run(look, shared, on_error="return"), shared)
        with parallel_config(backend=_told_backend(self.client)):
            try:
                yield from spread(cells, shared, n_jobs=-1)
            except _lost_errors() as error:
                raise _given_up(error, self.address) from error


def _given_up(error: BaseException, address: str) -> CampaignError:
    """One line for what ends a campaign on a cluster."""
    said = " ".join(str(error).split())
    what = "the scheduler went away" if "connection-lost" in said else f"the cluster gave up a run: {said[:200]}"
    return CampaignError(what, where=address, mend="what was finished is kept; see to the cluster and start again")


def check(seen: dict[str, Any], shared: Shared) -> None:
    """Whether every worker runs this program and sees the shared folder.

    Raises: CampaignError naming the first that does not.
    """
    for worker, found in sorted(seen.items()):
        if not isinstance(found, Seen):
            raise CampaignError(
                f"has no WattQueue that can do this ({type(found).__name__}: {found}), here is {program()}",
                where=f"worker {worker}",
                mend="install one version everywhere",
            )
        if found.program != program():
            raise CampaignError(
                f"runs {found.program}, this campaign {program()}",
                where=f"worker {worker}",
                mend="install one version everywhere",
            )
        if not found.folder:
            raise CampaignError(
                f"does not see {shared.folder}",
                where=f"worker {worker}",
                mend="put --out on a file system that all machines share",
            )


def _told_backend(client: Client) -> Any:
    """Joblib's Dask backend, which also tells of tasks that Dask itself gave up.

    joblib 1.6 waits for ever for those: it leaves out the callback where a future ends in an error of its own
    (workers killed too often, a scheduler that went away). Errors inside a task travel another way.
    """
    from joblib._dask import DaskDistributedBackend

    class Told(DaskDistributedBackend):  # type: ignore[misc]
        """The same, and an error is a result too."""

        async def _collect(self) -> None:
            while self._continue:
                async for future, result in self.waiting_futures:
                    self._results.pop(future).set_result(result)
                    callback = self._callbacks.pop(future)
                    callback(result if future.status == "finished" else _Lost(future.status, result))
                await asyncio.sleep(0.01)

        def retrieve_result_callback(self, out: Any) -> Any:
            if isinstance(out, _Lost):
                raise out.error()
            return super().retrieve_result_callback(out)

    return Told(client=client)


class _Lost:
    """What Dask said of a task that it gave up."""

    def __init__(self, status: str, result: Any) -> None:
        self.status, self.result = status, result

    def error(self) -> BaseException:
        cause = self.result[1] if isinstance(self.result, tuple) and len(self.result) > 1 else self.result
        return LostError(f"{type(cause).__name__}: {cause}" if isinstance(cause, BaseException) else self.status)


class LostError(Exception):
    """A task that the cluster gave up."""


def _lost_errors() -> tuple[type[BaseException], ...]:
    from distributed import CancelledError

    return (LostError, CancelledError, TimeoutError, OSError)


@contextmanager
def _connected(address: Any, timeout_s: float) -> Iterator[Client]:
    """A client of the scheduler. Raises: CampaignError where none answers."""
    from distributed import Client

    try:
        client = Client(address, timeout=timeout_s, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise CampaignError(
            f"no Dask scheduler answers within {timeout_s:g} s",
            where=str(address),
            mend="start one: dask scheduler; dask worker HOST:PORT",
        ) from error
    with client:
        yield client


def _wait_for_workers(client: Client, cluster: str, timeout_s: float) -> None:
    try:
        client.wait_for_workers(1, timeout=timeout_s)
    except TimeoutError as error:
        raise CampaignError(
            f"no worker within {timeout_s:g} s", where=cluster, mend="start workers: dask worker HOST:PORT"
        ) from error


@contextmanager
def _slurm_jobs(table: SlurmTable, jobs: int) -> Iterator[Dask]:
    """A scheduler in this process, and workers that Slurm starts for it. They end with it.

    Raises: CampaignError where Slurm would not take such a job, or none starts in time.
    """
    try:
        cluster = slurm_cluster(table)
    except (RuntimeError, ValueError, OSError) as error:
        said = " ".join(str(error).split())
        raise CampaignError(said, where="[slurm]", mend="see interface, memory and cores") from error
    with cluster:
        try_submission(cluster.job_script())
        cluster.scale(jobs=jobs)
        with _connected(cluster, CONNECT_S) as client:
            _wait_for_workers(client, "slurm", duration_s(table.wait, "slurm.wait") or WORKERS_S)
            yield Dask(client)


def try_submission(script: str) -> None:
    """Ask Slurm whether it would take a job, without submitting it: what Dask submits fails unheard.

    Raises: CampaignError with Slurm's own words.
    """
    try:
        done = subprocess.run(
            ["sbatch", "--test-only"], input=script, capture_output=True, text=True, check=False, timeout=SUBMIT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CampaignError("sbatch does not answer", where="slurm", mend="run this where Slurm is") from error
    if done.returncode:
        lines = [line.removeprefix("sbatch: error: ") for line in done.stderr.splitlines() if line.strip()]
        said = " ".join((lines or ["no reason given"])[-1].split())
        raise CampaignError(f"sbatch refuses: {said}", where="slurm", mend="see [slurm] of the campaign file")


def slurm_cluster(table: SlurmTable) -> Any:
    """dask-jobqueue's cluster for a campaign's ``[slurm]`` table; ``job_script()`` shows what it submits."""
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
        scheduler_options={"dashboard": False, "dashboard_address": "localhost:0"},  # its pages want a port even so
    )


def _quiet() -> None:
    """Dask tells every lost connection in many lines; what concerns a user is told in one."""
    import distributed  # noqa: F401 - sets levels of its own when it is loaded

    for name in ("distributed", "tornado", "asyncio"):
        known = [key for key in logging.root.manager.loggerDict if key.partition(".")[0] == name]
        for each in (name, *known):
            logging.getLogger(each).setLevel(logging.CRITICAL)
