"""Serve the controller's metrics to Prometheus, on loopback by default, with a bearer token if configured.

The controller calls ``round`` once per round and ``failed`` for a round without a snapshot; HTTP
requests are answered by a daemon thread, so a slow scraper never delays a round. Metrics carry no job
ids: labels are bounded, as Prometheus asks for.

What to watch (``share/alerts.yml`` holds rules for it):

- ``wattqueue_cap_violation_seconds_total``: measured power above the cap; must not grow;
- ``wattqueue_target_violation_seconds_total``: the same above a load target that is below the cap;
- ``wattqueue_counted_over_cap_watts``, ``wattqueue_counted_over_target_watts``, ``wattqueue_cap_below_idle_watts``,
  ``wattqueue_cap_unreadable``, ``wattqueue_jobs{state=~"stuck|failed|unlicensed|never"}``: conditions of a round
  (``live.reports.conditions``), normally 0;
- ``wattqueue_measured_over_cap_watts``, and ``wattqueue_above_cap_actions_total``: what was done about it;
- ``wattqueue_last_round_timestamp_seconds``: the heartbeat; a controller that hangs serves its metrics on;
- ``wattqueue_observe_failures_total``: Slurm does not answer; after ``away_s`` the release fall-back acts;
- ``wattqueue_actuations_total{result="failed"}``: Slurm refuses writes;
- ``wattqueue_telemetry_nodes{label!="measured"}``: nodes that count as their maximum;
- ``wattqueue_prediction_error_ratio``: measured over predicted watts, 1.0 is exact, above 1 under-predicts.

Thread safety: prometheus-client's own locks. ``LiveMetrics`` is written by the controller's thread alone; ``status`` of
``serve`` reads a file that is replaced atomically.

Reference: Prometheus, metric and label naming (base units, ``_total`` for counters).
"""

from __future__ import annotations

import hmac
import http.server
import math
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from wattqueue.errors import InputError
from wattqueue.live.planner import RoundState
from wattqueue.live.reports.domains import DomainMetrics
from wattqueue.live.reports.report import Report, counts_of
from wattqueue.version import __version__


