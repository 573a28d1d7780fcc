"""Readers of hardware counters: perf stat, mpstat, CSV of readings, and tables of activity and watts."""
