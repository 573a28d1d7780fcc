"""Paper 4, section 6.3: how well a job's watts can be predicted."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer


def run(
    eurora: Annotated[Path | None, typer.Option(help="Jobs of Eurora with a predictor's watts (CSV).")] = None,
    archer2: Annotated[Path | None, typer.Option(help="Measured benchmarks on ARCHER2 (CSV).")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Generated jobs; 523,204 are the paper's.")] = 523_204,
    seed: Annotated[int, typer.Option(help="Of the generated jobs, and of training.")] = 1,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write every row here.")] = None,
    page: Annotated[Path | None, typer.Option("--html", help="Write box plots as in Figure 3 here.")] = None,
) -> None:
    """History against regressors, mean and greatest watts, published figures beside ours (paper 4, section 6.3).

    Takes about seven minutes of CPU time with all of the paper's jobs; --jobs 50000 takes two.
    """
    from wattqueue.cli._write import refuse_folders
    from wattqueue.formats.pages import write_json, write_text
    from wattqueue.study.prediction.study import run_study
    from wattqueue.study.prediction.study_page import study_html
    from wattqueue.study.prediction.text import study_lines

    refuse_folders(json_file, page)
    result = run_study(eurora, archer2, jobs=jobs, seed=seed, clock=time.process_time, tell=_tell)
    if json_file is not None:
        write_json(json_file, result.document())
    if page is not None:
        write_text(page, study_html(result))
    for line in study_lines(result):
        typer.echo(line)


def _tell(what: str) -> None:
    if sys.stderr.isatty():
        typer.echo(what, err=True)
