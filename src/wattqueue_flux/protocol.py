"""Flux's protocol of schedulers (RFC 27), so that nothing that fails ends the module.

Flux ends a module whose callback raises, and with it the instance and all of its jobs, unless ``broker.module-nopanic``
is set. So what fails is logged, nothing starts, and requests are answered later.

Rounds run in a thread of their own, which never touches Flux: what it decides is answered here, in the reactor's
thread, and so are the questions that come meanwhile.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from flux.constants import FLUX_POLLIN, FLUX_RPC_STREAMING
from flux.job import JobID, event_watch_async
from flux.kvs import KVSTxn, commit_async
from flux.resource import ResourcePool
from flux.scheduler import AllocRequest, Scheduler

from wattqueue.live.cluster import ClusterError, JobKey
from wattqueue_flux.cluster import TOTAL_W, FluxCluster, Grant
from wattqueue_flux.nodes import Cache

T = TypeVar("T")
AGAIN_S = 60.0
"""The same failure is logged once in so long."""
SWITCH_S = 1e-4
"""How long the thread of a round keeps the interpreter while a request waits for it; each takes it some 20 times."""
TOGETHER = 50
"""Starts whose R are stored in one transaction; requests come between two of them."""


def key_of(jobid: int, t_submit: float) -> JobKey:
    """Return the key of a job."""
    return JobKey(str(JobID(jobid).f58plain), t_submit)


def guarded(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a callback that logs what it raises, while the thread of rounds stays out of the driver."""

    def call(self: SafeScheduler, *args: Any, **more: Any) -> Any:
        try:
            with self.cluster.lock:
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
        self._failures: dict[str, float] = Cache()
        """When each failure was logged last."""
        self._again = False
        self._to_store: list[tuple[Any, dict[str, Any], dict[str, Any]]] = []
        """Starts whose R is about to be stored: request, R, annotations."""
        self._calls: deque[tuple[str, dict[str, Any]]] = deque()
        """Requests to Flux that a round asked for."""
        sys.setswitchinterval(SWITCH_S)
        self._thread = ThreadPoolExecutor(1, "round")
        self._done: deque[tuple[Future[Any], Callable[[Future[Any]], None]]] = deque()
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._event_watcher = handle.fd_watcher_create(self._event, self._on_done, FLUX_POLLIN)
        self._event_watcher.start()

    def hello(self, jobid: int, priority: int, userid: int, t_submit: float, R: Any) -> None:
        """Take over a job that runs. Flux ends one whose nodes are gone, and sends no message at its end."""
        try:
            super().hello(jobid, priority, userid, t_submit, R)
        except Exception:
            event_watch_async(self.handle, jobid).then(self._ends, jobid)
            raise

    def _sched_hello(self) -> None:
        """Take over what runs. Nothing starts beside a job that Flux passes over, since its R cannot be read."""
        with self.cluster.lock:
            super()._sched_hello()
            asked = self.handle.rpc("job-manager.sched-hello", {"partial-ok": True}, flags=FLUX_RPC_STREAMING)
            with suppress(OSError):  # the end of the list
                while job := asked.get():
                    if job["id"] not in self.cluster.jobs:
                        key = key_of(job["id"], job["t_submit"])
                        self.failed("until it has ended, since its R cannot be read", key.name)
                        self.cluster.runs(job["id"], key, job["userid"], (), 0.0, 0.0, TOTAL_W)
                    asked.reset()

    @guarded
    def _ends(self, future: Any, jobid: int) -> None:
        """Take back what a job holds that Flux ends, at its last event."""
        event = future.get_event()
        if event is not None and event.name == "clean":
            self.cluster.gone(jobid)
            self._request_schedule()

    def forget(self, jobid: int) -> Any:
        """Take a request out of the queue and return it; None where it was answered already."""
        self.said.pop(jobid, None)
        request = self.requests.pop(jobid, None)
        if request is not None:
            self._queue.remove(jobid)
        return request

    # -- the thread of rounds ----------------------------------------------------------------------
    def beside(self, work: Callable[[], Any], then: Callable[[Future[Any]], None]) -> None:
        """Do work in the thread of rounds, after what it has to do already; then call ``then`` in the reactor's."""

        def ended(future: Future[Any]) -> None:
            self._done.append((future, then))
            os.eventfd_write(self._event, 1)

        self._thread.submit(work).add_done_callback(ended)

    def _on_done(self, *_: Any) -> None:
        """Go on with what the thread has done."""
        os.eventfd_read(self._event)
        while self._done:
            future, then = self._done.popleft()
            try:
                with self.cluster.lock:
                    then(future)
            except Exception as error:  # noqa: BLE001 - see the module's description
                self.failed("after a round", error)

    def rest(self, work: Callable[[], T]) -> Generator[None, None, T]:
        """Let a pass rest, with nothing to do for the reactor but to answer, until work in the thread is done.

        Raises: what the work raises.
        """

        def wake(future: Future[Any]) -> None:
            ended.append(future)
            self._sched_idle.start()
            self._sched_check.start()

        ended: list[Future[T]] = []
        self.beside(work, wake)
        self._sched_idle.stop()
        self._sched_check.stop()
        while not ended:
            yield
        return ended[0].result()

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
        """Answer a start within the pass. Raises: ClusterError."""
        if start.job_id not in self.requests:
            raise ClusterError("its request was answered already")
        self.starts.append(start)

    def answers(self) -> Iterator[None]:
        """Answer the starts that are decided, some at a time."""
        while self.starts or self._calls:
            yield
            for _ in range(min(TOGETHER, len(self.starts))):
                self._take(self.starts.popleft())
            self._store()
            while self._calls:
                self.handle.rpc(*self._calls.popleft())

    def _take(self, start: Grant) -> None:
        """Take the resources of a start. Where Flux does not give them, the job waits again."""
        request = self.forget(start.job_id)
        if request is None:
            return
        try:
            self.resources.register_alloc(start.job_id, ResourcePool(start.resources))
        except (ValueError, OSError) as error:
            self.failed("Flux does not give these nodes", error)
            self._requeue(start.job_id, request._msg)  # noqa: SLF001
            return
        request.success(start.resources, start.annotations)

    def alloc_success(self, msg: Any, R: dict[str, Any], annotations: dict[str, Any] | None = None) -> None:
        """Keep an answer for the next transaction."""
        self._to_store.append((msg, R, annotations or {}))

    def _store(self) -> None:
        """Store the R of starts."""
        taken, self._to_store = self._to_store, []
        if taken:
            transaction = KVSTxn(self.handle)
            for msg, resources, _ in taken:
                transaction.put(f"{JobID(msg.payload['id']).kvs}.R", resources)
            commit_async(self.handle, _kvstxn=transaction).then(self._alloc_commit_continuation, taken)

    def _alloc_commit_continuation(self, future: Any, args: Any) -> None:
        """Answer starts once their R are stored. Where they are not (a full store), the jobs wait again."""
        try:
            future.get()
        except OSError as error:
            self.failed("storing R", error)
            for msg, _, _ in args:
                self.resources.free(msg.payload["id"], None, True)
                self._requeue(msg.payload["id"], msg)
            return
        for msg, resources, noted in args:
            self.handle.respond(msg, {"id": msg.payload["id"], "type": 0, "R": resources, "annotations": noted})

    @guarded
    def _requeue(self, jobid: int, msg: Any) -> None:
        """Put a job back whose start was not stored; one that was cancelled meanwhile is answered."""
        request = AllocRequest(self, msg)
        if not self.cluster.not_started(jobid):
            request.cancel()
            return
        self.requests[jobid] = request
        self._queue.append(jobid)

    def signal(self, job_id: int, number: int) -> None:
        """Send a signal to the processes of a job, soon and without waiting."""
        self._calls.append(("job-manager.kill", {"id": job_id, "signum": number}))

    def drain(self, rank: int, *, on: bool) -> None:
        """Drain a rank, or take that back, soon and without waiting."""
        more = {"reason": "wattqueue: load target", "mode": "overwrite"} if on else {}
        self._calls.append(("resource.drain" if on else "resource.undrain", {"targets": str(rank), **more}))

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
