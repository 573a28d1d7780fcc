"""Measured chips: do watts and speed of one application foretell those of another, and what is it worth?

``chip_runs`` puts two applications on their common chips, ``ranks`` has correlations and what a choice of chips saves.
``devices`` is what policies know of these chips and what is true, and draws jobs, ``budgets`` simulates the
policies of paper 2 under a budget, ``limits`` placements under a limit of each device. ``study`` puts it together.
"""
