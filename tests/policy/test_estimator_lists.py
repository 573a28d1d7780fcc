"""A base and corrections in a row: how a list is read, and what is wrong with one."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.program import wattqueue
from wattqueue.errors import InputError, PolicyError
from wattqueue.model.jobs import Jobs
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine, plain_machine
from wattqueue.parts.contracts import Finished, Prediction
from wattqueue.parts.corrections.margin import Margin
from wattqueue.parts.corrections.unit_factors import UnitFactors
from wattqueue.parts.estimator.app_mean import AppMean
from wattqueue.policy.capabilities import parts_of
from wattqueue.policy.corrected import Corrected
from wattqueue.policy.policy import load_policy
from wattqueue.policy.promise import promise_of
from wattqueue.policy.row_files import files_in
from wattqueue.policy.rows import composed
from wattqueue.sim.engine import simulate

UNITS = "app,unit,watts\ncg,0,80\ncg,1,120\n"
MINE = '''
class Mine:
    """A correction of one's own."""

    lowers = False

    def apply(self, predicted, jobs, machine):
        return predicted

    def invert(self, finished, jobs, machine):
        return finished


class Lowers(Mine):
    """Says nothing of what it does."""

    def apply(self, predicted, jobs, machine):
        from dataclasses import replace

        return replace(predicted, power_w=predicted.power_w * 0.9)


class Half:
    """Forgets to invert."""

    def apply(self, predicted, jobs, machine):
        return predicted

    def inverrt(self, finished, jobs, machine):
        return finished
'''


def row_file(folder: Path, estimator: str) -> str:
    """A file of one row, with a table and parts beside it."""
    (folder / "units.csv").write_text(UNITS)
    (folder / "mine.py").write_text(MINE)
    (folder / "rows.toml").write_text(f'[mine]\nextends = "easy"\nestimator = {estimator}\n')
    return f"{folder / 'rows.toml'}:mine"


def test_a_list_is_a_base_and_corrections_in_its_order(tmp_path: Path) -> None:
    name = row_file(
        tmp_path, '["app-mean", { part = "unit-factors", table = "units.csv" }, { part = "margin", factor = 1.01 }]'
    )
    policy = load_policy(name)
    assert isinstance(policy.estimator, Corrected)
    assert [type(part) for axis, part in parts_of(policy) if axis == "estimator"] == [AppMean, UnitFactors, Margin]
    assert policy.estimator.asked == "at_submit"
    assert tmp_path / "units.csv" in files_in(policy.row)
    assert "app-mean,unit-factors,margin" in promise_of(policy).start
    assert pickle.loads(pickle.dumps(policy.estimator)).corrections[1].factor == 1.01  # noqa: S301 - campaigns do so


def test_one_in_a_list_is_the_estimator_itself() -> None:
    assert isinstance(load_policy("easy", estimator=["app-mean"]).estimator, AppMean)


def test_a_name_lists_those_without_options(tmp_path: Path) -> None:
    assert composed("easy", ["estimator=history-mean,margin"]) == "easy+estimator=history-mean,margin"
    row_file(tmp_path, '"maximum"')
    assert isinstance(load_policy(f"easy+estimator=history-mean,{tmp_path / 'mine.py'}:Mine").estimator, Corrected)


@pytest.mark.parametrize(
    ("estimator", "what", "hint"),
    [
        ('["margin"]', "'margin' is a correction, and has no base", "history-mean"),
        ('"margin"', "'margin' is a correction, and has no base", "history-mean"),
        ('"mine.py:Mine"', "Mine' is a correction, and has no base", "history-mean"),
        ('["ear", "maximum"]', "two bases, 'ear' and 'maximum'", "leave one of them out"),
        ('["history-mean", "mine.py:Mine", "last-job"]', "two bases, 'history-mean' and 'last-job'", "leave one"),
        ('["history-mean", "margn"]', "'margn'", "did you mean margin"),
        ('["hist-mean", "margin"]', "'hist-mean'", "history-mean"),
        ('["history-mean", { part = "margin", factor = 0 }]', "factor is 0", "above 0"),
        ('["history-mean", { part = "margin", factor = nan }]', "factor", "factor"),
        ('["history-mean", { part = "margin", by = 2 }]', "no option 'by'", "factor"),
        ('["history-mean", "margin", "margin"]', "margin occurs twice", "once"),
        ('["history-mean", "margin"]', "margin needs a factor other than 1", "factor = 1.05"),
        ('["history-mean", "unit-factors"]', "unit-factors needs a table", 'table = "units.csv"'),
        ("[]", "empty list", "name"),
    ],
)
def test_a_wrong_list_is_an_error_with_its_place_and_a_remedy(
    tmp_path: Path, estimator: str, what: str, hint: str
) -> None:
    name = row_file(tmp_path, estimator)
    with pytest.raises(PolicyError) as caught:
        load_policy(name)
    assert what in caught.value.what
    assert "rows.toml:mine" in str(caught.value.where)
    assert hint in str(caught.value.hint)


def test_a_table_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    name = row_file(tmp_path, '["history-mean", { part = "unit-factors", table = "units.csv" }]')
    (tmp_path / "units.csv").write_text("app,unit,watts\ncg,0,80\ncg,1,-3\n")
    with pytest.raises(InputError) as caught:
        load_policy(name)
    assert "units.csv:3" in str(caught.value.where)


@pytest.mark.compiled
def test_the_checks_take_a_correction(tmp_path: Path) -> None:
    row_file(tmp_path, '"maximum"')
    sound = wattqueue("check", f"{tmp_path / 'mine.py'}:Mine")
    assert sound.returncode == 0, sound.stdout
    assert "Mine as corrections: apply" in sound.stdout
    assert "Mine as corrections: a run behind a base" in sound.stdout
    lowers = wattqueue("check", f"{tmp_path / 'mine.py'}:Lowers")
    assert lowers.returncode == 1
    assert "lowers = True" in lowers.stdout
    half = wattqueue("check", f"{tmp_path / 'mine.py'}:Half")
    assert half.returncode == 1
    assert "is invert() meant?" in half.stdout


def test_factors_of_another_shape_are_refused_by_name() -> None:
    class Wrong:
        lowers = True

        def apply(self, predicted: Prediction, jobs: KnownJobs, machine: Machine) -> Prediction:
            return replace(predicted, unit_factor=np.ones((3, 2)))

        def invert(self, finished: Finished, jobs: KnownJobs, machine: Machine) -> Finished:
            return finished

    policy = load_policy("easy", estimator=["history-mean", Wrong()])
    with pytest.raises(PolicyError, match=r"unit_factor has shape \(3, 2\), expected \(0, 4\)"):
        simulate(Jobs.build([0.0], [1], [1.0]), plain_machine(4, 10.0, 100.0), policy)