class QuietServer(ThreadingHTTPServer):
    """Answers each request in a thread of its own; a client that goes away in between is no error.

    Python's server writes a traceback for it, into the journal of the service.
    """

    daemon_threads = True
    """A client that hangs must not keep the controller from ending."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report a request that failed, unless its connection did."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


TIMEOUT_S = 10.0
"""After so long a connection that stands still is closed."""
MODES = ("observe", "advise", "control")


@dataclass
class LiveMetrics:
    """All metrics, in a registry of their own (two controllers in one process do not share counters)."""

    mode: str
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    _last_s: float | None = None
    """Time of the last snapshot: violations are integrated over the time between two rounds."""

    def __post_init__(self) -> None:
        """Register every metric, so that each is exposed (as 0) from the first scrape on."""

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"wattqueue_{name}", text, labels, registry=self.registry)

        # names as Prometheus asks: base units, no job ids, counters end in _total by themselves
        # registered while a node is measured: a gauge that is there from the first scrape on would read 0 W
        self.power = Gauge(
            "wattqueue_cluster_power_watts", "Power of all nodes, measured or their maximum.", registry=None
        )
        self._measured = False
        self.counted = gauge("cluster_counted_power_watts", "Power that the ledger counts in the cap's scope.")
        self.cap = gauge("cluster_power_cap_watts", "The site's cap, load targets aside; +Inf without one.")
        self.limit = gauge("cluster_power_limit_watts", "The lower of cap and load target in force; +Inf without.")
        self.over_cap = gauge("counted_over_cap_watts", "Counted power above the cap that the site states.")
        self.over_target = gauge("counted_over_target_watts", "Counted power above a load target below the cap.")
        self.over_measured = gauge("measured_over_cap_watts", "Measured power above the cap without load targets.")
        text = "Limits lowered, and jobs stopped or requeued, while measured power was above the cap."
        self.above_actions = Counter("wattqueue_above_cap_actions", text, ("action",), registry=self.registry)
        for action in ("limit", "stop", "requeue"):  # there from the first scrape, so that an increase is seen
            self.above_actions.labels(action)
        self.domains = DomainMetrics(self.registry)
        self.below_idle = gauge("cap_below_idle_watts", "Watts by which the cap is below idle and shared nodes.")
        self.shared = gauge("shared_nodes_watts", "Watts that nodes count which jobs share, each its maximum once.")
        self.unreadable = gauge("cap_unreadable", "1 while the content of the cap's file is not in force.")
        self.unusable = gauge("unusable_targets", "Events or files of load targets that cannot be used.")
        self.last_round = gauge("last_round_timestamp_seconds", "Time of the last round that saw the cluster.")
        self.pool = gauge(
            "pool_watts",
            "The watts licence: total, open to jobs, used, and the part of it that Slurm does not count.",
            "part",
        )
        self.jobs = gauge("jobs", "Jobs by what the controller sees in them.", "state")
        self.limits = gauge(
            "node_limits", "Limits of nodes through their agents, by figure; those in _w are watts.", "figure"
        )
        self.refused = Counter(
            "wattqueue_refused_actions", "Actions of controls that were refused.", ("kind",), registry=self.registry
        )
        self.telemetry = gauge("telemetry_nodes", "Nodes by the label of their power.", "label")
        self.actuator = gauge("actuator_mode", "1 for the mode in force.", "mode")
        for mode in MODES:
            self.actuator.labels(mode).set(mode == self.mode)
        gauge("build_info", "The version that runs.", "version").labels(__version__).set(1)
        self.over_s, self.over_j = {}, {}
        for limit, what in (("cap", "the cap"), ("target", "a load target below the cap")):
            name = f"wattqueue_{limit}_violation"
            self.over_s[limit] = Counter(
                f"{name}_seconds", f"Seconds of measured power above {what}.", registry=self.registry
            )
            self.over_j[limit] = Counter(
                f"{name}_joules", f"Energy of measured power above {what}.", registry=self.registry
            )
        # a round of an idle cluster takes some ms, one with 200 starts some seconds: buckets for both
        self.rounds = Histogram(
            "wattqueue_reconcile_duration_seconds",
            "Duration of a whole round.",
            buckets=(0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10),
            registry=self.registry,
        )
        self.writes = Counter(
            "wattqueue_actuations", "Writes to Slurm by kind and result.", ("kind", "result"), registry=self.registry
        )
        self.failures = Counter(
            "wattqueue_observe_failures", "Rounds in which Slurm could not be observed.", registry=self.registry
        )
        # finer around 1, where the margin of 10 % lies
        self.errors = Histogram(
            "wattqueue_prediction_error_ratio",
            "Measured mean watts of ended jobs over predicted.",
            buckets=(0.25, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2, 1.5, 2.0),
            registry=self.registry,
        )

    def round(self, report: Report) -> None:
        """Take over the figures of one round."""
        plan, pool = report.plan, report.snapshot.pool
        self.rounds.observe(report.took_s)
        self.cap.set(plan.alone_w)
        self.limit.set(plan.stated_w)
        found = report.conditions
        self.over_cap.set(found.over_cap_w)
        self.over_target.set(found.over_target_w)
        self.over_measured.set(found.over_measured_w)
        for action, times in plan.planner.above.counts.items():
            self.above_actions.labels(action).inc(times)
        self.below_idle.set(found.cap_below_idle_w)
        self.shared.set(plan.shared.watts)
        self.unreadable.set(found.cap_unreadable)
        self.unusable.set(plan.unusable_targets)
        self.last_round.set(report.snapshot.taken_s)
        self.counted.set(plan.counted_w)
        if pool is not None:
            for part, value in (
                ("total", pool.total),
                ("open", pool.open_w),
                ("used", pool.used),
                ("uncounted", pool.uncounted),
            ):
                self.pool.labels(part).set(value)
        self.domains.round(plan)
        for name, figure in plan.limit_figures.items():
            self.limits.labels(name).set(figure)
        for refusal in plan.refusals:
            self.refused.labels(type(refusal.action).__name__).inc()
        for state, count in counts_of(report).items():  # the same names as in the status file
            self.jobs.labels(state).set(count)
        for outcome in report.outcomes:
            self.writes.labels(outcome.write.kind, "failed" if outcome.error else "done").inc()
        self._power(report)

    def _power(self, report: Report) -> None:
        """Take over measured power, and count violations of the cap and of load targets, each as its own.

        Violations are counted only while every node is measured: a node that counts as its maximum
        would report a violation that nobody saw.
        """
        labels = [p.label for p in report.power.values()]
        for label in ("measured", "stale", "missing"):
            self.telemetry.labels(label).set(labels.count(label))
        now_s = report.snapshot.taken_s
        if ("measured" in labels) != self._measured:
            self._measured = not self._measured
            (self.registry.register if self._measured else self.registry.unregister)(self.power)
        if labels:
            power_w = sum(p.power_w for p in report.power.values())
            self.power.set(power_w)
            measured = labels.count("measured") == len(labels)
            if self._last_s is not None and measured:
                self._violated(power_w, max(0.0, now_s - self._last_s), report.plan)
        self._last_s = now_s

    def _violated(self, power_w: float, seconds: float, plan: RoundState) -> None:
        """Count the time since the last round, and its energy, above each limit that power is above."""
        target_w = plan.stated_w if plan.stated_w < plan.alone_w else math.inf
        for limit, limit_w in (("cap", plan.alone_w), ("target", target_w)):
            if power_w > limit_w:
                self.over_s[limit].inc(seconds)
                self.over_j[limit].inc(seconds * (power_w - limit_w))

    def failed(self, reason: str) -> None:
        """Count a round in which Slurm could not be observed."""
        self.failures.inc()

    def learned(self, ratio: float) -> None:
        """Take over measured over predicted watts of a job that ended."""
        if ratio > 0:
            self.errors.observe(ratio)


def serve(metrics: LiveMetrics, address: str, port: int, token: str, status: Callable[[], str]) -> Any:
    """Serve ``/metrics`` and ``/status`` in a thread, and return the server (``shutdown`` ends it).

    ``status`` returns the JSON text of the last status. The token is compared in constant time.

    Raises: InputError where the address or port cannot be used.
    """

    class Handler(http.server.BaseHTTPRequestHandler):
        # the defaults would name the Python version to anyone who asks
        server_version, sys_version = "wattqueue", ""
        timeout = TIMEOUT_S

        def do_GET(self) -> None:
            """Answer /metrics and /status; nothing else exists, and nothing can be changed over HTTP."""
            given = self.headers.get("Authorization", "")
            if token and not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
                self._answer(401, "text/plain", b"a bearer token is needed\n")
            elif self.path == "/metrics":
                self._answer(200, CONTENT_TYPE_LATEST, generate_latest(metrics.registry))
            elif self.path == "/status":
                self._answer(200, "application/json", status().encode())
            else:
                self._answer(404, "text/plain", b"/metrics or /status\n")

        def _answer(self, code: int, kind: str, body: bytes) -> None:
            self.send_response(code)
            if code == 401:
                self.send_header("WWW-Authenticate", "Bearer")
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's own name
            """Nothing is logged: a header may hold the token."""

    try:
        server = QuietServer((address, port), Handler)
    except OSError as error:
        hint = "is another controller running, or the port in use?"
        raise InputError(f"cannot listen: {error.strerror}", where=f"{address}:{port}", hint=hint) from error
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return server
