"""The frame of all studies: draws of a workload, claims with verdicts, tables with text, HTML and JSON forms.

A study is machine + workload + claims. ``samples`` runs policies on seeded workloads and keeps their metrics draw by
draw; ``claim`` compares a published figure with ours by one rule; ``compare`` compares policies pair by pair;
``table`` and ``report`` show all of it as text of 80 columns, as one HTML page and as JSON.
"""
