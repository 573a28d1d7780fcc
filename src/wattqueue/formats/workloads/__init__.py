"""Formats of workloads, one file for each: ``formats.registry`` finds whatever states a ``FORMAT`` here."""
