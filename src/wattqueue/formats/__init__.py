"""Readers and writers: one file, or one folder, for each format.

Every reader returns tables of ``wattqueue.model`` in SI units, and every error of a reader is an ``InputError`` (or
``MachineError``) with the file and, where there is one, the line. Nothing below this package opens files.

How a workload is read:

1. ``read.read_workload`` asks the formats in ``workloads/`` how certain they are of a file.
2. The reader of the most certain one turns rows into arrays. A row that no schedule can use is listed in an
   ``Unusable`` with its line and reason; a row of our own table that cannot be used is an error, since it was written
   by a program.
3. The result is a ``Workload``: a job table, the unusable rows, counts and remarks for the user.

Families with a folder of their own: ``slurm`` (accounting, lists of hosts), ``pm100``, ``table`` (our own), ``rundir``
(folders of runs), ``machine``, ``ear``. Single files: caps (``cap``), prices and carbon (``series``), columns that
workers share (``columns``).

Modules with a leading underscore belong to this package. Other packages import ``atomic_write`` (every output of
WattQueue), ``source`` (opening inputs), ``toml`` and ``checked_toml`` (TOML files and what is wrong in them).

A format of your own needs names of ``wattqueue`` and ``wattqueue.parts`` only (docs/guide/import.md).
"""
