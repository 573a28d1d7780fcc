"""The figures of a report, one file per figure."""
