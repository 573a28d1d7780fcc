"""Policies whose parts are asked in each round, with a memory of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Signals
from wattqueue.parts.actions import Action, Requeue, SetFrequency, StopNode, WakeNode
from wattqueue.parts.contracts import Entries, Prediction, Start
from wattqueue.parts.estimator.history_mean import HistoryMean
from wattqueue.parts.ledger.chance import Chance
from wattqueue.parts.ledger.predicted import Predicted
from wattqueue.parts.order.fcfs import Fcfs
from wattqueue.parts.runtime.recent_quantile import RecentQuantile
from wattqueue.policy.policy import load_policy
from wattqueue.policy.registry import Policy
from wattqueue.policy.view import View


class Busybody:
    """A control with a memory: stops and wakes a node, requeues a job, asks for a frequency; by its own count."""

    period_s, events = 2.0, frozenset({"arrival"})

    def __init__(self) -> None:
        self.calls = 0

    def act(self, view: View) -> Sequence[Action]:
        self.calls += 1
        running = view.job_ids(view.running)
        done: list[Action] = [StopNode(7)] if self.calls % 5 == 1 else [WakeNode(7)]
        if self.calls % 7 == 0 and running:
            done += [Requeue(running[0]), SetFrequency(running[-1], 0)]
        return done


class LastFirst(Fcfs):
    """Ranks at each pass: who came last goes first, but every third pass the other way round."""

    def __init__(self) -> None:
        super().__init__()
        self.passes = 0

    def rerank(self, view: View) -> Any:
        self.passes += 1
        rows = [view.entry_job(int(entry)) for entry in view.queue]
        return [float(row) * (-1.0 if self.passes % 3 == 0 else 1.0) for row in rows]


class KeepsFree(Predicted):
    """A ledger with a margin that depends on the present."""

    def margin_w(self, view: View) -> float:
        return 50.0 * (len(view.running) % 3)


class OneAtATime:
    """A pass in Python: the first entry that fits."""

    def schedule(self, view: View) -> Sequence[Start]:
        return [Start(int(entry), view.entry_options(int(entry))[0]) for entry in view.queue[:1]]


class LooksAhead:
    """A pass in Python that also keeps to the caps announced for the time in which a job may run."""

    def schedule(self, view: View) -> Sequence[Start]:
        free, left, found = view.free.copy(), view.available_w, []
        at_s, caps_w = view.announced_caps
        for entry in view.queue.tolist():
            job, p, option = view.entry_job(entry), view.entry_partition(entry), view.entry_options(entry)[0]
            lowest = caps_w[at_s < view.now_s + view.jobs.walltime_s[job]].min(initial=view.cap_w)
            need, watts = int(view.jobs.nodes[job]), view.net_watts(job, option)
            if need <= free[p] and watts <= left - (view.cap_w - lowest):
                free[p] -= need
                left -= watts
                found.append(Start(entry, option))
        return found


class AnyFrequency:
    """Every frequency of the partition, the highest first: the pass takes the first one that fits the cap."""

    def window(
        self, jobs: KnownJobs, entries: Entries, prediction: Prediction, machine: Machine, signals: Signals
    ) -> tuple[Any, Any]:
        """First and last option of each entry."""
        return machine.option_start[:-1][entries.partition], machine.option_start[1:][entries.partition] - 1


def easy(**parts: Any) -> Policy:
    return replace(load_policy("easy"), **parts)


POLICIES: dict[str, Callable[[], Policy]] = {
    "plain": easy,
    "controls": lambda: easy(controls=(Busybody(),)),
    "re-ranking": lambda: easy(order=LastFirst()),
    "margin": lambda: easy(ledger=KeepsFree()),
    "chance ledger": lambda: easy(ledger=Chance(own=0.1, common=0.02)),
    "learning estimator": lambda: easy(estimator=HistoryMean()),
    "custom pass": lambda: easy(backfill=OneAtATime()),
    "looking ahead": lambda: easy(backfill=LooksAhead()),
    "frequency choice": lambda: easy(frequency=AnyFrequency()),
    "run times": lambda: load_policy("easy++"),
    "run times in steps": lambda: easy(runtime=RecentQuantile(at=0.2, correction="steps")),
    "run times and frequencies": lambda: replace(load_policy("easy++"), frequency=AnyFrequency()),
    "run times at start": lambda: load_policy("easy-sjbf+rt-quantile"),
    "all": lambda: easy(
        estimator=HistoryMean(), order=LastFirst(), ledger=Chance(own=0.1, common=0.02), controls=(Busybody(),)
    ),
}
