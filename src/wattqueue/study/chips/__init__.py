"""Measured chips: do watts and speed of one application foretell those of another on the same chips?

``pairs`` puts two applications on their common chips, ``ranks`` has correlations and what a choice of chips saves,
``study`` puts it together. Simulations of policies on these chips are not part of it.
"""
