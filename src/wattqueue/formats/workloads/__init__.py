"""Formats of workloads, one file for each: ``formats.read`` finds whatever states a ``FORMAT`` here."""
