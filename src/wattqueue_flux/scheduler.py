"""The broker module: Flux's protocol of schedulers on one side, the live controller on the other.

A thin subclass of Flux's own ``Scheduler``. It tells the driver (``wattqueue_flux.cluster``) what Flux says, has the
controller run a round, and answers what the round started. The controller is the one of ``wattqueue live``: policy,
estimators, cap file and load targets are the same, and so are recordings.

No callback lets an exception out, since Flux ends a module that raises, and with it the instance. What fails is logged,
nothing starts, and the protocol is answered.
"""

from __future__ import annotations

import errno
import gc
import json
import math
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from flux.kvs import get_key_direct

from wattqueue.errors import InputError, WattQueueError
from wattqueue.live.assemble import assemble
from wattqueue.live.cluster import ClusterError, JobKey, StopJob
from wattqueue.live.config import LiveConfig
from wattqueue.live.controller import Controller
from wattqueue.live.files.stamp import stamp_of
from wattqueue.live.managed import managed_machine
from wattqueue.live.reports.report import ControllerLog, Report
from wattqueue.live.requests import JobRequest
from wattqueue.live.warm_up import run_small_rounds
from wattqueue.model.signals import Cap, Signals
from wattqueue_flux.cluster import FluxCluster, StartsBeside
from wattqueue_flux.examine import TESTED
from wattqueue_flux.forecast import annotations_of, least_w, most_room_w
from wattqueue_flux.jobspec import NodeNeed, details_of
from wattqueue_flux.nodes import FluxInstance, nodes_of, partitions_of
from wattqueue_flux.protocol import SafeScheduler, guarded, key_of
from wattqueue_flux.section import load_flux_config
from wattqueue_flux.wanted import Wanted, ranks_of

ERROR = 3
"""Priority of syslog."""
TICK_S = 0.2
"""How often files are looked at: a cap that is raised starts jobs within a second."""
AGAIN_S = 1.0
"""When a round that failed is tried again: jobs wait for it, and it knows when the cap changes."""
COLLECT_S = 600.0
"""How often Python's garbage is collected whole: with 10,000 jobs that takes a quarter of a second."""


