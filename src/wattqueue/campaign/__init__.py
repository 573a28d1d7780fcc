"""Campaigns: many simulations on one machine or on many, resumable, with a result that does not depend on where.

A campaign is a list of *cells*. A cell (``cell.Cell``) is one run described by plain values; its *key* is a hash of all
that determines its row of results, including the sources of this program. The flow of ``wattqueue campaign``:

1. ``file`` reads the TOML file, ``plan`` resolves every name in it (machines, policies, caps, generator calls) and
   raises before any work starts.
2. ``source`` and ``windows`` are cells too: each reads or generates one workload and saves it in ``shared``, a folder
   of memory-mapped columns.
3. ``task_cell`` simulates one workload on one machine under one policy and cap.
4. ``run.complete`` executes the cells whose keys ``result_store`` does not hold, through a ``backends.Backend``:
   processes of this machine, or the workers of a Dask scheduler (``dask``). ``work.perform`` runs in the worker.
5. Rows are laid out in the order of the grid, whatever order they finished in, and written to one Parquet file.

Invariants: a row is a function of its cell's key; equal cells run once; a finished row is on disk before the next one
is counted, so that a campaign stopped at any time resumes without repeating what was finished.
"""
