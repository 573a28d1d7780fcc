"""Measured chips: do watts and speed of one application foretell those of another on the same chips?

``pairs`` puts two applications on their common chips, ``ranks`` has correlations and what a choice of chips saves,
``study`` puts it together. Policies on these chips need watts by unit in the simulator, which is not built yet.
"""
