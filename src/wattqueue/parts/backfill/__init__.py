"""Scheduling passes: which entries may start before entries that are ahead of them in the queue.

Each part here names a compiled pass of ``kernels/`` by its code; rules 7 to 10 of docs/semantics.md define them. A pass
written in Python implements ``CustomBackfill`` instead.
"""
