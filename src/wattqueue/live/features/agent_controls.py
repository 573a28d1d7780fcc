"""Give the controls of a live policy what only the agents of nodes measure.

A row of a policy file names a control; what it measures with comes from Python. Live that is the agents' readings, so
that ``controls = ["rapl-redistribution"]`` works in a file as it stands. ``app-check`` also needs the profiles of a
site's applications; where something that it needs is not configured it is left out, with a line that says so.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from wattqueue.live.features.applications import Applications
from wattqueue.live.features.job_counters import JobCounters
from wattqueue.live.features.node_limits import measured_by_agents
from wattqueue.policy.for_machine import SiteFacts, row_on
from wattqueue.policy.policy import build_part, policy_from_row
from wattqueue.policy.registry import Policy
from wattqueue.policy.rows import Row, find_row, listed
from wattqueue.store.applications import Misfit


class AppSources(NamedTuple):
    """What ``app-check`` works with; None for what is not configured."""

    applications: Applications | None = None
    """Profiles of a site's applications."""
    counters: JobCounters | None = None
    """Counters of running jobs, where there are agents."""

    @property
    def lacking(self) -> str:
        """Return what is not configured; empty for nothing."""
        if self.applications is None:
            return "no profiles of applications are configured ([applications])"
        return "no agents are configured that could read counters ([telemetry.broker])" if self.counters is None else ""

    def options(self) -> dict[str, Any]:
        """Return the options of the control; without profiles or counters none."""
        if self.applications is None or self.counters is None:
            return {}
        found = self.applications
        apps, tables = found.database.metrics(found.coefficients, found.first_run)

        def report(job: str, user: str, claimed: str, nearest: str, distance: float, time_s: float) -> None:
            """Record a false claim for its user."""
            found.database.record_misfit(Misfit(job, user, time_s, claimed, nearest, distance))

        return {
            "apps": apps, "applications": tables, "coefficients": dict(found.coefficients),
            "measure": self.counters, "report": report,
        }  # fmt: skip


def load_live_policy(
    name: str,
    sources: AppSources = AppSources(),  # noqa: B008 - immutable
    site: SiteFacts | None = None,
) -> tuple[Policy, list[str]]:
    """Return a policy as ``load_policy`` does, with controls that measure by agents; and what is left out, and why.

    ``site`` is what a row that follows from the machine is made of.

    Raises: as ``load_policy``.
    """
    row = find_row(name)
    return live_policy_from_row(name, row if site is None else row_on(row, site), sources)


def live_policy_from_row(
    name: str,
    row: Row,
    sources: AppSources = AppSources(),  # noqa: B008 - immutable
) -> tuple[Policy, list[str]]:
    """Build the parts of a row, with controls that measure by agents; the policy keeps the row itself."""
    controls, left_out = [], []
    for value in listed(row["controls"]):
        options = dict(value) if isinstance(value, dict) else {"part": value}
        if options.get("part") == "rapl-redistribution" and "measure" not in options:
            value = build_part(name, "controls", {**options, "measure": measured_by_agents})
        elif options.get("part") == "app-check" and "measure" not in options:
            if sources.lacking:
                left_out.append(f"app-check is left out: {sources.lacking}")
                continue
            value = build_part(name, "controls", {**sources.options(), **options})
        controls.append(value)
    return replace(policy_from_row(name, {**row, "controls": controls}), row=row), left_out