class WattQueueScheduler(SafeScheduler):
    """The scheduler of one Flux instance."""

    def __init__(self, handle: Any, *args: str) -> None:
        """Read the configuration and compile the policy's kernels. Raises: ValueError, before Flux counts on it."""
        super().__init__(handle, *args)
        if not any(one.startswith("log-level=") for one in args):
            self.log.level = "notice"  # the pool logs each allocation at the level above
        stated = [one for one in self._pending_args if one.startswith("config=")]  # type: ignore[has-type]
        self._pending_args = [one for one in self._pending_args if one not in stated]  # type: ignore[has-type]
        if not stated:
            raise ValueError("state the controller's configuration: config=/etc/wattqueue/live.toml")
        self._due_s, self._loaded_s, self._collect_s = 0.0, time.time(), time.monotonic()
        self._step_s = math.inf
        """When the cap changes next, as announced."""
        gc.set_threshold(*gc.get_threshold()[:2], 10**9)  # not while requests wait, but every COLLECT_S
        self._stamps: tuple[object, ...] = ()
        self._told: list[tuple[int, dict[str, Any]]] = []
        """Annotations of waiting jobs, of the last round."""
        self._assemble(Path(stated[-1].partition("=")[2]))
        self._tick_watcher = handle.timer_watcher_create(TICK_S, self._tick, repeat=TICK_S)

    def _assemble(self, path: Path) -> None:
        """Build driver and controller of a configuration. Raises: WattQueueError."""
        self.config, self.section = load_flux_config(path)
        self.machine = managed_machine(self.config)
        nodes = nodes_of(get_key_direct(self.handle, "resource.R"))
        queues = self.handle.conf_get("queues", default={}, update=True) or {}
        required = {name: one.get("requires", []) for name, one in queues.items()}
        self.wanted = Wanted(required)
        instance = FluxInstance(nodes, partitions_of(nodes, self.machine, self.section.partitions, required))
        self.cluster = FluxCluster(instance, self, time.time, self.section.no_limit_s or math.inf)
        self.controller: Controller = assemble(self.config, self.cluster)
        applier, layout = self.controller.applier, self.controller.planner.layout
        applier.journal = StartsBeside(applier.journal, self.cluster.waits)
        self.cluster.most_w = lambda name: layout.most_net_w(layout.partition_of[name])
        run_small_rounds(self.controller.planner)
        self.journal = ControllerLog(self.log.notice, self.log.debug)
        self.watched = _watched(self.config)

    # -- what Flux says --------------------------------------------------------------------------
    def hello(self, jobid: int, priority: int, userid: int, t_submit: float, R: Any) -> None:
        """Count a job that runs already: by the watts of its start, else by its jobspec, else by the maximum.

        What raises here ends that job and no other (Flux), as where its nodes are gone: it counts until it has ended.
        """
        execution = R.to_dict()["execution"]
        ranks = ranks_of(R)
        watts, end_s = self._noted(jobid, ranks)
        end_s = execution.get("expiration", 0.0) if end_s is None else end_s
        key = key_of(jobid, t_submit)
        self.cluster.runs(jobid, key, userid, ranks, execution.get("starttime", 0.0), end_s, watts)
        if key in self.controller.planner.memory.parked:  # Flux does not say whether its processes are stopped
            self.cluster.apply(StopJob(key.name, "running", "stopped", key=key))
        super().hello(jobid, priority, userid, t_submit, R)

    def _noted(self, jobid: int, ranks: Collection[int]) -> tuple[int | None, float | None]:
        """Return the watts and the changed expiration of a running job from its event log, None for none.

        Without watts there, those that its user states.
        """
        watts, end_s = None, None
        try:
            found = self.handle.rpc("job-info.lookup", {"id": jobid, "keys": ["eventlog", "jobspec"], "flags": 0}).get()
            watts, end_s = _events(found["eventlog"])
            node_w = 0.0 if watts is not None else details_of(json.loads(found["jobspec"]), 0).node_w
            if node_w:
                layout = self.controller.planner.layout
                units = [layout.unit[name] for name in self.cluster.instance.names(ranks) if name in layout.unit]
                watts = math.ceil(layout.net_uw(math.ceil(node_w), units) / 1e6)
        except Exception as error:  # noqa: BLE001 - a jobspec is what a user wrote: Flux would end the job
            self.failed("the watts of a running job", error)
        return watts, end_s

    @guarded
    def alloc(
        self, request: Any, jobid: int, priority: int, userid: int, t_submit: float, jobspec: dict[str, Any]
    ) -> None:
        """Queue a job; a new one that no node, or no cap to come, could ever serve is denied."""
        try:
            need = self.wanted.need(jobspec, self.resources, self.cluster.instance)
            details = details_of(jobspec, userid)
        except Exception as error:  # noqa: BLE001 - a jobspec is what a user wrote
            request.deny(str(error))
            return
        self.requests[jobid] = request
        self._queue.append(jobid)
        self.cluster.queued(jobid, key_of(jobid, t_submit), userid, priority, need, details)

        def answer(why: str) -> None:
            if why and jobid in self.requests and self.cluster.jobs[jobid].row.pending:
                self.cluster.gone(jobid)
                self.forget(jobid).deny(why)

        if t_submit >= self._loaded_s:  # one that was accepted before waits for another cap
            self._ask_watts(need, jobspec, answer)

    @guarded
    def free(self, jobid: int, R: Any, final: bool = False) -> None:
        """Take nodes back."""
        self.cluster.freed(jobid, ranks_of(R), final=final)
        super().free(jobid, R, final)

    @guarded
    def cancel(self, jobid: int) -> None:
        """Take a job out of the queue. One whose start is stored now is answered then, and waits no more."""
        self.starts = deque(one for one in self.starts if one.job_id != jobid)
        if (request := self.forget(jobid)) is not None:
            self.cluster.gone(jobid)
            request.cancel()
        elif (entry := self.cluster.jobs.get(jobid)) is not None:
            entry.need = None

    @guarded
    def prioritize(self, jobs: Sequence[tuple[int, int]]) -> None:
        """Take over priorities."""
        for jobid, priority in jobs:
            self.cluster.prioritized(jobid, priority)

    def expiration(self, msg: Any, jobid: int, expiration: float) -> None:
        """Take over when a running job ends."""
        self.resources.update_expiration(jobid, expiration)
        with self.cluster.lock:
            self.cluster.expires(jobid, expiration)
        self.handle.respond(msg, None)

    @guarded
    def resource_update(self) -> None:
        """Take over which nodes are up, and those that are left of an instance that shrinks."""
        ranks, down = ranks_of(self.resources), ranks_of(self.resources.copy_down())
        self.cluster.nodes.update(self.cluster.instance.with_states(ranks, down))
        self.cluster.ends_at(self.resources.expiration)
        for jobid in self.cluster.unservable():
            self.cluster.gone(jobid)
            self.forget(jobid).deny("too few of the nodes that could serve it are left of this instance")

    def feasibility_check(self, msg: Any, jobspec: dict[str, Any]) -> None:
        """Refuse a job at its submission that no node, or no cap to come, could ever serve."""

        def answer(why: str) -> None:
            if why:
                self.handle.respond_error(msg, errno.EOVERFLOW, why)
            else:
                self.handle.respond(msg, None)

        try:
            self._ask_watts(self.wanted.need(jobspec, self.resources, self.cluster.instance), jobspec, answer)
        except InputError as error:
            answer(str(error))
        except Exception as error:  # noqa: BLE001 - a jobspec is what a user wrote
            self.handle.respond_error(msg, errno.EINVAL, str(error))

    def _ask_watts(self, need: NodeNeed, jobspec: dict[str, Any], answer: Callable[[str], None]) -> None:
        """Answer why a job fits no cap to come, empty where it may. A cap that closes the instance is no reason.

        What has to be predicted for it is answered after the round that is at work.
        """
        planner, now_s = self.controller.planner, time.time()
        room_w = most_room_w(planner, now_s)
        stated = details_of(jobspec, 0)
        parts, _, _ = self.cluster.nodes.partitions(need.able)
        most_w = max(stated.node_w, *map(self.cluster.most_w, parts))
        if most_w * need.nodes <= room_w:  # as nearly all do: nothing has to be predicted
            answer("")
            return
        limit_s = need.duration_s or math.inf
        key = JobKey("feasibility", now_s)
        request = JobRequest(key, "", stated.app, "", need.nodes, limit_s, stated.node_w)

        def then(future: Future[float]) -> None:
            if (error := future.exception()) is not None:
                self.failed("predicting watts", error)
                answer("")  # nothing says that it never fits: whoever submits must not wait for ever
                return
            watts = future.result()
            text = f"watts: it needs {watts:.0f} W above idle, and no cap to come has more than {room_w:.0f} W"
            answer(text if watts > room_w else "")

        self.beside(lambda: least_w(planner, request, parts, now_s), then)

    # -- passes ----------------------------------------------------------------------------------
    def _tick(self, *_: Any) -> None:
        """Ask for a pass where a file changed, the cap changes as announced, or a period is over."""
        try:
            if time.monotonic() - self._collect_s >= COLLECT_S:
                gc.collect()
                self._collect_s = time.monotonic()
            stamps = tuple(stamp_of(path) for path in self.watched)
            if stamps != self._stamps or time.monotonic() >= self._due_s or time.time() >= self._step_s:
                self._stamps = stamps
                self._request_schedule()
        except Exception as error:  # noqa: BLE001 - see the module's description
            self.failed("tick", error)

    def schedule(self) -> Iterator[None]:
        """Have the controller run a round, and answer its starts."""
        try:
            self._due_s, self._step_s = time.monotonic() + self.config.period_s, math.inf
            self.journal.round((yield from self.rest(self._round)))
            self._again |= bool(self.starts)  # there may be room for more
            yield from self.answers()
        except Exception as error:  # noqa: BLE001 - see the module's description
            self._due_s = min(self._due_s, time.monotonic() + AGAIN_S)
            self.failed("schedule", error)

    def _round(self) -> Report:
        """Run one round, in the thread of rounds. Raises: ClusterError."""
        begin = time.monotonic()
        self.controller = self.controller.renewed()
        report = self.controller.round()
        if report is None:
            raise ClusterError(self.controller.problem)
        self._told = list(annotations_of(report.plan))
        self._step_s = _next_step_s(self.controller.planner.cap, report.plan.now_s)
        # events that come faster than rounds are decided together
        self._sched_delay = min(self.SCHED_DELAY_MAX, time.monotonic() - begin)
        return report

    def forecast(self) -> Iterator[None]:
        """Say why jobs wait, and when those with a reservation are expected to start."""
        try:
            for jobid, said in self._told:
                request = self.requests.get(jobid)
                if request is not None and self.said.get(jobid) != said:
                    self.said[jobid] = said
                    request.annotate(said)
                    yield
        except Exception as error:  # noqa: BLE001 - see the module's description
            self.failed("forecast", error)

    def stats_get(self) -> dict[str, Any]:
        """Return the statistics of ``flux module stats``."""
        return {**super().stats_get(), "queue_depth": str(self.queue_depth), "open_w": self.cluster.open_w,
                "used_w": self.cluster.used_w, "nodes_held": len(self.cluster.nodes.holder)}  # fmt: skip

    def run(self) -> None:
        """Run until the module is unloaded."""
        self._tick_watcher.start()
        try:
            super().run()
        finally:
            self._thread.shutdown()
            self.controller.telemetry.close()
            self.controller.run_dir.away()
            self.controller.run_dir.release()
            self.controller.at_end()


