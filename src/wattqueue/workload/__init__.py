"""Workload generators, one file per model, and the cutting of windows from long traces.

``marconi`` (habits of users, power profiles), ``fugaku`` (24 million jobs) and ``lightesp`` (the 230 jobs of a
benchmark, with its applications) are reachable by name wherever a trace file is expected (``generated``).
``marginals``, ``cycle``, ``users`` and ``phases`` are the distributions they share; ``windows`` cuts warm windows out
of a replayed trace.

A generator is a function of parameters and a ``numpy.random.Generator``: the same state of the generator gives the
same table to the last bit. Every table carries ``origin = "generated"``, and pages and tables repeat that label.
"""
