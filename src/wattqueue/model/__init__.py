"""Frozen tables and pure functions in SI units: jobs, machines, signals, schedules, metrics."""