def _events(eventlog: str) -> tuple[int | None, float | None]:
    """Return the watts that a start noted in the event log of its job, and its last changed expiration."""
    last = {event["name"]: event.get("context", {}) for event in map(json.loads, eventlog.splitlines())}
    noted = last.get("alloc", {}).get("annotations", {}).get("wattqueue", {})
    return noted.get("watts"), last.get("resource-update", {}).get("expiration")


def _watched(config: LiveConfig) -> list[Path]:
    """Return the files whose change asks for a pass."""
    energy, budgets = config.energy, config.budgets
    files = (config.cap, config.targets, energy and energy.prices, budgets and budgets.file)
    return [Path(one) for one in files if one]


def _next_step_s(cap: Cap, now_s: float) -> float:
    """Return when a cap changes next, as announced; inf for never."""
    steps_s, _ = Signals(cap).caps_after(now_s)
    return float(steps_s[0]) if len(steps_s) else math.inf


def prepare(handle: Any, args: Sequence[str]) -> WattQueueScheduler:
    """Return the scheduler of a broker module. Raises: ValueError for another Flux, and for a wrong configuration."""
    try:
        version = str(handle.attr_get("version"))
        if not version.startswith(f"{TESTED}."):
            raise ValueError(f"this is Flux {version}, the scheduler is tested with {TESTED}: it starts nothing here")
        return WattQueueScheduler(handle, *args)
    except Exception as error:
        text = str(error) if isinstance(error, ValueError | WattQueueError) else f"{type(error).__name__}: {error}"
        handle.log(ERROR, text[:2000])
        raise ValueError(text) from error
