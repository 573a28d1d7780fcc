"""Frozen tables and pure functions in SI units: jobs, machines, signals, schedules, metrics.

The lowest package: it imports only ``wattqueue.errors``, opens no file and reads no clock. Tables are frozen
dataclasses of numpy columns; they are validated once, when they are built, so that the code behind them does not check
again. ``bounds`` has the limits of every number, ``quantities.csv`` the name, unit, range and meaning of every column.

Modules: ``jobs``, ``known_jobs``, ``machine``, ``signals`` (cap, prices), ``load_target``, ``consent``: what goes into
a run. ``schedule``, ``metrics``: what comes out; ``comparability``: which of it may be compared. ``profiles``: power
over the run of a job. ``ear``, ``ear_learning``, ``app_profiles``, ``eamc_table1``: EAR's model of applications;
``app_check``: whether jobs are what they claim.
"""
