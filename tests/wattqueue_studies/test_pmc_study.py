"""The study of PMC models: scores by hand, budgets, real nodes, the report and the command."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("scipy", reason="needs scipy: pip install 'wattqueue[ml]'")

from tests.program import wattqueue
from wattqueue.errors import InputError
from wattqueue_studies.clustercockpit import ACTIVITY, NodeSeries, read_node_series
from wattqueue_studies.frame.samples import Samples
from wattqueue_studies.pmc import budget
from wattqueue_studies.pmc.nodes import AGNOSTIC, OWN_MEAN, PREDICTIONS, check_nodes, node_table
from wattqueue_studies.pmc.study import PmcStudy
from wattqueue_studies.pmc.tables import MODELS, factor_error_percent, processes, score, socket_errors
from wattqueue_studies.sockets import PmcTrial
from wattqueue_studies.variability.codes import applications

EMMY = "jobs/clustercockpit_emmy_2jobs_node_timeseries.csv.gz"
RUN = ("study", "pmc")
STUDY = PmcStudy(seeds=2, sockets=96)


@cache
def trial() -> PmcTrial:
    return PmcTrial(seed=1, sockets=96)


@cache
def samples() -> Samples:
    return STUDY.draw()


def test_errors_are_those_of_other_sockets() -> None:
    errors = socket_errors(trial(), "VT")
    assert set(errors) == set(applications())
    assert all(e.shape == (95,) for e in errors.values())
    found = score(trial())
    assert found["ferret", "VT", "mape_percent"] == pytest.approx(errors["ferret"].mean())
    assert found["average", "VT", "mape_percent"] == pytest.approx(np.mean([e.mean() for e in errors.values()]))
    worst = max(v for (s, m, k), v in found.items() if (s, k) == ("worst application", "mape_percent"))
    assert worst == found["worst application", "not optimised", "mape_percent"]


def test_choosing_components_helps_and_all_models_are_scored() -> None:
    found = score(trial())
    for model in MODELS:
        assert found["average", model, "mape_percent"] > 0.1
    for name in ("VT", "PR-CB", "PR-MB"):
        plain, whole = (found["average", name + e, "mape_percent"] for e in ("", ", all components"))
        assert plain < whole


def test_own_weights_rank_sockets_better_than_one_ratio() -> None:
    assert factor_error_percent(trial(), "VT") < factor_error_percent(trial(), "PR-CB")


def test_a_model_with_the_truth_has_no_error_of_factors(monkeypatch: pytest.MonkeyPatch) -> None:
    """A constant factor on all watts is an error of level, not of factors."""
    mine = PmcTrial(seed=1, sockets=96)
    truth = {app: type("W", (), {"mean_w": 1.1 * t.mean_w})() for app, t in mine.truth.items()}
    monkeypatch.setattr(PmcTrial, "predict", lambda *_: truth)
    assert factor_error_percent(mine, "VT") == pytest.approx(0.0, abs=1e-9)
    assert socket_errors(mine, "VT")["dedup"] == pytest.approx(10.0)


def test_one_seed_is_one_draw() -> None:
    again = PmcTrial(seed=1, sockets=96)
    assert score(again) == score(trial())
    assert score(PmcTrial(seed=2, sockets=96)) != score(trial())


def test_processes_are_nearly_one() -> None:
    found = processes(trial(), draws=20)
    assert {app for app, *_ in found} == {a for a, c in applications().items() if c.processes > 1}
    assert all(0 <= v < 2.0 for v in found.values())


def test_a_budget_is_filled_by_what_each_policy_knows() -> None:
    found = budget.fill_budget(PmcTrial(seed=1))
    sockets = {p: found["15 kW", p, "busy_sockets"] for p in budget.POLICIES}
    assert sockets["conservative"] == budget.BUDGET_W // 115
    assert sockets["agnostic, worst"] < sockets["agnostic, best"]
    over = {p: found["15 kW", p, "over_percent"] for p in budget.POLICIES}
    assert over["agnostic, best"] > 0 > over["variability-aware"] > over["conservative"]
    for p in budget.POLICIES:
        assert over[p] == pytest.approx(100 * (found["15 kW", p, "peak_w"] / budget.BUDGET_W - 1))


def test_the_report(data_dir: Path) -> None:
    found = STUDY.report(samples(), None)
    lines = list(found.lines())
    assert max(map(len, lines)) <= 80
    text = " ".join(" ".join(lines).split())
    assert "Real nodes: skipped, no data given" in text
    assert "generated" in text
    verdicts = {row["key"]: row["verdict"] for row in found.claims.document()}
    assert sum(v == "by construction" for v in verdicts.values()) == 4
    page = found.html()
    assert page.count('<figure class="fig') == 8
    document = json.loads(json.dumps(found.document(), allow_nan=False))
    assert document["generated"] is True
    assert len(document["components"]) == 16
    with_nodes = STUDY.report(samples(), read_node_series(data_dir / EMMY))
    assert len(with_nodes.document()["nodes"]) == 16
    assert max(map(len, with_nodes.lines())) <= 80


def node(name: str, factor: float, *, noise: float = 0.0, samples: int = 200) -> NodeSeries:
    """A node whose watts obey eq. 1, times a factor on load alone."""
    rng = np.random.default_rng(int(1000 * factor))
    activity = rng.uniform(0.5, 1.5, (samples, len(ACTIVITY)))
    watts = activity @ np.array([100.0 * factor, 20.0, 20.0, 20.0, 20.0])
    return NodeSeries(
        "j", name, np.arange(0.0, 60.0 * samples, 60.0), activity, watts + rng.normal(0, noise, samples), 0
    )


def test_nodes_that_obey_eq_1() -> None:
    (check,) = check_nodes([node("a", 0.9), node("b", 1.0), node("c", 1.1)])
    errors = {name: check.percent[name, False][0].mean() for name in PREDICTIONS}
    assert errors["VT, own weights"] < 1e-9
    assert errors["VT, own weights"] < errors["PR, one node's weights"] < errors[AGNOSTIC] < errors[OWN_MEAN]
    assert check.nodes == (3, 3)
    assert "CV" in " ".join(node_table([check]).lines())


def test_nodes_without_enough_samples_are_left_out() -> None:
    (check,) = check_nodes([node("a", 0.9), node("b", 1.0), node("c", 1.1, samples=70)])
    assert check.nodes == (2, 3)
    with pytest.raises(InputError) as caught:
        check_nodes([node("a", 0.9), node("c", 1.1, samples=70)])
    assert caught.value.where == "job j"


def test_a_ratio_removes_most_of_what_differs_between_real_nodes(data_dir: Path) -> None:
    """Issue: weights of one node with a ratio against each node's own, second half of the run."""
    for check in check_nodes(read_node_series(data_dir / EMMY)):
        own, ratio, none = (check.percent[name, False][0].mean() for name in PREDICTIONS[:3])
        assert own < 1.0 < ratio < 2.0 < none
        assert 3.0 < check.variation_percent < 3.6


