"""Paper 4, section 6.3: how well a job's watts can be predicted.

Generated jobs stand in for the paper's trace, which is not public. Two public data sets, a predictor's watts on Eurora
and measured benchmarks on ARCHER2, are evaluated as well where their files are given; they are read before anything
else, so that a wrong path fails at once. CPU time per prediction is measured with the process's own clock.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from wattqueue.verbs import verb_of
from wattqueue_studies.cli.study._run import StudyOutput


@verb_of(StudyOutput)
def run(
    output: StudyOutput,
    eurora: Annotated[Path | None, typer.Option(help="Jobs of Eurora with a predictor's watts (CSV).")] = None,
    archer2: Annotated[Path | None, typer.Option(help="Measured benchmarks on ARCHER2 (CSV).")] = None,
    jobs: Annotated[int, typer.Option(min=1, max=10**8, help="Generated jobs; 523,204 are the paper's.")] = 523_204,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Of the generated jobs, and of training.")] = 1,
) -> None:
    """Compare history with regressors for mean and highest watts, published figures beside ours (paper 4, section 6.3).

    Takes about seven minutes of CPU time with all of the paper's jobs; --jobs 50000 takes two.
    """
    from wattqueue_studies.prediction.study import PredictionStudy

    study = PredictionStudy(time.process_time, eurora, archer2, jobs, seed)
    output.perform(study, "evaluating")
