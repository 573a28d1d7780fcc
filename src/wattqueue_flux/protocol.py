"""Flux's protocol of schedulers (RFC 27), so that nothing that fails ends the module.

Flux ends a module whose callback raises, and with it the instance and all of its jobs, unless ``broker.module-nopanic``
is set. So what fails is logged, nothing starts, and requests are answered later.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from flux.resource import ResourcePool
from flux.scheduler import AllocRequest, Scheduler

from wattqueue.live.cluster import ClusterError
from wattqueue_flux.cluster import FluxCluster, Grant

AGAIN_S = 60.0
"""The same failure is logged once in so long."""


def guarded(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a callback that logs what it raises."""

    def call(self: SafeScheduler, *args: Any, **more: Any) -> Any:
        try:
            return method(self, *args, **more)
        except Exception as error:  # noqa: BLE001 - see the module's description
            self.failed(method.__name__, error)
            return None

    return call


class SafeScheduler(Scheduler):  # type: ignore[misc] # Flux ships no types
    """Keeps requests until they are answered, and the module alive. A subclass has ``cluster``."""

    cluster: FluxCluster

    def __init__(self, handle: Any, *args: str) -> None:
        """Begin without requests. Raises: ValueError for arguments of the base class that are wrong."""
        super().__init__(handle, *args)
        self.requests: dict[int, Any] = {}
        """Requests that are not answered, by job."""
        self.starts: deque[Grant] = deque()
        """Starts that are decided and taken, and not answered yet."""
        self.said: dict[int, dict[str, Any]] = {}
        """Annotations that were sent, by job."""
        self._failures: dict[str, float] = {}
        self._again = False

    def forget(self, jobid: int) -> Any:
        """Take a request out of the queue and return it; None where it was answered already."""
        self.said.pop(jobid, None)
        request = self.requests.pop(jobid, None)
        if request is not None:
            self._queue.remove(jobid)
        return request

    # -- passes ----------------------------------------------------------------------------------
    def _request_schedule(self) -> None:
        """Ask for a pass, also while nothing waits: jobs that end are learned from."""
        self.start_schedule()

    def start_schedule(self) -> None:
        """Begin a pass soon. One that is at work goes on: what it decided is taken already."""
        if self._sched_generator:
            self._again = True
        else:
            super().start_schedule()

    def _on_sched_check(self, *args: Any) -> None:
        """Go on with a pass; after its end begin the one that events asked for meanwhile."""
        super()._on_sched_check(*args)
        if self._again and not self._sched_generator:
            self._again = False
            super().start_schedule()

    # -- what the driver has done ------------------------------------------------------------------
    def start(self, start: Grant) -> None:
        """Take the resources of a start; it is answered within the pass. Raises: ClusterError."""
        if start.job_id not in self.requests:
            raise ClusterError("its request was answered already")
        try:
            self.resources.register_alloc(start.job_id, ResourcePool(start.resources))
        except (ValueError, OSError) as error:
            raise ClusterError(f"Flux does not give these nodes: {error}") from error
        self.starts.append(start)

    def answers(self) -> Iterator[None]:
        """Answer the starts that are decided, one at a time."""
        while self.starts:
            yield
            start = self.starts.popleft() if self.starts else None
            request = None if start is None else self.forget(start.job_id)
            if start is not None and request is not None:
                request.success(start.resources, start.annotations)

    def _alloc_commit_continuation(self, future: Any, args: Any) -> None:
        """Answer a start once R is stored. Where it is not (a full store), the job waits again."""
        msg, resources, annotations = args
        jobid = msg.payload["id"]
        try:
            future.get()
        except OSError as error:
            self.failed("storing R", error)
            try:
                self.resources.free(jobid, None, True)
                self._requeue(jobid, msg)
            except Exception as inner:  # noqa: BLE001 - see the module's description
                self.failed("taking a start back", inner)
            return
        answer = {"id": jobid, "type": 0, "R": resources, "annotations": annotations}
        self.handle.respond(msg, answer)

    def _requeue(self, jobid: int, msg: Any) -> None:
        """Put a job back whose start was not stored."""
        self.cluster.not_started(jobid)
        self.requests[jobid] = AllocRequest(self, msg)
        self._queue.append(jobid)

    def signal(self, job_id: int, number: int) -> None:
        """Send a signal to the processes of a job, without waiting."""
        self.handle.rpc("job-manager.kill", {"id": job_id, "signum": number})

    def drain(self, rank: int, *, on: bool) -> None:
        """Drain a rank, or take that back, without waiting."""
        more = {"reason": "wattqueue: load target", "mode": "overwrite"} if on else {}
        self.handle.rpc("resource.drain" if on else "resource.undrain", {"targets": str(rank), **more})

    # -- staying alive -----------------------------------------------------------------------------
    def failed(self, what: str, error: object) -> None:
        """Log a failure, the same one once a minute."""
        text = f"{what}: {type(error).__name__}: {error}" if isinstance(error, Exception) else f"{what}: {error}"
        now_s = time.monotonic()
        if now_s - self._failures.get(text, -math.inf) >= AGAIN_S:
            self._failures[text] = now_s
            self.log.error(f"nothing starts, or less than could: {text}"[:2000])

    def stop_error(self) -> None:
        """Go on, where Flux's base class would end the module after an exception."""
        self.log.error("an error was logged above; the scheduler goes on")