def test_node_series_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "n.csv"
    head = "job_id,host,t_s,clock,cpu_load,flops_any,ipc,mem_bw,rapl_power\n"
    path.write_text(head + "7,b,60,2000,4,10,1,30,200\n7,b,0,2100,5,11,1.1,31,210\n7,a,0,,,,,,\n7,a,60,1,1,1,1,1,0\n")
    b, a = read_node_series(path)
    assert (b.host, b.time_s.tolist(), b.watts.tolist(), b.left_out) == ("b", [0.0, 60.0], [210.0, 200.0], 0)
    assert b.activity[0].tolist() == [5.0, 2100.0, 1.1, 11.0, 31.0]
    assert (len(a.watts), a.left_out) == (0, 2)
    path.write_text("job_id,host\n7,b\n")
    with pytest.raises(InputError):
        read_node_series(path)


@pytest.mark.compiled
def test_the_command(tmp_path: Path) -> None:
    done = wattqueue(*RUN, "--seeds", "2", "--sockets", "64", "-o", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "skipped" in done.stdout
    assert json.loads((tmp_path / "study.json").read_text())["seeds"] == 2
    missing = wattqueue(*RUN, "--nodes", "none.csv")
    assert missing.returncode == 2
    assert len(missing.stderr.splitlines()) == 1
