"""Verbs of the command line: one file or folder each, entry points in ``wattqueue.verbs``."""
