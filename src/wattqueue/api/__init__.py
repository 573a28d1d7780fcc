"""The functions behind ``import wattqueue as wq``: what the command line does, as objects in Python.

Each function turns its arguments into the plain values that the command line makes of its options (``runs.task.Task``,
``whatif.options``, ``study.evaluation.evaluation``), and calls the same code. Options are read, metrics computed and
files written in one place, so that both give the same figures and the same errors.

    jobs       read_jobs, generate -> JobTable
    simulate   simulate -> RunResult
    run        RunResult: metrics, tables, report, pictures (Picture); read_run
    compare    compare -> RunComparison
    whatif     whatif -> CapStudy
    predict    predict -> PredictionScores
    notebook   HTML that notebooks show

Import the functions from ``wattqueue``, not from here.
"""
