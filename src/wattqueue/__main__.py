"""``python -m wattqueue`` is ``wattqueue``."""

from wattqueue.cli import main

main()
