"""Readers and writers, one file per format.

Every reader returns tables of ``wattqueue.model`` in SI units, and every error of a reader is an ``InputError`` (or
``MachineError``) with the file and, where there is one, the line. Nothing below this package opens files.

How a workload is read:

1. ``read.read_workload`` recognises the format by the content (``read.sniff``) and calls the reader.
2. The reader (``sacct``, ``slurm_json``, ``pm100``, ``fdata``, ``batsim``, ``swf``, ``table``; for studies ``eurora``,
   ``archer2``) turns rows into arrays. A row that no schedule can use is listed in an ``Unusable`` with its line and
   reason; a row of our own table that cannot be used is an error, since it was written by a program.
3. The result is a ``Workload``: a job table, the unusable rows, counts and remarks for the user.

The other readers: machines (``machine_toml``), caps (``cap``), prices and carbon (``series``), EAR's files
(``ear``, ``eacct``), run folders (``rundir``), columns that workers share (``columns``).

Modules with a leading underscore belong to one reader or to this package. Other packages import ``atomic_write``
(every output of WattQueue), ``source`` (opening inputs), ``toml`` and ``schema`` (TOML files and what is wrong in
them) and ``offsets``.
"""
