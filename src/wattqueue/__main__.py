"""Run the command line: ``python -m wattqueue`` is the same as ``wattqueue``."""

from wattqueue.cli import main

main()
