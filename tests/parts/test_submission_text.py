"""Watts from texts of submissions: what is read, what it gains where texts say something, and when."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="needs scikit-learn: pip install 'wattqueue[ml]'")

from tests.parts.test_online_estimators import MACHINE, step_by_step
from wattqueue.checks.leak import find_leak
from wattqueue.errors import InputError, PolicyError
from wattqueue.evaluation.evaluation import text_remarks
from wattqueue.evaluation.scores import cold_users
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.parts.estimator.history_mean import HistoryMean
from wattqueue.parts.estimator.submission_text import SubmissionText
from wattqueue.parts.submitted_text import WIDTH, SubmittedText, hashed, name_grams, script_words
from wattqueue.parts.timeline import WEEK_S, trace_timeline
from wattqueue.workload.submissions import script, tenths, with_texts


def written(n: int = 300, *, shuffled: bool = False, seed: int = 3) -> Jobs:
    """Three weeks of many users; watts follow from the program in the script, and from nothing else."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 4, n)
    watts = 300.0 + 200.0 * kind + rng.normal(0.0, 5.0, n)
    scripts = np.array([f"srun ./{('pack', 'mesh', 'wave', 'train')[k]} --in data.nc" for k in kind], object)
    return Jobs.build(
        np.sort(rng.uniform(0.0, 3 * WEEK_S, n)),
        rng.integers(1, 9, n),
        rng.exponential(3_000.0, n) + 60.0,
        user=[f"u{k}" for k in rng.integers(0, 60, n)],
        app=["run"] * n,
        mean_power_w=watts,
        max_power_w=watts * 1.2,
        extra={"script": scripts[rng.permutation(n)] if shuffled else scripts},
    )


def error(part: Any, jobs: Jobs, of: Any = slice(None)) -> float:
    """MAPE of the third week."""
    watts = jobs.mean_power_w
    assert watts is not None
    miss = np.abs(part.replay(jobs, trace_timeline(jobs)) - watts) / watts
    return float(100 * miss[of & (jobs.submit_s > 2 * WEEK_S)].mean())


def test_scripts_say_what_history_does_not() -> None:
    jobs, every = written(), np.ones(300, np.bool_)
    assert error(SubmissionText(), jobs, every) < 5.0
    assert error(HistoryMean(), jobs, every) > 30.0
    assert error(SubmissionText(), written(shuffled=True), every) > 30.0


def test_users_without_history_gain_as_much() -> None:
    jobs = written()
    line = trace_timeline(jobs)
    assert jobs.mean_power_w is not None
    cold = cold_users(jobs.mean_power_w, jobs.user.codes, jobs.submit_s, line.end_s)
    first = np.array([jobs.submit_s[k] < line.end_s[jobs.user.codes == u].min() for k, u in enumerate(jobs.user.codes)])
    np.testing.assert_array_equal(cold, first)
    late = replace(jobs, user=replace(jobs.user, codes=np.where(jobs.submit_s > 2 * WEEK_S, -1, jobs.user.codes)))
    assert error(SubmissionText(), late, np.ones(300, np.bool_)) < 5.0


def test_asking_job_by_job_equals_the_walk_in_one_go() -> None:
    jobs = written()
    walked = SubmissionText().replay(jobs, trace_timeline(jobs))
    stepped = step_by_step(SubmissionText(), jobs)
    np.testing.assert_allclose(np.where(np.isnan(walked), 2100.0, walked), stepped, rtol=1e-6)


def test_it_reads_nothing_of_the_future() -> None:
    assert find_leak(SubmissionText, written(120), MACHINE) is None


def test_a_trace_without_texts_is_predicted_by_the_other_features() -> None:
    jobs = replace(written(), extra={})
    assert np.isfinite(SubmissionText().replay(jobs, trace_timeline(jobs))[-50:]).all()


def test_vectors_are_of_length_1_and_the_same_for_the_same_text() -> None:
    vectors = hashed(("srun ./a", "srun ./b", "srun ./a"), script_words)
    assert vectors.shape == (4, WIDTH)
    assert np.sqrt(vectors.multiply(vectors).sum(axis=1)).ravel().tolist()[0] == pytest.approx([1.0, 1.0, 1.0, 0.0])
    assert abs(vectors[0] - vectors[2]).sum() == 0.0
    assert abs(vectors[0] - vectors[1]).sum() > 0.0


def test_words_of_scripts_and_grams_of_names() -> None:
    words = ["sbatch", "-n", "4", "srun", "./cfd"]
    pairs = ["sbatch -n", "-n 4", "4 srun", "srun ./cfd"]
    assert script_words("#SBATCH -N 4\nsrun ./cfd") == words + pairs
    assert list(name_grams("Ab")) == ["name= ab", "name=ab "]


def test_rows_of_jobs_add_up_name_user_and_texts() -> None:
    jobs = KnownJobs.of(written(40))
    whole = SubmittedText(jobs).rows(np.arange(40))
    # The same script, name and user in another table: the same vector.
    few = SubmittedText(jobs.take(np.arange(7, 9))).rows(np.array([0, 1]))
    assert abs(whole[7:9] - few).sum() == pytest.approx(0.0)


def test_what_a_trace_has_is_said_with_the_published_errors_of_other_data() -> None:
    found, published = text_remarks(written(20))
    assert found == "Texts of submissions: 1 job name; script (20 jobs)."
    assert "They are of other data" in published
    assert text_remarks(Jobs.build([0.0], [1], [1.0]))[0] == (
        "Texts of submissions: no job names; no script, submit_line, job_environment."
    )


@pytest.mark.parametrize("wrong", [{"alpha": 0.0}, {"alpha": np.inf}, {"fit_rows": 0}])
def test_options_are_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(PolicyError):
        SubmissionText(**wrong)


def test_generated_texts_name_program_and_case() -> None:
    n = 1_000
    rng = np.random.default_rng(4)
    watts: Floats = rng.uniform(300.0, 900.0, n)
    jobs = Jobs.build(np.arange(n), np.ones(n), np.ones(n), app=[f"a{k % 50}" for k in range(n)], mean_power_w=watts)
    made = with_texts(jobs, rng, clear=1.0)
    cases = np.array([int(text.partition("case")[2].partition("\n")[0]) for text in made.extra["script"]])
    np.testing.assert_array_equal(cases, tenths(watts))
    assert made.extra["script"][0] == script(made.app.values()[0].partition("_")[0], int(cases[0]), 1)
    with pytest.raises(InputError, match="share"):
        with_texts(jobs, rng, clear=2.0)
    with pytest.raises(InputError, match="mean watts"):
        with_texts(replace(jobs, mean_power_w=None), rng)
