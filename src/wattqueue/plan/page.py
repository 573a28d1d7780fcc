"""The answer as text, page and files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from wattqueue.plan import text
from wattqueue.plan.answer import HOTTER, PlanAnswer
from wattqueue.report import words
from wattqueue.report.document import Document, Figures, Prose, rows_csv
from wattqueue.report.figure import Axis, Figure
from wattqueue.version import SCHEMA_VERSION, __version__
from wattqueue.whatif.safe import percent

DRAWN = 5
"""Times the accepted share up to which shares are drawn; the table has the others."""


def document(answer: PlanAnswer) -> Document:
    """Return the answer as text and page."""
    setup = answer.setup
    said = [*text.assumptions(answer)]
    about = [Path(setup.task.workload).name, setup.machine.name, words.count(len(setup.jobs), "job")]
    return Document(
        title="How many more nodes under these limits?",
        eyebrow="  ·  ".join(about),
        lede=text.headline(answer),
        blocks=[
            text.baselines(answer),
            *([Figures([(figure(answer), "gains")])] if len(answer.points) > 1 else []),
            text.tried(answer),
            Prose("A domain derated for 8 hours", [text.rehearsal(answer)], "rehearsal"),
            Prose("What this rests on", said, "assumptions"),
        ],
        text=[text.headline(answer), text.baselines(answer), *said, text.rehearsal(answer)],
        footer=f"Made by WattQueue {__version__}: `wattqueue plan`.",
        links=(("tried", "Table"), ("rehearsal", "Derated"), ("assumptions", "Assumptions")),
        folds=True,
    )


def figure(answer: PlanAnswer) -> Figure:
    """Return the time above a limit against the number of nodes: as measured, hotter, and what is accepted."""
    risk, points = answer.setup.question.risk, answer.points
    most = DRAWN * risk
    labels = ["jobs as measured", f"jobs draw {round(100 * HOTTER - 100)} % more", f"accepted: {percent(risk)}"]
    columns = {"rate": np.array([float(point.nodes - answer.nameplate) for point in points])}
    for k, found in enumerate(([p.measured for p in points], [p.hotter for p in points])):
        columns[f"value_{k}"] = np.array([min(one.share, most) for one in found])
        columns[f"low_{k}"] = columns[f"value_{k}"]
        columns[f"high_{k}"] = np.array([min(one.upper, most) for one in found])
    for name in ("value_2", "low_2", "high_2"):
        columns[name] = np.full(len(points), risk)
    says = (
        f"At their stated maximum {answer.nameplate} nodes fit, at the 99.9 % quantile of watts {answer.high}, by this "
        f"plan {answer.nodes}. Bands reach to the bound; shares above {percent(most)} are drawn there."
    )
    return Figure(
        "above", "Time above a limit by number of nodes", says, Axis("nodes beyond those at their stated maximum"),
        Axis("time above a limit", "%", 0.01),
        columns, {"rate": "more nodes"} | {f"value_{k}": name for k, name in enumerate(labels)},
        {"labels": labels, "zero": "never above"},
    )  # fmt: skip


def rows(answer: PlanAnswer) -> list[dict[str, Any]]:
    """Return one row for each number of nodes that was tried."""
    return [*_rows(answer)]


def _rows(answer: PlanAnswer) -> Iterator[dict[str, Any]]:
    for point in answer.points:
        known = not np.isnan(point.wait_s)
        yield {
            "nodes": point.nodes,
            "more": point.nodes - answer.nameplate,
            "limits_for_pass": point.planning,
            "wait_s_mean_without_limits": point.plain_wait_s if known else None,
            "wait_s_mean": point.wait_s if known else None,
            "above_share": point.measured.share,
            "above_share_upper": point.measured.upper,
            "above_share_of_all_domains": point.measured.mean,
            "worst_domain": point.measured.domain,
            "correlation": point.measured.correlation,
            "above_share_hotter": point.hotter.share,
            "above_share_hotter_upper": point.hotter.upper,
            "fits": point.nodes <= answer.nodes,
        }


def to_json(answer: PlanAnswer) -> str:
    """Return the answer as JSON."""
    setup, question = answer.setup, answer.setup.question
    base, wait = answer.waits_s
    made = {
        "schema_version": SCHEMA_VERSION,
        "wattqueue": __version__,
        "task": {k: v for k, v in setup.task.values().items() if k != "cap"},
        "machine": setup.machine.name,
        "partition": setup.growth.part.name,
        "origin": setup.jobs.origin,
        "jobs": len(setup.jobs),
        "days": answer.days,
        "limits_w": {one.name: one.limit_w for one in setup.machine.supply},
        "risk": question.risk,
        "wait_rise": question.wait_rise,
        "load": "same" if question.same_load else "grow",
        "answer": plain(text.headline(answer)),
        "nodes_today": setup.growth.part.nodes,
        "nodes_at_stated_maximum": answer.nameplate,
        "nodes_at_high_quantile": answer.high,
        "stated_maximum_w": setup.nameplate_w,
        "high_quantile_w": setup.high_node_w,
        "nodes": answer.nodes,
        "more": answer.more,
        "nodes_if_hotter": answer.hotter,
        "hotter_factor": HOTTER,
        "limits_for_pass": answer.planning,
        "wait_s_mean_without_limits": base,
        "wait_s_mean": wait,
        "jobs_started": int(answer.run.schedule.ran.sum()),
        "risks": [asdict(one) for one in answer.risks],
        "above_share_of_own_watts": answer.replay.share,
        "rehearsal": {k: v for k, v in asdict(answer.rehearsal).items() if v == v and v != float("inf")},  # noqa: PLR0124
        "assumptions": [plain(one) for one in text.assumptions(answer)],
        "rows": rows(answer),
    }
    return json.dumps(made, indent=1, allow_nan=False) + "\n"


def plain(said: str) -> str:
    """Return a sentence without marks."""
    return said.replace("**", "")


def files(answer: PlanAnswer, shown: Document) -> dict[str, str]:
    """Return the text of every file by its name."""
    return {"plan.csv": rows_csv(rows(answer)), "plan.json": to_json(answer), "report.html": shown.html()}
