"""The live controller's rounds hold the rule of consent as the simulator does (rule 20 of docs/semantics.md)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.policy.test_session import act_once, busy_round
from wattqueue.model.consent import Consent
from wattqueue.model.load_target import LoadTarget, LoadTargets
from wattqueue.model.signals import Cap, Signals
from wattqueue.parts.actions import Action, Requeue, Suspend
from wattqueue.policy.actions import NO_CONSENT
from wattqueue.policy.consented import frees_w
from wattqueue.policy.round import ROUND, Round


@pytest.mark.parametrize("action", [Requeue("a"), Suspend("a")])
@pytest.mark.parametrize("allowed", [0.0, 1.0])
def test_a_round_refuses_actions_for_a_target_without_consent(action: Action, allowed: float) -> None:
    seen = busy_round().snapshot
    n = len(seen.jobs)
    consent = Consent.build(n, allowed=[allowed] * n, checkpoint_s=[10.0] * n)
    targets = LoadTargets.of(LoadTarget(seen.now_s - 1.0, seen.now_s + 100.0, 1.0))
    jobs, signals = replace(seen.jobs, consent=consent), Signals(Cap.none(), targets)
    now = Round(replace(seen, jobs=jobs, signals=signals), ROUND)
    session, done = act_once(now, action)
    assert done == ([action] if allowed else [])
    assert session.refused == ({} if allowed else {NO_CONSENT: 1})


def test_what_an_action_frees_is_what_its_job_counts_also_for_the_first_of_the_table() -> None:
    view = busy_round().view(())
    assert frees_w(view, Suspend("a")) == frees_w(view, Requeue("a")) == 400.0
    assert frees_w(view, Suspend("b")) == 0.0, "it waits"
    assert frees_w(view, Suspend("nobody")) == 0.0
