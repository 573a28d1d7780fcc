"""The folder of a finished run: its tables, and what is needed to repeat it."""
