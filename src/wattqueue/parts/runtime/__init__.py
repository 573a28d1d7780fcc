"""Predict how long jobs run: the planned time of rule 3 of docs/semantics.md."""
