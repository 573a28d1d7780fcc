"""Generated texts of submissions, which by construction say something about watts.

No trace at hand has both scripts and measured watts. These texts serve to test what reads them: an estimator that uses
texts must do better with them than with the same texts shuffled. How much better is set here, and says nothing about
real scripts.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.model.jobs import Floats, Jobs, Labels

PROGRAMS = ("pack", "sort", "mesh", "fold", "tree", "lattice", "wave", "solve", "dense", "train")
"""Names of programs, from the least to the greatest watts of the applications that run them."""
CASES = 10
CLEAR = 0.7
"""Share of the jobs whose script names the case that their watts belong to; the others name any case."""


def with_texts(jobs: Jobs, rng: np.random.Generator, *, clear: float = CLEAR) -> Jobs:
    """Return jobs with job names and scripts (``extra["script"]``) that follow from their mean watts.

    A program belongs to a tenth of the applications by watts, a case to a tenth of the jobs. The case that a script
    names is that of its job with probability ``clear``.

    Raises: InputError for jobs without watts or applications, and a ``clear`` that is no share.
    """
    watts = jobs.mean_power_w
    if watts is None or not np.isfinite(watts).all() or (jobs.app.codes < 0).any():
        raise InputError("texts need mean watts and an application of every job", where="texts")
    if not 0.0 <= clear <= 1.0:
        raise InputError(f"is {clear}", where="texts: clear", hint="a share between 0 and 1")
    of_app = np.bincount(jobs.app.codes, watts) / np.maximum(np.bincount(jobs.app.codes), 1)
    program = tenths(of_app)[jobs.app.codes]
    case = np.where(rng.random(len(jobs)) < clear, tenths(watts), rng.integers(0, CASES, len(jobs)))
    names = [f"{PROGRAMS[p]}_{app}" for p, app in zip(program, jobs.app.values(), strict=True)]
    scripts = [script(PROGRAMS[p], int(c), int(n)) for p, c, n in zip(program, case, jobs.nodes, strict=True)]
    return replace(jobs, app=Labels.of(names), extra={**jobs.extra, "script": np.array(scripts, object)})


def tenths(values: Floats) -> NDArray[np.int64]:
    """Return the tenth to which each value belongs, 0 for the least. Shape (n,)."""
    return np.minimum(10 * np.argsort(np.argsort(values, kind="stable")) // max(len(values), 1), 9)


def script(program: str, case: int, nodes: int) -> str:
    """Return a job script."""
    return (
        f"#!/bin/bash\n#SBATCH --nodes={nodes}\nmodule load {program}\ncd $SCRATCH/case{case}\n"
        f"srun {program} --input case{case}.in --output out\n"
    )
