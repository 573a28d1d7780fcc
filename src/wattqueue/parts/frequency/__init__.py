"""Frequencies: the range of options at which each entry may start (``contracts.Frequency``)."""
