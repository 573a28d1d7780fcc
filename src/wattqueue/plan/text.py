"""The answer in sentences and tables, the same in terminal, page and files."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from wattqueue.plan.answer import HOTTER, PlanAnswer, TriedNodes
from wattqueue.plan.growth import pace
from wattqueue.plan.ratios import LEAST_DAYS
from wattqueue.plan.risk import CONFIDENCE, Exceedance
from wattqueue.report import words
from wattqueue.report.document import Table
from wattqueue.whatif.safe import percent

HOW_TO_READ = (
    "**Limits for the pass**: the lowest share of all limits under which every job starts and waits rise no further "
    "than accepted. **Above a limit**: of the domain that is above its limit longest, its share of the time and the "
    f"{100 * CONFIDENCE:.0f} % bound; the number passes where the bound is at most the accepted share."
)


def headline(answer: PlanAnswer) -> str:
    """Return the answer in one sentence."""
    gained = (
        f"{answer.nodes}, {words.figures(100.0 * answer.more / answer.nameplate)} %" if answer.more else "none more"
    )
    return (
        f"**{signed(answer.more)} nodes** beyond the {answer.nameplate} that fit at their stated maximum ({gained}); "
        f"{above(answer.risk, bound=answer.setup.quantiles is None)}; {waits(answer)}; if jobs draw "
        f"{round(100 * HOTTER - 100)} % more: {signed(answer.hotter - answer.nameplate)}."
    )


def signed(count: int) -> str:
    """Return a number of nodes with its sign."""
    return f"{'+' if count >= 0 else '−'}{abs(count)}"


def above(found: Exceedance, *, bound: bool = True) -> str:
    """Return how long a limit is exceeded as part of a sentence."""
    if found.upper == 0.0:
        return "never above a domain's limit" + (" in any draw" if bound else ", by quantiles alone")
    if not bound:
        return f"above a domain's limit at most {percent(found.share)} of the time, by quantiles alone"
    most = f"at most {percent(found.upper)} with {100 * CONFIDENCE:.0f} % confidence"
    return f"above a domain's limit {percent(found.share)} of the time, {most}"


def waits(answer: PlanAnswer) -> str:
    """Return what the limits do to the mean wait of the same jobs."""
    base, wait = answer.waits_s
    if wait == base:
        return f"mean wait unchanged ({words.span(base)})"
    rise = "" if base <= 0.0 else f" {'+' if wait > base else '−'}{words.figures(100.0 * abs(wait - base) / base)} %"
    return f"mean wait{rise} ({words.span(base)} without limits, {words.span(wait)} with them)"


def baselines(answer: PlanAnswer) -> Table:
    """Return how many nodes fit by each way of counting them."""
    setup = answer.setup
    rows = [
        ("today", "", str(setup.growth.part.nodes), ""),
        ("stated maximum", words.watts(setup.nameplate_w), str(answer.nameplate), "baseline"),
        ("99.9 % quantile of measured watts", words.watts(setup.high_node_w), str(answer.high),
         signed(answer.high - answer.nameplate)),
        ("this plan", "", str(answer.nodes), signed(answer.more)),
        (f"this plan, jobs draw {round(100 * HOTTER - 100)} % more", "", str(answer.hotter),
         signed(answer.hotter - answer.nameplate)),
    ]  # fmt: skip
    return Table(("counted at", "watts", "nodes", "more"), rows, "Nodes under the limits", key="baselines",
                 kinds=["wrap", "n", "n", "n"])  # fmt: skip


def tried(answer: PlanAnswer) -> Table:
    """Return the numbers of nodes that were tried."""
    heads = (
        "nodes", "limits for\nthe pass", "mean wait\nwithout limits", "mean wait\nwith them", "above\na limit",
        "at most", f"at most, jobs\ndraw {round(100 * HOTTER - 100)} % more",
    )  # fmt: skip
    return Table(heads, [_row(point) for point in answer.points], "Numbers that were tried", HOW_TO_READ, key="tried",
                 kinds=["n"] * len(heads))  # fmt: skip


def _row(point: TriedNodes) -> list[str]:
    spans = ["–" if math.isnan(wait) else words.span(wait) for wait in (point.plain_wait_s, point.wait_s)]
    shares = (point.measured.share, point.measured.upper, point.hotter.upper)
    return [str(point.nodes), percent_of(point.planning), *spans, *map(percent, shares)]


def percent_of(share: float) -> str:
    """Return a share of limits."""
    return f"{words.figures(100.0 * share)} %"


def assumptions(answer: PlanAnswer) -> Iterator[str]:
    """Yield what the answer rests on, a sentence each."""
    setup, question = answer.setup, answer.setup.question
    file = Path(setup.task.workload).name
    yield (
        f"Accepted: {percent(question.risk)} of the time above any limit, {percent(question.wait_rise)} more mean "
        f"wait of the same jobs on as many nodes without limits; every job that starts there starts here: "
        f"{words.count(int(answer.run.schedule.ran.sum()), 'job')} of {len(answer.run.jobs):,}."
    )
    never = int((~answer.plain.schedule.ran).sum())
    if never:
        yield f"{words.count(never, 'job')} never start on {answer.nodes} nodes, with limits or without."
    if question.same_load:
        yield f"Load: the jobs of {file} as they came, also on more nodes."
    else:
        times = 1.0 / pace(setup.growth, answer.nodes)
        speed = "as recorded" if times == 1.0 else f"{words.figures(times)} times as fast as recorded"
        yield f"Load: each node has as much work as today; on {answer.nodes} nodes the jobs of {file} come {speed}."
    if setup.quantiles is not None:
        yield (
            f"Watts: no job has its own; each node draws as {setup.quantiles.name} says, and all nodes move together "
            f"(correlation 1), which quantiles alone cannot exclude. They give no interval either."
        )
    else:
        yield from _of_jobs(answer)
    if answer.planning < 1.0:
        yield (
            f"Give the pass {percent_of(answer.planning)} of each limit: what is left takes up jobs that draw more "
            "than was counted."
        )
    if setup.moving:
        yield f"Limits that move count at their lowest: {', '.join(setup.moving)}."
    yield (
        f"The nodes of {setup.growth.part.name} are shared out to its {len(setup.growth.own)} lowest domains by the "
        "watts that reach these."
    )


def _of_jobs(answer: PlanAnswer) -> Iterator[str]:
    """Yield what is known of the watts of jobs."""
    setup, risks = answer.setup, answer.risks
    known = setup.measured.known
    kind = "greatest measured watts" if setup.jobs.max_power_w is not None else "mean measured watts, phases unknown"
    if setup.measured.level_w.shape[1] > 1:
        kind = "measured watts, of which each part of its run counts alike"
    yield (
        f"Watts: a job draws its {kind}, all its nodes alike; or what is drawn over what was counted is that of other "
        "jobs, shared by jobs that start on the same day."
    )
    tried = ", ".join(f"{one.correlation:.2g}: {percent(one.share)}" for one in risks if not one.own)
    yield (
        f"Correlation of jobs of a day, 0, fitted and its upper bound, with the time above a limit by ratios of other "
        f"jobs: {tried}; by the jobs' own watts: {percent(answer.replay.share)}. The worst counts."
    )
    if answer.days < LEAST_DAYS:
        yield (
            f"{answer.days:.2g} days of jobs give no interval: {LEAST_DAYS} are needed. A number passes only where no "
            "draw is above a limit, also with correlation 1."
        )
    if known < 0.99:
        yield (
            f"{percent(1.0 - known)} of the node-hours have no measured watts; they count as the simulator counts "
            "them, at the stated maximum."
        )
    if setup.jobs.origin == "generated":
        yield "The jobs are generated, and so are their watts."


def rehearsal(answer: PlanAnswer) -> str:
    """Return what happens when a domain is derated for 8 hours."""
    found = answer.rehearsal
    if found.refused:
        return f"Derating {found.domain} was not rehearsed: {found.refused}."
    lost = "every job still starts" if not found.never_ran else f"{words.count(found.never_ran, 'job')} never start"
    wait = f"{'+' if found.extra_wait_s >= 0 else '−'}{words.span(abs(found.extra_wait_s))}"
    return (
        f"Rehearsed: {found.domain} at {words.watts(found.limit_w)} for the 8 hours in which it carries most: mean "
        f"wait {wait}, {lost}; running jobs keep it above that for {words.span(found.above_s)}."
    )
