"""From recordings to a table of unit factors, and the verb that does it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from wattqueue.errors import InputError
from wattqueue.formats.unit_factors import read_unit_factors
from wattqueue.model.jobs import Floats
from wattqueue_studies.cli.pmc import app
from wattqueue_studies.pmc.activity import ActivityTrace, SocketRun, read_activity, write_activity
from wattqueue_studies.pmc.machine import predict_table

RNG = np.random.default_rng(8)
SOCKETS = ("s0", "s1", "s2")
WEIGHTS = np.outer(np.linspace(4.0, 0.5, 9), [1.0, 0.9, 1.2])
WEIGHTS[8] = 2.0
"""Sockets differ in all weights but that of memory: ratios depend on the application."""


def level(rows: int, cores: float) -> Floats:
    return np.column_stack([np.full(rows, cores) + RNG.random(rows), RNG.random((rows, 8))])


def run(name: str, socket: str, levels: Floats, process: int = 0) -> SocketRun:
    watts = levels @ WEIGHTS[:, SOCKETS.index(socket)]
    return SocketRun(socket, ActivityTrace(name, np.arange(1.0, len(levels) + 1), levels, process), watts)


def kernels() -> list[SocketRun]:
    found = []
    for name, cores in (("cholesky", 15.0), ("sparseLU", 8.0), ("knn", 3.0)):
        levels = level(10, cores)
        found += [run(name, s, levels) for s in SOCKETS]
    return found


def test_vt_is_exact_where_eq_1_holds_and_pr_is_not() -> None:
    apps = [run("bt", "s1", level(6, 16.0), k) for k in range(2)]
    vt = predict_table(kernels(), apps)
    true = np.mean([a.trace.mean @ WEIGHTS for a in apps], axis=0)
    np.testing.assert_allclose(vt.table.factor[0] * vt.table.base_w[0], true)
    peak = predict_table(kernels(), apps, peaks=True)
    highest = np.mean([(a.trace.level @ WEIGHTS).max(axis=0) for a in apps], axis=0)
    np.testing.assert_allclose(peak.table.factor[0] * peak.table.base_w[0], highest)
    pr = predict_table(kernels(), apps, ratio_of="cholesky")
    predicted = pr.table.factor[0] * pr.table.base_w[0]
    assert predicted[1] == pytest.approx(true[1])
    assert abs(predicted[2] - true[2]) > 1e-6
    assert "2 processes" in next(vt.lines())


def test_an_application_without_watts_keeps_all_components() -> None:
    blind = run("bt", "s0", level(6, 16.0))
    blind.watts[:] = np.nan
    found = predict_table(kernels(), [blind])
    assert found.chosen == [False]
    assert "not chosen" in next(found.lines())
    assert predict_table(kernels(), [blind], optimise=False).chosen == [True]


def test_what_cannot_be_predicted_is_named() -> None:
    apps = [run("bt", "s1", level(6, 16.0))]
    for training, more, where in (
        ([k for k in kernels() if k.socket != "s1"], {}, "bt"),
        ([k for k in kernels() if (k.socket, k.trace.name) != ("s2", "cholesky")], {"ratio_of": "cholesky"}, "s2"),
        ([k for k in kernels() if k.socket != "s2" or k.trace.name == "knn"][:7], {"ratio_of": "md5"}, "s0"),
    ):
        with pytest.raises(InputError) as caught:
            predict_table(training, apps, **more)  # type: ignore[arg-type]
        assert where in str(caught.value.where)
    few = [SocketRun("s0", ActivityTrace("x", np.arange(3.0), level(3, 4.0)), np.ones(3))]
    with pytest.raises(InputError) as caught:
        predict_table(few, [run("bt", "s0", level(6, 16.0))])
    assert caught.value.where == "training of socket s0"
    assert "rank 3" in caught.value.what


def test_the_verbs(tmp_path: Path) -> None:
    training, apps, out = (tmp_path / n for n in ("training.csv", "apps.csv", "factors.csv"))
    write_activity(training, kernels())
    write_activity(apps, [run("bt", "s1", level(6, 16.0))])
    done = CliRunner().invoke(app, ["predict", str(training), str(apps), "-o", str(out)])
    assert done.exit_code == 0, done.output
    assert "1 applications on 3 sockets" in done.output
    table = read_unit_factors(out)
    assert (table.apps, table.units, table.origin) == (("bt",), SOCKETS, "predicted")
    readings = tmp_path / "readings.csv"
    events = "cycles,uops_retired.all,branches,uops_executed_port.port_0,uops_executed_port.port_1"
    events += ",uops_executed_port.port_5,fp_arith_inst_retired.scalar,L1-dcache-loads,l2_rqsts.all_rfo"
    events += ",l2_rqsts.all_demand_data_rd,LLC-references,LLC-misses"
    rows = [f"{t},{min(t, 1) * 15.5},{','.join(str(t * 100) for _ in range(12))}" for t in range(4)]
    readings.write_text("\n".join([f"time_s,active_cores,{events}", *rows]) + "\n")
    ratios = tmp_path / "ratios.csv"
    done = CliRunner().invoke(app, ["ratios", str(readings), "-o", str(ratios), "--name", "x"])
    assert done.exit_code == 0, done.output
    (found,) = read_activity(ratios)
    np.testing.assert_allclose(found.trace.level, [[15.5, 1, 1, 3, 1, 1, 2, 1, 1]] * 3)
    assert np.isnan(found.watts).all()
