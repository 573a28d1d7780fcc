"""The only process with rights to write to the cluster; it trusts nothing that it did not read itself (ADR 0023).

``serve`` is the process: it runs the commands of Slurm for the planner, checks each write (``checks``), records it
(``audit``) and carries it out. ``data_file`` checks the lines of job_submit.lua's data file. ``settings`` is its own
configuration, ``wire`` and ``messages`` what passes between the two processes. ``client`` is the planner's side. What
the process imports is counted by ``tests/architecture``.
"""
