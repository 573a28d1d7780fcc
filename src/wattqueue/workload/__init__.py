"""Workload generators, a file a model. What they make is labelled generated wherever it is shown."""
