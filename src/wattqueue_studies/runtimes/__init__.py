"""Predicted run times against users' limits: waits, tails and broken promises on traces and generated jobs.

``trial`` simulates one workload under the policies and measures it, ``choice`` chooses a setting on the first half of a
trace and judges it on the second, ``study`` shows all of it and where predictions harm; ``claims`` holds the figures
of another simulator. docs/runtimes.md discusses the outcome.
"""
