"""Consent is read from the comments of jobs, strictly; where they state nothing a default holds."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattqueue.errors import InputError
from wattqueue.live.cluster import Details, JobKey
from wattqueue.live.config import load_config
from wattqueue.live.consent_tags import SiteDefaults, StatedConsent, parse_tag
from wattqueue.live.features.consent import Consents

DEFAULTS = SiteDefaults({"ada": True, "bob": False}, {"climate": True}, others=False)


def details(comment: str, user: str = "cy", account: str = "all", parts: int = 1) -> Details:
    return Details("app", user, account, comment, "", 0, parts, 0)


def stated(comment: str, user: str = "cy", account: str = "all", parts: int = 1) -> StatedConsent:
    consents, key = Consents(DEFAULTS), JobKey("1", 0.0)
    consents.follow({key: details(comment, user, account, parts)})
    return consents.of(key)


@pytest.mark.parametrize(
    ("comment", "expected"),
    [
        ("wattqueue:consent", (True, math.nan, math.nan, math.nan, math.nan)),
        ("run 7 wattqueue:consent of climate", (True, math.nan, math.nan, math.nan, math.nan)),
        ("wattqueue:no-consent", (False, math.nan, math.nan, math.nan, math.nan)),
        ("wattqueue:consent,slowdown=1.5,price=2", (True, 1.5, math.nan, 2.0, math.nan)),
        ("wattqueue:consent,until=1970-01-02T00:00Z", (True, math.nan, 86400.0, math.nan, math.nan)),
        ("wattqueue:consent,until=1970-01-02T01:00:30+01:00", (True, math.nan, 86430.0, math.nan, math.nan)),
        ("wattqueue:consent,until=2242-03-16T12:56:32Z", (True, math.nan, 2.0**33, math.nan, math.nan)),
        ("wattqueue:consent,checkpoint=600,slowdown=2", (True, 2.0, math.nan, math.nan, 600.0)),
    ],
)
def test_a_tag_states_consent_and_its_limits(comment: str, expected: tuple[float, ...]) -> None:
    found = parse_tag(comment)
    assert found is not None
    assert found.source == "job"
    limits = (found.slowdown, found.until_s, found.price, found.checkpoint_s)
    assert (found.allowed, *limits) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize("comment", ["", "consent", "my run", "xwattqueue:consent", "wattqueue: would start now on p1"])
def test_a_comment_without_a_tag_states_nothing(comment: str) -> None:
    assert parse_tag(comment) is None


WRONG = [
    "wattqueue:consnet", "wattqueue:consent,", "wattqueue:consent,slowdown", "wattqueue:consent,slowdown=",
    "wattqueue:consent,slowdown=0.5", "wattqueue:consent,slowdown=1e3", "wattqueue:consent,slowdown=nan",
    "wattqueue:consent,slowdown=2,slowdown=3", "wattqueue:consent,price=-1", "wattqueue:consent,until=tomorrow",
    "wattqueue:consent,until=2026-13-01T00:00", "wattqueue:consent,until=2242-03-16T12:56:33Z", "wattqueue:consent,x=1",
    "wattqueue:consent,checkpoint=0.5", "wattqueue:consent,checkpoint",
    "wattqueue:no-consent,price=1", "wattqueue:consent wattqueue:no-consent", "wattqueue:Consent", "wattqueue:consent;",
]  # fmt: skip


@pytest.mark.parametrize("comment", WRONG)
def test_a_wrong_tag_is_no_consent_even_where_the_user_consents_by_default(comment: str) -> None:
    with pytest.raises(InputError):
        parse_tag(comment)
    assert stated(comment, "ada") == StatedConsent(allowed=False, source="wrong")


@given(st.text(max_size=60))
def test_no_text_of_a_user_is_an_error_of_ours(comment: str) -> None:
    assert stated(comment).source in ("job", "site", "wrong")
    assert stated(f"wattqueue:consent,{comment}").source in ("job", "wrong")


@pytest.mark.parametrize(
    ("user", "account", "expected"),
    [("ada", "all", True), ("bob", "climate", False), ("cy", "climate", True), ("cy", "all", False)],
)
def test_defaults_of_the_user_go_before_those_of_the_account(user: str, account: str, expected: bool) -> None:
    assert stated("", user, account).allowed is expected
    assert stated("wattqueue:no-consent", user, account).allowed is False
    assert stated("wattqueue:consent", user, account).allowed is True


def test_components_of_one_job_do_not_consent() -> None:
    assert not stated("wattqueue:consent", parts=2).allowed


def test_changes_are_counted_and_a_change_of_a_known_job_is_an_event() -> None:
    consents, key = Consents(DEFAULTS), JobKey("1", 0.0)
    assert not consents.moved
    consents.follow({key: details("wattqueue:consent")})
    assert (consents.changes, consents.moved) == (1, False)
    consents.follow({key: details("wattqueue:consent, thanks")})
    assert (consents.changes, consents.moved) == (2, True)
    assert consents.changed == {key}
    same = details("wattqueue:no-consent")
    consents.follow({key: same})
    consents.follow({key: same._replace(comment="wattqueue:no-consent at all")})
    assert not consents.moved
    assert consents.counts([key, JobKey("2", 0.0)]) == {"consenting": 0, "not_consenting": 2, "wrong_tag": 0}


def test_the_defaults_stand_in_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "live.toml"
    file.write_text(
        'machine = "m.toml"\n[consent]\nothers = true\nusers = { ada = false }\naccounts = { climate = true }\n'
    )
    section = load_config(file).consent
    assert section is not None
    assert section.defaults() == SiteDefaults({"ada": False}, {"climate": True}, others=True)
    file.write_text('machine = "m.toml"\n[consent]\nothers = "perhaps"\n')
    with pytest.raises(InputError, match="consent"):
        load_config(file)
    file.write_text('machine = "m.toml"\n')
    assert load_config(file).consent is None
